"""Machines as whole resctrl trees, copied afresh for each test that wants one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

MACHINES = Path(__file__).parents[2] / "machines"

MachineTree = Callable[[str], Path]


@pytest.fixture
def machine_tree(tmp_path: Path) -> MachineTree:
    """A writable copy of one directory of tests/machines."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(MACHINES / name, tmp_path / name))

    return copy
