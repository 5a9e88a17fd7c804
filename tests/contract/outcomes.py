"""A pytest plugin: what became of each test, and how many of its assertions passed, a line of JSON for each.

pytest -p tests.contract.outcomes --outcomes FILE -o enable_assertion_pass_hook=true
"""

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, required=True, help="where to write them")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Outcomes(config.getoption("--outcomes")))


class Outcomes:
    """Writes as tests end, so that what was found is there though the machine goes away."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("w", buffering=1)
        self._outcome = "passed"
        self._why = ""
        self._assertions = 0

    def pytest_runtest_logstart(self) -> None:
        self._outcome, self._why, self._assertions = "passed", "", 0

    def pytest_assertion_pass(self) -> None:
        self._assertions += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of its three phases the first that does not pass decides."""
        if self._outcome == "passed" and not report.passed:
            self._outcome = "left out" if report.skipped else "failed"
            self._why = _reason(report) if report.skipped else ""

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        line = {"test": nodeid, "outcome": self._outcome, "why": self._why, "assertions": self._assertions}
        self._file.write(json.dumps(line) + "\n")

    def pytest_unconfigure(self) -> None:
        self._file.close()


def _reason(report: pytest.TestReport) -> str:
    assert isinstance(report.longrepr, tuple)
    return str(report.longrepr[2]).removeprefix("Skipped: ")
