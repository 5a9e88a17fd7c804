import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.mounting import KernelMounting, Mounting, emulated_mounting, mounted_as_found
from tests.contract.resctrl_mount import Processes, Resctrl

if TYPE_CHECKING:
    from agent.emulator.machines import Machine

EMULATED = (
    ("xeon-2s", "6.1"),
    ("xeon-2s", "6.12"),
    ("xeon-2s", "7.2"),
    ("epyc-2s", "6.12"),
    ("epyc-2s", "7.2"),
    ("epyc-abmc", "7.2"),
    ("cdp", "6.1"),
    ("mba-mbps", "6.12"),
    ("mba-mbps", "7.2"),
    ("l2-only", "6.12"),
    ("mba-only", "7.2"),
    ("monitor-only", "6.1"),
)
"""Machines and kernels that stand for all: each format, each rule and each kind of hardware is among them."""

REMOUNTED = (("xeon-2s", "6.1"), ("epyc-2s", "7.2"))
"""Those of them that are mounted in other ways too, which takes a while."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resctrl", type=Path, help="test this mount, and no emulator")
    parser.addoption(
        "--remount", action="store_true", help="with --resctrl: it may be unmounted, and CPUs may be taken offline"
    )
    parser.addoption("--twin", help="emulate this hardware of tests/kernel/flavours.py, and no other")
    parser.addoption("--rules", default="6.12", help="with --twin: the kernel whose rules it follows")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and not config.getoption("--resctrl"):
            item.add_marker("root")
            item.add_marker("bpf")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mounted" in metafunc.fixturenames:
        mounts = _one_mount(metafunc.config) or (REMOUNTED if "remounting" in metafunc.fixturenames else EMULATED)
        metafunc.parametrize("mounted", mounts, ids="-".join, indirect=True, scope="session")


@pytest.fixture(scope="session")
def mounted(request: pytest.FixtureRequest) -> Iterator[Resctrl]:
    machine, kernel = request.param
    place = request.config.getoption("--resctrl")
    with _found(place) if place else emulated_mounting(_machine(machine, request.config), kernel) as mounting:
        resctrl = Resctrl(mounting, kernel)
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
def remounting(resctrl: Resctrl, request: pytest.FixtureRequest) -> Iterator[Mounting]:
    """It is not mounted now, and may be in any way."""
    if resctrl.real and not request.config.getoption("--remount"):
        pytest.skip("it may not be unmounted (--remount)")
    with mounted_as_found(resctrl.mounting) as mounting:
        yield mounting


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Real processes to move about, which end with the test."""
    with Processes() as started:
        yield started


def _one_mount(config: pytest.Config) -> tuple[tuple[str, str], ...]:
    """A name is the same for a mount and for what is its twin, so that their tests can be told to be the same."""
    if config.getoption("--resctrl"):
        return (("mounted", _rules_of(os.uname().release)),)
    if config.getoption("--twin"):
        return (("mounted", config.getoption("--rules")),)
    return ()


def _machine(name: str, config: pytest.Config) -> "Machine":
    from agent.emulator.machines import MACHINES  # noqa: PLC0415 - only where there is an emulator
    from tests.kernel.flavours import FLAVOURS  # noqa: PLC0415
    from tests.kernel.twins import twin  # noqa: PLC0415

    flavour = config.getoption("--twin")
    return twin(FLAVOURS[flavour].hardware) if flavour else MACHINES[name]


@contextmanager
def _found(place: Path) -> Iterator[Mounting]:
    yield KernelMounting(place)


def _rules_of(release: str) -> str:
    """The kernel whose rules a release follows, of those that the tests know."""
    found = re.match(r"(\d+)\.(\d+)", release)
    assert found, release
    version = (int(found[1]), int(found[2]))
    return "6.1" if version < (6, 5) else "6.12" if version < (6, 15) else "7.2"
