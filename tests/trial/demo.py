"""``make demo``: real processes in real cgroups, a policy that changes under them, and one that is refused.

All that is shown is read from the machine. What does not come out as it should ends the tour with status 1.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from trial import AGENT, Trial, agent, end_in_order, trial, wait_until

from agent.tasks.hierarchy import current_hierarchy

POLICY = """\
version: 1
resctrl: {bandwidth_capacity: 100GB/s}    # what 100 % means where the machine counts in rates
classes:
  demo-latency: {l3: 30-100%, mb: max, optional: [l3, mb]}
  demo-batch: {l3: 0-30%, mb: 20%, optional: [l3, mb]}
rules:
  - {class: demo-batch, when: {cgroup: /resctrl-demo/batch}}
  - {class: demo-latency, when: {cgroup: /resctrl-demo/latency}}
"""

PROGRAM = """\
import subprocess, sys, threading, time
children = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
for _ in range(3):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
sys.stdin.read()
for child in children:
    child.kill()
"""
"""Four threads and two children, until its standard input is closed."""

THREADS = 6

_PADDING = re.compile(r"^ +|(?<==) +", re.MULTILINE)
"""What older kernels put before names and values of a schemata file."""

IN_CGROUP = 'echo $$ >"$0/cgroup.procs" && exec "$@"'


def main() -> None:
    """The tour, chapter by chapter."""
    end_in_order()
    with trial() as here, ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resctrl-demo-")))
        cgroups = stack.enter_context(_cgroups("latency", "batch"))
        policy = place / "policy.yaml"

        _chapter("A policy of two classes, and a job of four threads and two children in the cgroup of one")
        policy.write_text(POLICY)
        _show(POLICY)
        indexer = stack.enter_context(_job("indexer", cgroups["batch"]))

        _chapter("The agent starts. What is there already is placed")
        service = stack.enter_context(_service(here, policy, place / "notify"))
        service.wait_until_ready()
        _expect(here, indexer, "demo-batch")
        _show_schemata(here)

        _chapter("A second job starts in the other cgroup. It is placed as it enters")
        search = stack.enter_context(_job("search", cgroups["latency"]))
        _expect(here, search, "demo-latency")

        _chapter("The first job moves to the cgroup of the second")
        indexer.enter(cgroups["latency"])
        _expect(here, indexer, "demo-latency")

        _chapter("The policy is edited: half of the cache for demo-batch. The machine follows")
        _save(policy, POLICY.replace("l3: 0-30%", "l3: 0-50%"))
        service.wait_until_ready()
        in_force = _show_schemata(here)

        _chapter("The policy is edited again, with a mistake. Nothing changes, and the agent says where it is")
        _save(policy, POLICY.replace("l3: 0-30%", "l3: 0-130%"))
        service.wait_until_ready()
        if _show_schemata(here) != in_force:
            sys.exit("A refused policy has changed the machine")
        _command(here, "check", "--policy", str(policy), status=78)

        _chapter("Asking the machine, with the mistake mended")
        _save(policy, POLICY)
        service.wait_until_ready()
        _command(here, "explain", str(search.process.pid), "--policy", str(policy))
        _command(here, "status", "--policy", str(policy))

        _chapter("The end. What the agent made is given back")
        service.stop()
        _command(here, "release", "--policy", str(policy))


@dataclass(frozen=True, slots=True)
class Job:
    """A program with threads and children."""

    name: str
    process: subprocess.Popen[str]

    def processes(self) -> list[int]:
        """The program and its children."""
        pid = self.process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def threads(self) -> set[int]:
        """All threads of all of them, by what procfs shows."""
        return {int(task.name) for pid in self.processes() for task in Path(f"/proc/{pid}/task").iterdir()}

    def enter(self, cgroup: Path) -> None:
        """Move to another cgroup."""
        for pid in self.processes():
            (cgroup / "cgroup.procs").write_text(str(pid))


@dataclass(frozen=True, slots=True)
class Service:
    """The agent as a service manager sees it."""

    process: subprocess.Popen[str]
    notifications: socket.socket

    def wait_until_ready(self) -> None:
        """Return once the agent has started, or is done with a changed policy."""
        wait_until(lambda: "READY=1" in self._next_notification(), "Readiness of the agent", self.process)

    def stop(self) -> None:
        """End the agent and wait for it."""
        self.process.terminate()
        self.process.wait()

    def _next_notification(self) -> list[str]:
        try:
            return self.notifications.recv(4096).decode().splitlines()
        except TimeoutError:
            return []


@contextmanager
def _service(here: Trial, policy: Path, address: Path) -> Iterator[Service]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
        notifications.bind(str(address))
        notifications.settimeout(0.1)
        environment = {**os.environ, "NOTIFY_SOCKET": str(address)}
        command = ("run", "--policy", str(policy), *here.arguments)
        with agent(*command, env=environment, stderr=subprocess.PIPE) as process:
            threading.Thread(target=_retell, args=(process,), daemon=True).start()
            yield Service(process, notifications)


def _retell(process: subprocess.Popen[str]) -> None:
    """The agent's log, which is in JSON where no terminal and no journal reads it."""
    for line in process.stderr or ():
        entry = json.loads(line) if line.startswith("{") else {"event": line.rstrip()}
        print(f"  agent: {entry.get('message', entry['event'])}", flush=True)


@contextmanager
def _cgroups(*names: str) -> Iterator[dict[str, Path]]:
    demo = current_hierarchy(Path("/proc")).mount / "resctrl-demo"
    directories = [demo, *(demo / name for name in names)]
    for directory in directories:
        directory.mkdir(exist_ok=True)
    try:
        yield {directory.name: directory for directory in directories}
    finally:
        for directory in reversed(directories):
            directory.rmdir()


@contextmanager
def _job(name: str, cgroup: Path) -> Iterator[Job]:
    command = ["sh", "-c", IN_CGROUP, str(cgroup), sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        job = Job(name, process)
        wait_until(lambda: len(job.threads()) == THREADS, f"Starting {name}", process)
        yield Job(name, process)


def _save(policy: Path, text: str) -> None:
    """As editors do: written beside it, then renamed."""
    edited = policy.with_suffix(".new")
    edited.write_text(text)
    edited.rename(policy)


def _expect(here: Trial, job: Job, group: str) -> None:
    tasks = here.resctrl / group / "tasks"
    wait_until(lambda: job.threads() <= set(map(int, tasks.read_text().split())), f"Placing {job.name} in {group}")
    _show(f"{job.name}: all {len(job.threads())} threads are in group {group}")


def _show_schemata(here: Trial) -> dict[str, str]:
    schemata = {group: (here.resctrl / group / "schemata").read_text() for group in ("demo-latency", "demo-batch")}
    for group, lines in schemata.items():
        _show(f"{group + ':':<14}{'   '.join(_PADDING.sub('', lines).splitlines())}")
    return schemata


def _command(here: Trial, *command: str, status: int = 0) -> None:
    _show(f"$ resctrl-agent {' '.join(command)}")
    run = subprocess.run([AGENT, *command, *here.arguments], capture_output=True, text=True, check=False)
    _show(run.stdout + run.stderr)
    if run.returncode != status:
        sys.exit(f"resctrl-agent {command[0]} ended with status {run.returncode} instead of {status}")


def _chapter(title: str) -> None:
    print(f"\n{title}\n", flush=True)


def _show(text: str) -> None:
    print(textwrap.indent(text.rstrip("\n"), "  "), flush=True)


if __name__ == "__main__":
    main()
