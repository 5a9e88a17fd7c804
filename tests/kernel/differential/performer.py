"""Performing operations on a mount, each with what it came to as text: an errno's name, ``ok``, or what was read."""

# The system calls are what is compared.
# ruff: noqa: PTH101, PTH104, PTH106, PTH108, PTH115, PTH118, PTH208, PTH211
import ctypes
import errno
import fcntl
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.kernel.differential.processes import Processes

LIMBO_S = 2.2
"""After this long nothing holds an RMID back: the kernel looks each second whether the cache has forgotten it."""

_PATIENCE_S = 20

_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY,
    "rw": os.O_RDWR,
    "wt": os.O_WRONLY | os.O_TRUNC,
    "wa": os.O_WRONLY | os.O_APPEND,
}
_LOCKS = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX, "release": fcntl.LOCK_UN}

_RENAME_NOREPLACE = 1
_AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)


class Performer:
    """Operations by name, as operations.py calls them. Paths are below the mount."""

    def __init__(self, mount: Path, processes: Processes) -> None:
        self._mount = mount
        self._processes = processes
        self._slots: dict[str, int] = {}
        self._locks: dict[str, int] = {}

    def close(self) -> None:
        """Close what was left open."""
        for descriptor in (*self._slots.values(), *self._locks.values()):
            os.close(descriptor)

    def perform(self, name: str, arguments: tuple[str | int, ...]) -> str:
        """What the operation of this name comes to."""
        operation: Callable[..., str | None] = getattr(self, f"_{name}")
        try:
            return operation(*arguments) or "ok"
        except OSError as failed:
            return errno.errorcode[failed.errno or 0]

    # Groups

    def _mkdir(self, path: str, mode: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return (self._mount / path).mkdir(mode)
            except OSError as failed:
                # An RMID rests: how long depends on time and on what the cache holds. Only where there are so few
                # RMIDs that a program says "settle" does it matter, and there it never comes to this.
                if failed.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _mkdir_as(self, user: int, path: str) -> str | None:
        return _as_user(user, lambda: self._mkdir(path, 0o777))

    def _rmdir(self, path: str) -> None:
        os.rmdir(self._mount / path)

    def _rename(self, source: str, target: str) -> None:
        os.rename(self._mount / source, self._mount / target)

    def _rename_exclusively(self, source: str, target: str) -> None:
        old, new = (os.fsencode(self._mount / path) for path in (source, target))
        if _libc.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_NOREPLACE) != 0:
            raise OSError(ctypes.get_errno(), "renameat2")

    def _settle(self) -> None:
        time.sleep(LIMBO_S)

    # Reading and writing

    def _read(self, path: str) -> str:
        return repr(self.content(path))

    def _write(self, path: str, text: str, user: int) -> str | None:
        content = re.sub(r"\{([\w.]+)(:\w)?\}", self._number, text).encode("latin-1")
        descriptor = os.open(self._mount / path, os.O_WRONLY)
        try:
            return self._written(descriptor, content) if user == 0 else self._written_as(user, descriptor, content)
        finally:
            os.close(descriptor)

    def _write_long(self, path: str, text: str, length: int) -> str | None:
        return self._write(path, (text * length)[:length], 0)

    def _number(self, found: re.Match[str]) -> str:
        """The id of ``{role}``, of ``{role:x}`` in hex, of ``{role:o}`` in octal."""
        return format(self._processes.tids[found[1]], (found[2] or ":d")[1:])

    def _written(self, descriptor: int, content: bytes) -> str | None:
        if not content:
            # FUSE answers such a write itself, so the emulator cannot do what the kernel does: clear the status.
            return None
        length = os.write(descriptor, content)
        return None if length == len(content) else f"{length} of {len(content)} bytes"

    def _written_as(self, user: int, descriptor: int, content: bytes) -> str | None:
        """By another user, who has been given the open file."""
        return _as_user(user, lambda: self._written(descriptor, content))

    def content(self, path: str) -> str:
        """A whole file; threads by their roles, numbers of counters left out."""
        descriptor = os.open(self._mount / path, os.O_RDONLY)
        try:
            pieces = []
            while piece := os.read(descriptor, 1 << 16):
                pieces.append(piece)
        finally:
            os.close(descriptor)
        return self._steady(path, b"".join(pieces).decode("latin-1"))

    def _steady(self, path: str, text: str) -> str:
        """``text`` without what differs from run to run."""
        if path.rpartition("/")[2] == "tasks":
            return " ".join(self._roles(text))
        if "mon_data/" in path:
            return re.sub(r"^\d+\n$", "<counted>\n", text)
        return text

    def _roles(self, text: str) -> list[str]:
        known = self._processes.known()
        return sorted(known[int(line)] for line in text.split() if line.isdecimal() and int(line) in known)

    # Descriptors that are kept

    def _open(self, slot: str, path: str, access: str) -> None:
        if slot in self._slots:
            os.close(self._slots.pop(slot))
        self._slots[slot] = os.open(self._mount / path, _FLAGS[access])

    def _read_open(self, slot: str, length: int, offset: int) -> str:
        descriptor = self._slot(slot)
        piece = os.read(descriptor, length) if offset < 0 else os.pread(descriptor, length, offset)
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        # Which ids are cut short, and which other threads there are, differs.
        return "some" if "/tasks" in place or "mon_data" in place else repr(piece)

    def _write_open(self, slot: str, text: str) -> str | None:
        content = text.replace("{a}", str(self._processes.tids["a"])).encode()
        return self._written(self._slot(slot), content)

    def _list_open(self, slot: str) -> str:
        return " ".join(sorted(os.listdir(self._slot(slot))))

    def _open_below(self, slot: str, name: str) -> None:
        os.close(os.open(name, os.O_RDONLY, dir_fd=self._slot(slot)))

    def _make_below(self, slot: str, name: str) -> None:
        os.mkdir(name, dir_fd=self._slot(slot))

    def _move_below(self, slot: str, path: str, name: str) -> None:
        os.rename(self._mount / path, name, dst_dir_fd=self._slot(slot))

    def _stat_open(self, slot: str) -> str:
        return _attributes(os.fstat(self._slot(slot)))

    def _slot(self, slot: str) -> int:
        if slot not in self._slots:
            raise OSError(errno.EBADF, slot)
        return self._slots[slot]

    def _lock(self, slot: str, kind: str) -> None:
        if slot not in self._locks:
            self._locks[slot] = os.open(self._mount, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._locks[slot], _LOCKS[kind] | fcntl.LOCK_NB)

    # Processes

    def _fork(self, parent: str, child: str) -> None:
        self._processes.fork(parent, child)

    def _start_thread(self, parent: str, child: str) -> None:
        self._processes.start_thread(parent, child)

    def _end(self, role: str) -> None:
        self._processes.end(role)

    # What no group is made by

    def _create(self, path: str) -> None:
        os.close(os.open(self._mount / path, os.O_WRONLY | os.O_CREAT, 0o644))

    def _unlink(self, path: str) -> None:
        os.unlink(self._mount / path)

    def _remove_file(self, path: str) -> None:
        os.rmdir(self._mount / path)

    def _symlink(self, path: str) -> None:
        os.symlink("x", self._mount / path)

    def _link(self, path: str) -> None:
        os.link(self._mount / "tasks", self._mount / path)

    def _make_fifo(self, path: str) -> None:
        os.mkfifo(self._mount / path)

    def _chmod(self, path: str, mode: int) -> None:
        os.chmod(self._mount / path, mode)

    def _chown(self, path: str, user: int) -> None:
        os.chown(self._mount / path, user, user)

    def _truncate(self, path: str, length: int) -> None:
        os.truncate(self._mount / path, length)

    # The whole

    def status(self) -> str:
        """``last_cmd_status``, with roles for the threads that it names."""
        text = self.content("info/last_cmd_status")
        if not re.search(r"\b(task|pid)\b", text):
            return text
        known = self._processes.known()
        return re.sub(r"0x[0-9a-f]+|\d+", lambda tid: known.get(_number(tid[0]), tid[0]), text)

    def tree(self) -> dict[str, str]:
        """Every file and directory: what stat says that doesn't change by itself, and the content."""
        found = {}
        for directory, names, files in os.walk(self._mount):
            names.sort()
            for name in ("", *files):
                path = os.path.relpath(os.path.join(directory, name), self._mount)
                if path != "info/last_cmd_status":
                    found[path] = self._described(path, name)
        return found

    def _described(self, path: str, file: str) -> str:
        attributes = _attributes(os.lstat(self._mount / path))
        return f"{attributes} {self.perform('read', (path,))}" if file else attributes


def _number(text: str) -> int:
    """As written for tasks: in hex, in octal, or decimal."""
    base = 16 if text.startswith("0x") else 8 if re.fullmatch("0[0-7]+", text) else 10
    return int(text, base)


def _attributes(found: os.stat_result) -> str:
    return f"{found.st_mode:o} links={found.st_nlink} uid={found.st_uid} gid={found.st_gid} size={found.st_size}"


def _as_user(user: int, call: Callable[[], object]) -> str | None:
    """The name of the errno that a call of another user's fails with."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            call()
            code = 0
        except OSError as failed:
            code = failed.errno or 255
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return errno.errorcode[code] if code else None
