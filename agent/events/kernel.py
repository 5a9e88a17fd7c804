"""Cgroup and task events as the kernel tells them, through bpf/tasks.bpf.c."""

import mmap
import struct
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

from agent.events.btf import KernelTypes
from agent.events.event import Event, EventKind
from agent.events.loader import LoadedProgram, load
from agent.events.ringbuffer import RingBuffer
from agent.events.unavailable import BpfUnavailableError, Cause
from agent.resources import resource

__all__ = ["Event", "EventKind", "KernelEvents"]

_RING_PAGES = 256
"""1 MiB: some 8000 events with paths of a hundred bytes, more than a burst of container starts makes."""


class KernelEvents:
    """The events of one cgroup hierarchy, from now on. Needs no capability once it is open."""

    def __init__(self, program: LoadedProgram) -> None:
        """Takes ``program`` over. Raises BpfUnavailableError."""
        self._program = program
        self._records: list[bytes] = []
        self._cut_short = 0
        with ExitStack() as undo:
            undo.callback(program.close)
            self._ring = _ring(program, self._records)
            undo.callback(self._ring.close)
            self._map = _map_words(program)
            self._words = memoryview(self._map).cast("Q")
            undo.pop_all()

    @classmethod
    def open(cls, hierarchy_id: int, *, ring_pages: int = _RING_PAGES) -> Self:
        """Load and attach. ``hierarchy_id`` is the first field of /proc/PID/cgroup; 0 is cgroup v2.

        Raises BpfUnavailableError, which says why and what to do. ``ring_pages`` is a power of two.
        """
        offsets = _offsets()
        if offsets is None:
            return cls.open_without_btf(hierarchy_id, ring_pages=ring_pages)
        return cls(_load("bpf/tasks.bpf.c", hierarchy_id, ring_pages, offsets))

    @classmethod
    def open_without_btf(cls, hierarchy_id: int, *, ring_pages: int = _RING_PAGES) -> Self:
        """The same with what tracefs, which must be mounted, says of the kernel's tracepoints."""
        return cls(_load("bpf/tasks_tracepoints.bpf.c", hierarchy_id, ring_pages, {}))

    def fileno(self) -> int:
        """Readable while events wait."""
        return self._ring.fileno()

    def read(self) -> list[Event]:
        """All events that wait, in the order in which they happened."""
        self._ring.consume()
        events = [event for record in self._records if (event := _event(record))]
        self._cut_short += len(self._records) - len(events)
        self._records.clear()
        return events

    def lost(self) -> int:
        """Events that found the ring full, and those whose path the kernel cut short."""
        return self._words[_LOST] + self._cut_short

    def watch_execs(self, wanted: bool) -> None:  # noqa: FBT001 - a switch is what it is
        """Whether EXECED is told; at first it is not."""
        self._words[_WATCH_EXECS] = int(wanted)

    def close(self) -> None:
        """Detach. Take ``fileno()`` out of the event loop first."""
        self._program.close()
        self._ring.close()
        self._words.release()
        self._map.close()


_HEADER = struct.Struct("=QQII")
_LOST = 0
_WATCH_EXECS = 1
_KINDS = {kind.value: kind for kind in EventKind}

_PATHS = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
"""What os.fsdecode looks up each time."""

_CUT_LENGTH = 1023
"""Bytes of a path that fills the buffer which the kernel has for it (TRACE_CGROUP_PATH_LEN)."""

_WITH_PATH = {EventKind.CGROUP_MADE, EventKind.CGROUP_REMOVED, EventKind.CGROUP_RENAMED, EventKind.ATTACHED}


def _event(record: bytes) -> Event | None:
    """None for a path that may be cut short: it would name another cgroup. A task that moved can be asked itself."""
    time_ns, cgroup_id, tid, number = _HEADER.unpack_from(record)
    kind = _KINDS[number]
    path = record[_HEADER.size : -1]
    if kind in _WITH_PATH and len(path) in {0, _CUT_LENGTH}:
        return Event(kind, time_ns, 0, tid) if kind is EventKind.ATTACHED else None
    return Event(kind, time_ns, cgroup_id, tid, path.decode(*_PATHS))


def _ring(program: LoadedProgram, records: list[bytes]) -> RingBuffer:
    try:
        return RingBuffer(program.maps["events"], records.append)
    except OSError as error:
        raise BpfUnavailableError(Cause.KERNEL, f"the eBPF program is loaded but cannot be read: {error}") from error


def _map_words(program: LoadedProgram) -> mmap.mmap:
    try:
        return mmap.mmap(program.maps["words"], mmap.PAGESIZE)
    except OSError as error:
        raise BpfUnavailableError(Cause.KERNEL, f"the eBPF program's array cannot be mapped: {error}") from error


def _load(source: str, hierarchy_id: int, ring_pages: int, offsets: Mapping[str, int]) -> LoadedProgram:
    values = {"HIERARCHY_ID": hierarchy_id, "RING_PAGES": ring_pages, **offsets}
    cflags = [f"-D{name}={value}" for name, value in values.items()]
    return load(resource(source), cflags=cflags, maps=("events", "words"))


def _offsets() -> dict[str, int] | None:
    """Where this kernel keeps what the program reads, by the program's name for it. None if it does not say."""
    try:
        with KernelTypes() as types:
            wanted = _FIELDS | (_RESCTRL_FIELDS if types.has("task_struct", "closid") else {})
            return {name: types.offset(*field) for name, field in wanted.items()}
    except KeyError:
        return None
    except BpfUnavailableError as error:
        if error.cause is not Cause.TRACEPOINTS:
            raise
        return None


_FIELDS = {
    "TASK_PID": ("task_struct", "pid"),
    "TASK_CGROUPS": ("task_struct", "cgroups"),
    "CSS_SET_DFL_CGRP": ("css_set", "dfl_cgrp"),
    "CGROUP_KN": ("cgroup", "kn"),
    "CGROUP_ROOT": ("cgroup", "root"),
    "KERNFS_ID": ("kernfs_node", "id"),
    "ROOT_HIERARCHY_ID": ("cgroup_root", "hierarchy_id"),
}

_RESCTRL_FIELDS = {
    "TASK_CLOSID": ("task_struct", "closid"),
    "TASK_RMID": ("task_struct", "rmid"),
}
"""Absent from kernels without resctrl."""
