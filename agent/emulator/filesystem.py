"""The emulated kernel as a FUSE filesystem.

Single-threaded on purpose: the kernel has one mutex around all of resctrl. Nothing is cached by the kernel (attributes
and names expire at once, files are read directly), and operations on open files come without a path, so that a
descriptor of a removed group meets the file that it was opened on.
"""

import ctypes
import errno
import os
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from agent.emulator.errors import RefusedError
from agent.emulator.kernel import Kernel
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory, File

# mfusepy takes the first libfuse that it finds; what it is told below is libfuse 3's.
os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
import mfusepy

Attributes: TypeAlias = dict[str, int]

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH

MOUNT_SETTINGS: dict[str, Any] = {
    "foreground": True,
    "nothreads": True,
    "fsname": "resctrl-emulator",
    "subtype": "resctrl",
    "allow_other": True,
    # The kernel's own permission checks, capabilities included, as on kernfs.
    "default_permissions": True,
    "nosuid": True,
    "nodev": True,
    "noexec": True,
    "entry_timeout": 0,
    "negative_timeout": 0,
    "attr_timeout": 0,
    "use_ino": True,
    "direct_io": True,
    # Without it libfuse renames an open file that is replaced, instead of asking.
    "hard_remove": True,
}


def serve(kernel: Kernel, mountpoint: Path, ready: Callable[[], None]) -> None:
    """Mount at ``mountpoint`` and answer until unmounted or told to end by SIGINT, SIGTERM or SIGHUP.

    ``ready`` is called, in another thread, once the mount has answered. Raises RuntimeError where libfuse cannot mount;
    libfuse has then said why on stderr.
    """
    mfusepy.FUSE(_Operations(kernel, mountpoint, ready), str(mountpoint), **MOUNT_SETTINGS)


@dataclass(slots=True)
class _Open:
    """An open file or directory. A read from the start takes a new snapshot, the reads that follow on serve it."""

    node: File | Directory
    snapshot: bytes = b""
    served: int = -1


class _Operations(mfusepy.Operations):  # type: ignore[misc]  # mfusepy has no usable types
    use_ns = True
    flag_nopath = True
    flag_nullpath_ok = True

    def __init__(self, kernel: Kernel, mountpoint: Path, ready: Callable[[], None]) -> None:
        self._kernel = kernel
        self._mountpoint = mountpoint
        self._ready = ready
        self._handles = count(1)
        self._open: dict[int, _Open] = {}

    def init(self, _path: str) -> None:
        threading.Thread(target=self._announce, daemon=True).start()

    def getattr(self, path: str | None, fh: int | None = None) -> Attributes:
        return _attributes(self._node(path, fh))

    def opendir(self, path: str) -> int:
        return self._opened(self._find(path))

    def readdir(self, _path: str | None, fh: int) -> list[tuple[str, Attributes, int]]:
        """With inode numbers: the C library passes over an entry that has none."""
        node = self._open[fh].node
        if not isinstance(node, Directory) or not node.live:
            return []
        entries = {".": node, "..": node.parent or node, **node.entries}
        return [(name, {"st_ino": entry.inode, "st_mode": entry.mode}, 0) for name, entry in entries.items()]

    def releasedir(self, path: str | None, fh: int) -> int:
        return self.release(path, fh)

    def open(self, path: str, flags: int) -> int:
        node = self._find(path)
        # kernfs refuses even root, whose capabilities would let it.
        if flags & os.O_ACCMODE != os.O_RDONLY and not node.mode & _WRITABLE:
            raise RefusedError(errno.EACCES)
        return self._opened(node)

    def release(self, _path: str | None, fh: int) -> int:
        del self._open[fh]
        return 0

    def read(self, _path: str | None, size: int, offset: int, fh: int) -> bytes:
        opened = self._open[fh]
        if (offset == 0 or offset != opened.served) and isinstance(opened.node, File):
            opened.snapshot = self._kernel.read(opened.node, _caller()).encode("latin-1")
        piece = opened.snapshot[offset : offset + size]
        opened.served = offset + len(piece)
        return piece

    def write(self, _path: str | None, data: bytes, _offset: int, fh: int) -> int:
        node = self._open[fh].node
        if isinstance(node, File):
            self._kernel.write(node, _caller(), data)
        return len(data)

    def truncate(self, _path: str | None, _length: int, _fh: int | None = None) -> int:
        """As on kernfs, where files have no length."""
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        parent, name = self._place(path)
        self._kernel.make_directory(parent, name, stat.S_IMODE(mode), _caller())
        return 0

    def rmdir(self, path: str) -> int:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise RefusedError(errno.ENOTDIR)
        self._kernel.remove_directory(node)
        return 0

    def rename(self, old: str, new: str) -> int:
        destination, name = self._place(new)
        self._kernel.rename(self._find(old), destination, name)
        return 0

    def create(self, _path: str, _mode: int, _flags: int) -> int:
        raise RefusedError(errno.EACCES)

    def mknod(self, _path: str, mode: int, _dev: int) -> int:
        raise RefusedError(errno.EACCES if stat.S_ISREG(mode) else errno.EPERM)

    def unlink(self, _path: str) -> int:
        raise RefusedError(errno.EPERM)

    def symlink(self, _target: str, _source: str) -> int:
        raise RefusedError(errno.EPERM)

    def link(self, _target: str, _source: str) -> int:
        raise RefusedError(errno.EPERM)

    def chmod(self, path: str | None, mode: int) -> int:
        node = self._node(path, None)
        node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        node.changed_ns = time.time_ns()
        return 0

    def chown(self, path: str | None, uid: int, gid: int) -> int:
        node = self._node(path, None)
        node.uid = node.uid if uid == -1 else uid
        node.gid = node.gid if gid == -1 else gid
        node.changed_ns = time.time_ns()
        return 0

    def utimens(self, path: str | None, times: tuple[int, int] | None = None) -> int:
        node = self._node(path, None)
        node.changed_ns = time.time_ns()
        node.accessed_ns, node.modified_ns = times or (node.changed_ns, node.changed_ns)
        return 0

    def _announce(self) -> None:
        """Once ``init`` has returned libfuse serves; a look at the mount waits for that."""
        (self._mountpoint / "info" / "last_cmd_status").read_bytes()
        self._ready()

    def _opened(self, node: File | Directory) -> int:
        handle = next(self._handles)
        self._open[handle] = _Open(node)
        return handle

    def _node(self, path: str | None, fh: int | None) -> File | Directory:
        if path is not None:
            return self._find(path)
        if fh is None:
            raise RefusedError(errno.ENOENT)
        return self._open[fh].node

    def _find(self, path: str) -> File | Directory:
        return self._kernel.root.find(path)

    def _place(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rpartition("/")
        parent = self._find(above)
        if not isinstance(parent, Directory):
            raise RefusedError(errno.ENOTDIR)
        return parent, name


def _attributes(node: File | Directory) -> Attributes:
    return {
        "st_ino": node.inode,
        "st_mode": node.mode,
        "st_nlink": node.links,
        "st_uid": node.uid,
        "st_gid": node.gid,
        "st_size": 0,
        "st_blksize": 4096,
        "st_atime": node.accessed_ns,
        "st_mtime": node.modified_ns,
        "st_ctime": node.changed_ns,
    }


def _caller() -> Caller:
    uid, gid, tid = mfusepy.fuse_get_context()
    return Caller(ctypes.c_uint32(uid).value, ctypes.c_uint32(gid).value, tid)
