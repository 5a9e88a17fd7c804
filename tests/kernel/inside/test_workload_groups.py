"""A workload takes its counters along when it changes class: by rename where the kernel can, else thread by thread."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.emulated.running_agent import until
from tests.kernel.inside.guest_agent import RESCTRL, GuestAgent
from tests.kernel.inside.programs import compiled
from tests.kernel.inside.systemd import units
from tests.kernel.inside.whereabouts import DEADLINE_S, group_of, threads_in

UNIT = "changing.service"
THREADS = 500
FORKERS = 4
PAUSE_US = 5000

RENAME, EACH = "rename", "thread by thread"


def policy(of_the_unit: str) -> str:
    return f"""
version: 1
classes:
  batch: {{l3: 0-30%, mb: 50%, monitor: workload}}
  latency: {{l3: 30-100%, monitor: workload}}
  system: {{default: true}}
rules:
  - {{class: {of_the_unit}, when: {{unit: {UNIT}}}}}
"""


POLICY = policy("batch")


@pytest.fixture(scope="module")
def way() -> str:
    """How this kernel lets a workload change class: tried out on a monitoring group that nobody needs."""
    probe, renamed = RESCTRL / "mon_groups/probe", RESCTRL / "mon_groups/renamed"
    probe.mkdir()
    with suppress(PermissionError):
        probe.rename(renamed)
    able = renamed.exists()
    (renamed if able else probe).rmdir()
    return RENAME if able else EACH


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("crowd", tmp_path_factory.mktemp("crowd"))


@pytest.fixture
def cgroup(agent: GuestAgent, crowd: Path) -> Iterator[str]:
    """A service of many threads some of which fork all the time, and which uses the memory's bandwidth."""
    agent.follow(POLICY)
    with units() as own:
        own.run(UNIT, crowd, THREADS, FORKERS, PAUSE_US)
        cgroup = own.cgroup(UNIT)
        until(lambda: len(threads_in(cgroup)) >= THREADS, "all threads have started", DEADLINE_S)
        until(lambda: all_in(cgroup, "batch", f"mon:{UNIT}"), "all are in their groups", DEADLINE_S)
        yield cgroup


def all_in(cgroup: str, control: str, monitoring: str) -> bool:
    for tid in threads_in(cgroup):
        with suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{tid}/cpu_resctrl_groups").read_text().splitlines() != [f"res:{control}", monitoring]:
                return False
    return True


def total_bytes(control: str) -> int:
    """What the workload's group has counted, all domains together; none of them unavailable."""
    files = (RESCTRL / control / "mon_groups" / UNIT / "mon_data").glob("mon_L3_*/mbm_total_bytes")
    return sum(int(file.read_text()) for file in files)


def test_500_threads_change_class_with_their_counters_while_they_fork(
    agent: GuestAgent, cgroup: str, way: str, table: Callable[[str, Sequence[Mapping[str, object]]], None]
) -> None:
    until(lambda: total_bytes("batch") > 0, "something is counted", DEADLINE_S)
    rows = []
    for former, control in (("batch", "latency"), ("latency", "batch")):
        inode = (RESCTRL / former / "mon_groups" / UNIT).stat().st_ino
        told = len(carried(agent))
        counted = total_bytes(former)
        agent.follow(policy(control))
        at_once = total_bytes(control) if way == RENAME else 0
        until(lambda control=control: all_in(cgroup, control, f"mon:{UNIT}"), f"all are in {control}", DEADLINE_S)
        until(lambda former=former: not agent.tasks(former), f"nothing is left in {former}", DEADLINE_S)
        assert not (RESCTRL / former / "mon_groups" / UNIT).exists()
        if way == RENAME:
            assert (RESCTRL / control / "mon_groups" / UNIT).stat().st_ino == inode
            assert at_once >= counted
            assert len(carried(agent)) == told + 1
            assert carried(agent)[-1]["threads"] >= THREADS
        else:
            assert len(carried(agent)) == told
        rows.append(
            {
                "kernel": os.uname().release,
                "from": former,
                "to": control,
                "how": way,
                "threads": len(threads_in(cgroup)),
                "counted before": counted,
                "counted after": at_once or total_bytes(control),
            }
        )
    table("500 threads change class while they fork", rows)
    assert agent.status()["misplaced"] == 0


def carried(agent: GuestAgent) -> list[dict[str, object]]:
    """What was told of workloads that changed class all at once."""
    return [line for line in agent.log("placed") if line.get("cause") == "group_moved"]


def test_children_born_while_the_class_changes_end_where_the_others_are(agent: GuestAgent, cgroup: str) -> None:
    for control in ("latency", "batch") * 4:
        agent.follow(policy(control))
    until(lambda: all_in(cgroup, "batch", f"mon:{UNIT}"), "all are in batch", DEADLINE_S)
    assert {group_of(tid) for tid in threads_in(cgroup)} - {None} == {"batch"}


def test_the_group_of_a_service_goes_with_it(agent: GuestAgent, cgroup: str) -> None:
    with units() as own:
        own.stop(UNIT)
    until(lambda: not (RESCTRL / "batch/mon_groups" / UNIT).exists(), "its group is gone", DEADLINE_S)
