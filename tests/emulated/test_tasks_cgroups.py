"""Real cgroups of both versions, with real threads in them."""

import contextlib
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.tasks.cgroups import cgroup_id, read_threads, walk
from agent.tasks.hierarchy import Hierarchy, NoHierarchyError, current_hierarchy
from agent.tasks.process import cgroup_of, read_program, threads_of
from tests.emulated.running_agent import until

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


def test_cgroups_nested_deeper_than_any_path_is_taken_are_met_and_read(tree):
    """Whoever owns a subtree may make it as deep: that must not keep anybody else from being placed."""
    tree.make("other")
    with nested(tree, depth=40) as (deepest, directory), running(threads=3) as pid:
        assert len(deepest) > 2 * 4096
        write(directory, "cgroup.procs", pid)
        ids = tree.walk()
        assert len(ids) == 42
        assert cgroup_id(tree.hierarchy.mount, deepest) == ids[deepest] == os.fstat(directory).st_ino
        found = read_threads(tree.hierarchy.mount, deepest, tree.hierarchy.threads_file)
        assert sorted(found) == sorted(threads_of(PROC, pid))
        assert cgroup_of(PROC, pid, tree.hierarchy) is None, "the kernel cuts it short, which would name another"
    assert cgroup_id(tree.hierarchy.mount, deepest) is None
    assert read_threads(tree.hierarchy.mount, deepest, tree.hierarchy.threads_file) is None


@pytest.mark.parametrize("length", [4093, 4094, 4095, 4096])
def test_a_path_about_as_long_as_one_call_takes_is_read(v2, length):
    missing = length - len(f"{v2.hierarchy.mount}{v2.path}")
    names = ["/" + "x" * 99] * (missing // 100 - 1)
    names.append("/" + "x" * (missing - 100 * len(names) - 1))
    with nested(v2, names=[name[1:] for name in names]) as (deepest, directory):
        assert len(f"{v2.hierarchy.mount}{deepest}") == length
        assert cgroup_id(v2.hierarchy.mount, deepest) == os.fstat(directory).st_ino
        assert read_threads(v2.hierarchy.mount, deepest, "cgroup.threads") == []


def test_a_name_longer_than_any_is_of_no_cgroup(tree):
    assert cgroup_id(tree.hierarchy.mount, f"{tree.path}/{'x' * 256}") is None


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


@pytest.mark.parametrize("error", [errno.ENOENT, errno.ENODEV])
def test_a_cgroup_removed_between_being_looked_up_and_opened_is_gone(tree, monkeypatch, error):
    """The kernel says ENODEV of one in some ten thousand; here of all."""
    path = tree.make("a")
    monkeypatch.setattr(os, "open", failing_with(error))
    assert tree.threads("a") is None
    assert cgroup_id(tree.hierarchy.mount, path) is None
    assert tree.walk() == {}


@pytest.mark.parametrize("error", [errno.ENOENT, errno.ENODEV])
def test_a_cgroup_removed_before_it_is_listed_has_none_below(tree, monkeypatch, error):
    path = tree.make("a")
    monkeypatch.setattr(os, "scandir", failing_with(error))
    assert [cgroup.path for cgroup in walk(tree.hierarchy.mount, path)] == [path]


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


@contextlib.contextmanager
def nested(tree: Tree, depth: int = 0, names: Sequence[str] = ()) -> Iterator[tuple[str, int]]:
    """The path of the deepest of so many cgroups, each in the one before, and a descriptor of it."""
    descriptors = [os.open(tree.directory(), os.O_RDONLY)]
    names = names or ["x" * 240] * depth
    try:
        for name in names:
            os.mkdir(name, dir_fd=descriptors[-1])
            descriptors.append(os.open(name, os.O_RDONLY, dir_fd=descriptors[-1]))
        yield "/".join((tree.path, *names)), descriptors[-1]
    finally:
        for name, descriptor in reversed(list(zip(names, descriptors, strict=False))):
            until(lambda name=name, descriptor=descriptor: removed(name, descriptor), "what ran in it has left")
        for descriptor in descriptors:
            os.close(descriptor)


def removed(name: str, above: int) -> bool:
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=above)
        return True
    return False


def write(directory: int, file: str, number: int) -> None:
    with open(os.open(file, os.O_WRONLY, dir_fd=directory), "w") as opened:  # noqa: PTH123 - only a descriptor
        opened.write(str(number))


def failing_with(error: int) -> Callable[..., None]:
    def fail(*_args, **_kwargs) -> None:
        raise OSError(error, os.strerror(error))

    return fail


def removing_after(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Removes the directory right after the next file has been opened."""
    opening = os.open

    def open_then_remove(*args, **kwargs) -> int:
        descriptor = opening(*args, **kwargs)
        monkeypatch.undo()
        directory.rmdir()
        return descriptor

    monkeypatch.setattr(os, "open", open_then_remove)
