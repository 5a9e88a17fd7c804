"""Talks to the agent in a guest: one command at a time, over the ports of its machine."""

import json
import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .errors import LabError

BOOT_PATIENCE_S = 600.0
"""Booting takes 20 s on an idle host, and minutes on one whose processors all are wanted."""

Write = Callable[[bytes], object]
MS_RDONLY = 1


class Mount(NamedTuple):
    """The arguments of mount(2)."""

    source: str
    directory: str
    kind: str
    flags: int
    options: str


@dataclass(frozen=True, slots=True)
class Request:
    command: str
    environment: Mapping[str, str]
    mounts: Sequence[Mount]
    unmounts: Sequence[str] = ()
    keys: int | None = None
    """A descriptor whose contents are the command's standard input; None: it has none."""


@dataclass(frozen=True, slots=True)
class Report:
    status: int
    guest_s: float


class Output:
    """What comes from a command's standard output or error, up to the mark that ends it.

    The command writes to the port itself, and so may what it left in the background: only a mark says where its own
    output ends.
    """

    def __init__(self, write: Write, mark: bytes) -> None:
        self._write = write
        self._mark = mark
        self._held = b""
        self.ended = False

    def receive(self, part: bytes) -> None:
        before, mark, _ = (self._held + part).partition(self._mark)
        self.ended = bool(mark)
        held = 0 if self.ended else self._begins_mark(before)
        self._held = before[len(before) - held :]
        self._write(before[: len(before) - held])

    def _begins_mark(self, received: bytes) -> int:
        """Length of the end of what was received that may turn out to be the beginning of the mark."""
        longest = min(len(received), len(self._mark) - 1)
        return next((n for n in range(longest, 0, -1) if received.endswith(self._mark[:n])), 0)


def wait_until_ready(control: socket.socket) -> None:
    """Wait for the agent to start. Raises LabError if the guest ends, or takes too long."""
    control.settimeout(BOOT_PATIENCE_S)
    received = b""
    try:
        while b"ready\n" not in received:
            part = control.recv(4096)
            if not part:
                raise LabError("the guest ended while it booted")
            received += part
    except TimeoutError:
        raise LabError(f"the guest did not boot within {BOOT_PATIENCE_S:g} s") from None


def run(ports: Mapping[str, socket.socket], request: Request, timeout_s: float, stdout: Write, stderr: Write) -> Report:
    """Have a command run; what it prints is written as it comes.

    Raises TimeoutError, and LabError if the guest ends or could not be made ready for the command.
    """
    mark = f"\0lab-end-{secrets.token_hex(8)}\0"
    message = {
        "command": request.command,
        "environment": dict(request.environment),
        "mounts": request.mounts,
        "unmounts": request.unmounts,
        "interactive": request.keys is not None,
        "time": time.time(),
        "end": mark,
    }
    ports["control"].settimeout(timeout_s)
    ports["control"].sendall(json.dumps(message).encode() + b"\n")
    outputs = {"output": Output(stdout, mark.encode()), "error": Output(stderr, mark.encode())}
    return _report(_received(ports, outputs, request.keys, time.monotonic() + timeout_s))


def _received(
    ports: Mapping[str, socket.socket], outputs: Mapping[str, Output], keys: int | None, end: float
) -> dict[str, Any]:
    control = b""
    with selectors.DefaultSelector() as selector:
        for name in ("control", *outputs):
            selector.register(ports[name], selectors.EVENT_READ, name)
        if keys is not None:
            selector.register(keys, selectors.EVENT_READ, "keys")
        while not (control.endswith(b"\n") and all(output.ended for output in outputs.values())):
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.data == "keys":
                    _pass_on(key.fd, ports["input"], selector)
                    continue
                part = ports[key.data].recv(1 << 16)
                if not part:
                    raise LabError("the guest ended while a command ran in it")
                if key.data == "control":
                    control += part
                else:
                    outputs[key.data].receive(part)
    return dict(json.loads(control))


def _pass_on(keys: int, port: socket.socket, selector: selectors.BaseSelector) -> None:
    typed = os.read(keys, 4096)
    if typed:
        port.sendall(typed)
    else:
        selector.unregister(keys)
        port.close()  # the guest reads its end


def _report(answer: Mapping[str, Any]) -> Report:
    if "error" in answer:
        raise LabError(f"in the guest: {answer['error']}")
    return Report(answer["status"], answer["seconds"])
