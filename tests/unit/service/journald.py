import mmap
import os
import socket
import struct
from pathlib import Path


class Journald:
    """What journald does at its end of the native protocol: receives datagrams and memory files, splits fields."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(5)

    def entry(self) -> dict[str, bytes]:
        datagram, fds, _, _ = socket.recv_fds(self._socket, 1 << 20, 1)
        return decode(_contents(fds[0]) if fds else datagram)

    def entry_came_as_a_file(self) -> bool:
        _, fds, _, _ = socket.recv_fds(self._socket, 1 << 20, 1)
        for fd in fds:
            os.close(fd)
        return bool(fds)

    def close(self) -> None:
        self._socket.close()


def _contents(fd: int) -> bytes:
    try:
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as entry:
            return entry[:]
    finally:
        os.close(fd)


def decode(entry: bytes) -> dict[str, bytes]:
    fields: dict[str, bytes] = {}
    while entry:
        line, _, entry = entry.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (length,) = struct.unpack("<Q", entry[:8])
            value, entry = entry[8 : 8 + length], entry[8 + length + 1 :]
        fields[name.decode()] = value
    return fields
