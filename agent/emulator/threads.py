"""The machine's threads as the emulated kernel sees them: which exist, whose they are, what others call them."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_NS_GET_PARENT = 0xB702
"""ioctl of a namespace's descriptor: its parent's descriptor."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a system call."""

    uid: int
    gid: int
    tid: int
    """The calling thread; 0 when it cannot be seen from here."""


class Threads(Protocol):
    """Thread ids are global ones, except where a caller's own are spoken of."""

    def exists(self, tid: int) -> bool:
        """Whether there is such a thread; a zombie is one until it is reaped."""

    def owners(self, tid: int) -> frozenset[int]:
        """The uids that may move it, besides root: its real and its saved one. Empty when it is gone."""

    def every(self) -> Iterator[int]:
        """Every thread of the machine, kernel threads included."""

    def named_by(self, caller: Caller, number: int) -> int | None:
        """The thread that the caller's pid namespace calls ``number``, or None."""

    def names_for(self, caller: Caller, tids: list[int]) -> list[int]:
        """What the caller's pid namespace calls these threads; those it cannot see are left out."""


class ProcThreads:
    """Threads by procfs and the scheduler's system calls, from the initial pid namespace."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._namespace = str((proc / "self/ns/pid").readlink())

    def exists(self, tid: int) -> bool:
        """Asked of the scheduler, which looks a thread up as resctrl does and costs a tenth of a path."""
        try:
            os.sched_getscheduler(tid)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def owners(self, tid: int) -> frozenset[int]:
        """From the thread's ``status``: real, effective, saved and filesystem uid, of which two count."""
        uids = self._status(tid).get("Uid", "").split()
        return frozenset({int(uids[0]), int(uids[2])}) if uids else frozenset()

    def every(self) -> Iterator[int]:
        """By walking procfs; processes that end meanwhile are passed over."""
        for entry in os.listdir(self._proc):  # noqa: PTH208 - pathlib takes twice as long
            if entry.isdecimal():
                with suppress(FileNotFoundError, ProcessLookupError):
                    yield from map(int, os.listdir(f"{self._proc}/{entry}/task"))  # noqa: PTH208 - likewise

    def named_by(self, caller: Caller, number: int) -> int | None:
        """The same number, unless the caller lives in a pid namespace of its own."""
        if self._shares_namespace(caller):
            return number if self.exists(number) else None
        return next((tid for tid in self.every() if self._names_for(caller, [tid]) == [number]), None)

    def names_for(self, caller: Caller, tids: list[int]) -> list[int]:
        """The same numbers, unless the caller lives in a pid namespace of its own."""
        return tids if self._shares_namespace(caller) else self._names_for(caller, tids)

    def _shares_namespace(self, caller: Caller) -> bool:
        try:
            # On the path of every write: pathlib takes twice as long.
            return os.readlink(f"{self._proc}/{caller.tid}/ns/pid") == self._namespace  # noqa: PTH115 - the text of a link that leads nowhere
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # A caller that cannot be seen, or has ended since, cannot be told from one of ours.
            return True

    def _names_for(self, caller: Caller, tids: list[int]) -> list[int]:
        depth = len(self._numbers(caller.tid)) - 1
        namespace = Path(f"{self._proc}/{caller.tid}/ns/pid").stat().st_ino
        numbers = ((tid, self._numbers(tid)) for tid in tids)
        return [
            names[depth]
            for tid, names in numbers
            if len(names) > depth and self._lives_in(tid, namespace, len(names) - 1 - depth)
        ]

    def _numbers(self, tid: int) -> list[int]:
        """What each pid namespace calls it, from ours inwards."""
        return [int(number) for number in self._status(tid).get("NSpid", "").split()]

    def _lives_in(self, tid: int, namespace: int, levels: int) -> bool:
        """Whether the pid namespace ``levels`` above the thread's own is that of this inode number."""
        try:
            descriptor = os.open(f"{self._proc}/{tid}/ns/pid", os.O_RDONLY)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False
        for _ in range(levels):
            parent = fcntl.ioctl(descriptor, _NS_GET_PARENT)
            os.close(descriptor)
            descriptor = parent
        found = os.fstat(descriptor).st_ino
        os.close(descriptor)
        return found == namespace

    def _status(self, tid: int) -> dict[str, str]:
        try:
            lines = Path(f"{self._proc}/{tid}/status").read_text(errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return {}
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)
