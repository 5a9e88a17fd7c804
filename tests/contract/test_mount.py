"""Mounting and unmounting, and what its options change (§§ 2, 3, 5, 10, 13)."""

import os
from collections import deque
from pathlib import Path

import pytest

from tests.contract.mounting import Mounting, mount_resctrl
from tests.contract.resctrl_mount import Processes, Resctrl, errno_of, lowest_ways

PLAIN: frozenset[str] = frozenset()


def takes(mounting: Mounting, *options: str) -> bool:
    """Whether it can be mounted so; it is not mounted afterwards."""
    try:
        mounting.mount(frozenset(options))
    except OSError:
        return False
    mounting.unmount()
    return True


def mounted_with(mounting: Mounting, *options: str) -> None:
    """Mount it so, or leave the test out where that is not possible."""
    if not takes(mounting, *options):
        pytest.skip(f"it cannot be mounted with {', '.join(options)}")
    mounting.mount(frozenset(options))


def numbers_of_closids(resctrl: Resctrl) -> dict[str, int]:
    return {file.parent.name: int(file.read_text()) for file in resctrl.path.glob("info/*/num_closids")}


# What is refused


@pytest.mark.parametrize("option", ["junk", "CDP", "cdp=1", "mba_mbps", "nodebug"])
def test_an_option_that_nobody_knows_is_refused(remounting: Mounting, option: str) -> None:
    assert errno_of(lambda: remounting.mount(frozenset({option}))) == "EINVAL"


def test_a_known_option_does_not_help_an_unknown_one(remounting: Mounting, resctrl: Resctrl) -> None:
    assert errno_of(lambda: remounting.mount(remounting.options | {"junk"})) == "EINVAL"
    assert not (resctrl.path / "info").exists()


def test_debug_is_an_option_from_6_7_on(remounting: Mounting, resctrl: Resctrl) -> None:
    if resctrl.kernel == "6.1":
        assert errno_of(lambda: remounting.mount(frozenset({"debug"}))) == "EINVAL"
    else:
        assert takes(remounting, "debug")


@pytest.mark.parametrize(("option", "cache"), [("cdp", "L3"), ("cdpl2", "L2")])
def test_code_and_data_are_told_apart_only_where_hardware_can(
    remounting: Mounting, resctrl: Resctrl, option: str, cache: str
) -> None:
    """Where it can, and is not asked to, the name leaves room for the longer ones."""
    remounting.mount(PLAIN)
    names = [line.partition(":")[0] for line in resctrl.read("schemata").splitlines()]
    remounting.unmount()
    if f"    {cache}" in names:
        remounting.mount(frozenset({option}))
        assert {f"{cache}CODE", f"{cache}DATA"} <= set(resctrl.schemata())
        assert cache not in resctrl.schemata()
    else:
        assert errno_of(lambda: remounting.mount(frozenset({option}))) == "EINVAL"


def test_names_are_as_wide_as_the_longest_that_there_could_be(remounting: Mounting, resctrl: Resctrl) -> None:
    able = takes(remounting, "cdp") or takes(remounting, "cdpl2")
    remounting.mount(PLAIN)
    widths = {len(line.partition(":")[0]) for line in resctrl.read("schemata").splitlines()}
    assert widths == ({6} if able else {2} if resctrl.schemata() else set())


def test_limits_in_mbps_need_a_linear_scale_and_a_counter(remounting: Mounting, resctrl: Resctrl) -> None:
    """Before 6.14 it has to be the counter of local traffic."""
    remounting.mount(PLAIN)
    linear = (resctrl.path / "info/MB/delay_linear").exists() and resctrl.read("info/MB/delay_linear") == "1\n"
    counted = resctrl.read("info/L3_MON/mon_features").split() if resctrl.monitors else []
    remounting.unmount()
    enough = {"mbm_local_bytes"} if resctrl.kernel != "7.2" else {"mbm_local_bytes", "mbm_total_bytes"}
    assert takes(remounting, "mba_MBps") == (linear and bool(enough & set(counted)))


def test_it_can_be_mounted_once(remounting: Mounting, resctrl: Resctrl, tmp_path: Path) -> None:
    resctrl.need_real("FUSE mounts as often as it is asked to")
    remounting.mount(PLAIN)
    for place in (tmp_path, resctrl.path):
        assert errno_of(lambda place=place: mount_resctrl(place)) == "EBUSY"
    assert resctrl.status == "ok\n"


# What unmounting does


