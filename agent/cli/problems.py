"""Problems of a policy on stderr, each with the line of the file that it is about."""

from collections.abc import Iterable
from dataclasses import replace

from agent.cli.output import complain, remark
from agent.policy.problem import Problem, Severity
from agent.policy.read import read_policy_files
from agent.policy.render import as_text
from agent.service.places import Places


def tell_problems(problems: Iterable[Problem]) -> None:
    """All of them, in the order given."""
    for problem in problems:
        tell_of = complain if problem.severity is Severity.ERROR else remark
        tell_of(as_text(problem))


def tell_warnings(problems: Iterable[Problem], places: Places) -> None:
    """Those that are likely not meant. What was merely rounded is for ``check``."""
    tell_problems(quoting((p for p in problems if p.severity is Severity.WARNING), places))


def quoting(problems: Iterable[Problem], places: Places) -> tuple[Problem, ...]:
    """The problems with their source lines: those found by comparing with the machine know only a position.

    A file that cannot be read again leaves them as they are.
    """
    bare = tuple(problems)
    if all(problem.source_line is not None for problem in bare):
        return bare
    files = read_policy_files(places.policy, insecure=places.insecure_policy)
    lines = {source.file: source.lines for source in files.sources}
    return tuple(_with_line(problem, lines.get(problem.position.file, ())) for problem in bare)


def _with_line(problem: Problem, lines: list[str] | tuple[()]) -> Problem:
    number = problem.position.line
    if problem.source_line is not None or not 0 < number <= len(lines):
        return problem
    return replace(problem, source_line=lines[number - 1])


def counted(problems: Iterable[Problem]) -> str:
    """``2 errors, 1 warning``."""
    severities = [problem.severity for problem in problems]
    counts = ((severity.value, severities.count(severity)) for severity in Severity)
    return ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts if count)
