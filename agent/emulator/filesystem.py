"""The emulated kernel as a FUSE filesystem: each request of the kernel's, and what it does.

One request after the other on purpose: the kernel has one mutex around all of resctrl. The kernel caches nothing of it.
"""

import errno
import os
import stat
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from agent.emulator import fuse
from agent.emulator.errors import RefusedError
from agent.emulator.fuse import Operation, Request
from agent.emulator.kernel import Kernel
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory, File

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH

_NO_FIELDS = struct.Struct("=")
_FORGET = struct.Struct("=Q")
_BATCH_FORGET = struct.Struct("=II")
_FORGET_ONE = struct.Struct("=QQ")
_SETATTR = struct.Struct("=IIQQQQQQIIIIIIII")
_MKNOD = struct.Struct("=IIII")
_MKDIR = struct.Struct("=II")
_RENAME = struct.Struct("=Q")
_OPEN = struct.Struct("=II")
_READ = struct.Struct("=QQIIQII")
_WRITE = struct.Struct("=QQIIQII")
_RELEASE = struct.Struct("=Q")

_SET_MODE, _SET_UID, _SET_GID, _SET_ATIME, _SET_MTIME = 1 << 0, 1 << 1, 1 << 2, 1 << 4, 1 << 5
_SET_ATIME_NOW, _SET_MTIME_NOW = 1 << 7, 1 << 8
"""FATTR_MODE and so on: which fields of a SETATTR count."""

_NANOSECONDS = 10**9


@dataclass(slots=True)
class _Known:
    """A node that the kernel knows, and how many names of it the kernel has yet to forget."""

    node: File | Directory
    lookups: int = 0


@dataclass(slots=True)
class _Open:
    """An open file or directory. A read from the start takes a new snapshot, the reads that follow on serve it."""

    node: File | Directory
    snapshot: bytes = b""
    served: int = -1


