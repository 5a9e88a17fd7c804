"""Real processes, and processes that end at the worst moment."""

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.tasks.hierarchy import Hierarchy
from agent.tasks.process import (
    Program,
    cgroup_of,
    process_of,
    read_program,
    start_time,
    threads_of,
)

pytestmark = pytest.mark.root

PROC = Path("/proc")
V2 = Hierarchy(Path("/sys/fs/cgroup"), 2, 0, (), "/")
NOBODY = 65534


@pytest.fixture
def sleeping():
    with subprocess.Popen(["sleep", "infinity"]) as process:
        yield process
        process.kill()


@pytest.fixture
def open_directory():
    """Unlike pytest's own, one that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_program_is_known_by_its_file_after_that_was_removed(open_directory):
    program = Path(shutil.copy(shutil.which("sleep"), open_directory / "worker"))
    with subprocess.Popen([program, "infinity"], user=NOBODY, group=NOBODY) as process:
        program.unlink()
        facts = read_program(PROC, process.pid)
        process.kill()
    assert facts == Program(str(program), "worker", NOBODY, is_kernel_thread=False)


def test_a_program_whose_path_is_longer_than_the_kernel_tells_has_none(open_directory):
    """Anybody may have one: it must not keep the agent from judging others."""
    directory = os.open(open_directory, os.O_RDONLY)
    for _ in range(20):
        above = directory
        os.mkdir("x" * 240, dir_fd=above)
        directory = os.open("x" * 240, os.O_RDONLY, dir_fd=above)
        os.close(above)
    here = f"/proc/{os.getpid()}/fd/{directory}"
    shutil.copy(shutil.which("sleep"), here)
    with subprocess.Popen(["./sleep", "infinity"], cwd=here) as process:
        os.close(directory)
        facts = read_program(PROC, process.pid)
        process.kill()
    assert facts is not None
    assert facts.exe is None


@pytest.mark.parametrize("error", [errno.ENOENT, errno.ESRCH, errno.ENAMETOOLONG])
def test_a_cgroup_that_the_kernel_does_not_tell_is_unknown(sleeping, monkeypatch, error):
    """Kernels that do not cut a path of more than 4 KiB short refuse to tell it."""

    def fail(*_args) -> bytes:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "read", fail)
    assert cgroup_of(PROC, sleeping.pid, V2) is None


def test_a_kernel_thread_has_no_program():
    kthreadd = read_program(PROC, 2)
    assert kthreadd == Program(None, "kthreadd", 0, is_kernel_thread=True)


def test_a_zombie_has_a_name_and_no_program(sleeping):
    sleeping.kill()
    os.waitid(os.P_PID, sleeping.pid, os.WEXITED | os.WNOWAIT)
    assert read_program(PROC, sleeping.pid) == Program(None, "sleep", os.geteuid(), is_kernel_thread=False)


def test_every_thread_is_listed(sleeping):
    assert threads_of(PROC, sleeping.pid) == [sleeping.pid]
    assert process_of(PROC, sleeping.pid) == sleeping.pid


def test_the_start_times_of_two_threads_tell_their_order(sleeping):
    started = start_time(PROC, sleeping.pid)
    own = start_time(PROC, os.getpid())
    assert started is not None
    assert own is not None
    assert started >= own > 0


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda pid: cgroup_of(PROC, pid, V2), id="cgroup"),
        pytest.param(lambda pid: process_of(PROC, pid), id="process"),
        pytest.param(lambda pid: read_program(PROC, pid), id="program"),
        pytest.param(lambda pid: start_time(PROC, pid), id="start"),
    ],
)
def test_a_process_that_ends_between_opening_and_reading_is_gone(sleeping, monkeypatch, read: Callable[[int], object]):
    """Field report 26: a process that vanished is normal."""
    assert read(sleeping.pid) is not None
    opening = os.open

    def open_then_end(*args, **kwargs) -> int:
        descriptor = opening(*args, **kwargs)
        monkeypatch.undo()
        sleeping.kill()
        sleeping.wait()
        return descriptor

    monkeypatch.setattr(os, "open", open_then_end)
    assert read(sleeping.pid) is None
