"""How the agent logs: readable on a terminal, with fields in the journal, as JSON lines anywhere else.

Callers use ``structlog.get_logger()`` and name an event of ``messages.py`` or write a sentence, with facts as keyword
arguments; a key that is a Python word carries an underscore (``class_``) and loses it here.
"""

import io
import json
import logging
import os
import select
import stat
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.processors import CallsiteParameter, CallsiteParameterAdder
from structlog.typing import EventDict, Processor, WrappedLogger

from agent.service import journal
from agent.service.messages import MESSAGES

LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

IDENTIFIER = "resctrl-agent"
"""SYSLOG_IDENTIFIER of every entry, so that ``journalctl -t`` finds a command's entries like the service's."""

_PRIORITIES: Mapping[str, str] = {"critical": "2", "error": "3", "warning": "4", "info": "6", "debug": "7"}

_CALLSITE: Mapping[str, str] = {"pathname": "CODE_FILE", "lineno": "CODE_LINE", "func_name": "CODE_FUNC"}


class Destination(Enum):
    """Who reads the log."""

    TERMINAL = "terminal"
    JOURNAL = "journal"
    PROGRAM = "program"


def configure(level: str = "info", stream: TextIO | None = None) -> Destination:
    """Send everything at or above ``level`` (a key of LEVELS) to whoever reads ``stream`` (None: stderr).

    What libraries log with ``logging`` goes the same way. Returns who reads. Raises KeyError for an unknown level.
    """
    stream = stream or sys.stderr or io.StringIO()  # stderr may have been closed before we started
    destination = _destination(stream)
    processors, factory = _OUTPUTS[destination](stream)
    structlog.configure(
        processors=[structlog.stdlib.add_log_level, *processors],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Forwarder()], level=LEVELS[level], force=True)
    return destination


def _destination(stream: TextIO) -> Destination:
    try:
        fd = stream.fileno()
    except (OSError, ValueError):
        return Destination.PROGRAM
    if os.isatty(fd):
        return Destination.TERMINAL
    if journal.is_journal_stream(fd) and Path(journal.SOCKET_PATH).exists():
        return Destination.JOURNAL
    return Destination.PROGRAM


_Output = tuple[list[Processor], Callable[..., WrappedLogger]]


def _terminal(stream: TextIO) -> _Output:
    renderer = structlog.dev.ConsoleRenderer(
        0,  # the width events are padded to; its keyword has changed its name
        colors="NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb",
        exception_formatter=structlog.dev.plain_traceback,
        sort_keys=False,
    )
    stamp = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
    return [stamp, _tell_in_a_sentence, renderer], _line_writer(stream)


def _program(stream: TextIO) -> _Output:
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    return [stamp, structlog.processors.format_exc_info, _json_line], _line_writer(stream)


def _journal(stream: TextIO) -> _Output:
    callsite = CallsiteParameterAdder(
        {CallsiteParameter.PATHNAME, CallsiteParameter.LINENO, CallsiteParameter.FUNC_NAME},
        additional_ignores=[__name__],
    )
    writer = _JournalWriter(journal.Journal(journal.SOCKET_PATH), stream)
    return [callsite, structlog.processors.format_exc_info, _journal_fields], lambda *_: writer


_OUTPUTS: Mapping[Destination, Callable[[TextIO], _Output]] = {
    Destination.TERMINAL: _terminal,
    Destination.PROGRAM: _program,
    Destination.JOURNAL: _journal,
}


