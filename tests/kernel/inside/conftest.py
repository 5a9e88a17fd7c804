"""What tests in a guest share: one agent for a module, with the module's POLICY, and the programs it looks after."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.kernel.inside.guest_agent import NO_AUDIT, GuestAgent, guest_agent
from tests.kernel.inside.programs import compiled

IN_GUEST = "RESCTRL_LAB_GUEST" in os.environ

collect_ignore_glob = [] if IN_GUEST else ["test_*.py"]
"""Elsewhere they would change the units, cgroups and groups of whoever collects them."""


@pytest.fixture(scope="module")
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestAgent]:
    """Unless the module has OPTIONS it acts on events alone: nothing that a test sees was put right by an audit.

    ERRORS are patterns of those that the module's tests bring about.
    """
    module = request.module
    options, errors = getattr(module, "OPTIONS", NO_AUDIT), getattr(module, "ERRORS", frozenset())
    with guest_agent(tmp_path_factory.mktemp("agent"), module.POLICY, *options, errors=errors) as running:
        yield running


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of services and containers: ``worker THREADS CHILDREN [daemon]``."""
    return compiled("worker", tmp_path_factory.mktemp("worker"))


@pytest.fixture
def table(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Sequence[Mapping[str, object]]], None]:
    """Shows what a test counted, a line of JSON for whoever started the guest."""

    def show(title: str, rows: Sequence[Mapping[str, object]]) -> None:
        with capsys.disabled():
            print(f"\ntable: {json.dumps({'title': title, 'rows': rows})}")

    return show
