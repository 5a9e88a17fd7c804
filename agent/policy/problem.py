"""What is wrong with a policy, as a value: the text, the JSON and the journal show the same one."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from agent.policy.model import Position


class Severity(Enum):
    """An error refuses the policy; a warning says what is likely not meant; a note what was rounded."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, where it is, and what would help."""

    severity: Severity
    message: str
    position: Position
    hint: str | None = None
    source_line: str | None = None
    """The line of the file, without its newline, for the caret below it."""


class PolicyRefusedError(Exception):
    """The policy has at least one error. ``problems`` holds all of them, warnings too, in the file's order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [p for p in self.problems if p.severity is Severity.ERROR]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{errors[0].position}: {errors[0].message}{more}")
