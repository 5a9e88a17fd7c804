"""What a source of events tells, and what every source can do."""

from enum import IntEnum
from typing import NamedTuple, Protocol


class EventKind(IntEnum):
    """What happened. The numbers are those of bpf/include/agent/record.h."""

    CGROUP_MADE = 1
    CGROUP_REMOVED = 2
    CGROUP_RENAMED = 3
    """cgroup v1 only; ``path`` is the new one."""
    ATTACHED = 4
    """Somebody moved a task; ``path`` and ``cgroup_id`` are where to. It is also said where nothing moved."""
    CLONED_INTO = 5
    """A task was born in a cgroup that is not its creator's (CLONE_INTO_CGROUP). It has its creator's resctrl group."""
    FORK_RACED = 6
    """A task was born with another resctrl group than its creator has by now: the creator was moved meanwhile."""
    EXECED = 7


class Event(NamedTuple):
    """One event: which cgroup or task to look at. A tuple, since thousands may come at once."""

    kind: EventKind
    time_ns: int
    """CLOCK_MONOTONIC, of the kernel where the event comes from it."""
    cgroup_id: int = 0
    """The inode of the cgroup's directory. 0: not known, look at /proc/TID/cgroup."""
    tid: int = 0
    """The thread, by its id in the initial pid namespace; the process where that moved as a whole. 0: of no task."""
    path: str = ""
    """Of the cgroup, from the hierarchy's root, beginning with "/". Empty for events that only know the task."""


class EventSource(Protocol):
    """Where events come from: the kernel (``kernel.py``) or, where that cannot be, inotify (``scan.py``)."""

    def fileno(self) -> int:
        """Readable while events wait."""

    def read(self) -> list[Event]:
        """All events that wait, in the order in which they happened."""

    def lost(self) -> int:
        """How many events were lost so far. When it has moved, only looking at everything helps."""

    def watch_execs(self, wanted: bool) -> None:  # noqa: FBT001 - a switch is what it is
        """Whether EXECED is told; at first it is not."""

    def close(self) -> None:
        """Stop. Take ``fileno()`` out of the event loop first."""
