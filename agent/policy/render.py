"""Problems as people read them, with a caret, and as JSON."""

import unicodedata
from typing import Any

from agent.policy.problem import Problem

_WIDTH = 100
"""Characters of a source line that are shown; a policy may be one line of JSON."""


def as_text(problem: Problem) -> str:
    """``policy.yaml:12:9: error: …``, the source line with a caret below, and the hint; no newline at the end."""
    lines = [f"{problem.position}: {problem.severity.value}: {problem.message}"]
    if problem.source_line is not None:
        lines += _pointed_out(problem.source_line, problem.position.column - 1)
    if problem.hint is not None:
        lines.append(f"hint: {problem.hint}")
    return "\n".join(lines)


def as_json(problem: Problem) -> dict[str, Any]:
    """What ``--output json`` shows of a problem; ``hint`` is None where there is none.

    A problem of the file as a whole stands at its beginning, where an editor shows it.
    """
    return {
        "file": problem.position.file,
        "line": max(problem.position.line, 1),
        "column": max(problem.position.column, 1),
        "severity": problem.severity.value,
        "message": problem.message,
        "hint": problem.hint,
    }


def _pointed_out(line: str, at: int) -> list[str]:
    start = 0 if at < _WIDTH else at - _WIDTH // 2
    shown = "".join(
        c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line[start : start + _WIDTH]
    )
    before = "".join(_blank(c) for c in shown[: at - start])
    return [f"    {shown}", f"    {before}^"]


def _blank(character: str) -> str:
    """As wide as the character is in a terminal, so that the caret stands below what it means."""
    if character == "\t":
        return "\t"
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in ("W", "F") else " "
