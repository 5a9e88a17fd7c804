"""What goes to stdout: JSON as it is, text as the terminal can show it."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

from agent.cli.ways import HELD, NOT_HELD, SHARED
from agent.service.journal import is_journal_stream

_STDERR = 2

_WITHOUT_UNICODE = str.maketrans({HELD: "#", SHARED: "+", NOT_HELD: ".", "→": "->", "–": "-", "×": "x", "…": "..."})

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != ord("\n")}
"""Anybody may put them into the name of a process or a cgroup, and a terminal obeys them."""

_COLOURS = {HELD: "32", SHARED: "33", NOT_HELD: "2"}
"""SGR parameters: green, yellow, faint."""


def tell_json(value: Mapping[str, object]) -> None:
    """One document."""
    print(json.dumps(value, indent=2))


def tell(lines: Iterable[str]) -> None:
    """Lines of text, at once. Signs that stdout's encoding lacks become ASCII, and so does what else it cannot take.

    So do control characters.
    """
    for line in lines:
        print(_encodable(line.translate(_CONTROLS), sys.stdout))
    sys.stdout.flush()


def tell_drawing(lines: Iterable[str]) -> None:
    """The same for drawings of ways, coloured where somebody looks at a terminal and NO_COLOR is not set."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    for line in (line.translate(_CONTROLS) for line in lines):
        print(_encodable(_painted(line) if coloured else line, sys.stdout))


def complain(text: str) -> None:
    """Lines of an error on stderr; for the journal each with its priority, so that ``journalctl -p err`` finds it."""
    prefix = "<3>" if is_journal_stream(_STDERR) else ""
    for line in text.splitlines():
        print(prefix + line, file=sys.stderr)


def remark(text: str) -> None:
    """Lines on stderr that are no error."""
    print(text, file=sys.stderr)


def _painted(line: str) -> str:
    for sign, colour in _COLOURS.items():
        line = re.sub(f"{sign}+", rf"\033[{colour}m\g<0>\033[0m", line)
    return line


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "ascii"
    if encoding.lower().replace("-", "") == "utf8":
        return text.encode(errors="backslashreplace").decode()
    return text.translate(_WITHOUT_UNICODE).encode(encoding, "backslashreplace").decode(encoding)
