"""What somebody else changes on the kernel's resctrl is put right."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulated.running_agent import until
from tests.kernel.inside.guest_agent import RESCTRL, GuestAgent, schemata
from tests.kernel.inside.systemd import Units, units
from tests.kernel.inside.whereabouts import DEADLINE_S, await_placed, threads_in

POLICY = """\
version: 1
classes:
  batch: {l3: 0-25%, mb: 20%}
  system: {default: true, l3: 50-100%}
rules:
  - {class: batch, when: {unit: "crunching*.service"}}
"""

OPTIONS = ("--audit-interval", "1")

ERRORS = frozenset({'*"batch": * failed: No such *'})
"""It may be that a group is used just when somebody has removed it."""

THREADS, CHILDREN = 3, 2
ALL_THREADS = THREADS * (1 + CHILDREN)
CGROUP = "/system.slice/crunching.service"
PLACED = {"batch": {CGROUP: ALL_THREADS}}


@pytest.fixture
def system() -> Iterator[Units]:
    with units() as made:
        yield made


@pytest.fixture
def crunching(agent: GuestAgent, system: Units, worker: Path) -> None:
    system.run("crunching.service", worker, str(THREADS), str(CHILDREN))
    await_placed(agent, PLACED)


def test_schemata_that_somebody_wrote_are_put_right(agent: GuestAgent) -> None:
    before = schemata("batch"), schemata("")
    told = len(agent.log("drift corrected"))
    (RESCTRL / "batch/schemata").write_text("L3:0=fff;1=1\nMB:1=90\n")
    (RESCTRL / "schemata").write_text("L3:1=f\n")
    records = agent.wait_for("drift corrected", told + 2)
    until(lambda: (schemata("batch"), schemata("")) == before, "all is as before", DEADLINE_S)
    assert {record["group"] for record in records[told:]} == {"batch", ""}


@pytest.mark.usefixtures("crunching")
def test_a_group_that_somebody_removed_is_made_again_with_its_threads(agent: GuestAgent) -> None:
    before = schemata("batch")
    (RESCTRL / "batch").rmdir()
    await_placed(agent, PLACED)
    assert schemata("batch") == before


@pytest.mark.usefixtures("crunching")
@pytest.mark.parametrize("group", ["", "theirs"])
def test_threads_that_somebody_moved_are_put_back(agent: GuestAgent, group: str) -> None:
    (RESCTRL / group).mkdir(exist_ok=True)
    try:
        for tid in threads_in(CGROUP):
            (RESCTRL / group / "tasks").write_text(str(tid))
        await_placed(agent, PLACED)
        assert (RESCTRL / group).is_dir()
    finally:
        if group:
            (RESCTRL / group).rmdir()


def test_nothing_drifts_by_itself(agent: GuestAgent) -> None:
    status = agent.status()
    assert status["drift"] == []
    assert status["misplaced"] == 0
