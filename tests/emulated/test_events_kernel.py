"""What the running kernel tells of real cgroups: raw tracepoints and the tracepoints of tracefs, v2 and v1."""

import contextlib
import ctypes
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.events import kernel
from agent.events.event import Event, EventKind
from agent.events.kernel import KernelEvents

pytestmark = [pytest.mark.root, pytest.mark.bpf]


@dataclass(frozen=True)
class Tree:
    """A cgroup of this test's own; names are relative to it."""

    mount: Path
    hierarchy_id: int
    path: str

    def __truediv__(self, name: str) -> Path:
        return self.mount / self.path[1:] / name

    def make(self, name: str) -> int:
        (self / name).mkdir()
        return (self / name).stat().st_ino


@dataclass(frozen=True)
class Told:
    """The events of one source that concern one tree or one task; others run on this machine, too."""

    source: KernelEvents
    tree: Tree

    def read(self) -> list[Event]:
        return [event for event in self.source.read() if event.path.startswith(self.tree.path)]

    def of_task(self, tid: int) -> list[Event]:
        return [event for event in self.source.read() if event.tid == tid]


Open = Callable[..., Told]


def mounted(kind: str, option: str) -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        if right.split()[0] == kind and option in right.split()[-1].split(","):
            return Path(left.split()[4])
    return None


def hierarchy_id(name: str) -> int:
    lines = (line.split(":") for line in Path("/proc/self/cgroup").read_text().splitlines())
    return next(int(number) for number, controllers, _ in lines if controllers == name)


def own_tree(mount: Path | None, number: int) -> Iterator[Tree]:
    if mount is None:
        pytest.skip("this version of cgroups is not mounted")
    tree = Tree(mount, number, f"/events-test-{os.getpid()}")
    (tree / "").mkdir()
    yield tree
    directories = [Path(directory) for directory, _, _ in os.walk(tree / "")]
    for directory in directories:
        # A threaded cgroup's file cannot be read; the one of the cgroup above has its processes, too.
        with contextlib.suppress(OSError):
            for pid in (directory / "cgroup.procs").read_text().split():
                (mount / "cgroup.procs").write_text(pid)
    for directory in reversed(directories):
        directory.rmdir()


@pytest.fixture
def v2() -> Iterator[Tree]:
    yield from own_tree(mounted("cgroup2", "rw"), 0)


@pytest.fixture
def v1() -> Iterator[Tree]:
    mount = mounted("cgroup", "name=systemd")
    yield from own_tree(mount, hierarchy_id("name=systemd") if mount else -1)


@pytest.fixture
def with_tracefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the process that loads needs tracefs: it gets one in a mount namespace of its own."""
    python = tmp_path / "python"
    mount = "mount -t tracefs tracefs /sys/kernel/tracing"
    python.write_text(f'#!/bin/sh\nexec unshare -m sh -c \'{mount} && exec {sys.executable} "$@"\' sh "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


@contextlib.contextmanager
def opening(make: Callable[..., KernelEvents]) -> Iterator[Open]:
    """How to open sources; they are closed in the end."""
    with contextlib.ExitStack() as sources:

        def open_source(tree: Tree, **options: int) -> Told:
            source = make(tree.hierarchy_id, **options)
            sources.callback(source.close)
            return Told(source, tree)

        yield open_source


@pytest.fixture
def raw() -> Iterator[Open]:
    """Opens a source of raw tracepoints."""
    with opening(KernelEvents.open) as open_source:
        yield open_source


@pytest.fixture
def tracefs(with_tracefs: None) -> Iterator[Open]:
    """Opens a source of tracefs's tracepoints."""
    with opening(KernelEvents.open_without_btf) as open_source:
        yield open_source