def test_unmounting_returns_everything_to_the_root_and_to_its_default(
    remounting: Mounting, resctrl: Resctrl, processes: Processes
) -> None:
    remounting.mount(remounting.options)
    pid = processes.sleeper()
    before = {file: resctrl.read(file) for file in ("schemata", "size", "mode", "cpus")}
    for group in groups_with(resctrl, pid):
        assert (resctrl.path / group).exists()
    limit_the_root(resctrl)
    remounting.unmount()
    remounting.mount(remounting.options)
    assert {file: resctrl.read(file) for file in before} == before
    for group in groups_with(resctrl, None):
        assert resctrl.tasks(group) == set()
    if resctrl.allocates:
        assert pid in resctrl.tasks()
        assert resctrl.schemata("g") == resctrl.schemata("")


def groups_with(resctrl: Resctrl, pid: int | None) -> list[str]:
    """Make one group of each kind, and put a process and a CPU into the control group."""
    made = [resctrl.mkdir("mon_groups/m")] if resctrl.monitors else []
    if resctrl.allocates:
        made.append(resctrl.mkdir("g"))
        if pid is not None:
            resctrl.write("g/tasks", str(pid))
            resctrl.write("g/cpus_list", "1")
    return made


def limit_the_root(resctrl: Resctrl) -> None:
    for cache in resctrl.caches:
        resctrl.set_masks("", cache, lowest_ways(2))
    if "MB" in resctrl.schemata():
        resctrl.write("schemata", f"MB:{resctrl.domains('MB')[0]}=30\n")


def test_what_was_set_about_counters_outlives_the_mount(remounting: Mounting, resctrl: Resctrl) -> None:
    resctrl.need_real("an emulator forgets everything with its mount")
    remounting.mount(remounting.options)
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    before = {"info/L3_MON/max_threshold_occupancy": "0\n"}
    resctrl.write("info/L3_MON/max_threshold_occupancy", "0\n")
    if (resctrl.path / "info/L3_MON/mbm_total_bytes_config").exists():
        resctrl.write("info/L3_MON/mbm_total_bytes_config", "0=0x33\n")
        before["info/L3_MON/mbm_total_bytes_config"] = "0=0x33;1=0x7f\n"
    remounting.unmount()
    remounting.mount(remounting.options)
    assert {file: resctrl.read(file) for file in before} == before


def test_so_do_the_mode_of_assigning_counters_and_their_filters(remounting: Mounting, resctrl: Resctrl) -> None:
    resctrl.need_real("an emulator forgets everything with its mount")
    remounting.mount(remounting.options)
    mode, own = "info/L3_MON/mbm_assign_mode", "info/L3_MON/event_configs/mbm_total_bytes/event_filter"
    if not (resctrl.path / own).exists():
        pytest.skip("each group has counters of its own")
    found = resctrl.read(own)
    resctrl.write(own, "local_reads\n")
    remounting.unmount()
    remounting.mount(remounting.options)
    assert resctrl.read(own) == "local_reads\n"
    resctrl.write(own, found)
    resctrl.write(mode, "default\n")
    remounting.unmount()
    remounting.mount(remounting.options)
    assert resctrl.read(mode) == "[default]\nmbm_event\n"
    resctrl.write(mode, "mbm_event\n")


def test_mounting_clears_the_status(remounting: Mounting, resctrl: Resctrl) -> None:
    remounting.mount(PLAIN)
    assert resctrl.make_stale() != "ok\n"
    remounting.unmount()
    remounting.mount(PLAIN)
    assert resctrl.status == "ok\n"


def test_a_descriptor_that_is_open_keeps_it_from_being_unmounted(remounting: Mounting, resctrl: Resctrl) -> None:
    resctrl.need_real("the emulator ends, whoever still looks")
    remounting.mount(PLAIN)
    descriptor = os.open(resctrl.path / "tasks", os.O_RDONLY)
    assert errno_of(remounting.unmount) == "EBUSY"
    os.close(descriptor)
    remounting.unmount()


# Code and data


@pytest.mark.parametrize(("option", "cache"), [("cdp", "L3"), ("cdpl2", "L2")])
def test_telling_code_and_data_apart_halves_the_closids_of_that_cache_alone(
    remounting: Mounting, resctrl: Resctrl, option: str, cache: str
) -> None:
    remounting.mount(PLAIN)
    whole = numbers_of_closids(resctrl)
    remounting.unmount()
    mounted_with(remounting, option)
    half = whole.pop(cache) // 2
    assert numbers_of_closids(resctrl) == {**whole, f"{cache}CODE": half, f"{cache}DATA": half}


