"""The processes that a program of operations moves about, each with a role by which transcripts name it.

They are forked, not started, since starting an interpreter is slow in the lab. Each obeys commands that come by a pipe.
"""

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

KTHREADD = 2

_PR_SET_PDEATHSIG = 1


class Obedient:
    """A forked process that does what it is told until it is told to end."""

    def __init__(self, become: Callable[[], None] = lambda: None) -> None:
        command, self._commands = os.pipe()
        self._answers, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._commands)
                os.close(self._answers)
                become()
                os.write(answer, b"0\n")
                _obey(command, answer)
            finally:
                os._exit(0)
        os.close(command)
        os.close(answer)
        self._answer()

    def ask(self, command: bytes) -> int:
        """The number that the command comes to."""
        os.write(self._commands, command)
        return self._answer()

    def end(self) -> None:
        """Kill and reap it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._commands)
        os.close(self._answers)

    def _answer(self) -> int:
        text = b""
        while not text.endswith(b"\n"):
            piece = os.read(self._answers, 1)
            if not piece:
                raise ChildProcessError(f"process {self.pid} ended unasked")
            text += piece
        return int(text)


class Processes:
    """Who plays which role. ``tids`` has those that exist, and ``gone``, which does not."""

    def __init__(self) -> None:
        self._obedient = {
            "a": Obedient(),
            "b": Obedient(),
            "other": Obedient(lambda: _become(1000, 1000)),
            "saved": Obedient(lambda: _become(1001, 1002)),
            "parent of zombie": Obedient(),
            "threads": Obedient(),
            "forker": Obedient(),
        }
        self.tids = {role: process.pid for role, process in self._obedient.items()}
        del self.tids["parent of zombie"]
        self.tids["zombie"] = self._obedient["parent of zombie"].ask(b"z")
        self.tids["threads.1"] = self._obedient["threads"].ask(b"t")
        self.tids["threads.2"] = self._obedient["threads"].ask(b"t")
        self.tids["gone"] = _unused()
        self.tids["self"] = os.getpid()
        self.tids["kthreadd"] = KTHREADD
        self._children: dict[str, str] = {}
        self._zombie = True

    def fork(self, parent: str, child: str) -> None:
        """A process that its parent forks, if that has not ended."""
        self.tids[child] = self._asked(parent, b"f")
        if parent in self._obedient:
            self._children[child] = parent

    def start_thread(self, parent: str, child: str) -> None:
        """A thread of its parent's, if that has not ended."""
        self.tids[child] = self._asked(parent, b"t")

    def end(self, role: str) -> None:
        """Reap the zombie, kill and reap a process. Its id is remembered, and nobody has it any more."""
        if role == "zombie":
            if self._zombie:
                self._obedient["parent of zombie"].ask(b"r")
            self._zombie = False
        elif role in self._children:
            parent = self._obedient[self._children.pop(role)]
            os.kill(self.tids[role], signal.SIGKILL)
            parent.ask(b"r")
        elif role in self._obedient:
            for child in [child for child, parent in self._children.items() if parent == role]:
                self.end(child)
            self._obedient.pop(role).end()

    def end_all(self) -> None:
        """Also those that their parents left behind."""
        for role in [*self._children, *self._obedient]:
            self.end(role)

    def known(self) -> dict[int, str]:
        """Roles by the ids of threads."""
        return {tid: role for role, tid in reversed(self.tids.items())}

    def _asked(self, parent: str, command: bytes) -> int:
        return self._obedient[parent].ask(command) if parent in self._obedient else self.tids["gone"]


def _become(real: int, saved: int) -> None:
    os.setgroups([])
    os.setresgid(real, real, saved)
    os.setresuid(real, real, saved)


def _obey(commands: int, answers: int) -> None:
    while command := os.read(commands, 1):
        number = {b"f": _fork, b"z": _zombie, b"t": _thread, b"r": _reap}[command]()
        os.write(answers, b"%d\n" % number)


def _fork() -> int:
    child = os.fork()
    if child == 0:
        # Its parent holds no pipe of its: it ends when it is killed, at the latest with its parent.
        _end_with_parent()
        while True:
            signal.pause()
    return child


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _zombie() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    return child


def _thread() -> int:
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    while thread.native_id is None:
        pass
    return thread.native_id


def _reap() -> int:
    return os.wait()[0]


def _unused() -> int:
    highest = int(Path("/proc/sys/kernel/pid_max").read_text()) - 1
    return next(pid for pid in range(highest, 1, -1) if not Path(f"/proc/{pid}").exists())