@pytest.fixture(params=["raw", "tracefs"])
def opened(request: pytest.FixtureRequest) -> Open:
    """Opens a source of either make."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        yield process
        assert process.stdin
        process.stdin.close()


@pytest.fixture
def thread() -> Iterator[int]:
    """The id of a thread of this process that does nothing."""
    end, ids, started = threading.Event(), [], threading.Event()

    def idle() -> None:
        ids.append(threading.get_native_id())
        started.set()
        end.wait()

    worker = threading.Thread(target=idle)
    worker.start()
    started.wait()
    yield ids[0]
    end.set()
    worker.join()


def without_time(events: list[Event]) -> list[tuple[object, ...]]:
    return [event[:1] + event[2:] for event in events]


def clone_into(directory: Path) -> int:
    """The pid of a child born in the cgroup, which has exited."""
    names = "flags pidfd child_tid parent_tid exit_signal stack stack_size tls set_tid set_tid_size cgroup"
    clone_args = type("clone_args", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_uint64) for n in names.split()]})
    descriptor = os.open(directory, os.O_RDONLY)
    arguments = clone_args(flags=0x2_0000_0000, exit_signal=17, cgroup=descriptor)
    pid = ctypes.CDLL(None).syscall(435, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    os.close(descriptor)
    os.waitpid(pid, 0)
    return pid


@pytest.mark.parametrize("version", ["v2", "v1"])
def test_cgroups_that_come_and_go_are_told_with_path_and_inode(opened: Open, version: str, request):
    told = opened(request.getfixturevalue(version))
    outer = told.tree.make("a")
    inner = told.tree.make("a/b")
    (told.tree / "a/b").rmdir()
    path = told.tree.path
    assert without_time(told.read()) == [
        (EventKind.CGROUP_MADE, outer, 0, f"{path}/a"),
        (EventKind.CGROUP_MADE, inner, 0, f"{path}/a/b"),
        (EventKind.CGROUP_REMOVED, inner, 0, f"{path}/a/b"),
    ]


def test_events_carry_the_monotonic_clock(opened: Open, v2: Tree):
    told = opened(v2)
    before = time.monotonic_ns()
    v2.make("a")
    after = time.monotonic_ns()
    (event,) = told.read()
    assert before <= event.time_ns <= after


@pytest.mark.parametrize("version", ["v2", "v1"])
def test_a_process_that_is_moved_is_told_by_its_id(opened: Open, sleeper, version: str, request):
    told = opened(request.getfixturevalue(version))
    inode = told.tree.make("a")
    (told.tree / "a/cgroup.procs").write_text(str(sleeper.pid))
    assert without_time(told.of_task(sleeper.pid)) == [(EventKind.ATTACHED, inode, sleeper.pid, f"{told.tree.path}/a")]


def test_a_process_moved_by_the_id_of_a_thread_is_told_by_its_own(raw: Open, v2: Tree, thread: int):
    """Field report 25, cadvisor#3334: ids of processes and threads are different things."""
    told = raw(v2)
    inode = v2.make("a")
    (v2 / "a/cgroup.procs").write_text(str(thread))
    assert without_time(told.of_task(os.getpid())) == [(EventKind.ATTACHED, inode, os.getpid(), f"{v2.path}/a")]


def test_a_single_thread_moved_within_threaded_cgroups_is_told_alone(raw: Open, v2: Tree, thread: int):
    told = raw(v2)
    inode = v2.make("t")
    (v2 / "t/cgroup.type").write_text("threaded")
    (v2 / "cgroup.procs").write_text(str(os.getpid()))
    (v2 / "t/cgroup.threads").write_text(str(thread))
    assert without_time(told.of_task(thread)) == [(EventKind.ATTACHED, inode, thread, f"{v2.path}/t")]


def test_a_single_thread_moved_by_the_tasks_file_of_v1_is_told_alone(raw: Open, v1: Tree, thread: int):
    told = raw(v1)
    inode = v1.make("a")
    (v1 / "a/tasks").write_text(str(thread))
    assert without_time(told.of_task(thread)) == [(EventKind.ATTACHED, inode, thread, f"{v1.path}/a")]


def test_a_task_born_in_a_cgroup_is_told_with_that_cgroup(raw: Open, v2: Tree):
    told = raw(v2)
    inode = v2.make("a")
    pid = clone_into(v2 / "a")
    assert without_time(told.of_task(pid)) == [(EventKind.CLONED_INTO, inode, pid, "")]


def test_without_btf_the_cgroup_a_task_is_born_in_is_left_to_procfs(tracefs: Open, v2: Tree):
    told = tracefs(v2)
    v2.make("a")
    pid = clone_into(v2 / "a")
    assert without_time(told.of_task(pid)) == [(EventKind.CLONED_INTO, 0, pid, "")]


def test_ordinary_forks_threads_and_programs_do_not_wake(opened: Open, v2: Tree):
    told = opened(v2)
    told.source.read()
    process = subprocess.run(["sh", "-c", "(exec true); echo $$"], capture_output=True, check=True)
    threading.Thread(target=int).start()
    assert told.of_task(int(process.stdout)) == []


def test_other_hierarchies_are_not_told(opened: Open, v1: Tree, v2: Tree):
    told = opened(v2)
    v1.make("elsewhere")
    assert told.read() == []


