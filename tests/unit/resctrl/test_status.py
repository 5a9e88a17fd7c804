"""The status text: what the kernel says of the last command, if anything."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.resctrl.status import LastCommandStatus

MachineTree = Callable[[str], Path]


@pytest.fixture
def root(machine_tree: MachineTree) -> Path:
    return machine_tree("mba-only")


@pytest.fixture
def status(root: Path) -> Iterator[LastCommandStatus]:
    directory = os.open(root, os.O_RDONLY)
    status = LastCommandStatus(directory)
    yield status
    status.close()
    os.close(directory)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("ok\n", None),
        ("", None),
        ("Out of CLOSIDs\n", "Out of CLOSIDs"),
        ("No task 7\nError while processing task 7\n", "No task 7; Error while processing task 7"),
    ],
)
def test_reads_the_text_on_one_line(root: Path, status: LastCommandStatus, written: str, text: str | None) -> None:
    (root / "info/last_cmd_status").write_text(written)
    assert status.text() == text


def test_reads_anew_each_time(root: Path, status: LastCommandStatus) -> None:
    texts = []
    for written in ("first\n", "second, and longer\n", "ok\n"):
        (root / "info/last_cmd_status").write_text(written)
        texts.append(status.text())
    assert texts == ["first", "second, and longer", None]


@pytest.mark.parametrize("mode", ["shareable\n", "exclusive\n"])
def test_clearing_leaves_the_root_groups_mode_as_it_is(root: Path, status: LastCommandStatus, mode: str) -> None:
    (root / "mode").write_text(mode)
    status.clear()
    assert (root / "mode").read_text() == mode


def test_clearing_needs_no_mode_file(root: Path, status: LastCommandStatus) -> None:
    (root / "mode").unlink()
    status.clear()
    assert status.text() is None
