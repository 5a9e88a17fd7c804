"""A group's ``tasks`` file, held open: moving threads with as few system calls as the kernel allows."""

import errno
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.resctrl.errors import GroupGoneError, gone
from agent.resctrl.status import LastCommandStatus

TIDS_PER_WRITE = 4096 // len("4194304,")
"""A write of more than 4096 bytes is E2BIG, and no thread id is above 2²² (PID_MAX_LIMIT)."""

NO_SUCH_THREADS = b"2147483647,2147483647"

_FAILED_AT = re.compile(r"Error while processing task (\d+)")


@dataclass(frozen=True, slots=True)
class MoveResult:
    """What became of each thread."""

    moved: tuple[int, ...]
    """In the group now, those that were there before included."""
    dead: tuple[int, ...]
    """Gone before they could be moved (ESRCH), which is normal."""
    failed: Mapping[int, str]
    """Thread id → why the kernel refused."""


class Tasks:
    """Moves threads into one group for as long as it exists."""

    __slots__ = ("_file", "_status", "_takes_lists", "group")

    def __init__(self, group: str, file: int, status: LastCommandStatus, takes_lists: Callable[[], bool]) -> None:
        """``file`` is the group's ``tasks``, open for writing; it belongs to this object from now on."""
        self.group = group
        self._file = file
        self._status = status
        self._takes_lists = takes_lists

    def close(self) -> None:
        """Close the file. What was moved stays."""
        os.close(self._file)

    def move(self, tids: Sequence[int]) -> MoveResult:
        """Put each thread (> 0: the kernel takes 0 for ourselves) into the group.

        One thread's failure does not keep the others from moving. Raises GroupGoneError once the group is removed.
        """
        if len(tids) == 1:
            try:
                os.write(self._file, b"%d" % tids[0])
            except OSError as error:
                return self._sorted(tids, {tids[0]: self._refusal(error)})
            return MoveResult((tids[0],), (), {})
        return self._sorted(tids, self._move_lists(tids) if self._takes_lists() else self._move_each(tids))

    def _move_lists(self, tids: Sequence[int]) -> dict[int, OSError]:
        """Comma lists. The kernel stops at the first thread it cannot move: go on after that one."""
        refused: dict[int, OSError] = {}
        start = 0
        while start < len(tids):
            batch = tids[start : start + TIDS_PER_WRITE]
            try:
                os.write(self._file, ",".join(map(str, batch)).encode())
                start += len(batch)
            except OSError as error:
                refusal = self._refusal(error)
                stop = _failed_at(batch, str(refusal.strerror))
                if stop is None:
                    refused |= self._move_each(batch)
                    start += len(batch)
                else:
                    refused[batch[stop]] = refusal
                    start += stop + 1
        return refused

    def _move_each(self, tids: Sequence[int]) -> dict[int, OSError]:
        refused: dict[int, OSError] = {}
        for tid in tids:
            try:
                os.write(self._file, b"%d" % tid)
            except OSError as error:
                refused[tid] = self._refusal(error)
        return refused

    def _refusal(self, error: OSError) -> OSError:
        """The error with the kernel's reason as its text. Raises GroupGoneError if there is no group any more."""
        if gone(error):
            raise GroupGoneError(self.group, "moving threads", error.errno or errno.ENODEV) from error
        text = self._status.text()
        return OSError(error.errno, f"{error.strerror}: {text}" if text else error.strerror)

    def _sorted(self, tids: Sequence[int], refused: Mapping[int, OSError]) -> MoveResult:
        dead = tuple(tid for tid, error in refused.items() if error.errno == errno.ESRCH)
        failed = {tid: str(error.strerror) for tid, error in refused.items() if error.errno != errno.ESRCH}
        return MoveResult(tuple(tid for tid in tids if tid not in refused), dead, failed)


def takes_lists(tasks: int) -> bool:
    """Whether this kernel moves several threads in one write to ``tasks`` (6.7 and later).

    Asks with a list of two threads that cannot exist: where lists are understood the first is not found (ESRCH),
    elsewhere the text is no number (EINVAL). Nothing can be moved by it on any kernel.
    """
    try:
        os.write(tasks, NO_SUCH_THREADS)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL):
            return error.errno == errno.ESRCH
        raise
    return True


def _failed_at(batch: Sequence[int], status: str) -> int | None:
    """Where in the batch the kernel stopped. None where the text is not about it: the status is anybody's."""
    named = _FAILED_AT.search(status)
    return batch.index(int(named[1])) if named and int(named[1]) in batch else None
