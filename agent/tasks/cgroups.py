"""Cgroup directories and the threads in them, as cgroupfs shows them.

Cgroups come and go while they are read. A cgroup that is gone is absent from a walk and None elsewhere, never
an exception. Paths are written as in /proc/PID/cgroup, from the hierarchy's root: ``/``, ``/system.slice/x.service``;
they may be longer than the kernel takes in one call, since whoever owns a subtree may nest it as deep as they like.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_READ_SIZE = 1 << 16
"""Bytes asked for at once; the kernel gives about a page of a list at a time."""

_PIECE = 3999
"""Bytes of a path opened at once where it is too long as a whole: below PATH_MAX, which is 4096 with the NUL."""

_GONE = frozenset({errno.ENOENT, errno.ENODEV})
"""ENODEV: removed between being looked up and being opened, or after."""


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
    descriptor = _open(mount, f"{path}/{threads_file}", os.O_RDONLY)
    if descriptor is None:
        return None
    try:
        text = os.read(descriptor, _READ_SIZE)
        while more := os.read(descriptor, _READ_SIZE):
            text += more
        return [int(line) for line in text.split()]
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    finally:
        os.close(descriptor)


def cgroup_id(mount: Path, path: str) -> int | None:
    """The id that tracepoints give for this cgroup; None when it is gone."""
    descriptor = _open(mount, path, os.O_PATH)
    if descriptor is None:
        return None
    try:
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _open_cgroup(mount: Path, path: str) -> tuple[int, list[str]] | None:
    """Id and children's names of one and the same directory, even if another takes its path meanwhile."""
    descriptor = _open(mount, path, os.O_RDONLY | os.O_DIRECTORY)
    if descriptor is None:
        return None
    try:
        return os.fstat(descriptor).st_ino, _children(descriptor)
    finally:
        os.close(descriptor)


def _children(descriptor: int) -> list[str]:
    try:
        with os.scandir(descriptor) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        if error.errno in _GONE:
            return []
        raise


def _open(mount: Path, path: str, flags: int) -> int | None:
    """A descriptor for what is at the path, however long that is; None when it is gone."""
    try:
        return os.open(f"{mount}{path}", flags | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _GONE:
            return None
        if error.errno != errno.ENAMETOOLONG:
            raise
    return _open_piecewise(mount, path, flags)


def _open_piecewise(mount: Path, path: str, flags: int) -> int | None:
    *above, last = _pieces(path)
    directory = os.open(mount, os.O_PATH | os.O_DIRECTORY)
    try:
        for piece in above:
            below = os.open(piece, os.O_PATH | os.O_DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = below
        return os.open(last, flags | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        if error.errno in _GONE or error.errno == errno.ENAMETOOLONG:  # no name in cgroupfs is too long by itself
            return None
        raise
    finally:
        os.close(directory)


def _pieces(path: str) -> list[bytes]:
    """The path below the mount in relative paths, each as long as one call may be given."""
    pieces = [b"."]
    for name in os.fsencode(path).split(b"/"):
        if len(pieces[-1]) + 1 + len(name) > _PIECE:
            pieces.append(name)
        else:
            pieces[-1] += b"/" + name
    return pieces
