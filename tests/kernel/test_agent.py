"""The agent among a real systemd, runc and crun, on each kernel: what is in tests/kernel/inside, run in guests."""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import pytest

from tests.kernel.in_guests import asked_for, at_once, drawn, results, run_inside, show
from tests.kernel.lab.distributions import DISTRIBUTIONS
from tests.kernel.lab.guest import Guest

PARTS = {
    "services": ("test_services.py", "test_cgroups.py", "test_fork_races.py"),
    "containers": ("test_containers.py", "test_drift.py", "test_release.py"),
    "machine": ("test_remount.py", "test_hotplug.py", "test_workload_groups.py"),
    "starts": ("test_starts.py",),
}
"""What runs in one guest, where programs are compiled once. Remounting comes first: it wants a mount without a past."""

RUNS = [(distribution, part) for part in reversed(PARTS) for distribution in DISTRIBUTIONS]
"""The longest first, so that no guest is idle at the end."""

IN_SAMPLE = {("debian-13", "services")}

_TABLE = "table: "


@dataclass(frozen=True, slots=True)
class Ran:
    """Some of the tests, on one kernel."""

    distribution: str
    part: str
    status: int
    output: str

    @property
    def counts(self) -> str:
        """As pytest puts it: ``15 passed, 1 skipped``."""
        found = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", self.output.rstrip().rpartition("\n")[2])
        return ", ".join(found)

    @property
    def tables(self) -> Iterator[str]:
        """What tests counted, as Markdown has it."""
        for line in self.output.splitlines():
            if line.startswith(_TABLE):
                shown = json.loads(line.removeprefix(_TABLE))
                yield f"{self.distribution}, {shown['title']}:\n\n{drawn(shown['rows'])}\n"


Runs = Mapping[tuple[str, str], "Future[Ran]"]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    """All that is asked for; at the end what it came to is shown."""
    with at_once(asked_for(request, "run"), _run) as running:
        yield running
    done = results(running).values()
    if done:
        show(
            request, drawn([{"kernel of": ran.distribution, "tests": ran.part, "outcome": ran.counts} for ran in done])
        )
        show(request, "\n".join(table for ran in done for table in ran.tables))


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, marks=pytest.mark.sample if run in IN_SAMPLE else ()) for run in RUNS],
    ids=["-".join(run) for run in RUNS],
)
def test_what_is_shown_in_a_guest_holds(run: tuple[str, str], runs: Runs) -> None:
    ran = runs[run].result()
    if ran.status:
        pytest.fail(ran.output, pytrace=False)


def _run(run: tuple[str, str]) -> Ran:
    distribution, part = run
    finished = run_inside(Guest(distribution), PARTS[part])
    return Ran(distribution, part, finished.status, finished.stdout)
