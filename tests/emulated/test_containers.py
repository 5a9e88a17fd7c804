"""Real containers, started by runc, are in their class's group before their own program runs."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

from tests.emulated.running_agent import running_agent, until
from tests.emulated.witness import Witness

pytestmark = [pytest.mark.root, pytest.mark.bpf, pytest.mark.runc]

POLICY = """\
version: 1
classes:
  batch: {l3: 0-30%, mb: 20%}
  system: {default: true}
rules:
  - {class: batch, when: {kubernetes: {qos: besteffort}}}
"""

ONE_AFTER_ANOTHER = 50
AT_ONCE = 50

PROGRAM = "/bin/worker"
THREADS = 3
CHILDREN = 2


@dataclass
class Containers:
    """A root file system whose program makes threads and children, and the containers started from it."""

    directory: Path
    names: list[str] = field(default_factory=list)

    def start(self, pod: str) -> int:
        """Starts the container of a pod; returns its first process."""
        name = f"c-{pod}"
        bundle = self.directory / name
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(self._config(f"/kubepods/besteffort/pod{pod}/{name}")))
        self.names.append(name)
        pid_file = bundle / "pid"
        with (bundle / "log").open("wb") as log:
            command = ["runc", "--root", str(self.directory / "state"), "run", "--detach", "--pid-file", str(pid_file)]
            subprocess.run([*command, "--bundle", str(bundle), name], stdout=log, stderr=log, check=True)
        return int(pid_file.read_text())

    def remove(self) -> None:
        for name in self.names:
            command = ["runc", "--root", str(self.directory / "state"), "delete", "--force", name]
            subprocess.run(command, check=False, capture_output=True)

    def _config(self, cgroup: str) -> dict[str, object]:
        namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        ]
        return {
            "ociVersion": "1.0.2",
            "process": {"cwd": "/", "args": [PROGRAM], "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}},
            "root": {"path": str(self.directory / "rootfs"), "readonly": True},
            "mounts": mounts,
            "linux": {"cgroupsPath": cgroup, "namespaces": namespaces},
        }


WORKER = f"""
#include <pthread.h>
#include <unistd.h>
static void *idle(void *unused) {{ for (;;) pause(); return unused; }}
int main(void)
{{
	pthread_t thread;
	for (int n = 0; n < {CHILDREN}; n++)
		if (fork() == 0) break;
	for (int n = 0; n < {THREADS} - 1; n++)
		pthread_create(&thread, 0, idle, 0);
	idle(0);
}}
"""

ALL_THREADS = (1 + CHILDREN) * THREADS


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    directory = tmp_path / "containers"
    program = directory / "rootfs" / PROGRAM[1:]
    for name in ("bin", "proc", "dev"):
        (directory / "rootfs" / name).mkdir(parents=True)
    source = directory / "worker.c"
    source.write_text(WORKER)
    subprocess.run(["gcc", "-static", "-O1", "-pthread", "-o", program, source], check=True)
    made = Containers(directory)
    yield made
    made.remove()


def test_a_hundred_containers_are_placed_before_their_program_runs(
    tmp_path: Path, emulated: Callable[..., Path], containers: Containers, capsys: pytest.CaptureFixture[str]
) -> None:
    resctrl = emulated("xeon-2s")
    with running_agent(tmp_path, resctrl, POLICY) as agent, Witness(agent.process.pid) as witness:
        pods = [str(uuid.uuid4()) for _ in range(ONE_AFTER_ANOTHER + AT_ONCE)]
        first = [containers.start(pod) for pod in pods[:ONE_AFTER_ANOTHER]]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            first += pool.map(containers.start, pods[ONE_AFTER_ANOTHER:])
        threads = until(lambda: all_threads(first), "every container has its threads and children")
        agent.wait_for("placed", len(pods))
        assert threads <= agent.tasks("batch")
    ahead_us = [in_group_ahead_us(witness, pid) for pid in first]
    with capsys.disabled():
        print(
            f"\n{len(first)} containers in their group before exec by at least {min(ahead_us):.0f} µs, "
            f"median {median(ahead_us):.0f} µs; {sum(pid in witness.placed_ns for pid in first)} placed, the others "
            f"born there; {len(threads)} threads, none misplaced"
        )
    assert min(ahead_us) > 0


def all_threads(first: list[int]) -> set[int]:
    """Every thread of the containers with these first processes; empty until each has all of them."""
    found: set[int] = set()
    for pid in first:
        processes = [pid, *children(pid)]
        threads = {int(tid.name) for process in processes for tid in Path(f"/proc/{process}/task").iterdir()}
        if len(threads) < ALL_THREADS:
            return set()
        found |= threads
    return found


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def in_group_ahead_us(witness: Witness, pid: int) -> float:
    """How long before its program's exec a container's process came into its group.

    It was written there, or (what the agent never had to write, and is in the group) born there.
    """
    exec_ns = next(exec_.time_ns for exec_ in witness.execs if exec_.pid == pid and exec_.program == PROGRAM)
    return (exec_ns - witness.placed_ns.get(pid, witness.born_ns[pid])) / 1000
