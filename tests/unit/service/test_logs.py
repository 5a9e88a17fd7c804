import fcntl
import io
import json
import logging
import os
import pty
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest
import structlog

from agent.service import journal, logs
from agent.service.messages import MESSAGES
from tests.unit.service.journald import Journald

PLACED = {"workload": "/batch.slice", "class_": "batch", "group": "batch", "threads": 3, "latency_us": 250}


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def stderr_of_a_unit(tmp_path: Path, journald: Journald, monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    with (tmp_path / "stderr").open("w+") as stream:
        stat = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{stat.st_dev}:{stat.st_ino}")
        monkeypatch.setattr(journal, "SOCKET_PATH", str(journald.path))
        yield stream
        structlog.get_config()["logger_factory"]().close()


def written_on_a_terminal(*, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb") as screen:
        assert logs.configure("info", terminal) is logs.Destination.TERMINAL
        structlog.get_logger().info("placed", **PLACED)
        return os.read(screen.fileno(), 65536).decode()


def log_an_exception() -> None:
    try:
        int("the cause")
    except ValueError:
        structlog.get_logger().exception("Cannot go on")


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_program_reads_json_lines_with_the_usual_keys_first() -> None:
    stream = io.StringIO()
    assert logs.configure("info", stream) is logs.Destination.PROGRAM
    structlog.get_logger().info("placed", **PLACED)
    (line,) = lines(stream)
    assert list(line)[:4] == ["timestamp", "level", "event", "message"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", str(line.pop("timestamp")))
    assert line == {
        "level": "info",
        "event": "placed",
        "message": "Placed /batch.slice in class batch (threads moved: 3)",
        "workload": "/batch.slice",
        "class": "batch",
        "group": "batch",
        "threads": 3,
        "latency_us": 250,
    }


def test_any_value_can_be_a_fact_in_json() -> None:
    stream = io.StringIO()
    logs.configure("info", stream)
    structlog.get_logger().info("Odd", path=Path("/x"), ids={3, 1}, name=os.fsdecode(b"\xff"))
    assert {key: lines(stream)[0][key] for key in ("path", "ids", "name")} == {
        "path": "/x",
        "ids": [1, 3],
        "name": "\udcff",
    }


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_a_level_shows_itself_and_what_is_graver(level: str, shown: list[str]) -> None:
    stream = io.StringIO()
    logs.configure(level, stream)
    for each in logs.LEVELS:
        structlog.get_logger().log(logs.LEVELS[each], f"At {each}")
    assert [line["level"] for line in lines(stream)] == shown


def test_an_unknown_level_is_an_error() -> None:
    with pytest.raises(KeyError, match="chatty"):
        logs.configure("chatty", io.StringIO())


def test_what_libraries_log_goes_the_same_way() -> None:
    stream = io.StringIO()
    logs.configure("info", stream)
    logging.getLogger("asyncio").error("Task %s was destroyed", "x")
    logging.getLogger("asyncio").log(25, "Between two levels")
    assert [(line["level"], line["event"], line["logger"]) for line in lines(stream)] == [
        ("error", "Task x was destroyed", "asyncio"),
        ("info", "Between two levels", "asyncio"),
    ]


def test_an_exception_comes_with_its_traceback() -> None:
    stream = io.StringIO()
    logs.configure("info", stream)
    log_an_exception()
    (line,) = lines(stream)
    assert str(line["exception"]).endswith("base 10: 'the cause'")


def test_a_terminal_shows_a_coloured_sentence_and_the_facts_that_are_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = written_on_a_terminal(environment={"TERM": "xterm"}, monkeypatch=monkeypatch)
    assert "\x1b[" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).strip()
    assert re.match(r"\d\d:\d\d:\d\d \[info +\] ", plain)
    assert plain.endswith("] Placed /batch.slice in class batch (threads moved: 3) group=batch latency_us=250")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colour_gets_none(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in written_on_a_terminal(environment=environment, monkeypatch=monkeypatch)


def test_under_systemd_a_stable_event_has_its_id_and_fields(stderr_of_a_unit: TextIO, journald: Journald) -> None:
    assert logs.configure("info", stderr_of_a_unit) is logs.Destination.JOURNAL
    structlog.get_logger().info("placed", **PLACED)
    entry = {name: value.decode() for name, value in journald.entry().items()}
    assert entry.pop("CODE_FILE") == __file__
    assert entry.pop("CODE_FUNC") == "test_under_systemd_a_stable_event_has_its_id_and_fields"
    assert entry.pop("CODE_LINE").isdigit()
    assert entry == {
        "MESSAGE": "Placed /batch.slice in class batch (threads moved: 3)",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "resctrl-agent",
        "MESSAGE_ID": MESSAGES["placed"].id,
        "RESCTRL_WORKLOAD": "/batch.slice",
        "RESCTRL_CLASS": "batch",
        "RESCTRL_GROUP": "batch",
        "RESCTRL_THREADS": "3",
        "RESCTRL_LATENCY_US": "250",
    }


def test_under_systemd_a_sentence_carries_its_facts(stderr_of_a_unit: TextIO, journald: Journald) -> None:
    logs.configure("info", stderr_of_a_unit)
    structlog.get_logger().warning("Cannot watch", directory="/x", ids=[1, 2])
    entry = journald.entry()
    assert entry["MESSAGE"] == b"Cannot watch directory=/x ids=[1, 2]"
    assert entry["PRIORITY"] == b"4"
    assert "MESSAGE_ID" not in entry


def test_under_systemd_a_traceback_is_part_of_the_message(stderr_of_a_unit: TextIO, journald: Journald) -> None:
    logs.configure("info", stderr_of_a_unit)
    log_an_exception()
    message = journald.entry()["MESSAGE"].decode()
    assert message.startswith("Cannot go on\nTraceback")
    assert message.endswith("base 10: 'the cause'")


def test_while_journald_is_away_the_text_goes_to_stderr(stderr_of_a_unit: TextIO, journald: Journald) -> None:
    logs.configure("info", stderr_of_a_unit)
    journald.close()
    structlog.get_logger().warning("Nobody listens")
    stderr_of_a_unit.seek(0)
    assert stderr_of_a_unit.read() == "<4>Nobody listens\n"


def test_a_unit_whose_stderr_goes_to_a_file_logs_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    with (tmp_path / "log").open("w") as stream:
        assert logs.configure("info", stream) is logs.Destination.PROGRAM


def test_reconfiguring_reaches_loggers_that_were_used_before() -> None:
    log = structlog.get_logger()
    first, second = io.StringIO(), io.StringIO()
    for stream in (first, second):
        logs.configure("info", stream)
        log.info("Here")
    assert [len(lines(first)), len(lines(second))] == [1, 1]


def test_a_full_disk_stops_nobody_from_logging() -> None:
    with Path("/dev/full").open("w") as stream:
        logs.configure("info", stream)
        structlog.get_logger().info("lost")


def test_a_reader_that_stalls_loses_lines_and_is_told_how_many() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading) as reader:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        logs.configure("info", stream)
        log = structlog.get_logger()
        for number in range(200):
            log.info("line", number=number)
        while "dropped" not in (line := reader.readline()):
            log.info("again")
        assert int(re.search(r"\d+", line)[0]) > 100


def test_a_reader_that_has_gone_stops_nobody_from_logging() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    logs.configure("info", stream)
    structlog.get_logger().info("lost")
    with suppress(BrokenPipeError):
        stream.close()