def test_a_cgroup_renamed_under_v1_is_told_by_its_new_path(opened: Open, v1: Tree):
    told = opened(v1)
    inode = v1.make("a")
    (v1 / "a").rename(v1 / "b")
    assert without_time(told.read())[1:] == [(EventKind.CGROUP_RENAMED, inode, 0, f"{v1.path}/b")]


def test_programs_are_told_only_while_they_are_asked_for(opened: Open, v2: Tree):
    told = opened(v2)

    def execs() -> list[Event]:
        pid = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, check=True).stdout
        return told.of_task(int(pid))

    assert execs() == []
    told.source.watch_execs(True)
    (event,) = execs()
    assert event.kind is EventKind.EXECED
    told.source.watch_execs(False)
    assert execs() == []


def test_a_program_is_told_with_the_cgroup_it_started_in(raw: Open, v2: Tree):
    told = raw(v2)
    inode = v2.make("a")
    told.source.watch_execs(True)
    script = f"echo $$ > {v2 / 'a/cgroup.procs'}; exec sh -c 'echo $$'"
    pid = int(subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout)
    assert [(event.kind, event.cgroup_id) for event in told.of_task(pid)][-1] == (EventKind.EXECED, inode)


def test_under_v1_a_programs_cgroup_is_left_to_procfs(raw: Open, v1: Tree):
    told = raw(v1)
    told.source.watch_execs(True)
    pid = int(subprocess.run(["sh", "-c", "echo $$"], capture_output=True, check=True).stdout)
    assert [(event.kind, event.cgroup_id) for event in told.of_task(pid)] == [(EventKind.EXECED, 0)]


def test_names_of_any_bytes_are_told(opened: Open, v2: Tree):
    told = opened(v2)
    name = os.fsdecode(b"caf\xe9 \x01;$")
    v2.make(name)
    assert [event.path for event in told.read()] == [f"{v2.path}/{name}"]


def nest(tree: Tree, length: int) -> str:
    """Nested cgroups down to a path of exactly so many bytes."""
    name = ""
    while (missing := length - len(tree.path) - 1 - len(name)) > 0:
        name += ("/" if name else "") + "x" * min(200, missing - (1 if name else 0))
        tree.make(name)
    return f"{tree.path}/{name}"


def test_long_paths_are_told_in_full(opened: Open, v2: Tree):
    told = opened(v2)
    path = nest(v2, 1022)
    assert told.read()[-1].path == path
    assert told.source.lost() == 0


def test_a_path_that_the_kernel_cuts_short_counts_as_lost(opened: Open, v2: Tree):
    told = opened(v2)
    path = nest(v2, 1000)
    told.read()
    v2.make(f"{path.removeprefix(v2.path + '/')}/{'x' * 100}")
    assert told.read() == []
    assert told.source.lost() == 1


def test_it_is_readable_only_while_events_wait(opened: Open, v2: Tree):
    told = opened(v2)
    v2.make("a")
    assert select.select([told.source], [], [], 10)[0]
    deadline = time.monotonic() + 10
    while told.source.read():
        assert time.monotonic() < deadline
    assert select.select([told.source], [], [], 0) == ([], [], [])


def test_a_storm_of_thousands_is_told_without_loss(opened: Open, v2: Tree, sleeper):
    told = opened(v2)
    rounds = 1000
    v2.make("home")
    for number in range(rounds):
        v2.make(f"{number}")
        (v2 / f"{number}/cgroup.procs").write_text(str(sleeper.pid))
        (v2 / "home/cgroup.procs").write_text(str(sleeper.pid))
        (v2 / f"{number}").rmdir()
    events = [event for event in told.read() if event.path != f"{v2.path}/home"]
    assert [(event.kind, event.path) for event in events] == [
        (kind, f"{v2.path}/{number}")
        for number in range(rounds)
        for kind in (EventKind.CGROUP_MADE, EventKind.ATTACHED, EventKind.CGROUP_REMOVED)
    ]
    assert told.source.lost() == 0


def test_a_storm_of_births_in_a_cgroup_is_told_without_loss(raw: Open, v2: Tree):
    told = raw(v2)
    v2.make("a")
    pids = [clone_into(v2 / "a") for _ in range(500)]
    born = [event.tid for event in told.source.read() if event.kind is EventKind.CLONED_INTO]
    assert [tid for tid in born if tid in set(pids)] == pids
    assert told.source.lost() == 0


