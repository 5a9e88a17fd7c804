"""Real cgroups of both versions, with real threads in them."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.tasks.cgroups import cgroup_id, read_threads, walk
from agent.tasks.hierarchy import Hierarchy, NoHierarchyError, current_hierarchy
from agent.tasks.process import cgroup_of, read_program, threads_of

pytestmark = pytest.mark.root

PROC = Path("/proc")

SLEEPER = """
import _thread, os, sys
_thread.stack_size(32768)
forever = _thread.allocate_lock()
forever.acquire()
for _ in range(int(sys.argv[1]) - 1):
    _thread.start_new_thread(forever.acquire, ())
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
"""


@dataclass(frozen=True)
class Tree:
    """A cgroup of this test's own, and how to work below it."""

    hierarchy: Hierarchy
    path: str

    def directory(self, name: str = "") -> Path:
        return Path(f"{self.hierarchy.mount}{self.path}/{name}")

    def make(self, name: str) -> str:
        self.directory(name).mkdir(parents=True)
        return f"{self.path}/{name}"

    def add_process(self, name: str, pid: int) -> None:
        (self.directory(name) / "cgroup.procs").write_text(str(pid))

    def add_thread(self, name: str, tid: int) -> None:
        (self.directory(name) / self.hierarchy.threads_file).write_text(str(tid))

    def threads(self, name: str = "") -> list[int] | None:
        return read_threads(self.hierarchy.mount, f"{self.path}/{name}".rstrip("/"), self.hierarchy.threads_file)

    def walk(self) -> dict[str, int]:
        return {cgroup.path: cgroup.id for cgroup in walk(self.hierarchy.mount, self.path)}


def mounted(version: int) -> Hierarchy:
    lines = (PROC / "self/mountinfo").read_text().splitlines()
    kind = "cgroup2" if version == 2 else "cgroup"
    for mount in (line.split(" ")[4] for line in lines if f" - {kind} " in line):
        with contextlib.suppress(NoHierarchyError):
            hierarchy = current_hierarchy(PROC, Path(mount))
            if version == 2 or "name=systemd" in hierarchy.controllers:
                return hierarchy
    pytest.skip(f"no cgroup v{version} hierarchy that a test may use is mounted here")


def own_tree(version: int) -> Iterator[Tree]:
    hierarchy = mounted(version)
    tree = Tree(hierarchy, f"/resctrl-agent-test-{os.getpid()}")
    tree.directory().mkdir()
    yield tree
    for path in sorted(tree.walk(), reverse=True):
        Path(f"{hierarchy.mount}{path}").rmdir()


@pytest.fixture(params=[2, 1], ids=["v2", "v1"])
def tree(request) -> Iterator[Tree]:
    yield from own_tree(request.param)


@pytest.fixture
def v2() -> Iterator[Tree]:
    yield from own_tree(2)