def _tell_in_a_sentence(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A stable event's sentence instead of its name, without the fields that are in it."""
    message = MESSAGES.get(event["event"])
    if message is None:
        return _plain_keys(event)
    told = {"event": message.sentence(event)}
    return _plain_keys({key: value for key, value in event.items() if key not in message.fields} | told)


def _json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    fields = _plain_keys(event)
    head = {"timestamp": fields.pop("timestamp"), "level": fields.pop("level"), "event": fields.pop("event")}
    message = MESSAGES.get(head["event"])
    if message is not None:
        head["message"] = message.sentence(event)
    return json.dumps(head | fields, default=_plain)


def _journal_fields(
    _logger: WrappedLogger, _method: str, event: EventDict
) -> tuple[tuple[dict[str, str]], dict[str, Any]]:
    """What structlog calls the writer with: the entry's fields."""
    name, level, trace = event.pop("event"), event.pop("level"), event.pop("exception", None)
    code = {field: str(event.pop(key)) for key, field in _CALLSITE.items() if key in event}
    message = MESSAGES.get(name)
    text = message.sentence(event) if message else _with_facts(name, event)
    entry = {
        "MESSAGE": f"{text}\n{trace}" if trace else text,
        "PRIORITY": _PRIORITIES[level],
        "SYSLOG_IDENTIFIER": IDENTIFIER,
    }
    if message:
        entry["MESSAGE_ID"] = message.id
    own = {f"RESCTRL_{journal.field_name(key)}": _text(value) for key, value in _plain_keys(event).items()}
    return (entry | code | own,), {}


def _line_writer(stream: TextIO) -> Callable[..., WrappedLogger]:
    writer = _LineWriter(stream)
    return lambda *_: writer


class _LineWriter:
    """Lines to a terminal, a file or a pipe. Neither a full disk nor a reader that has gone or stalled stops the agent.

    What could not be written is dropped, and how much it was is said as soon as something can be written again.
    """

    def __init__(self, stream: TextIO) -> None:
        self._write, self._has_room = _writing_to(stream)
        self._dropped = 0

    def msg(self, line: str) -> None:
        before = f"({self._dropped} lines of this log were dropped)\n" if self._dropped else ""
        try:
            if self._has_room():
                self._write(f"{before}{line}\n")
                self._dropped = 0
                return
        except OSError:
            pass  # counted below
        self._dropped += 1

    debug = info = warning = error = critical = exception = msg


def _writing_to(stream: TextIO) -> tuple[Callable[[str], object], Callable[[], object]]:
    """How to write a text past the stream's buffer, which would keep what could not be written, and whether it can be.

    Where a write may have to wait (for a pipe's reader, for a terminal), there is room when a line of PIPE_BUF bytes
    would not have to; longer ones are cut.
    """
    try:
        fd = stream.fileno()
        mode = os.fstat(fd).st_mode
    except (OSError, ValueError):
        return stream.write, lambda: True

    def write(text: str) -> None:
        left = text.encode(errors="backslashreplace")
        while left:
            left = left[os.write(fd, left) :]

    if stat.S_ISREG(mode):
        return write, lambda: True
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return lambda text: write(text if len(text) < select.PIPE_BUF // 4 else _cut(text)), lambda: poll.poll(0)


def _cut(text: str) -> str:
    kept = text.encode(errors="backslashreplace")[: select.PIPE_BUF - 1].decode(errors="ignore")
    return kept if kept.endswith("\n") else f"{kept}\n"


class _JournalWriter:
    """The end of the line under systemd. While journald is away, texts go to the stream, which systemd keeps."""

    def __init__(self, to: journal.Journal, stream: TextIO) -> None:
        self._journal = to
        self._lines = _LineWriter(stream)

    def msg(self, entry: dict[str, str]) -> None:
        try:
            self._journal.send(journal.encode(entry))
        except OSError:
            self._lines.msg(f"<{entry['PRIORITY']}>{entry['MESSAGE']}")

    debug = info = warning = error = critical = exception = msg

    def close(self) -> None:
        self._journal.close()


class _Forwarder(logging.Handler):
    """What libraries say through ``logging`` (asyncio's forgotten exceptions above all)."""

    def emit(self, record: logging.LogRecord) -> None:
        facts = {"exc_info": record.exc_info} if record.exc_info else {}
        level = min(record.levelno // 10 * 10, logging.CRITICAL)  # structlog knows no levels between the named ones
        structlog.get_logger().log(level, record.getMessage(), logger=record.name, **facts)


def _plain_keys(event: Mapping[str, Any]) -> dict[str, Any]:
    return {key.rstrip("_"): value for key, value in event.items()}


def _with_facts(sentence: str, event: EventDict) -> str:
    """What journalctl shows is MESSAGE alone, so the facts follow the sentence there."""
    return " ".join([sentence, *(f"{key}={_text(value)}" for key, value in _plain_keys(event).items())])


def _text(value: object) -> str:
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return json.dumps(value, default=_plain)
    return str(value)


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, (set, frozenset)) else str(value)
