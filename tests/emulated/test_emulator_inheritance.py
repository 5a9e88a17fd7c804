"""Group inheritance under load: the eBPF program against the kernel's own record of who created whom."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.emulator.machines import MACHINES
from tests.contract.mounting import emulated_mounting
from tests.contract.resctrl_mount import PATIENCE_S, Processes, Resctrl, wait_until

pytestmark = pytest.mark.bpf


@pytest.fixture
def resctrl() -> Iterator[Resctrl]:
    with emulated_mounting(MACHINES["xeon-2s"], "6.12") as mounting:
        mount = Resctrl(mounting, "6.12")
        mount.mkdir("a")
        mount.mkdir("b")
        yield mount


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as started:
        yield started


def test_thousands_of_children_are_where_their_parent_was(resctrl: Resctrl, processes: Processes) -> None:
    parent = processes.start(
        """
import os, signal, sys
sys.stdin.readline()
for _ in range(3000):
    if os.fork() == 0:
        os._exit(0)
    os.wait()
children = []
for _ in range(200):
    child = os.fork()
    if child == 0:
        signal.pause()
    children.append(child)
print(*children, flush=True)
sys.stdin.readline()
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(flush=True)
sys.stdin.read()
"""
    )
    resctrl.write("a/tasks", str(parent.pid))
    processes.say(parent)
    children = {int(child) for child in processes.line(parent).split()}
    assert resctrl.tasks("a") == children | {parent.pid}
    processes.say(parent)
    processes.line(parent)
    assert resctrl.tasks("a") == {parent.pid}


def test_a_child_moved_as_soon_as_it_can_be_seen_stays_where_it_was_put(resctrl: Resctrl, processes: Processes) -> None:
    """The child's inheritance comes after its appearance: it must not undo a move in between."""
    parent = processes.start(
        """
import os, signal, sys
print(flush=True)
while sys.stdin.readline():
    child = os.fork()
    if child == 0:
        signal.pause()
    sys.stdin.readline()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(flush=True)
"""
    )
    resctrl.write("a/tasks", str(parent.pid))
    processes.line(parent)
    descriptor = os.open(resctrl.path / "b/tasks", os.O_WRONLY)
    watched = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    for _ in range(300):
        processes.say(parent)
        child = _first_line(watched)
        os.write(descriptor, child.encode())
        assert int(child) in resctrl.tasks("b")
        assert int(child) not in resctrl.tasks("a")
        processes.say(parent)
        processes.line(parent)
    os.close(descriptor)


def test_threads_that_come_and_go_while_their_process_moves_all_end_in_its_group(
    resctrl: Resctrl, processes: Processes
) -> None:
    process = processes.start(CREATES_THREADS_AND_PROCESSES)
    processes.line(process)
    for target in ("a", "b") * 5:
        wait_until(lambda group=target: _all_in(resctrl, process, group), f"every task is in {target}")
    process.kill()
    process.wait()


def test_no_task_of_the_machine_is_in_two_control_groups_or_in_none(resctrl: Resctrl, processes: Processes) -> None:
    process = processes.start(CREATES_THREADS_AND_PROCESSES)
    processes.line(process)
    wait_until(lambda: _all_in(resctrl, process, "a"), "every task is in a")
    before = _threads_of_machine()
    lists = [resctrl.tasks(group) for group in ("", "a", "b")]
    after = _threads_of_machine()
    stable = before & after
    assert stable <= set().union(*lists)
    assert not any(lists[i] & lists[j] & stable for i, j in ((0, 1), (0, 2), (1, 2)))


def test_groups_are_left_empty_by_what_ends_by_itself(resctrl: Resctrl) -> None:
    for _ in range(50):
        script = 'echo $$ > "$0/a/tasks"; for i in 1 2 3 4 5 6 7 8; do (:) & done; wait; exec /bin/true'
        subprocess.run(["sh", "-c", script, resctrl.path], check=True)
    assert resctrl.tasks("a") == set()


def test_executing_threads_keep_their_group_again_and_again(resctrl: Resctrl, processes: Processes) -> None:
    for number in range(30):
        process = processes.start(EXECS_IN_A_THREAD)
        thread = int(processes.line(process))
        resctrl.write("a/tasks", str(process.pid))
        if number % 2:
            resctrl.write("b/tasks", str(thread))
        processes.say(process)
        assert processes.line(process) == "executed\n"
        assert process.pid in resctrl.tasks("b" if number % 2 else "")
        assert resctrl.tasks("a") == set()


def test_an_id_that_is_used_again_is_in_the_group_of_its_new_creator(resctrl: Resctrl, processes: Processes) -> None:
    """A zombie is moved, so that nothing remembers when it ended, and its id given to somebody else's child."""
    first = processes.start(
        """
import os, sys
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(child, flush=True)
sys.stdin.readline()
os.waitpid(child, 0)
print(flush=True)
"""
    )
    tid = int(processes.line(first))
    resctrl.write("b/tasks", str(tid))
    processes.say(first)
    processes.line(first)
    second = processes.start(FORKS_WITH_ID.format(tid=tid))
    assert processes.line(second) == f"{tid}\n"
    assert tid in resctrl.tasks()
    assert tid not in resctrl.tasks("b")


def _first_line(file: Path) -> str:
    """Its content as soon as there is any, without a pause between looks."""
    deadline = time.monotonic() + PATIENCE_S
    while not (content := file.read_text()):
        assert time.monotonic() < deadline, f"nothing in {file}"
    return content.split()[0]


def _all_in(resctrl: Resctrl, process: subprocess.Popen[str], group: str) -> bool:
    """Puts those there that are not; true once nothing was left to do."""
    missing = _tasks_below(process.pid) - resctrl.tasks(group)
    for tid in missing:
        try:
            resctrl.write(f"{group}/tasks", str(tid))
        except ProcessLookupError:
            continue
    return not missing


def _tasks_below(pid: int) -> set[int]:
    try:
        threads = {int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()}
        children = {
            int(child) for tid in threads for child in Path(f"/proc/{pid}/task/{tid}/children").read_text().split()
        }
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return threads.union(*(_tasks_below(child) for child in children))


def _threads_of_machine() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").glob("[0-9]*/task/[0-9]*")}


CREATES_THREADS_AND_PROCESSES = """
import os, threading
def work():
    while True:
        thread = threading.Thread(target=int)
        thread.start()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        thread.join()
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for thread in threads: thread.start()
print(flush=True)
threads[0].join()
"""

EXECS_IN_A_THREAD = """
import os, sys, threading
def execute():
    print(threading.get_native_id(), flush=True)
    sys.stdin.readline()
    program = "import sys; print('executed', flush=True); sys.stdin.read()"
    os.execv(sys.executable, [sys.executable, "-S", "-c", program])
threading.Thread(target=execute).start()
"""

FORKS_WITH_ID = """
import ctypes, os, signal, struct, sys
ids = (ctypes.c_int32 * 1)({tid})
arguments = struct.pack("=11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(ids), 1, 0)
child = ctypes.CDLL(None).syscall(435, arguments, len(arguments))
if child == 0:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""
"""clone3 with set_tid."""
