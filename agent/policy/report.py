"""Collecting what is wrong, so that one reading of the policy finds every mistake."""

from collections.abc import Iterable, Sequence

from agent.policy.model import Position
from agent.policy.nodes import Source
from agent.policy.problem import PolicyRefusedError, Problem, Severity

DROP_IN_DIRECTORY = "policy.d"
"""Beside the policy file; messages name drop-ins with it."""


def is_drop_in(file: str) -> bool:
    """Whether a file, by its name in messages, is a drop-in, or their directory itself."""
    return file.partition("/")[0] == DROP_IN_DIRECTORY


class Report:
    """The problems of one policy, each with the line it is about."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._lines = {source.file: source.lines for source in sources}
        self._found: list[Problem] = []

    def error(self, position: Position, message: str, hint: str | None = None) -> None:
        """Add what refuses the policy."""
        self._add(Severity.ERROR, position, message, hint)

    def warning(self, position: Position, message: str, hint: str | None = None) -> None:
        """Add what is likely not meant."""
        self._add(Severity.WARNING, position, message, hint)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add problems that were found elsewhere."""
        self._found += problems

    @property
    def has_errors(self) -> bool:
        """Whether the policy is refused by what was found so far."""
        return any(problem.severity is Severity.ERROR for problem in self._found)

    def warnings_or_refuse(self) -> tuple[Problem, ...]:
        """All problems, in the order in which the files are read; raises PolicyRefusedError where one is an error."""
        problems = tuple(sorted(self._found, key=_reading_order))
        if self.has_errors:
            raise PolicyRefusedError(problems)
        return problems

    def _add(self, severity: Severity, position: Position, message: str, hint: str | None) -> None:
        lines = self._lines.get(position.file, ())
        line = lines[position.line - 1] if 0 < position.line <= len(lines) else None
        self._found.append(Problem(severity, message, position, hint, line))


def _reading_order(problem: Problem) -> tuple[bool, Position]:
    return is_drop_in(problem.position.file), problem.position
