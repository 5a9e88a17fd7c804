"""The journal's native protocol: one datagram an entry, or a sealed memory file where the entry is too long for one.

Its specification is systemd's "Native Journal Protocol". journald does not parse JSON or key=value from stderr;
only entries sent this way have fields that ``journalctl`` can select by.
"""

import errno
import fcntl
import os
import re
import socket
import struct
from array import array
from collections.abc import Mapping
from typing import Self

SOCKET_PATH = "/run/systemd/journal/socket"

_SEND_BUFFER_BYTES = 8 << 20
"""What sd_journal_send asks for, so that a burst waits in the socket and not in the agent."""

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
"""journald maps the file and refuses one that could still change."""

_NOT_IN_NAMES = re.compile(r"[^A-Z0-9_]")
_LONGEST_NAME = 64


class Journal:
    """An open way to journald; a context manager. Raises OSError where no journal listens at ``path``."""

    def __init__(self, path: str = SOCKET_PATH) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)  # a journald that stalls must not stop the agent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, entry: bytes) -> None:
        """Hand over an entry made by ``encode``; a journald that was restarted is found again. Raises OSError."""
        try:
            self._send_or_attach(entry)
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError, FileNotFoundError):
            self._socket.connect(self._path)
            self._send_or_attach(entry)

    def close(self) -> None:
        """Close the socket; ``send`` must not be called again."""
        self._socket.close()

    def _send_or_attach(self, entry: bytes) -> None:
        try:
            self._socket.send(entry)
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise
            self._attach(entry)

    def _attach(self, entry: bytes) -> None:
        fd = os.memfd_create("journal-entry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with os.fdopen(fd, "wb") as sealed:
            sealed.write(entry)
            sealed.flush()
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            self._socket.sendmsg([], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [fd]))])


def is_journal_stream(fd: int, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether ``fd`` is the very stream that systemd connected to the journal, by JOURNAL_STREAM's device and inode."""
    try:
        stat = os.fstat(fd)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{stat.st_dev}:{stat.st_ino}"


def encode(fields: Mapping[str, str]) -> bytes:
    """An entry's bytes. Names must be valid (``field_name``); a value with a newline is sent with its length."""
    return b"".join(_assignment(name, value.encode("utf-8", "backslashreplace")) for name, value in fields.items())


def field_name(text: str) -> str:
    """``text`` as journald takes a name: A–Z, 0–9 and underscores, no leading underscore or digit, 64 bytes."""
    return _NOT_IN_NAMES.sub("_", text.upper()).lstrip("_0123456789")[:_LONGEST_NAME]


def _assignment(name: str, value: bytes) -> bytes:
    if b"\n" in value:
        return b"%s\n%s%s\n" % (name.encode(), struct.pack("<Q", len(value)), value)
    return b"%s=%s\n" % (name.encode(), value)
