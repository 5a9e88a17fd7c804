"""Counters that are assigned to groups one by one, as Linux 7.2 shows AMD's."""

import errno

import pytest

from agent.emulator.errors import RefusedError
from agent.emulator.machines import Monitoring
from tests.unit.emulator.kernels import Operated
from tests.unit.emulator.machine_specs import ABMC

TOTAL, LOCAL = "mbm_total_bytes", "mbm_local_bytes"
FILE = "mbm_L3_assignments"
MODE = "info/L3_MON/mbm_assign_mode"


@pytest.fixture
def kernel() -> Operated:
    """Four counters in each of two domains, two of which the root group has."""
    assert isinstance(ABMC.monitoring, Monitoring)
    assert ABMC.monitoring.assignable_counters == 4
    return Operated(ABMC, "7.2")


def refusal(kernel: Operated, file: str, text: str) -> tuple[str, str]:
    with pytest.raises(RefusedError) as refused:
        kernel.write(file, text)
    return errno.errorcode[refused.value.errno or 0], kernel.status


def test_each_new_group_gets_counters_while_there_are_some(kernel: Operated) -> None:
    kernel.mkdir("a")
    kernel.mkdir("b")
    assert kernel.status == "".join(
        f"Failed to allocate counter for {event} in domain {domain}\n" for event in (TOTAL, LOCAL) for domain in (0, 1)
    )
    assert kernel.read(f"a/{FILE}") == f"{TOTAL}:0=e;1=e\n{LOCAL}:0=e;1=e\n"
    assert kernel.read(f"b/{FILE}") == f"{TOTAL}:0=_;1=_\n{LOCAL}:0=_;1=_\n"
    assert kernel.read("info/L3_MON/available_mbm_cntrs") == "0=0;1=0\n"


def test_a_removed_group_gives_its_counters_back(kernel: Operated) -> None:
    kernel.mkdir("a")
    kernel.rmdir("a")
    assert kernel.read("info/L3_MON/available_mbm_cntrs") == "0=2;1=2\n"


def test_new_groups_get_none_where_that_is_switched_off(kernel: Operated) -> None:
    kernel.write("info/L3_MON/mbm_assign_on_mkdir", "off")
    kernel.mkdir("a")
    assert kernel.read(f"a/{FILE}") == f"{TOTAL}:0=_;1=_\n{LOCAL}:0=_;1=_\n"


def test_what_no_counter_counts_reads_unassigned_unless_a_monitoring_group_has_one(kernel: Operated) -> None:
    kernel.write(FILE, f"{TOTAL}:0=_\n")
    assert kernel.read(f"mon_data/mon_L3_00/{TOTAL}") == "Unassigned\n"
    assert kernel.read(f"mon_data/mon_L3_01/{TOTAL}") == "0\n"
    kernel.mkdir("mon_groups/m")
    assert kernel.read(f"mon_data/mon_L3_00/{TOTAL}") == "0\n"


def test_nothing_is_read_after_a_star(kernel: Operated) -> None:
    kernel.write(FILE, f"{TOTAL}:*=_;0=e\n")
    assert kernel.read(FILE).splitlines()[0] == f"{TOTAL}:0=_;1=_"


def test_domains_before_a_mistake_are_assigned(kernel: Operated) -> None:
    assert refusal(kernel, FILE, f"{TOTAL}:0=_;7=e\n") == ("EINVAL", "Invalid domain id 7\n")
    assert kernel.read(FILE).splitlines()[0] == f"{TOTAL}:0=_;1=e"


@pytest.mark.parametrize(
    ("text", "code", "status"),
    [
        (f"{TOTAL}:0=x\n", "EINVAL", f"Assign operation '{TOTAL}:0=x' failed\n"),
        (f"{TOTAL}:0\n", "EINVAL", f"Assign operation '{TOTAL}:0=(null)' failed\n"),
        (f"{TOTAL}:*\n", "EINVAL", f"Assign operation '{TOTAL}:*=(null)' failed\n"),
        (f"{TOTAL}:;0=e\n", "EINVAL", "Missing domain id\n"),
        ("llc_occupancy:0=e\n", "ENOENT", "Invalid event llc_occupancy\n"),
        ("\n", "ENOENT", "Invalid event \n"),
    ],
)
def test_mistakes_are_named(kernel: Operated, text: str, code: str, status: str) -> None:
    assert refusal(kernel, FILE, text) == (code, status)


def test_a_full_domain_is_no_space(kernel: Operated) -> None:
    kernel.mkdir("a")
    kernel.mkdir("b")
    assert refusal(kernel, f"b/{FILE}", f"{LOCAL}:1=e\n") == (
        "ENOSPC",
        f"Failed to allocate counter for {LOCAL} in domain 1\nAssign operation '{LOCAL}:1=e' failed\n",
    )


def test_the_other_mode_forgets_all_and_has_files_of_its_own(kernel: Operated) -> None:
    events = "info/L3_MON/event_configs/mbm_total_bytes/event_filter"
    kernel.write(events, "dirty_victim_writes_all, local_reads\n")
    assert kernel.read(events) == "local_reads,dirty_victim_writes_all\n"
    assert "mbm_total_bytes_config" not in kernel.directory("info/L3_MON").entries

    kernel.write(MODE, "default\n")
    assert kernel.read(MODE) == "[default]\nmbm_event\n"
    assert kernel.read("info/L3_MON/mbm_total_bytes_config") == "0=0x7f;1=0x7f\n"
    for file in (FILE, events, "info/L3_MON/available_mbm_cntrs", "info/L3_MON/mbm_assign_on_mkdir"):
        with pytest.raises(RefusedError):
            kernel.read(file)

    kernel.write(MODE, "mbm_event\n")
    assert kernel.read(FILE) == f"{TOTAL}:0=_;1=_\n{LOCAL}:0=_;1=_\n"
    assert kernel.read(events).startswith("local_reads,remote_reads,")
    assert "mbm_total_bytes_config" not in kernel.directory("info/L3_MON").entries


@pytest.mark.parametrize(("text", "value"), [("y", "1"), ("on\n", "1"), ("Off", "0"), ("0", "0"), ("t", "1")])
def test_switches_are_read_by_their_first_letters(kernel: Operated, text: str, value: str) -> None:
    kernel.write("info/L3_MON/mbm_assign_on_mkdir", text)
    assert kernel.read("info/L3_MON/mbm_assign_on_mkdir") == f"{value}\n"


@pytest.mark.parametrize("version", ["6.1", "6.12"])
def test_older_kernels_do_not_know_of_it(version: str) -> None:
    root = Operated(ABMC, version)
    assert FILE not in root.directory("").entries
    assert root.read(f"mon_data/mon_L3_00/{TOTAL}") == "0\n"
