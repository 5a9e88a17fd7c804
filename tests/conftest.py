"""What a test needs of the machine, and what was left out where the machine does not have it.

In CI nothing is left out: a machine that cannot run a test fails it.
"""

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

NEEDS_ROOT = ("contract", "emulated", "kernel")
"""Directories in which every test needs root, marked or not."""


def _lacks_root() -> str | None:
    return None if os.geteuid() == 0 else "not root"


def _lacks_bpf() -> str | None:
    found = importlib.util.find_spec("bcc") is not None
    return None if found else "no bcc (Debian: python3-bpfcc, Fedora: python3-bcc)"


def _lacks_runc() -> str | None:
    missing = [program for program in ("runc", "gcc") if shutil.which(program) is None]
    return f"no {' and no '.join(missing)}" if missing else None


LACKS: dict[str, Callable[[], str | None]] = {"root": _lacks_root, "bpf": _lacks_bpf, "runc": _lacks_runc}
"""By marker: what the machine lacks for the tests that have it, or None."""


def pytest_configure() -> None:
    """How long an example takes says how busy the machine is, so none has a deadline.

    A checkout of somebody else's, or one made by root, can be tested too: without writing to it.
    """
    settings.register_profile("any machine", deadline=None)
    settings.register_profile("read-only checkout", deadline=None, database=None)
    writable = os.access(Path(__file__).parent.parent, os.W_OK)
    settings.load_profile("any machine" if writable else "read-only checkout")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _directory_of(item) in NEEDS_ROOT:
            item.add_marker("root")
    lacking = {} if os.environ.get("CI") else {marker: lack for marker in LACKS if (lack := LACKS[marker]())}
    for item in items:
        lacks = [lack for marker, lack in lacking.items() if item.get_closest_marker(marker)]
        if lacks:
            item.add_marker(pytest.mark.skip(reason=lacks[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"Left out, {reason}: {count}", yellow=True)


def _directory_of(item: pytest.Item) -> str:
    """The directory of tests/ that holds the test."""
    return item.path.relative_to(Path(__file__).parent).parts[0]
