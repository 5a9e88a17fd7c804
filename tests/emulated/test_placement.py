"""Wherever a thread comes from, it ends in the group that the rules say."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.emulated.cgroup_tree import V1_MOUNT, V2_MOUNTS, Tree, own_tree
from tests.emulated.running_agent import Agent, running_agent, until

pytestmark = [pytest.mark.root, pytest.mark.bpf]

V2_MOUNT = next(mount for mount in V2_MOUNTS if (mount / "cgroup.procs").exists())

THREADS = 4

IDLE_THREADS = f"""
import threading
for _ in range({THREADS - 1}):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""

FORKS_AND_CLONES = """
import os, threading
print("ready", flush=True)
def clone():
    while len(kept) < 400:
        thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
kept = []
cloning = threading.Thread(target=clone)
cloning.start()
while True:
    pid = os.fork()
    if pid == 0:
        # Every eighth child lives on, and has a thread and a child of its own.
        if len(kept) % 8 == 0:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            if os.fork() == 0:
                threading.Event().wait()
            threading.Event().wait()
        os._exit(0)
    kept.append(pid)
    if len(kept) % 8 != 1:
        os.waitpid(pid, 0)
    if len(kept) == 400:
        cloning.join()
        print("done", flush=True)
        threading.Event().wait()
"""


@pytest.fixture(params=["v1", "v2"])
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    mount = V1_MOUNT if request.param == "v1" else V2_MOUNT
    if not (mount / "cgroup.procs").exists():
        pytest.skip("this version of cgroups is not mounted")
    with own_tree(mount) as made:
        yield made


@pytest.fixture
def v2_tree() -> Iterator[Tree]:
    with own_tree(V2_MOUNT) as made:
        yield made


def policy(tree: Tree) -> str:
    return f"""\
version: 1
classes:
  batch: {{l3: 0-30%, mb: 20%}}
  latency: {{l3: 30-100%}}
  system: {{default: true}}
rules:
  - {{class: batch, when: {{cgroup: {tree.cgroup("batch")}}}}}
  - {{class: latency, when: {{cgroup: {tree.cgroup("latency")}}}}}
"""


@pytest.fixture
def start(tmp_path: Path, emulated: Callable[..., Path]) -> Callable[[Tree], object]:
    """Starts an agent for a tree."""
    resctrl = emulated("xeon-2s")
    return lambda tree: running_agent(tmp_path, resctrl, policy(tree), "--cgroup", str(tree.mount))


def in_group(agent: Agent, group: str, tree: Tree, name: str) -> Callable[[], bool]:
    return lambda: bool(threads := tree.threads(name)) and threads <= agent.tasks(group)


def test_threads_that_were_there_before_are_placed_like_new_ones_as_in_libcgroup_509(tree, start):
    tree.make("batch/nested")
    child = tree.start(IDLE_THREADS)
    tree.attach("batch/nested", child.pid)
    with start(tree) as agent:
        assert tree.threads("batch/nested") <= agent.tasks("batch")
        assert len(tree.threads("batch/nested")) == THREADS


def test_all_threads_of_a_process_are_placed_as_in_intel_cmt_cat_85(tree, start):
    tree.make("batch")
    child = tree.start(IDLE_THREADS)
    with start(tree) as agent:
        tree.attach("batch", child.pid)
        until(in_group(agent, "batch", tree, "batch"), "all threads are in batch")
        assert len(tree.threads("batch")) == THREADS


def test_threads_below_the_matching_cgroup_are_placed_as_in_koordinator_2541(tree, start):
    child = tree.start(IDLE_THREADS)
    with start(tree) as agent:
        tree.make("batch/pod/kata/vm")
        tree.attach("batch/pod/kata/vm", child.pid)
        until(in_group(agent, "batch", tree, "batch/pod/kata/vm"), "nested threads are in batch")


def test_a_process_that_forks_and_clones_meanwhile_leaves_no_thread_behind(tree, start):
    tree.make("batch")
    with start(tree) as agent:
        children = [tree.start(FORKS_AND_CLONES) for _ in range(3)]
        for child in children:
            tree.attach("batch", child.pid)
        until(in_group(agent, "batch", tree, "batch"), "every thread is in batch")
        for child in children:
            assert child.stdout.readline() == b"done\n"
        assert len(tree.threads("batch")) > 3 * 10
        until(in_group(agent, "batch", tree, "batch"), "every thread is in batch, the last ones having ended")


