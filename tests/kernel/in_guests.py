"""Running tests in guests from the host: pytest in a guest, several guests at once, and tables of what came of it."""

import shlex
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import pytest

from tests.kernel.lab import slots
from tests.kernel.lab.guest import Finished, Guest

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

INSIDE = "tests/kernel/inside"
"""The tests that run in guests, in the checkout."""

TIMEOUT_S = 900.0

_PYTEST = (
    *("python3", "-m", "pytest", "-q", "-rs", "--tb=short", "-c", "/dev/null", "--rootdir", "."),
    *("--confcutdir", INSIDE, "-p", "no:cacheprovider", "--import-mode=importlib"),
)
"""Nothing of the host's configuration, whose plugins a guest does not have."""


def run_inside(guest: Guest, files: Iterable[str], record: str = "/dev/null") -> Finished:
    """Runs these files of INSIDE. What pytest prints is in ``stdout``, what tests left in ``record`` in ``stderr``."""
    tests = shlex.join([*_PYTEST, *(f"{INSIDE}/{file}" for file in files)])
    command = f"cd /mnt/project; {tests} 2>&1; status=$?; cat {record} >&2; exit $status"
    environment = {"PYTHONPATH": "/mnt/project", "PYTHONDONTWRITEBYTECODE": "1"}
    return guest.run(command, timeout_s=TIMEOUT_S, environment=environment)


def asked_for(request: pytest.FixtureRequest, argument: str) -> list[tuple[str, str]]:
    """The values of ``argument`` for which a test of the requesting module is to be run."""
    functions = (item for item in request.session.items if isinstance(item, pytest.Function))
    own = (item for item in functions if item.path == request.path and argument in item.fixturenames)
    return [item.callspec.params[argument] for item in own]


@contextmanager
def at_once(keys: Iterable[K], run: Callable[[K], R]) -> Iterator[Mapping[K, "Future[R]"]]:
    """Runs for all keys, as many at once as there may be guests; what has not begun at the end never does."""
    with ThreadPoolExecutor(slots.count()) as pool:
        running = {key: pool.submit(run, key) for key in keys}
        yield running
        pool.shutdown(cancel_futures=True)


def results(running: Mapping[K, "Future[R]"]) -> dict[K, R]:
    """Of those that came to an end."""
    ended = {key: each for key, each in running.items() if each.done() and not each.cancelled()}
    return {key: each.result() for key, each in ended.items() if not each.exception()}


def show(request: pytest.FixtureRequest, text: str) -> None:
    """Prints, though pytest keeps back what tests print."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{text}")


def drawn(rows: Sequence[Mapping[str, object]]) -> str:
    """A table as Markdown has it, its titles the keys of each row; numbers to the right."""
    titles = list(rows[0])
    lines = [titles, *([row[title] for title in titles] for row in rows)]
    widths = [max(len(str(cell)) for cell in column) for column in zip(*lines, strict=True)]
    rule = "|".join("-" * (width + 2) for width in widths)
    first, *others = (_line(line, widths) for line in lines)
    return "\n".join([first, f"|{rule}|", *others])


def _line(cells: Sequence[object], widths: Sequence[int]) -> str:
    shown = (
        str(cell).rjust(w) if isinstance(cell, int) else str(cell).ljust(w)
        for cell, w in zip(cells, widths, strict=True)
    )
    return f"| {' | '.join(shown)} |"
