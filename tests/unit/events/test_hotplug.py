"""Which uevents wake the agent. The filter is the kernel's, so it is tried on a socket of the kernel's."""

import socket
from collections.abc import Iterator

import pytest

from agent.events.hotplug import CPU_PREFIXES, accept_only

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    accept_only(receiver, CPU_PREFIXES)
    with sender, receiver:
        yield sender, receiver


def received(receiver: socket.socket) -> list[bytes]:
    messages = []
    while True:
        try:
            messages.append(receiver.recv(4096))
        except BlockingIOError:
            return messages


def uevent(action: str, path: str, subsystem: str) -> bytes:
    return "\0".join((f"{action}@{path}", f"ACTION={action}", f"DEVPATH={path}", f"SUBSYSTEM={subsystem}", "")).encode()


@pytest.mark.parametrize("action", ["online", "offline"])
@pytest.mark.parametrize("cpu", [0, 3, 191])
def test_a_cpu_that_comes_or_goes_is_told(pair: Pair, action: str, cpu: int) -> None:
    sender, receiver = pair
    message = uevent(action, f"/devices/system/cpu/cpu{cpu}", "cpu")
    sender.send(message)
    assert received(receiver) == [message]


@pytest.mark.parametrize(
    "message",
    [
        uevent("change", "/devices/system/cpu/cpu3", "cpu"),
        uevent("online", "/devices/system/memory/memory33", "memory"),
        uevent("offline", "/devices/system/memory/memory33", "memory"),
        uevent("online", "/devices/system/machinecheck/machinecheck3", "machinecheck"),
        uevent("add", "/devices/virtual/net/veth0", "net"),
        b"libudev\0\xfe\xed\xca\xfe",
        b"online@/devices/system/cpu",
        b"offline",
        b"",
    ],
)
def test_nothing_else_wakes_the_agent(pair: Pair, message: bytes) -> None:
    sender, receiver = pair
    sender.send(message)
    assert received(receiver) == []
