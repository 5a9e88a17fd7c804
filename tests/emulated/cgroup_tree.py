"""A cgroup of a test's own, with everything below it removed at the end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.emulated.running_agent import until

V2_MOUNTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
V1_MOUNT = Path("/sys/fs/cgroup/systemd")


@dataclass
class Tree:
    """Names are relative to ``path``, a cgroup of this test's own below ``mount``."""

    mount: Path
    path: str
    threads_file: str
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def directory(self, name: str = "") -> Path:
        return self.mount / self.path[1:] / name

    def cgroup(self, name: str) -> str:
        """The path as rules and the agent write it."""
        return f"{self.path}/{name}"

    def make(self, name: str) -> Path:
        made = self.directory(name)
        made.mkdir(parents=True, exist_ok=True)
        return made

    def attach(self, name: str, pid: int) -> None:
        (self.directory(name) / "cgroup.procs").write_text(str(pid))

    def attach_thread(self, name: str, tid: int) -> None:
        (self.directory(name) / self.threads_file).write_text(str(tid))

    def leave(self, pid: int) -> None:
        """To the hierarchy's root, which no rule of a test matches."""
        (self.mount / "cgroup.procs").write_text(str(pid))

    def threads(self, name: str) -> set[int]:
        return {int(tid) for tid in (self.directory(name) / self.threads_file).read_text().split()}

    def start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A Python program that says a line on stdout when it is ready, in the test's own cgroup."""
        child = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, start_new_session=True
        )
        self.children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline(), f"the program ended with {child.wait()}"
        return child


@contextmanager
def own_tree(mount: Path) -> Iterator[Tree]:
    version = 1 if mount == V1_MOUNT else 2
    tree = Tree(mount, f"/agent-test-{os.getpid()}", "tasks" if version == 1 else "cgroup.threads")
    tree.directory().mkdir()
    try:
        yield tree
    finally:
        for child in tree.children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # its own children may be in any cgroup
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
        _remove(tree.directory())


def _remove(top: Path) -> None:
    for directory in [Path(name) for name, _, _ in os.walk(top, topdown=False)]:
        until(lambda directory=directory: _emptied(directory), f"{directory} is removed")


def _emptied(directory: Path) -> bool:
    """Kills what is in the cgroup; whether it could be removed. What was killed takes a moment to leave."""
    with suppress(OSError):
        for pid in (directory / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
