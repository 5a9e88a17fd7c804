import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.service.notify import Notifier, watchdog_interval_s


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5)
        yield listening


def assignments(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().split("\n")


def test_readiness_comes_with_a_status(manager: socket.socket) -> None:
    Notifier(manager.getsockname()).ready("5 classes in force")
    assert assignments(manager) == ["READY=1", "STATUS=5 classes in force"]


def test_a_reload_begins_with_the_time_in_the_same_datagram(manager: socket.socket) -> None:
    before_us = time.monotonic_ns() // 1000
    Notifier(manager.getsockname()).reloading()
    reloading, stamp = assignments(manager)
    assert reloading == "RELOADING=1"
    name, _, value = stamp.partition("=")
    assert name == "MONOTONIC_USEC"
    assert before_us <= int(value) <= time.monotonic_ns() // 1000


def test_who_waits_for_a_reload_to_begin_is_told_when_the_manager_has_been(
    manager: socket.socket, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "reload")
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "RUNTIME_DIRECTORY": str(tmp_path)}
    with (tmp_path / "reload").open("r+b", buffering=0) as waiting:
        Notifier.from_environment(environment).reloading()
        assert waiting.read(1) == b"\n"
    manager.setblocking(False)
    assert assignments(manager)[0] == "RELOADING=1"


def test_a_reload_that_nobody_waits_for_goes_on(manager: socket.socket, tmp_path: Path) -> None:
    """Without the pipe, and with one that a reload left behind which was interrupted."""
    notifier = Notifier(manager.getsockname(), tmp_path / "reload")
    with capture_logs() as logged:
        notifier.reloading()
        os.mkfifo(tmp_path / "reload")
        notifier.reloading()
    assert logged == []
    assert [assignments(manager)[0] for _ in range(2)] == ["RELOADING=1"] * 2


@pytest.mark.parametrize(("method", "datagram"), [("stopping", "STOPPING=1"), ("watchdog", "WATCHDOG=1")])
def test_the_other_states_are_single_assignments(manager: socket.socket, method: str, datagram: str) -> None:
    getattr(Notifier(manager.getsockname()), method)()
    assert assignments(manager) == [datagram]


def test_a_status_of_several_lines_cannot_smuggle_in_an_assignment(manager: socket.socket) -> None:
    Notifier(manager.getsockname()).ready("policy.yaml:1:1: error\nSTOPPING=1")
    assert assignments(manager) == ["READY=1", "STATUS=policy.yaml:1:1: error STOPPING=1"]


def test_an_abstract_socket_is_reached() -> None:
    name = f"resctrl-agent-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(5)
        Notifier.from_environment({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        assert assignments(listening) == ["STOPPING=1"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}])
def test_without_a_manager_nothing_is_said(environment: dict[str, str]) -> None:
    with capture_logs() as logged:
        Notifier.from_environment(environment).ready("unheard")
    assert logged == []


@pytest.mark.parametrize("address", ["/nonexistent/notify", "vsock:2:1234", "/" + "x" * 200])
def test_a_manager_that_cannot_be_reached_is_logged_once(address: str) -> None:
    notifier = Notifier(address)
    with capture_logs() as logged:
        notifier.ready("unheard")
        notifier.watchdog()
    assert [(entry["log_level"], entry["socket"]) for entry in logged] == [("warning", address)]


@pytest.mark.parametrize(
    ("environment", "interval_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": ""}, None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_it_asks(environment: dict[str, str], interval_s: float | None) -> None:
    assert watchdog_interval_s(environment) == interval_s


@pytest.mark.parametrize("allowed", ["soon", "0", "-5", "1.5"])
def test_a_watchdog_interval_that_is_no_number_above_0_is_none(allowed: str) -> None:
    assert watchdog_interval_s({"WATCHDOG_USEC": allowed}) is None