class Filesystem:
    """Answers the kernel's requests from the emulated kernel's tree."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._known: dict[int, _Known] = {fuse.ROOT_ID: _Known(kernel.root)}
        self._handles = count(1)
        self._open: dict[int, _Open] = {}
        self._answers: Mapping[int, Callable[[Request], bytes]] = {
            Operation.INIT: lambda _: fuse.init_reply(),
            Operation.LOOKUP: self._lookup,
            Operation.FORGET: self._forget,
            Operation.BATCH_FORGET: self._forget_several,
            Operation.GETATTR: self._get_attributes,
            Operation.SETATTR: self._set_attributes,
            Operation.OPEN: self._open_file,
            Operation.READ: self._read,
            Operation.WRITE: self._write,
            Operation.RELEASE: self._release,
            Operation.OPENDIR: lambda request: self._opened(self._node(request)),
            Operation.READDIR: self._read_directory,
            Operation.RELEASEDIR: self._release,
            Operation.MKDIR: self._make_directory,
            Operation.RMDIR: self._remove_directory,
            Operation.RENAME: self._rename,
            # Only for flags, of which kernfs takes none.
            Operation.RENAME2: lambda _: _refused(errno.EINVAL),
            Operation.STATFS: lambda _: fuse.statfs_reply(),
            Operation.INTERRUPT: lambda _: b"",
            Operation.DESTROY: lambda _: b"",
            Operation.CREATE: lambda _: _refused(errno.EACCES),
            Operation.MKNOD: _make_node,
            Operation.UNLINK: lambda _: _refused(errno.EPERM),
            Operation.SYMLINK: lambda _: _refused(errno.EPERM),
            Operation.LINK: lambda _: _refused(errno.EPERM),
        }

    def answer(self, request: Request) -> bytes:
        """The reply's content. Raises RefusedError."""
        answer = self._answers.get(request.operation)
        if answer is None:
            raise RefusedError(errno.ENOSYS)
        return answer(request)

    # Nodes

    def _lookup(self, request: Request) -> bytes:
        (name,) = request.names(_NO_FIELDS)
        return self._entry(self._entry_of(request.node, name))

    def _forget(self, request: Request) -> bytes:
        self._forget_one(request.node, *request.fields(_FORGET))
        return b""

    def _forget_several(self, request: Request) -> bytes:
        for node, lookups in _FORGET_ONE.iter_unpack(request.body[_BATCH_FORGET.size :]):
            self._forget_one(node, lookups)
        return b""

    def _get_attributes(self, request: Request) -> bytes:
        return fuse.attributes_reply(self._attributes(self._node(request)))

    def _set_attributes(self, request: Request) -> bytes:
        """Everything but a length, which files do not have: truncating one is fine and changes nothing."""
        node = self._node(request)
        valid, _, _, _, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _ = request.fields(_SETATTR)
        node.changed_ns = time.time_ns()
        if valid & _SET_MODE:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        if valid & _SET_UID:
            node.uid = uid
        if valid & _SET_GID:
            node.gid = gid
        if valid & _SET_ATIME:
            node.accessed_ns = node.changed_ns if valid & _SET_ATIME_NOW else atime * _NANOSECONDS + atime_ns
        if valid & _SET_MTIME:
            node.modified_ns = node.changed_ns if valid & _SET_MTIME_NOW else mtime * _NANOSECONDS + mtime_ns
        return fuse.attributes_reply(self._attributes(node))

    # Open files and directories

    def _open_file(self, request: Request) -> bytes:
        node = self._node(request)
        flags, _ = request.fields(_OPEN)
        # kernfs refuses even root, whose capabilities would let it.
        if flags & os.O_ACCMODE != os.O_RDONLY and not node.mode & _WRITABLE:
            raise RefusedError(errno.EACCES)
        if not node.live:
            raise RefusedError(errno.ENODEV)
        return self._opened(node)

    def _read(self, request: Request) -> bytes:
        handle, offset, size, *_ = request.fields(_READ)
        opened = self._open[handle]
        if (offset == 0 or offset != opened.served) and isinstance(opened.node, File):
            opened.snapshot = self._kernel.read(opened.node, _caller(request)).encode("latin-1")
        piece = opened.snapshot[offset : offset + size]
        opened.served = offset + len(piece)
        return piece

    def _write(self, request: Request) -> bytes:
        handle, _, size, *_ = request.fields(_WRITE)
        node = self._open[handle].node
        if isinstance(node, File):
            self._kernel.write(node, _caller(request), request.body[_WRITE.size :])
        return fuse.write_reply(size)

    def _release(self, request: Request) -> bytes:
        (handle,) = request.fields(_RELEASE)
        del self._open[handle]
        return b""

    def _read_directory(self, request: Request) -> bytes:
        handle, offset, size, *_ = request.fields(_READ)
        node = self._open[handle].node
        if not isinstance(node, Directory) or not node.live:
            return b""
        entries = {".": node, "..": node.parent or node, **node.entries}
        return fuse.directory_reply([(e.inode, e.mode, name) for name, e in entries.items()], offset, size)

    # Groups

    def _make_directory(self, request: Request) -> bytes:
        permissions, _ = request.fields(_MKDIR)
        (name,) = request.names(_MKDIR)
        parent = self._directory(request.node)
        self._kernel.make_directory(parent, name, stat.S_IMODE(permissions), _caller(request))
        return self._entry(parent.entries[name])

    def _remove_directory(self, request: Request) -> bytes:
        (name,) = request.names(_NO_FIELDS)
        node = self._entry_of(request.node, name)
        if not isinstance(node, Directory):
            raise RefusedError(errno.ENOTDIR)
        self._kernel.remove_directory(node)
        return b""

    def _rename(self, request: Request) -> bytes:
        (destination,) = request.fields(_RENAME)
        old, new = request.names(_RENAME)
        self._kernel.rename(self._entry_of(request.node, old), self._directory(destination), new)
        return b""

    # What the kernel knows

    def _node(self, request: Request) -> File | Directory:
        return self._known[request.node].node

    def _directory(self, node: int) -> Directory:
        directory = self._known[node].node
        if not isinstance(directory, Directory):
            raise RefusedError(errno.ENOTDIR)
        return directory

    def _entry_of(self, directory: int, name: str) -> File | Directory:
        entry = self._directory(directory).entries.get(name)
        if entry is None:
            raise RefusedError(errno.ENOENT)
        return entry

    def _entry(self, node: File | Directory) -> bytes:
        self._known.setdefault(node.inode, _Known(node)).lookups += 1
        return fuse.entry_reply(node.inode, self._attributes(node))

    def _attributes(self, node: File | Directory) -> bytes:
        moments = (node.accessed_ns, node.modified_ns, node.changed_ns)
        seconds, nanoseconds = zip(*(divmod(moment, _NANOSECONDS) for moment in moments), strict=True)
        owner = (node.uid, node.gid)
        return fuse.ATTRIBUTES.pack(
            node.inode, 0, 0, *seconds, *nanoseconds, node.mode, self._kernel.links(node), *owner, 0, 4096, 0
        )

    def _forget_one(self, node: int, lookups: int) -> None:
        known = self._known[node]
        known.lookups -= lookups
        if known.lookups <= 0 and node != fuse.ROOT_ID:
            del self._known[node]

    def _opened(self, node: File | Directory) -> bytes:
        handle = next(self._handles)
        self._open[handle] = _Open(node)
        return fuse.open_reply(handle)


def _make_node(request: Request) -> bytes:
    mode, *_ = request.fields(_MKNOD)
    return _refused(errno.EACCES if stat.S_ISREG(mode) else errno.EPERM)


def _refused(code: int) -> bytes:
    raise RefusedError(code)


def _caller(request: Request) -> Caller:
    return Caller(request.uid, request.gid, request.tid)
