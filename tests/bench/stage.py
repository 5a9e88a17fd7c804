"""What benchmarks play on: programs in C, an emulated resctrl, worker processes, and cgroups to put them into."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.tasks.hierarchy import current_hierarchy
from tests.emulated.cgroup_tree import Tree, own_tree
from tests.emulated.emulated_resctrl import emulated_resctrl

HIERARCHY = current_hierarchy(Path("/proc"))
"""The one that the agent follows here."""

_SOURCES = Path(__file__).parent


def build(name: str, into: Path) -> Path:
    """Compiles one of the programs beside this file."""
    program = into / name
    source = _SOURCES / f"{name}.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-pthread", "-o", program, source, "-l:libbpf.so.1"], check=True)
    return program


def emulated() -> AbstractContextManager[Path]:
    """An emulated resctrl of the machine and the kernel that tests use most."""
    return emulated_resctrl("xeon-2s", "6.12")


@contextmanager
def workers(program: Path, processes: int, threads: int) -> Iterator[list[int]]:
    """The ids of so many idle processes, each with so many threads."""
    command = [program, str(processes), str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        yield [int(pid) for pid in _wait_for_a_line(running).split()]
        running.communicate()


@contextmanager
def cgroups() -> Iterator[Tree]:
    """A cgroup of this benchmark's own in the hierarchy that the agent follows."""
    with own_tree(HIERARCHY.mount) as tree:
        yield tree


@contextmanager
def busy_cores(cores: int) -> Iterator[None]:
    """A loop at normal priority for each core."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@dataclass(frozen=True, slots=True)
class Job:
    """A worker process and all its threads."""

    pid: int
    threads: frozenset[int]


def jobs(pids: Sequence[int]) -> list[Job]:
    return [Job(pid, frozenset(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir())) for pid in pids]


def _wait_for_a_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"{process.args!r} ended with {process.wait()}"
    return line
