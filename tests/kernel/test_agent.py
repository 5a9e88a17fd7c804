"""The agent among a real systemd, runc and crun, on each kernel: what is in tests/kernel/inside, run in guests."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.kernel.lab import slots
from tests.kernel.lab.distributions import DISTRIBUTIONS
from tests.kernel.lab.guest import Guest

INSIDE = "tests/kernel/inside"

PARTS = {
    "services": ("test_services.py", "test_cgroups.py", "test_fork_races.py"),
    "containers": ("test_containers.py", "test_drift.py", "test_release.py"),
    "machine": ("test_remount.py", "test_hotplug.py", "test_workload_groups.py"),
    "starts": ("test_starts.py",),
}
"""What runs in one guest, where programs are compiled once. Remounting comes first: it wants a mount without a past."""

TIMEOUT_S = 900.0

RUNS = [(distribution, part) for part in reversed(PARTS) for distribution in DISTRIBUTIONS]
"""The longest first, so that no guest is idle at the end."""

IN_SAMPLE = {("debian-13", "services")}

_PYTEST = (
    *("python3", "-m", "pytest", "-q", "-rs", "--tb=short", "-c", "/dev/null", "--rootdir", "."),
    *("--confcutdir", INSIDE, "-p", "no:cacheprovider", "--import-mode=importlib"),
)
"""Nothing of the host's configuration, whose plugins a guest does not have."""

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
                yield f"{self.distribution}, {shown['title']}:\n\n{_drawn(shown['rows'])}\n"


Result = Callable[[tuple[str, str]], Ran]


@pytest.fixture(scope="module")
def result(request: pytest.FixtureRequest) -> Iterator[Result]:
    """All that is asked for, as many at once as there may be guests; at the end what it came to is shown."""
    wanted = [item.callspec.params["run"] for item in request.session.items if _is_run(item)]
    with ThreadPoolExecutor(slots.count()) as pool:
        running: dict[tuple[str, str], Future[Ran]] = {each: pool.submit(_run, *each) for each in wanted}
        yield lambda each: running[each].result()
        pool.shutdown(cancel_futures=True)
    done = [each.result() for each in running.values() if not each.cancelled() and not each.exception()]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n\n{_drawn([{'kernel of': r.distribution, 'tests': r.part, 'outcome': r.counts} for r in done])}\n")
        print("\n".join(table for each in done for table in each.tables))


def _is_run(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.function is test_what_is_shown_in_a_guest_holds


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, marks=pytest.mark.sample if run in IN_SAMPLE else ()) for run in RUNS],
    ids=["-".join(run) for run in RUNS],
)
def test_what_is_shown_in_a_guest_holds(run: tuple[str, str], result: Result) -> None:
    ran = result(run)
    if ran.status:
        pytest.fail(ran.output, pytrace=False)


def _run(distribution: str, part: str) -> Ran:
    arguments = (*_PYTEST, *(f"{INSIDE}/{file}" for file in PARTS[part]))
    command = f"cd /mnt/project && exec {shlex.join(arguments)} 2>&1"
    environment = {"PYTHONPATH": "/mnt/project", "PYTHONDONTWRITEBYTECODE": "1"}
    finished = Guest(distribution).run(command, timeout_s=TIMEOUT_S, environment=environment)
    return Ran(distribution, part, finished.status, finished.stdout)


def _drawn(rows: list[dict[str, object]]) -> str:
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(len(str(cell)) for cell in column) for column in zip(*lines, strict=True)]
    drawn = [f"| {' | '.join(str(c).ljust(w) for c, w in zip(line, widths, strict=True))} |" for line in lines]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([drawn[0], f"|{rule}|", *drawn[1:]])
