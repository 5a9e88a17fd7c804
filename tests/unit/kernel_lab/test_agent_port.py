"""One command at a time over the ports of a machine. Here the other ends are sockets of this process."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.kernel.lab import agent_port
from tests.kernel.lab.agent_port import Output, Report, Request
from tests.kernel.lab.errors import LabError

MARK = b"\0end\0"
NAMES = ("control", "input", "output", "error")

Ends = dict[str, socket.socket]


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        ([b"one", b"two", MARK], b"onetwo"),
        ([b"one\0e", b"nd\0"], b"one"),
        ([b"one\0e", b"lse", MARK], b"one\0else"),
        ([b"\0", b"\0", MARK], b"\0\0"),
        ([b"own" + MARK + b"of what runs in the background"], b"own"),
        ([MARK], b""),
    ],
    ids=["whole", "mark-in-two-parts", "only-like-the-mark", "begins-twice", "more-after-it", "nothing"],
)
def test_output_is_what_comes_before_the_mark(parts: list[bytes], written: bytes) -> None:
    received = bytearray()
    output = Output(received.extend, MARK)
    for part in parts:
        output.receive(part)
    assert output.ended
    assert bytes(received) == written


def test_output_is_passed_on_as_it_comes() -> None:
    received = bytearray()
    output = Output(received.extend, MARK)
    output.receive(b"progress")
    assert bytes(received) == b"progress"
    assert not output.ended


@pytest.fixture
def ports() -> Iterator[tuple[Ends, Ends]]:
    """Our ends and the guest's."""
    pairs = {name: socket.socketpair() for name in NAMES}
    yield {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}
    for pair in pairs.values():
        for end in pair:
            end.close()


def in_a_guest(guest: Ends, serve: Callable[[dict], None]) -> threading.Thread:
    def wait_and_serve() -> None:
        serve(json.loads(guest["control"].makefile().readline()))

    thread = threading.Thread(target=wait_and_serve)
    thread.start()
    return thread


def report(guest: Ends, request: dict, **answer: object) -> None:
    for stream in ("output", "error"):
        guest[stream].sendall(request["end"].encode())
    guest["control"].sendall(json.dumps(answer).encode() + b"\n")


def run(host: Ends, request: Request, timeout_s: float = 10) -> tuple[Report, bytes, bytes]:
    stdout, stderr = bytearray(), bytearray()
    ended = agent_port.run(host, request, timeout_s, stdout.extend, stderr.extend)
    return ended, bytes(stdout), bytes(stderr)


def test_a_command_ends_with_its_status_and_all_that_it_printed(ports: tuple[Ends, Ends]) -> None:
    host, guest = ports

    def serve(request: dict) -> None:
        guest["output"].sendall(request["command"].encode())
        guest["error"].sendall(request["environment"]["WORD"].encode())
        report(guest, request, status=3, seconds=0.5)

    thread = in_a_guest(guest, serve)
    assert run(host, Request("command", {"WORD": "word"}, [])) == (Report(3, 0.5), b"command", b"word")
    thread.join()


def test_output_that_comes_after_the_report_is_waited_for(ports: tuple[Ends, Ends]) -> None:
    host, guest = ports

    def serve(request: dict) -> None:
        guest["control"].sendall(b'{"status": 0, "seconds": 0}\n')
        guest["error"].sendall(request["end"].encode())
        guest["output"].sendall(b"late" + request["end"].encode())

    thread = in_a_guest(guest, serve)
    assert run(host, Request("command", {}, []))[1] == b"late"
    thread.join()


def test_keys_go_to_the_command_and_their_end_too(ports: tuple[Ends, Ends]) -> None:
    host, guest = ports
    keys, keyboard = os.pipe()
    os.write(keyboard, b"exit\n")
    os.close(keyboard)

    def serve(request: dict) -> None:
        assert request["interactive"]
        guest["output"].sendall(guest["input"].makefile("rb").read())
        report(guest, request, status=0, seconds=0)

    thread = in_a_guest(guest, serve)
    assert run(host, Request("command", {}, [], keys=keys))[1] == b"exit\n"
    thread.join()
    os.close(keys)


def test_what_could_not_be_done_in_the_guest_is_an_error(ports: tuple[Ends, Ends]) -> None:
    host, guest = ports
    thread = in_a_guest(guest, lambda request: report(guest, request, error="mount: Invalid argument"))
    with pytest.raises(LabError, match="in the guest: mount: Invalid argument"):
        run(host, Request("command", {}, []))
    thread.join()


def test_a_guest_that_ends_is_an_error(ports: tuple[Ends, Ends]) -> None:
    host, guest = ports
    thread = in_a_guest(guest, lambda _request: guest["output"].close())
    with pytest.raises(LabError, match="ended while a command ran"):
        run(host, Request("command", {}, []))
    thread.join()


def test_a_command_that_takes_too_long_is_given_up(ports: tuple[Ends, Ends]) -> None:
    host, _guest = ports
    with pytest.raises(TimeoutError):
        run(host, Request("command", {}, []), timeout_s=0.01)


def test_a_guest_is_ready_when_its_agent_says_so(ports: tuple[Ends, Ends]) -> None:
    host, guest = ports
    guest["control"].sendall(b"rea")
    guest["control"].sendall(b"dy\n")
    agent_port.wait_until_ready(host["control"])


def test_a_guest_that_ends_while_it_boots_is_an_error(ports: tuple[Ends, Ends]) -> None:
    host, guest = ports
    guest["control"].close()
    with pytest.raises(LabError, match="ended while it booted"):
        agent_port.wait_until_ready(host["control"])
