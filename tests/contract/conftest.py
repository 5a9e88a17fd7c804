import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.resctrl_mount import Processes, Resctrl

EMULATED = (
    ("xeon-2s", "6.1"),
    ("xeon-2s", "6.12"),
    ("xeon-2s", "7.2"),
    ("epyc-2s", "6.12"),
    ("epyc-2s", "7.2"),
    ("cdp", "6.1"),
    ("mba-mbps", "6.12"),
    ("mba-mbps", "7.2"),
    ("l2-only", "6.12"),
    ("mba-only", "7.2"),
    ("monitor-only", "6.1"),
)
"""Machines and kernels that stand for all: each format, each rule and each kind of hardware is among them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resctrl", type=Path, help="test this mount, and no emulator")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and not config.getoption("--resctrl"):
            item.add_marker("root")
            item.add_marker("bpf")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mounted" in metafunc.fixturenames:
        given = metafunc.config.getoption("--resctrl")
        mounts = [(str(given), _rules_of(os.uname().release))] if given else EMULATED
        metafunc.parametrize("mounted", mounts, ids="-".join, indirect=True, scope="session")


@pytest.fixture(scope="session")
def mounted(request: pytest.FixtureRequest) -> Iterator[Resctrl]:
    machine, kernel = request.param
    with ExitStack() as mounts:
        place = request.config.getoption("--resctrl")
        if place is None:
            from tests.emulated.emulated_resctrl import emulated_resctrl  # noqa: PLC0415 - only where there is an emulator

            place = mounts.enter_context(emulated_resctrl(machine, kernel))
        resctrl = Resctrl(place, kernel)
        resctrl.remove_groups()
        resctrl.remember()
        yield resctrl


@pytest.fixture
def resctrl(mounted: Resctrl) -> Iterator[Resctrl]:
    """A mount with the root group alone, as if untouched."""
    mounted.reset()
    yield mounted
    mounted.reset()


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Real processes to move about, which end with the test."""
    with Processes() as started:
        yield started


def _rules_of(release: str) -> str:
    """The kernel whose rules a release follows, of those that the tests know."""
    found = re.match(r"(\d+)\.(\d+)", release)
    assert found, release
    version = (int(found[1]), int(found[2]))
    return "6.1" if version < (6, 5) else "6.12" if version < (6, 15) else "7.2"
