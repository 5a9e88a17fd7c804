"""Telling systemd how the service is doing: the datagrams of sd_notify(3)."""

import errno
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import structlog

log = structlog.get_logger()


RELOAD_FIFO = "reload"
"""In the runtime directory: where the unit's ExecReload= waits until a reload has begun."""


class Notifier:
    """Speaks to the service manager that started this process; says nothing where there is none.

    A manager that cannot be reached is logged once and otherwise left alone: the machine's groups matter more.
    """

    def __init__(self, address: str | None, reload_fifo: Path | None = None) -> None:
        """``address`` is what NOTIFY_SOCKET holds: a path, or ``@`` and an abstract name. None: no manager.

        Whoever reads from ``reload_fifo`` is told of each reload that begins, after the manager was.
        """
        self._address = address
        self._reload_fifo = reload_fifo
        self._complained = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The manager that NOTIFY_SOCKET names, and the RUNTIME_DIRECTORY that it made."""
        runtime = environ.get("RUNTIME_DIRECTORY")
        return cls(environ.get("NOTIFY_SOCKET") or None, Path(runtime) / RELOAD_FIFO if runtime else None)

    def ready(self, status: str) -> None:
        """Started, or done with a reload (also one that kept the old policy)."""
        self._send("READY=1", f"STATUS={_one_line(status)}")

    def reloading(self) -> None:
        """A reload begins. ``ready`` must follow, whatever comes of it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
        self._tell_reader()

    def stopping(self) -> None:
        """The service is on its way out."""
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """Still alive; due every ``watchdog_interval_s`` at the latest."""
        self._send("WATCHDOG=1")

    def _send(self, *assignments: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
                manager.connect(_socket_address(self._address))
                manager.sendall("\n".join(assignments).encode())
        except OSError as error:
            self._complain(error)

    def _tell_reader(self) -> None:
        if self._reload_fifo is None:
            return
        try:
            fifo = os.open(self._reload_fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(fifo, "wb", buffering=0) as reader:
                reader.write(b"\n")
        except OSError as error:
            if error.errno not in _NOBODY_READS:
                log.warning("Cannot tell that a reload has begun", pipe=str(self._reload_fifo), error=str(error))

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            log.warning("Cannot notify the service manager", socket=self._address, error=str(error))


_NOBODY_READS = frozenset({errno.ENOENT, errno.ENXIO, errno.EPIPE})
"""There is no such pipe, or one that an interrupted reload left behind, or whose reader has just left."""


def watchdog_interval_s(environ: Mapping[str, str] = os.environ) -> float | None:
    """How often to call ``watchdog``, in seconds: half of what the manager allows. None: it does not watch us.

    What is no number, or none above 0, is no manager's.
    """
    allowed_us = environ.get("WATCHDOG_USEC", "")
    watched = environ.get("WATCHDOG_PID")
    if not allowed_us.isdecimal() or int(allowed_us) == 0 or watched not in (None, "", str(os.getpid())):
        return None
    return int(allowed_us) / 2 / 1_000_000


def _socket_address(address: str) -> str | bytes:
    if address.startswith("@"):
        return b"\0" + os.fsencode(address[1:])
    if address.startswith("/"):
        return address
    raise OSError(errno.EAFNOSUPPORT, "NOTIFY_SOCKET is neither a path nor an abstract name", address)


def _one_line(text: str) -> str:
    """A newline would end the assignment and start another."""
    return " ".join(text.split())