@contextlib.contextmanager
def running(threads: int = 1) -> Iterator[int]:
    """The pid of a process with so many threads."""
    command = [sys.executable, "-c", SLEEPER, str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid


def test_a_cgroup_lists_thread_ids_as_a_process_does(tree):
    """Field report 25: ids of threads are compared with ids of threads."""
    tree.make("app")
    with running(threads=5) as pid:
        tree.add_process("app", pid)
        assert sorted(tree.threads("app")) == sorted(threads_of(PROC, pid))
        assert len(tree.threads("app")) == 5


def test_thousands_of_threads_are_all_listed(tree):
    tree.make("app")
    with running(threads=3000) as pid:
        tree.add_process("app", pid)
        assert sorted(tree.threads("app")) == sorted(threads_of(PROC, pid))
        assert len(tree.threads("app")) == 3000


def test_cgroups_below_a_containers_are_met(tree):
    """Field report 23: the threads of a sandbox are in a cgroup below the container's (koordinator#2541)."""
    tree.make("pod/container/kata_sandbox")
    with running(threads=3) as pid:
        tree.add_process("pod/container/kata_sandbox", pid)
        threads = {path: read_threads(tree.hierarchy.mount, path, tree.hierarchy.threads_file) for path in tree.walk()}
        assert sorted(threads.pop(f"{tree.path}/pod/container/kata_sandbox")) == sorted(threads_of(PROC, pid))
        assert set(threads) == {tree.path, f"{tree.path}/pod", f"{tree.path}/pod/container"}


def test_init_containers_and_sidecars_are_met_like_any_container(tree):
    """Field report 24."""
    for name in ("pod/sandbox", "pod/init", "pod/sidecar", "pod/main"):
        tree.make(name)
    assert set(tree.walk()) == {
        tree.path,
        *(f"{tree.path}/{name}" for name in ("pod", "pod/sandbox", "pod/init", "pod/sidecar", "pod/main")),
    }


def test_a_walk_gives_the_ids_that_look_ups_give(tree):
    tree.make("a/b")
    ids = tree.walk()
    assert {path: cgroup_id(tree.hierarchy.mount, path) for path in ids} == ids
    assert len(set(ids.values())) == 3


def test_a_cgroup_made_anew_has_another_id(tree):
    path = tree.make("a")
    first = cgroup_id(tree.hierarchy.mount, path)
    tree.directory("a").rmdir()
    assert cgroup_id(tree.hierarchy.mount, path) is None
    tree.make("a")
    assert cgroup_id(tree.hierarchy.mount, path) != first


def test_standing_cgroups_are_met_while_others_come_and_go(tree):
    standing = {tree.make(f"standing-{number}/below") for number in range(20)}
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(20):
                tree.make(f"standing-{number}/churn/deep")
            for number in range(20):
                tree.directory(f"standing-{number}/churn/deep").rmdir()
                tree.directory(f"standing-{number}/churn").rmdir()

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        walks = [set(tree.walk()) for _ in range(50)]
    finally:
        stop.set()
        churning.join()
    assert all(standing <= met for met in walks)


def test_a_cgroup_that_is_gone_has_no_list_of_threads(tree):
    tree.make("a")
    assert tree.threads("a") == []
    tree.directory("a").rmdir()
    assert tree.threads("a") is None


def test_a_cgroup_removed_between_opening_and_reading_is_gone(tree, monkeypatch):
    """Field report 26."""
    tree.make("a")
    removing_after(monkeypatch, tree.directory("a"))
    assert tree.threads("a") is None


def test_a_cgroup_removed_while_a_walk_is_in_it_ends_the_walk_there(tree, monkeypatch):
    path = tree.make("a")
    removing_after(monkeypatch, tree.directory("a"))
    assert [cgroup.path for cgroup in walk(tree.hierarchy.mount, path)] in ([], [path])


def test_threads_of_one_process_are_listed_where_they_are(v2):
    for name in ("domain", "domain/left", "domain/right"):
        v2.make(name)
    for name in ("left", "right"):
        (v2.directory(f"domain/{name}") / "cgroup.type").write_text("threaded")
    with running(threads=4) as pid:
        v2.add_process("domain", pid)
        leader, first, second, third = sorted(threads_of(PROC, pid))
        v2.add_thread("domain/left", first)
        v2.add_thread("domain/right", second)
        assert v2.threads("domain/left") == [first]
        assert v2.threads("domain/right") == [second]
        assert sorted(v2.threads("domain")) == [leader, third]
        assert cgroup_of(PROC, first, v2.hierarchy) == f"{v2.path}/domain/left"
        assert cgroup_of(PROC, leader, v2.hierarchy) == f"{v2.path}/domain"


def test_a_cgroup_that_became_invalid_has_no_threads(v2):
    for name in ("domain", "domain/left", "domain/invalid"):
        v2.make(name)
    (v2.directory("domain/left") / "cgroup.type").write_text("threaded")
    assert (v2.directory("domain/invalid") / "cgroup.type").read_text() == "domain invalid\n"
    assert v2.threads("domain/invalid") == []


def test_a_task_is_found_in_its_cgroup(tree):
    path = tree.make("a b:c")
    with running() as pid:
        tree.add_process("a b:c", pid)
        assert cgroup_of(PROC, pid, tree.hierarchy) == path
    assert cgroup_of(PROC, pid, tree.hierarchy) is None


def test_a_zombie_is_known_but_no_longer_listed(tree):
    path = tree.make("a")
    with subprocess.Popen(["sleep", "infinity"]) as process:
        tree.add_process("a", process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert tree.threads("a") == []
        assert read_program(PROC, process.pid) is not None
        assert cgroup_of(PROC, process.pid, tree.hierarchy) == (path if tree.hierarchy.version == 2 else "/")


def test_a_zombies_cgroup_has_its_name_after_its_removal(v2):
    path = v2.make("a")
    with subprocess.Popen(["sleep", "infinity"]) as process:
        v2.add_process("a", process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        v2.directory("a").rmdir()
        assert "(deleted)" in (PROC / f"{process.pid}/cgroup").read_text()
        assert cgroup_of(PROC, process.pid, v2.hierarchy) == path


def removing_after(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Removes the directory right after the next file has been opened."""
    opening = os.open

    def open_then_remove(*args, **kwargs) -> int:
        descriptor = opening(*args, **kwargs)
        monkeypatch.undo()
        directory.rmdir()
        return descriptor

    monkeypatch.setattr(os, "open", open_then_remove)
