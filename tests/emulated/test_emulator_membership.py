"""The eBPF program by itself: what its map says in situations that last too short a time to be met from outside."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent.emulator.bpf_membership import BpfMembership
from tests.contract.resctrl_mount import Processes, errno_of, free_pid, wait_until

pytestmark = pytest.mark.bpf

NS_PER_S = 10**9


@pytest.fixture(scope="module")
def membership() -> Iterator[BpfMembership]:
    with BpfMembership() as membership:
        yield membership


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as started:
        yield started


@contextmanager
def child_with_id(tid: int) -> Iterator[None]:
    """A child of this process that has the id, by clone3's set_tid."""
    program = f"""
import ctypes, os, signal, struct, sys
ids = (ctypes.c_int32 * 1)({tid})
arguments = struct.pack("=11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(ids), 1, 0)
child = ctypes.CDLL(None).syscall(435, arguments, len(arguments))
if child == 0:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.waitpid(child, 0)
"""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as creator:
        assert creator.stdout is not None
        assert creator.stdout.readline() == f"{tid}\n"
        yield
        os.kill(tid, signal.SIGKILL)


def test_a_child_that_was_moved_after_its_birth_and_before_its_inheritance_stays_moved(
    membership: BpfMembership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two are microseconds apart; an entry of the future stands for one that was written in between."""
    tid, now = free_pid(), time.monotonic_ns()
    membership.place(os.getpid(), 1)
    monkeypatch.setattr(time, "monotonic_ns", lambda: now + 60 * NS_PER_S)
    membership.place(tid, 2)
    with child_with_id(tid):
        assert membership.group_of(tid) == 2
    membership.place(os.getpid(), 0)


def test_an_entry_from_before_its_birth_is_about_somebody_else(membership: BpfMembership) -> None:
    tid = free_pid()
    membership.place(tid, 2)
    membership.place(os.getpid(), 1)
    with child_with_id(tid):
        assert membership.group_of(tid) == 1
    membership.place(os.getpid(), 0)


def test_the_leaders_id_written_after_the_leader_has_exited_is_about_the_thread_that_takes_it(
    membership: BpfMembership, processes: Processes
) -> None:
    """So is an id that is written while the thread's new program is being loaded."""
    process = processes.start(
        """
import ctypes, os, sys, threading
def execute():
    sys.stdin.readline()
    program = "import sys; print('executed', flush=True); sys.stdin.read()"
    os.execv(sys.executable, [sys.executable, "-S", "-c", program])
thread = threading.Thread(target=execute)
thread.start()
print(thread.native_id, flush=True)
ctypes.CDLL(None).syscall(60, 0)
"""
    )
    thread = int(processes.line(process))
    membership.place(thread, 1)
    wait_until(lambda: _state(process.pid) == "Z", "the leader has exited")
    membership.place(process.pid, 2)
    processes.say(process)
    assert processes.line(process) == "executed\n"
    assert membership.group_of(process.pid) == 2
    assert membership.group_of(thread) == 0


def test_nothing_is_remembered_of_a_thread_that_is_gone(membership: BpfMembership, processes: Processes) -> None:
    process = processes.start("import os\nif os.fork() == 0: os._exit(0)\nos.wait(); print(flush=True); input()")
    membership.place(process.pid, 3)
    processes.say(process)
    processes.line(process)
    process.wait()
    wait_until(lambda: 3 not in {group for _, group in membership.placed()}, "it is forgotten")


def test_entries_by_the_thousand_are_all_seen(membership: BpfMembership) -> None:
    beyond = 1 << 23  # more than the largest id that a task can have
    expected = {(beyond + number, 4) for number in range(20000)}
    for tid, group in expected:
        membership.place(tid, group)
    found = list(membership.placed())
    assert len(found) == len(set(found))
    assert expected <= set(found)


def test_more_than_fit_is_refused(membership: BpfMembership) -> None:
    beyond = 1 << 24

    def fill() -> None:
        for number in range((1 << 17) + 1):
            membership.place(beyond + number, 5)

    assert errno_of(fill) == "E2BIG"


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/task/{pid}/stat", "rb") as file:  # noqa: PTH123 - one read, no more
        return file.read().rpartition(b") ")[2][:1].decode()
