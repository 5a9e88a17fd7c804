"""The contract tests on a kernel in a guest and on its emulated twin, and how the two differ."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.contract.resctrl_mount import NOT_EMULATED
from tests.kernel.flavours import Flavour
from tests.kernel.lab.guest import CHECKOUT, Guest
from tests.kernel.twins import KERNELS

TIMEOUT_S = 900

_SAME_ON_BOTH = (
    *("-q", "--rootdir", ".", "-c", "/dev/null", "--confcutdir", "tests/contract", "--import-mode=importlib"),
    *("-p", "no:cacheprovider", "-p", "tests.contract.outcomes", "-o", "enable_assertion_pass_hook=true"),
)
"""Nothing of the host's configuration, so that a test has the same name on both sides."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one test on one side."""

    word: str
    """passed, left out, failed."""
    why: str
    """The reason for which it was left out."""
    assertions: int
    """How many passed."""


@dataclass(frozen=True, slots=True)
class Run:
    """All the tests on one side."""

    outcomes: Mapping[str, Outcome]
    output: str
    """What pytest printed."""

    @property
    def passed(self) -> int:
        return sum(outcome.word == "passed" for outcome in self.outcomes.values())

    @property
    def assertions(self) -> int:
        return sum(outcome.assertions for outcome in self.outcomes.values())


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of one kernel on one kind of hardware."""

    distribution: str
    flavour: str
    kernel: Run
    emulator: Run

    @property
    def not_emulated(self) -> int:
        """Tests that passed on the kernel, of what an emulator does not have."""
        return sum(
            outcome.word == "passed" and _not_emulated(self.emulator.outcomes.get(test))
            for test, outcome in self.kernel.outcomes.items()
        )

    @property
    def differences(self) -> list[str]:
        """A sentence for each test that did not pass or was not left out alike."""
        tests = sorted({*self.kernel.outcomes, *self.emulator.outcomes})
        both = ((test, self.kernel.outcomes.get(test), self.emulator.outcomes.get(test)) for test in tests)
        return [f"{test}: {_said(k)} on the kernel, {_said(e)} on the emulator" for test, k, e in both if _differ(k, e)]


def compare(distribution: str, flavour: Flavour) -> Comparison:
    """Run both sides at once. Raises LabError, and RuntimeError where tests could not be run at all."""
    with ThreadPoolExecutor(1) as aside:
        emulator = aside.submit(_on_emulator, distribution, flavour)
        kernel = _on_kernel(distribution, flavour)
        return Comparison(distribution, flavour.name, kernel, emulator.result())


def _on_kernel(distribution: str, flavour: Flavour) -> Run:
    outcomes = "/run/outcomes"
    arguments = _pytest("python3", flavour, Path(outcomes), "--resctrl=/sys/fs/resctrl", "--remount")
    command = f"cd /mnt/project && {shlex.join(arguments)} >&2; status=$?; cat {outcomes}; exit $status"
    finished = Guest(distribution, flavour.hardware).run(command, timeout_s=TIMEOUT_S, counters=flavour.counters)
    return _run(finished.status, finished.stdout, finished.stderr)


def _on_emulator(distribution: str, flavour: Flavour) -> Run:
    with tempfile.TemporaryDirectory() as directory:
        outcomes = Path(directory) / "outcomes"
        arguments = _pytest(
            sys.executable, flavour, outcomes, f"--twin={flavour.name}", f"--rules={KERNELS[distribution]}"
        )
        finished = subprocess.run(
            arguments,
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        written = outcomes.read_text() if outcomes.exists() else ""
        return _run(finished.returncode, written, finished.stdout + finished.stderr)


def _pytest(python: str, flavour: Flavour, outcomes: Path, *arguments: str) -> tuple[str, ...]:
    """Directories first: before pytest has read their conftest.py it takes what follows an option for one of them."""
    return (python, "-m", "pytest", *flavour.tests, *_SAME_ON_BOTH, f"--outcomes={outcomes}", *arguments)


def _run(status: int, outcomes: str, output: str) -> Run:
    if status not in (0, 1):
        raise RuntimeError(f"pytest ended with status {status}:\n{output}")
    lines = map(json.loads, outcomes.splitlines())
    return Run({line["test"]: Outcome(line["outcome"], line["why"], line["assertions"]) for line in lines}, output)


def _differ(kernel: Outcome | None, emulator: Outcome | None) -> bool:
    if kernel is None or emulator is None or "failed" in (kernel.word, emulator.word):
        return True
    if _not_emulated(emulator):
        return False
    return (kernel.word, kernel.why) != (emulator.word, emulator.why)


def _not_emulated(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.why.startswith(NOT_EMULATED)


def _said(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not there"
    return f"{outcome.word} ({outcome.why})" if outcome.why else outcome.word
