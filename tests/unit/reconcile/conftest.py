from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from agent.policy import load
from agent.policy.model import Policy
from agent.resctrl.machine import Machine, read_machine

MACHINES = Path(__file__).parents[2] / "machines"


@pytest.fixture
def policy(tmp_path: Path) -> Callable[[str], Policy]:
    """A policy from the text after ``version: 1``."""

    def make(text: str) -> Policy:
        file = tmp_path / "policy.yaml"
        file.write_text("version: 1\n" + dedent(text))
        return load(file, insecure=True).policy

    return make


def machine(name: str) -> Machine:
    return read_machine(MACHINES / name)