def test_a_process_follows_from_one_class_to_another_and_to_none(tree, start):
    for name in ("batch", "latency"):
        tree.make(name)
    child = tree.start(IDLE_THREADS)
    threads = {int(task.name) for task in Path(f"/proc/{child.pid}/task").iterdir()}
    with start(tree) as agent:
        tree.attach("batch", child.pid)
        until(lambda: threads <= agent.tasks("batch"), "in batch")
        tree.attach("latency", child.pid)
        until(lambda: threads <= agent.tasks("latency"), "in latency")
        assert not threads & agent.tasks("batch")
        tree.leave(child.pid)
        until(lambda: threads <= agent.tasks(""), "in the root group")
        assert not threads & agent.tasks("latency")


def test_one_thread_moved_alone_is_placed_alone(v2_tree, start):
    for name in ("top", "top/batch", "top/other"):
        v2_tree.make(name)
    for name in ("top/batch", "top/other"):
        (v2_tree.directory(name) / "cgroup.type").write_text("threaded")
    child = v2_tree.start(IDLE_THREADS)
    v2_tree.attach("top", child.pid)
    one, *others = sorted(v2_tree.threads("top") - {child.pid})
    text = policy(v2_tree).replace("/batch}", "/top/batch}")
    with start(v2_tree) as agent:
        agent.follow(text)
        v2_tree.attach_thread("top/batch", one)
        until(lambda: one in agent.tasks("batch"), "the thread is in batch")
        assert not set(others) & agent.tasks("batch")
        v2_tree.attach_thread("top/other", one)
        until(lambda: one not in agent.tasks("batch"), "the thread has left batch")


def test_a_process_born_in_a_cgroup_needs_no_attach_event(v2_tree, start):
    directory = v2_tree.make("batch")
    with start(v2_tree) as agent:
        pid = clone_into(directory)
        try:
            until(lambda: pid in agent.tasks("batch"), "the child is in batch")
            assert {r["cause"] for r in agent.log("placed") if r["cgroup"] == v2_tree.cgroup("batch")} == {
                "cloned_into"
            }
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


CLONE_ARGUMENTS = (
    *("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls"),
    *("set_tid", "set_tid_size", "cgroup"),
)
"""struct clone_args of linux/sched.h."""


