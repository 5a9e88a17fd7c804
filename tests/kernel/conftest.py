"""Kernel tests on the host: what a part of them is taken by, and the table that contract tests end with."""

from pathlib import Path

import pytest

from tests.kernel.contract_runs import Comparison

TABLE = pytest.StashKey[list[Comparison]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--table", type=Path, help="write the table of contract tests there too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sample: one of the few that stand for all where there is little time")
    config.stash[TABLE] = []


@pytest.fixture
def contract_table(pytestconfig: pytest.Config) -> list[Comparison]:
    """Gets a row for each comparison."""
    return pytestconfig.stash[TABLE]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    comparisons = config.stash[TABLE]
    if not comparisons:
        return
    text = table(comparisons)
    terminalreporter.section("contract tests: kernel and emulator")
    terminalreporter.write_line(text)
    file = config.getoption("--table")
    if file:
        file.write_text(text + "\n")


def table(comparisons: list[Comparison]) -> str:
    """As Markdown has it."""
    titles = (
        "kernel of",
        "hardware",
        "tests",
        "assertions, kernel",
        "assertions, emulator",
        "not emulated",
        "differences",
    )
    rows = [
        (
            each.distribution,
            each.flavour,
            each.kernel.passed,
            each.kernel.assertions,
            each.emulator.assertions,
            each.not_emulated,
            len(each.differences),
        )
        for each in comparisons
    ]
    sums = [sum(numbers) for numbers in list(zip(*rows, strict=True))[2:]]
    lines = [titles, *rows, (f"{len(rows)} in all", "", *sums)]
    widths = [max(len(str(line[column])) for line in lines) for column in range(len(titles))]
    drawn = [_drawn(line, widths) for line in lines]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([drawn[0], f"|{rule}|", *drawn[1:]])


def _drawn(line: tuple[object, ...], widths: list[int]) -> str:
    cells = zip(line, widths, strict=True)
    drawn = (str(cell).rjust(width) if isinstance(cell, int) else str(cell).ljust(width) for cell, width in cells)
    return f"| {' | '.join(drawn)} |"
