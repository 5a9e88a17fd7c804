"""Cgroup directories and the threads in them, as cgroupfs shows them.

Cgroups come and go while they are read. A cgroup that is gone is absent from a walk and None elsewhere, never
an exception. Paths are written as in /proc/PID/cgroup, from the hierarchy's root: ``/``, ``/system.slice/x.service``.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_READ_SIZE = 1 << 16
"""Bytes asked for at once; the kernel gives about a page of a list at a time."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A cgroup at the moment it was seen."""

    path: str
    id: int
    """The directory's inode, which is the cgroup id in tracepoints; never given twice since boot."""


def walk(mount: Path, path: str = "/") -> Iterator[Cgroup]:
    """The cgroup ``path`` and all below it, each before those below it, in no other order.

    A cgroup made or removed during the walk may or may not be among them.
    """
    pending = [path]
    while pending:
        current = pending.pop()
        found = _open_cgroup(mount, current)
        if found is None:
            continue
        cgroup_id, children = found
        yield Cgroup(current, cgroup_id)
        prefix = current.rstrip("/")
        pending.extend(f"{prefix}/{name}" for name in children)


def read_threads(mount: Path, path: str, threads_file: str) -> list[int] | None:
    """The ids of the threads that are in the cgroup itself, not below it; in no order. None: the cgroup is gone.

    ``threads_file`` is the hierarchy's. Threads that have begun to exit are not listed. In a threaded subtree each
    cgroup lists its own threads, so those of one process may be in several.
    """
    try:
        descriptor = os.open(f"{mount}{path}/{threads_file}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        text = os.read(descriptor, _READ_SIZE)
        while more := os.read(descriptor, _READ_SIZE):
            text += more
        return [int(line) for line in text.split()]
    except OSError as error:
        if error.errno == errno.ENODEV:  # removed after it was opened
            return None
        raise
    finally:
        os.close(descriptor)


def cgroup_id(mount: Path, path: str) -> int | None:
    """The id that tracepoints give for this cgroup; None when it is gone."""
    try:
        return Path(f"{mount}{path}").stat().st_ino
    except FileNotFoundError:
        return None


def _open_cgroup(mount: Path, path: str) -> tuple[int, list[str]] | None:
    """Id and children's names of one and the same directory, even if another takes its path meanwhile."""
    try:
        descriptor = os.open(f"{mount}{path}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.fstat(descriptor).st_ino, _children(descriptor)
    finally:
        os.close(descriptor)


def _children(descriptor: int) -> list[str]:
    try:
        with os.scandir(descriptor) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:  # removed after it was opened
        return []