def clone_into(directory: Path, script: str = "exec sleep 60") -> int:
    """clone3 with CLONE_INTO_CGROUP, as systemd and crun start things; the child runs a script of the shell."""

    class Arguments(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in CLONE_ARGUMENTS]

    cgroup = os.open(directory, os.O_RDONLY)
    arguments = Arguments(flags=0x200000000, exit_signal=17, cgroup=cgroup)
    pid = ctypes.CDLL(None).syscall(435, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", script])  # noqa: S606 - the child of a bare clone
    os.close(cgroup)
    assert pid > 0
    return pid


def test_a_program_is_placed_at_its_exec_and_judged_anew_at_the_next(tree, start, tmp_path):
    text = policy(tree).replace("rules:\n", "rules:\n  - {class: latency, when: {exe: /**/sleep}, name: sleepers}\n")
    tree.make("batch")
    sleep = Path("/bin/sleep").resolve()
    with start(tree) as agent:
        agent.follow(text)
        shell = tree.start(
            "import os, sys, signal\n"
            "signal.signal(signal.SIGUSR1, lambda *_: os.execv(sys.argv[1], ['sleep', '60']))\n"
            "print('ready', flush=True)\n"
            "while True: signal.pause()",
            str(sleep),
        )
        tree.attach("batch", shell.pid)
        until(lambda: shell.pid in agent.tasks("batch"), "by its cgroup in batch")
        os.kill(shell.pid, 10)
        until(lambda: shell.pid in agent.tasks("latency"), "by its program in latency")


def test_a_child_of_a_matched_program_falls_to_its_cgroup_when_it_execs(tree, start, tmp_path):
    parent = tmp_path / "busybox"
    shutil.copy("/bin/busybox", parent)
    rule = f"rules:\n  - {{class: latency, when: {{exe: {parent}}}, name: parents}}\n"
    with start(tree) as agent:
        agent.follow(policy(tree).replace("rules:\n", rule))
        shell = subprocess.Popen([parent, "sh", "-c", "/bin/sleep 60; true"])
        tree.children.append(shell)
        until(lambda: shell.pid in agent.tasks("latency"), "the parent is in latency")
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children")
        child = int(until(children.read_text, "the child is there"))
        until(lambda: child in agent.tasks(""), "the child is in the root group")
        assert shell.pid in agent.tasks("latency")


def test_threads_taken_by_somebody_else_are_put_back_at_the_audit_as_in_intel_cmt_cat_86(tmp_path, emulated, v2_tree):
    resctrl = emulated("xeon-2s")
    v2_tree.make("batch")
    child = v2_tree.start(IDLE_THREADS)
    options = ("--cgroup", str(v2_tree.mount), "--audit-interval", "0.2")
    with running_agent(tmp_path, resctrl, policy(v2_tree), *options) as agent:
        v2_tree.attach("batch", child.pid)
        until(in_group(agent, "batch", v2_tree, "batch"), "in batch")
        (resctrl / "tasks").write_text(str(child.pid))
        until(lambda: child.pid in agent.tasks("batch"), "back in batch")


def test_a_thread_that_keeps_being_taken_away_is_left_after_three_times(tmp_path, emulated, v2_tree):
    resctrl = emulated("xeon-2s")
    (resctrl / "theirs").mkdir()
    v2_tree.make("batch")
    child = v2_tree.start(IDLE_THREADS)
    options = ("--cgroup", str(v2_tree.mount), "--audit-interval", "0.1")
    stop = threading.Event()

    def take_back() -> None:
        while not stop.wait(0.01):
            (resctrl / "theirs/tasks").write_text(str(child.pid))

    with running_agent(tmp_path, resctrl, policy(v2_tree), *options) as agent:
        v2_tree.attach("batch", child.pid)
        other = threading.Thread(target=take_back)
        other.start()
        try:
            (record,) = agent.wait_for("contended")
        finally:
            stop.set()
            other.join()
        assert record["workload"] == v2_tree.cgroup("batch")
        assert record["other_group"] == "theirs"
        assert child.pid in agent.tasks("theirs")
        agent.follow(policy(v2_tree).replace("20%", "30%"))
        until(lambda: child.pid in agent.tasks("batch"), "a new policy tries again")


FORKS_AFTER_EXEC = """\
import os, sys
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        import time; time.sleep(60); os._exit(0)
if sys.argv[1] == "daemon":
    os._exit(0)
import time; time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["stays", "daemon"])
def test_children_that_a_program_forks_at_once_are_placed_with_it_and_without_it(v2_tree, start, tmp_path, kind):
    program = tmp_path / "program"
    shutil.copy(Path(sys.executable).resolve(), program)
    rule = f"rules:\n  - {{class: latency, when: {{exe: {program}}}, name: programs}}\n"
    with start(v2_tree) as agent:
        agent.follow(policy(v2_tree).replace("rules:\n", rule))
        started = [
            subprocess.Popen([program, "-c", FORKS_AFTER_EXEC, kind], start_new_session=True, env={}) for _ in range(10)
        ]
        v2_tree.children += started

        def running() -> set[int]:
            found = set()
            for entry in Path("/proc").iterdir():
                with contextlib.suppress(OSError):
                    if entry.name.isdecimal() and (entry / "exe").readlink() == program:
                        found.add(int(entry.name))
            return found

        expected = 10 * (4 if kind == "stays" else 3)
        try:
            until(lambda: len(running()) == expected, "all are running")
            until(lambda: running() <= agent.tasks("latency"), "all are in latency")
        finally:
            for pid in running():
                os.kill(pid, 9)


def test_a_child_of_a_process_born_into_a_cgroup_that_is_gone_is_placed(v2_tree, start):
    with start(v2_tree) as agent:
        directory = v2_tree.make("batch/made")
        os.kill(agent.process.pid, signal.SIGSTOP)
        try:
            pid = clone_into(directory, "sleep 60 & exit")
            os.waitpid(pid, 0)
        finally:
            os.kill(agent.process.pid, signal.SIGCONT)
        until(in_group(agent, "batch", v2_tree, "batch/made"), "the grandchild is in batch")
