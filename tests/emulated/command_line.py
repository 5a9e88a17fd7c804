"""Commands of the agent in this process, on an emulated resctrl and cgroups of the test's own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.cli import main
from agent.resctrl.schemata import format_line, parse
from agent.service.run_state import RunState
from tests.emulated.cgroup_tree import V2_MOUNTS, Tree, own_tree

V2_MOUNT = next(mount for mount in V2_MOUNTS if (mount / "cgroup.procs").exists())

THREADS = 5

IDLE_THREADS = f"""
import threading
for _ in range({THREADS - 1}):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class CommandLine:
    """The agent's command line with everything that it names given; ``tree`` is a cgroup of its own."""

    capsys: pytest.CaptureFixture[str]
    resctrl: Path
    place: Path
    tree: Tree

    @property
    def policy(self) -> Path:
        return self.place / "policy.yaml"

    def write(self, text: str) -> None:
        """The policy, in which ``@`` stands for the test's own cgroup."""
        self.policy.write_text(text.replace("@", self.tree.path))
        self.policy.chmod(0o644)

    def __call__(self, *arguments: object) -> Ran:
        places = {
            "--policy": self.policy,
            "--resctrl": self.resctrl,
            "--cgroup": self.tree.mount,
            "--state": self.place / "state",
        }
        self.capsys.readouterr()
        options = [str(part) for option in places.items() for part in option]
        status = main([*map(str, arguments), *options])
        captured = self.capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    def json(self, *arguments: object) -> Any:
        """What a command that succeeds shows as JSON."""
        ran = self(*arguments, "--output", "json")
        assert (ran.status, ran.err) == (0, "")
        return ran.json

    def idle(self, cgroup: str) -> int:
        """The pid of a process of THREADS threads in a cgroup below the test's own."""
        self.tree.make(cgroup)
        child = self.tree.start(IDLE_THREADS)
        self.tree.attach(cgroup, child.pid)
        return child.pid

    def tasks(self, group: str) -> set[int]:
        return {int(tid) for tid in (self.resctrl / group / "tasks").read_text().split()}

    def schemata(self, group: str) -> str:
        """As every kernel takes it, however this one pads it."""
        values = parse((self.resctrl / group / "schemata").read_text())
        return "".join(f"{format_line(resource, each)}\n" for resource, each in values.items())

    def groups(self) -> set[str]:
        known = {"info", "mon_data", "mon_groups"}
        return {entry.name for entry in self.resctrl.iterdir() if entry.is_dir()} - known


def threads(pid: int) -> set[int]:
    return {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}


def run_state(pid: int, *contended: dict[str, object]) -> RunState:
    """What an agent of that pid might say of itself."""
    return RunState(
        pid=pid,
        version="0.1.0",
        event_source="scan",
        started=0.0,
        policy="/p",
        policy_ok=True,
        refused=None,
        contended=contended,
        audit_s=0.1,
    )


@contextmanager
def command_line(capsys: pytest.CaptureFixture[str], resctrl: Path, place: Path) -> Iterator[CommandLine]:
    with own_tree(V2_MOUNT) as tree:
        yield CommandLine(capsys, resctrl, place, tree)