def test_what_a_new_group_gets_of_code_keeps_off_others_data(remounting: Mounting, resctrl: Resctrl) -> None:
    mounted_with(remounting, "cdp")
    resctrl.mkdir("e")
    for name in resctrl.caches:
        resctrl.set_masks("", name, resctrl.full(name) & ~0xF)
        resctrl.set_masks("e", name, 0b1100 if name == "L3DATA" else 0b0011)
    resctrl.write("e/mode", "exclusive\n")
    resctrl.mkdir("g")
    for name in ("L3CODE", "L3DATA"):
        assert set(resctrl.masks("g", name).values()) == {resctrl.full(name) & ~0xF}


# MB/s


def test_in_mbps_nothing_is_limited_at_first(remounting: Mounting, resctrl: Resctrl) -> None:
    mounted_with(remounting, "mba_MBps")
    resctrl.mkdir("g")
    unlimited = dict.fromkeys(resctrl.domains("MB"), "4294967295")
    assert resctrl.schemata("")["MB"] == resctrl.schemata("g")["MB"] == unlimited


def test_the_event_that_is_limited_is_local_traffic_where_that_is_counted(
    remounting: Mounting, resctrl: Resctrl
) -> None:
    mounted_with(remounting, "mba_MBps")
    if resctrl.kernel != "7.2":
        pytest.skip("no choice")
    counted = {"mbm_local_bytes", "mbm_total_bytes"} & set(resctrl.read("info/L3_MON/mon_features").split())
    assert resctrl.read("mba_MBps_event") == f"{min(counted)}\n"
    for event in {"mbm_local_bytes", "mbm_total_bytes"} - counted:
        assert resctrl.refusal("mba_MBps_event", f"{event}\n") == ("EINVAL", f"Unsupported event id '{event}'\n")


# Debug


def hardware_id(resctrl: Resctrl, group: str, kind: str) -> int:
    text = resctrl.read(f"{group}/{kind}_hw_id")
    assert text == f"{int(text)}\n"
    return int(text)


def test_debug_adds_the_ids_that_hardware_has_for_each_group(remounting: Mounting, resctrl: Resctrl) -> None:
    mounted_with(remounting, "debug")
    kinds = {kind for kind, able in (("ctrl", resctrl.allocates), ("mon", resctrl.monitors)) if able}
    assert {hardware_id(resctrl, "", kind) for kind in kinds} == {0}
    if resctrl.allocates:
        resctrl.mkdir("g")
        assert {f"{kind}_hw_id" for kind in kinds} <= set(os.listdir(resctrl.path / "g"))  # noqa: PTH208 - names
    if resctrl.monitors:
        resctrl.mkdir("mon_groups/m")
        assert not (resctrl.path / "mon_groups/m/ctrl_hw_id").exists()
        assert hardware_id(resctrl, "mon_groups/m", "mon") > 0


def test_a_new_group_has_the_lowest_free_closid(remounting: Mounting, resctrl: Resctrl) -> None:
    mounted_with(remounting, "debug")
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    assert [hardware_id(resctrl, resctrl.mkdir(group), "ctrl") for group in ("a", "b")] == [1, 2]
    resctrl.rmdir("b")
    resctrl.rmdir("a")
    assert [hardware_id(resctrl, resctrl.mkdir(group), "ctrl") for group in ("c", "d", "e")] == [1, 2, 3]


def test_rmids_come_round_in_turn(remounting: Mounting, resctrl: Resctrl) -> None:
    mounted_with(remounting, "debug")
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    last: deque[int] = deque(maxlen=2)
    for number in range(3):
        last.append(hardware_id(resctrl, resctrl.mkdir(f"mon_groups/m{number}"), "mon"))
        resctrl.rmdir(f"mon_groups/m{number}")
        assert len(set(last)) == len(last)


def test_a_moved_monitoring_group_keeps_its_rmid(remounting: Mounting, resctrl: Resctrl) -> None:
    mounted_with(remounting, "debug")
    if not (resctrl.allocates and resctrl.monitors):
        pytest.skip("no monitoring groups below control groups")
    for group in ("a", "b", "a/mon_groups/m"):
        resctrl.mkdir(group)
    before = hardware_id(resctrl, "a/mon_groups/m", "mon")
    resctrl.rename("a/mon_groups/m", "b/mon_groups/m")
    assert hardware_id(resctrl, "b/mon_groups/m", "mon") == before


def test_threads_of_a_group_are_told_in_proc(remounting: Mounting, resctrl: Resctrl) -> None:
    resctrl.need_real("/proc is the kernel's own")
    assert Path("/proc/self/cpu_resctrl_groups").read_text() == "res:\nmon:\n"
    remounting.mount(PLAIN)
    assert Path("/proc/self/cpu_resctrl_groups").read_text() != "res:\nmon:\n"
