"""The documented lock, and that one mount has one agent: real locks of real processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.resctrl.errors import AlreadyRunningError, LockTimeoutError
from agent.resctrl.filesystem import Resctrl

MachineTree = Callable[[str], Path]

ANOTHER_PROGRAM = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked_by_another_program(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Until it is killed or the block ends."""
    command = [sys.executable, "-c", ANOTHER_PROGRAM, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "locked\n"
        try:
            yield program
        finally:
            program.kill()


@pytest.fixture
def root(machine_tree: MachineTree) -> Path:
    return machine_tree("mba-only")


@pytest.fixture
def resctrl(root: Path) -> Iterator[Resctrl]:
    with Resctrl(root, emulated=False) as opened:
        yield opened


def test_the_lock_keeps_everybody_else_out_until_it_is_given_back(root: Path, resctrl: Resctrl) -> None:
    with Resctrl(root, emulated=False) as other:
        with resctrl.lock(0), pytest.raises(LockTimeoutError), other.lock(0):
            pytest.fail("both have it")
        with other.lock(0):
            pass


def test_waiting_for_the_lock_ends_and_names_who_has_it(root: Path, resctrl: Resctrl) -> None:
    with locked_by_another_program(root) as program, pytest.raises(LockTimeoutError) as timeout, resctrl.lock(0.01):
        pytest.fail("both have it")
    assert f"{root}: locked for more than 0.01 s by process {program.pid} (python" in str(timeout.value)


def test_the_lock_comes_free_when_its_holder_is_killed(root: Path, resctrl: Resctrl) -> None:
    with locked_by_another_program(root) as program:
        program.kill()
        with resctrl.lock(60):
            pass


def test_the_lock_is_given_back_although_a_child_still_has_the_descriptor(root: Path, resctrl: Resctrl) -> None:
    read, write = os.pipe()
    with resctrl.lock(0):
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
    os.close(read)
    with Resctrl(root, emulated=False) as other, other.lock(0):
        pass
    os.close(write)
    os.waitpid(child, 0)


def test_an_error_inside_gives_the_lock_back(root: Path, resctrl: Resctrl) -> None:
    with pytest.raises(ZeroDivisionError), resctrl.lock(0):
        _ = 1 // 0
    with Resctrl(root, emulated=False) as other, other.lock(0):
        pass


def test_one_mount_has_one_agent(root: Path, resctrl: Resctrl) -> None:
    resctrl.try_claim()
    resctrl.try_claim()
    with Resctrl(root, emulated=False) as second:
        with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()} .* looks after it already"):
            second.try_claim()
        assert second.claimed_by_other()
    assert not resctrl.claimed_by_other()


def test_a_mount_is_free_again_when_its_agent_is_gone(root: Path, resctrl: Resctrl) -> None:
    with locked_by_another_program(root / "info/last_cmd_status"):
        assert resctrl.claimed_by_other()
        with pytest.raises(AlreadyRunningError):
            resctrl.try_claim()
    assert not resctrl.claimed_by_other()
    resctrl.try_claim()


def test_claiming_a_mount_does_not_take_its_lock(root: Path, resctrl: Resctrl) -> None:
    resctrl.try_claim()
    with Resctrl(root, emulated=False) as other, other.lock(0):
        pass
