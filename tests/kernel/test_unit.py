"""The unit on each systemd, installed by ``make install``: what is in tests/kernel/inside/test_unit*.py."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest

from tests.kernel.in_guests import asked_for, at_once, results, run_inside, show
from tests.kernel.installation import PYTHONS, installed
from tests.kernel.lab.guest import Finished

PARTS = {
    "life": ("test_unit.py", "test_unit_journal.py"),
    "survival": ("test_unit_survival.py", "test_unit_removal.py"),
}
"""What runs in one guest."""

RUNS = [(distribution, part) for part in PARTS for distribution in PYTHONS]

IN_SAMPLE = {("debian-12", "life")}

RECORD = "/run/record-of-the-unit"

Runs = Mapping[tuple[str, str], "Future[Finished]"]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    """All that is asked for; at the end what was put on record is shown."""
    wanted = asked_for(request, "run")
    guests = {distribution: installed(distribution) for distribution, _ in wanted}
    with at_once(wanted, lambda run: run_inside(guests[run[0]], PARTS[run[1]], RECORD)) as running:
        yield running
    for (distribution, part), finished in results(running).items():
        show(request, f"=== {distribution}, {part}\n{finished.stderr}")


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, marks=pytest.mark.sample if run in IN_SAMPLE else ()) for run in RUNS],
    ids=["-".join(run) for run in RUNS],
)
def test_what_systemd_does_with_the_unit(run: tuple[str, str], runs: Runs) -> None:
    finished = runs[run].result()
    if finished.status:
        pytest.fail(finished.stdout, pytrace=False)