def test_what_a_full_ring_cannot_take_is_counted(opened: Open, v2: Tree):
    told = opened(v2, ring_pages=1)
    for _ in range(100):
        v2.make("a")
        (v2 / "a").rmdir()
    kept = len(told.source.read())
    assert 0 < kept < 200
    assert kept + told.source.lost() >= 200
    v2.make("a")
    assert [event.path for event in told.read()] == [f"{v2.path}/a"]


def test_closing_gives_every_descriptor_back_and_nothing_more_is_told(v2: Tree):
    def descriptors() -> set[str]:
        return {entry.name for entry in Path("/proc/self/fd").iterdir()}

    before = descriptors()
    for _ in range(3):
        KernelEvents.open(0).close()
    assert descriptors() == before


AFTER_DROPPING_EVERYTHING = """
import os, subprocess, sys
from pathlib import Path
from agent.events.kernel import KernelEvents
source = KernelEvents.open(0)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
assert "CapEff:\\t0000000000000000" in Path("/proc/self/status").read_text()
source.watch_execs(True)
pid = int(subprocess.run(["sh", "-c", "echo $$"], capture_output=True, check=True).stdout)
print([event.kind.name for event in source.read() if event.tid == pid], source.lost())
"""


def run_python(script: str, *before: str) -> str:
    command = [*before, sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_once_open_no_capability_is_needed():
    assert run_python(AFTER_DROPPING_EVERYTHING) == "['EXECED'] 0\n"


OPEN = """
from agent.events import kernel
from agent.events.unavailable import BpfUnavailableError
load, loaded = kernel.load, []
kernel.load = lambda source, **more: loaded.append(source.name) or load(source, **more)
try:
    kernel.KernelEvents.open(0)
    print("open", *loaded)
except BpfUnavailableError as error:
    print(error.cause.name, error)
"""

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def test_cap_bpf_and_cap_perfmon_suffice():
    capabilities = "-all,+bpf,+perfmon"
    sets = (f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", f"--bounding-set={capabilities}")
    assert run_python(OPEN, *NOBODY, *sets).startswith("open")


def test_without_capabilities_the_refusal_names_them():
    said = run_python(OPEN, *NOBODY, "--inh-caps=-all", "--bounding-set=-all")
    assert said.startswith("PERMISSION tasks.bpf.c: ")
    assert "CAP_BPF and CAP_PERFMON" in said


HIDE_BTF = "mount --bind /dev/null /sys/kernel/btf/vmlinux"
IN_NAMESPACE = ("unshare", "-m", "sh", "-ec")


def test_a_kernel_without_btf_gets_the_tracepoints_of_tracefs():
    before = f'{HIDE_BTF}; mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"'
    assert run_python(OPEN, *IN_NAMESPACE, before, "sh") == "open tasks_tracepoints.bpf.c\n"


def test_a_kernel_that_keeps_something_elsewhere_gets_the_tracepoints_of_tracefs(
    with_tracefs: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(kernel._FIELDS, "KERNFS_ID", ("kernfs_node", "renamed_by_a_later_kernel"))
    load, loaded = kernel.load, []
    monkeypatch.setattr(kernel, "load", lambda source, **more: loaded.append(source.name) or load(source, **more))
    KernelEvents.open(0).close()
    assert loaded == ["tasks_tracepoints.bpf.c"]


def test_with_neither_btf_nor_tracefs_the_refusal_says_what_to_mount():
    before = f'{HIDE_BTF}; umount /sys/kernel/tracing 2>&- || true; umount /sys/kernel/debug 2>&- || true; exec "$@"'
    said = run_python(OPEN, *IN_NAMESPACE, before, "sh")
    assert said.startswith("TRACEPOINTS tasks_tracepoints.bpf.c: ")
    assert "mount -t tracefs tracefs /sys/kernel/tracing" in said


HELD = """
import re, sys
from pathlib import Path
from agent.events.files import PolicyWatch
from agent.events.kernel import KernelEvents
source, watch = KernelEvents.open(0), PolicyWatch(Path("/etc/resctrl-agent/policy.yaml"))
assert "bcc" not in sys.modules
print(re.search(r"VmRSS:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def test_a_process_that_holds_the_sources_stays_small():
    assert int(run_python(HELD)) < 30_000


def test_the_loader_works_from_any_directory_and_without_the_path_of_its_parent(tmp_path: Path):
    script = OPEN.replace("from agent", f"import sys; sys.path.insert(0, {str(Path.cwd())!r})\nfrom agent", 1)
    command = [sys.executable, "-c", script]
    environment = {"PATH": os.environ["PATH"]}
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.startswith("open")
