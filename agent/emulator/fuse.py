"""The kernel's FUSE protocol: mounting, taking requests, replying.

Spoken directly, not through libfuse, which answers ESTALE for what was below a removed directory before it asks
anybody; kernfs says ENOENT. The protocol is a stable interface of the kernel (linux/fuse.h), and its version 7.31,
which every kernel since 5.4 speaks, is all that is needed.
"""

import ctypes
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

DEVICE = Path("/dev/fuse")

_MOUNT_FLAGS = 2 | 4 | 8
"""MS_NOSUID, MS_NODEV, MS_NOEXEC."""
_DETACH = 2
"""MNT_DETACH: also while somebody has a file open."""

_MAJOR, _MINOR = 7, 31
_ATOMIC_O_TRUNC, _MAX_PAGES = 1 << 3, 1 << 22
_MOST_PAGES = 256
_LARGEST_WRITE = 8192
"""More than any write that is taken, so that one that is too long arrives as such."""

_IN_HEADER = struct.Struct("=IIQQIIIHH")
_OUT_HEADER = struct.Struct("=IiQ")
_INIT_REPLY = struct.Struct("=IIIIHHIIHHI28x")

ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
"""struct fuse_attr: inode, size, blocks, three times, their nanoseconds, mode, links, uid, gid, device, block size."""
_ENTRY = struct.Struct("=QQQQII")
_GETATTR_REPLY = struct.Struct("=QII")
_OPEN_REPLY = struct.Struct("=QIi")
_WRITE_REPLY = struct.Struct("=II")
_STATFS_REPLY = struct.Struct("=QQQQQIIII24x")
_DIRECTORY_ENTRY = struct.Struct("=QQII")

_DIRECT_IO = 1
"""FOPEN_DIRECT_IO: reads and writes come as they are made, past the page cache."""

ROOT_ID = 1
"""The node id of the mount's root directory."""


class Operation(IntEnum):
    """The requests that matter here. All others are answered with ENOSYS."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    RENAME2 = 45


UNANSWERED = frozenset({Operation.FORGET, Operation.BATCH_FORGET, Operation.INTERRUPT})
"""The kernel expects no reply to these."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and who made it: fsuid, fsgid and thread id (0 where it cannot be seen from here)."""

    operation: int
    unique: int
    node: int
    uid: int
    gid: int
    tid: int
    body: bytes

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        """The body's fixed part."""
        return layout.unpack_from(self.body)

    def names(self, layout: struct.Struct) -> list[str]:
        """The NUL-terminated names after the fixed part."""
        return [os.fsdecode(name) for name in self.body[layout.size :].split(b"\0")[:-1]]


class Connection:
    """A mounted filesystem's end of /dev/fuse."""

    def __init__(self, source: str, subtype: str, mountpoint: Path) -> None:
        """Mount. Raises OSError."""
        self._mountpoint = mountpoint
        self.descriptor = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        self._buffer = bytearray(_IN_HEADER.size + _LARGEST_WRITE + 4096)
        self._view = memoryview(self._buffer)
        options = (
            f"fd={self.descriptor},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},"
            # The kernel's own checks of permissions, capabilities included, as on kernfs.
            "allow_other,default_permissions"
        )
        try:
            _check(
                _libc.mount(
                    source.encode(),
                    os.fsencode(mountpoint),
                    f"fuse.{subtype}".encode(),
                    ctypes.c_ulong(_MOUNT_FLAGS),
                    options.encode(),
                ),
                mountpoint,
            )
        except OSError:
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        """Unmount, if nobody has yet."""
        unmount(self._mountpoint)
        os.close(self.descriptor)

    def receive(self) -> Request:
        """The next request. Raises OSError: ENODEV once it is unmounted, ENOENT for a request taken back."""
        length = os.readv(self.descriptor, [self._buffer])
        _, operation, unique, node, uid, gid, tid, _, _ = _IN_HEADER.unpack_from(self._buffer)
        return Request(operation, unique, node, uid, gid, tid, bytes(self._view[_IN_HEADER.size : length]))

    def reply(self, request: Request, answer: bytes = b"") -> None:
        """Success, with what the request asked for."""
        self._send(_OUT_HEADER.pack(_OUT_HEADER.size + len(answer), 0, request.unique) + answer)

    def refuse(self, request: Request, code: int) -> None:
        """Failure, with an errno."""
        self._send(_OUT_HEADER.pack(_OUT_HEADER.size, -code, request.unique))

    def _send(self, message: bytes) -> None:
        # A caller that was killed meanwhile wants no answer any more: ENOENT.
        with suppress(FileNotFoundError):
            os.write(self.descriptor, message)


def unmount(mountpoint: Path) -> None:
    """Unmount what is mounted at a place. Fine where nothing is."""
    _libc.umount2(os.fsencode(mountpoint), _DETACH)


def init_reply() -> bytes:
    """What this side of the protocol can do."""
    flags = _ATOMIC_O_TRUNC | _MAX_PAGES
    return _INIT_REPLY.pack(_MAJOR, _MINOR, 0, flags, 0, 0, _LARGEST_WRITE, 1, _MOST_PAGES, 0, 0)


def entry_reply(node: int, attributes: bytes) -> bytes:
    """A name's node, to be asked for again at the next look."""
    return _ENTRY.pack(node, 0, 0, 0, 0, 0) + attributes


def attributes_reply(attributes: bytes) -> bytes:
    """A node's attributes, likewise."""
    return _GETATTR_REPLY.pack(0, 0, 0) + attributes


def open_reply(handle: int) -> bytes:
    """An open file or directory."""
    return _OPEN_REPLY.pack(handle, _DIRECT_IO, 0)


def write_reply(length: int) -> bytes:
    """How much was written."""
    return _WRITE_REPLY.pack(length, 0)


def statfs_reply() -> bytes:
    """A filesystem without space, in blocks of 4096 bytes and with names of at most 255."""
    return _STATFS_REPLY.pack(0, 0, 0, 0, 0, 4096, 255, 4096, 0)


def directory_reply(entries: Sequence[tuple[int, int, str]], offset: int, size: int) -> bytes:
    """The entries (inode, mode, name) from number ``offset`` on, as many as go into ``size`` bytes."""
    reply = b""
    for position, (inode, mode, name) in enumerate(entries[offset:], start=offset + 1):
        encoded = os.fsencode(name)
        entry = _DIRECTORY_ENTRY.pack(inode, position, len(encoded), mode >> 12) + encoded
        entry += b"\0" * (-len(entry) % 8)
        if len(reply) + len(entry) > size:
            break
        reply += entry
    return reply


_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, path: Path) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))
