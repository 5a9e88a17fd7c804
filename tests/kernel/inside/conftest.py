"""What tests in a guest share: one agent for a module, with the module's POLICY, and the programs it looks after."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.inside.guest_agent import NO_AUDIT, GuestAgent, guest_agent
from tests.kernel.inside.programs import compiled


@pytest.fixture(scope="module")
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestAgent]:
    """Acts on events alone: nothing that a test sees was put right by an audit."""
    with guest_agent(tmp_path_factory.mktemp("agent"), request.module.POLICY, *NO_AUDIT) as running:
        yield running


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of services and containers: ``worker THREADS CHILDREN [daemon]``."""
    return compiled("worker", tmp_path_factory.mktemp("worker"))
