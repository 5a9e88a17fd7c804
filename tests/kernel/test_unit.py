"""The unit on each systemd, installed by ``make install``: what is in tests/kernel/inside/test_unit*.py."""

import shlex
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.kernel.installation import PYTHONS, installed
from tests.kernel.lab import slots
from tests.kernel.lab.guest import Finished, Guest

INSIDE = "tests/kernel/inside"

PARTS = {
    "life": ("test_unit.py", "test_unit_journal.py"),
    "survival": ("test_unit_survival.py", "test_unit_removal.py"),
}
"""What runs in one guest."""

TIMEOUT_S = 900.0

RUNS = [(distribution, part) for part in PARTS for distribution in PYTHONS]

RECORD = "/run/record-of-the-unit"

_PYTEST = (
    *("python3", "-m", "pytest", "-q", "-rs", "--tb=short", "-c", "/dev/null", "--rootdir", "."),
    *("--confcutdir", INSIDE, "-p", "no:cacheprovider", "--import-mode=importlib"),
)

Results = dict[tuple[str, str], "Future[Finished]"]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    """All that is asked for, as many at once as there may be guests; at the end what was put on record is shown."""
    wanted = [item.callspec.params["run"] for item in request.session.items if _is_run(item)]
    guests = {distribution: installed(distribution) for distribution, _ in wanted}
    with ThreadPoolExecutor(slots.count()) as pool:
        running = {(name, part): pool.submit(_run, guests[name], part) for name, part in wanted}
        yield running
        pool.shutdown(cancel_futures=True)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        for (distribution, part), each in running.items():
            if not each.cancelled() and not each.exception():
                print(f"\n=== {distribution}, {part}\n{each.result().stderr}")


def _is_run(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.function is test_what_systemd_does_with_the_unit


@pytest.mark.parametrize("run", RUNS, ids=["-".join(run) for run in RUNS])
def test_what_systemd_does_with_the_unit(run: tuple[str, str], results: Results) -> None:
    finished = results[run].result()
    if finished.status:
        pytest.fail(finished.stdout, pytrace=False)


def _run(guest: Guest, part: str) -> Finished:
    """What was put on record comes by stderr."""
    tests = shlex.join([*_PYTEST, *(f"{INSIDE}/{file}" for file in PARTS[part])])
    command = f"cd /mnt/project; {tests} 2>&1; status=$?; cat {RECORD} >&2; exit $status"
    environment = {"PYTHONPATH": "/mnt/project", "PYTHONDONTWRITEBYTECODE": "1"}
    return guest.run(command, timeout_s=TIMEOUT_S, environment=environment)
