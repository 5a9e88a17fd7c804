"""Who places threads when a benchmark moves them: the agent, or a loop in C. Each is a process, known by its id."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from agent.events.kernel import KernelEvents
from agent.service.urgency import PRIORITY
from tests.bench.stage import HIERARCHY
from tests.emulated.running_agent import running_agent

Placer = Callable[[], AbstractContextManager[int]]
"""Starts one; it is ready when the block is entered."""

GROUP = "batch"

NEVER = ("--audit-interval", "86400")
"""Options with which only events wake the agent."""

AS_INSTALLED = ("--log-level", "info")


def policy(claimed: str) -> str:
    """Each cgroup right below ``claimed`` is a workload of the class."""
    return f"""\
version: 1
classes:
  {GROUP}: {{l3: 0-30%, mb: 20%}}
  system: {{default: true}}
rules:
  - {{class: {GROUP}, when: {{cgroup: "{claimed}/*"}}}}
"""


@contextmanager
def agent(directory: Path, resctrl: Path, claimed: str) -> Iterator[int]:
    """The daemon as it is installed."""
    with running_agent(directory, resctrl, policy(claimed), *AS_INSTALLED, *NEVER) as running:
        yield running.process.pid


@contextmanager
def agent_on_files(directory: Path, root: Path, claimed: str) -> Iterator[int]:
    """The daemon's path from an event to a write, on a directory with plain files for ``tasks``."""
    file = directory / "policy.yaml"
    file.write_text(policy(claimed))
    command = [sys.executable, "-m", "tests.bench.fast_path_alone", str(file), str(root)]
    with (directory / "fast_path_alone.log").open("wb") as log, _ready(command, stderr=log) as process:
        yield process.pid


@contextmanager
def baseline(program: Path, tasks: Path, claimed: str) -> Iterator[int]:
    """The loop in C on the same eBPF program, loaded by the same loader."""
    events = KernelEvents.open(HIERARCHY.id)
    try:
        ring = events._program.maps["events"]
        arguments = (str(ring), str(HIERARCHY.mount), HIERARCHY.threads_file, f"{claimed}/", str(tasks))
        with _ready([str(program), *arguments], pass_fds=(ring,)) as process:
            yield process.pid
    finally:
        events.close()


def plain_group(root: Path) -> Path:
    """A directory that looks like resctrl as far as placing goes; its group's ``tasks``."""
    for file in ("tasks", f"{GROUP}/tasks", "info/last_cmd_status"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return root / GROUP / "tasks"


@contextmanager
def _ready(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, **options) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", f"{command} ended with {process.wait()}"
        os.sched_setscheduler(process.pid, os.SCHED_RR, os.sched_param(PRIORITY))  # as the daemon does
        try:
            yield process
            assert process.poll() is None, f"{command} ended with {process.returncode}"
        finally:
            process.kill()
