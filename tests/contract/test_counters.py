"""What counters count (§§ 5–8, 12). Needs traffic, which an emulator does not have."""

import os
import subprocess

import pytest

from tests.contract.resctrl_mount import Processes, Resctrl, wait_until

BUSY = "while True: pass"
WORDS = {"Unavailable\n", "Error\n"}


@pytest.fixture(autouse=True)
def counting(resctrl: Resctrl) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    resctrl.need_real("nothing is counted")


@pytest.fixture
def two_groups(resctrl: Resctrl) -> None:
    """Control groups ``a`` and ``b``, and ``a/mon_groups/m``."""
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    for group in ("a", "b", "a/mon_groups/m"):
        resctrl.mkdir(group)


def events(resctrl: Resctrl) -> list[str]:
    return [line for line in resctrl.read("info/L3_MON/mon_features").split() if not line.endswith("_config")]


def traffic(resctrl: Resctrl) -> str:
    """The event that counts the most."""
    counted = [event for event in ("mbm_total_bytes", "mbm_local_bytes") if event in events(resctrl)]
    if not counted:
        pytest.skip("no traffic is counted")
    return counted[0]


def texts(resctrl: Resctrl, group: str, event: str) -> list[str]:
    return [path.read_text() for path in sorted((resctrl.path / group).glob(f"mon_data/mon_L3_*/{event}"))]


def total(resctrl: Resctrl, group: str, event: str) -> int:
    """Of all caches."""
    return sum(map(int, texts(resctrl, group, event)))


def busy(resctrl: Resctrl, processes: Processes, *groups: str, cpu: int | None = None) -> "subprocess.Popen[str]":
    """A process that causes traffic, put into one group after the other."""
    process = processes.start(BUSY)
    if cpu is not None:
        os.sched_setaffinity(process.pid, {cpu})
    for group in groups:
        resctrl.write(f"{group}/tasks", str(process.pid))
    return process


def wait_for(resctrl: Resctrl, group: str, event: str, more_than: int = 0) -> None:
    wait_until(lambda: total(resctrl, group, event) > more_than, f"{event} of {group or 'the root'} > {more_than}")


def test_a_group_counts_what_its_tasks_do(resctrl: Resctrl, two_groups: None, processes: Processes) -> None:
    busy(resctrl, processes, "b")
    for event in events(resctrl):
        wait_for(resctrl, "b", event)
    if {"mbm_total_bytes", "mbm_local_bytes"} <= set(events(resctrl)):
        local = total(resctrl, "b", "mbm_local_bytes")
        assert local <= total(resctrl, "b", "mbm_total_bytes")
    assert total(resctrl, "a/mon_groups/m", traffic(resctrl)) == 0


def test_a_control_group_counts_its_monitoring_groups_with_its_own(
    resctrl: Resctrl, two_groups: None, processes: Processes
) -> None:
    event = traffic(resctrl)
    process = busy(resctrl, processes, "a", "a/mon_groups/m")
    wait_for(resctrl, "a/mon_groups/m", event)
    process.kill()
    process.wait()
    theirs = total(resctrl, "a/mon_groups/m", event)
    assert total(resctrl, "a", event) >= theirs > 0
    busy(resctrl, processes, "a")
    wait_for(resctrl, "a", event, more_than=2 * theirs)
    assert total(resctrl, "a/mon_groups/m", event) == theirs


def test_a_moved_monitoring_group_goes_on_counting(resctrl: Resctrl, two_groups: None, processes: Processes) -> None:
    if resctrl.kernel == "6.1":
        pytest.skip("groups cannot be moved")
    event = traffic(resctrl)
    process = busy(resctrl, processes, "a", "a/mon_groups/m")
    wait_for(resctrl, "a/mon_groups/m", event)
    process.kill()
    process.wait()
    before = total(resctrl, "a/mon_groups/m", event)
    resctrl.rename("a/mon_groups/m", "b/mon_groups/m")
    assert total(resctrl, "b/mon_groups/m", event) == before
    assert total(resctrl, "b", event) >= before


def test_occupancy_does_not_follow_a_task_that_moves(resctrl: Resctrl, two_groups: None, processes: Processes) -> None:
    if "llc_occupancy" not in events(resctrl):
        pytest.skip("no occupancy is counted")
    process = busy(resctrl, processes, "a")
    wait_for(resctrl, "a", "llc_occupancy")
    resctrl.write("b/tasks", str(process.pid))
    assert total(resctrl, "a", "llc_occupancy") > 0


def test_a_new_group_counts_from_zero_though_its_rmid_was_in_use(resctrl: Resctrl, processes: Processes) -> None:
    """Of all the RMIDs there are, one is that of the group that is gone."""
    event = traffic(resctrl)
    resctrl.mkdir("mon_groups/m")
    process = busy(resctrl, processes, "mon_groups/m")
    wait_for(resctrl, "mon_groups/m", event)
    process.kill()
    process.wait()
    forget_quickly(resctrl)
    resctrl.rmdir("mon_groups/m")
    groups = [resctrl.mkdir(f"mon_groups/m{n}") for n in range(resctrl.number("L3_MON", "num_rmids") - 1)]
    found = {text for group in groups for text in texts(resctrl, group, event)}
    assert "0\n" in found
    assert found <= {"0\n", "Unassigned\n"}


def forget_quickly(resctrl: Resctrl) -> None:
    """However much a removed group still occupies, its RMID can be had again."""
    largest = 1 << 31
    while largest:
        try:
            resctrl.write("info/L3_MON/max_threshold_occupancy", str(largest))
        except OSError:
            largest >>= 1
        else:
            return


def test_tasks_of_the_root_count_for_the_group_of_their_cpu(
    resctrl: Resctrl, two_groups: None, processes: Processes
) -> None:
    resctrl.write("b/cpus_list", "1")
    busy(resctrl, processes, cpu=1)
    wait_for(resctrl, "b", traffic(resctrl))


def test_tasks_of_another_group_count_for_that(resctrl: Resctrl, two_groups: None, processes: Processes) -> None:
    event = traffic(resctrl)
    resctrl.write("b/cpus_list", "1")
    busy(resctrl, processes, "a", cpu=1)
    before = total(resctrl, "b", event)
    wait_for(resctrl, "a", event, more_than=10 * before)
    assert total(resctrl, "b", event) < total(resctrl, "a", event)


def test_those_of_a_monitoring_group_of_the_root_count_for_that(
    resctrl: Resctrl, two_groups: None, processes: Processes
) -> None:
    """Their RMID is their own, though their CLOSID is that of the CPU's group."""
    resctrl.write("b/cpus_list", "1")
    resctrl.mkdir("mon_groups/m")
    busy(resctrl, processes, "mon_groups/m", cpu=1)
    wait_for(resctrl, "mon_groups/m", traffic(resctrl))


def test_a_counter_without_a_value_reads_as_a_word(resctrl: Resctrl) -> None:
    """Reading it succeeds. Here it is the counters of the first RMID, which is the root's, that have none.

    With a monitoring group a control group reads as the sum of what can be read.
    """
    found = {text for event in events(resctrl) for text in texts(resctrl, "", event)}
    if not found & WORDS:
        pytest.skip("all counters have a value")
    assert len(found) == 1
    assert found < WORDS
    resctrl.mkdir("mon_groups/m")
    for event in events(resctrl):
        assert all(text.strip().isdecimal() for text in texts(resctrl, "", event))
