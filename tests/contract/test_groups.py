"""Making, removing and moving groups (§§ 5–7)."""

import os

import pytest

from tests.contract.resctrl_mount import Processes, Resctrl, errno_of, lowest_ways, wait_until


def need_control_groups(resctrl: Resctrl) -> None:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")


def need_both(resctrl: Resctrl) -> None:
    if not (resctrl.allocates and resctrl.monitors):
        pytest.skip("no monitoring groups below control groups")


def mkdir_refusal(resctrl: Resctrl, name: str) -> str:
    return errno_of(lambda: os.mkdir(resctrl.path / name))  # noqa: PTH102 - the system call is what is tested


# mkdir


def test_groups_are_made_in_the_root_and_in_mon_groups_only(resctrl: Resctrl) -> None:
    need_both(resctrl)
    resctrl.mkdir("g")
    resctrl.mkdir("g/mon_groups/m")
    for place in ("g/x", "g/mon_data/x", "g/mon_groups/m/x", "mon_data/x", "mon_data/mon_L3_00/x"):
        assert mkdir_refusal(resctrl, place) == "EPERM", place


def test_below_info_mkdir_fails_as_the_kernel_has_it(resctrl: Resctrl) -> None:
    expected = "ENODEV" if resctrl.kernel == "7.2" and resctrl.monitors else "EPERM"
    directories = [entry.name for entry in (resctrl.path / "info").iterdir() if entry.is_dir()]
    assert {mkdir_refusal(resctrl, place) for place in ("info/x", *(f"info/{d}/x" for d in directories))} == {expected}


def test_a_machine_that_only_monitors_has_no_control_groups(resctrl: Resctrl) -> None:
    if resctrl.allocates:
        pytest.skip("something can be divided")
    assert mkdir_refusal(resctrl, "g") == "EPERM"
    resctrl.mkdir("mon_groups/m")


def test_a_machine_that_does_not_monitor_has_no_monitoring_groups(resctrl: Resctrl) -> None:
    if resctrl.monitors:
        pytest.skip("it monitors")
    assert mkdir_refusal(resctrl, "mon_groups/m") == "ENOENT"
    resctrl.mkdir("mon_groups")
    assert "schemata" in os.listdir(resctrl.path / "mon_groups")  # noqa: PTH208 - names are wanted
    assert mkdir_refusal(resctrl, "mon_groups/m") == "EPERM"
    resctrl.rmdir("mon_groups")


def test_a_monitoring_group_cannot_be_called_mon_groups(resctrl: Resctrl) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    assert mkdir_refusal(resctrl, "mon_groups/mon_groups") == "EPERM"


def test_a_name_with_a_newline_is_refused(resctrl: Resctrl) -> None:
    places = (["a\nb"] if resctrl.allocates else []) + (["mon_groups/a\nb"] if resctrl.monitors else [])
    assert {mkdir_refusal(resctrl, place) for place in places} == {"EINVAL"}


def test_any_other_name_is_fine(resctrl: Resctrl) -> None:
    need_control_groups(resctrl)
    for name in ("x" * 255, "a b", "…", ".hidden", "L3:0=f"):
        resctrl.mkdir(name)
        resctrl.rmdir(name)


def test_names_of_files_and_groups_exist_already(resctrl: Resctrl) -> None:
    need_control_groups(resctrl)
    resctrl.mkdir("g")
    assert {mkdir_refusal(resctrl, name) for name in ("g", "tasks", "info", "g/schemata")} == {"EEXIST"}


def test_a_new_group_is_shareable_and_has_no_tasks_and_no_cpus(resctrl: Resctrl) -> None:
    need_control_groups(resctrl)
    resctrl.mkdir("g")
    assert resctrl.read("g/mode") == "shareable\n"
    assert (resctrl.read("g/tasks"), resctrl.read("g/cpus_list")) == ("", "\n")
    assert set(resctrl.read("g/cpus")) <= set("0,\n")


def test_a_new_group_gets_everything_of_an_untouched_machine(resctrl: Resctrl) -> None:
    need_control_groups(resctrl)
    resctrl.mkdir("g")
    assert resctrl.schemata("g") == resctrl.schemata("")


def test_a_new_groups_bandwidth_is_unlimited_whatever_others_have(resctrl: Resctrl) -> None:
    if "MB" not in resctrl.schemata():
        pytest.skip("no bandwidth control")
    unlimited = resctrl.schemata("")["MB"]
    resctrl.write("schemata", "MB:" + ";".join(f"{d}=20" for d in resctrl.domains("MB")) + "\n")
    resctrl.mkdir("g")
    assert resctrl.schemata("g")["MB"] == unlimited


def test_a_new_group_gets_what_nobody_has_and_what_shareable_groups_have(resctrl: Resctrl) -> None:
    if not resctrl.caches:
        pytest.skip("no cache control")
    resctrl.set_all_masks("", lowest_ways(2))
    resctrl.mkdir("g")
    assert all(set(resctrl.masks("g", cache).values()) == {resctrl.full(cache)} for cache in resctrl.caches)


def test_a_new_group_keeps_off_exclusive_ways(resctrl: Resctrl) -> None:
    if not resctrl.caches:
        pytest.skip("no cache control")
    resctrl.mkdir("e")
    for cache in resctrl.caches:
        resctrl.set_masks("", cache, resctrl.full(cache) & ~0xF)
        resctrl.set_masks("e", cache, 0xF)
    resctrl.write("e/mode", "exclusive\n")
    resctrl.mkdir("g")
    assert all(set(resctrl.masks("g", c).values()) == {resctrl.full(c) & ~0xF} for c in resctrl.caches)


def test_of_ways_in_several_runs_a_new_group_gets_the_lowest(resctrl: Resctrl) -> None:
    if not resctrl.caches:
        pytest.skip("no cache control")
    resctrl.mkdir("e")
    for cache in resctrl.caches:
        resctrl.set_masks("", cache, 0b11)
        resctrl.set_masks("e", cache, 0b1100)
    resctrl.write("e/mode", "exclusive\n")
    resctrl.mkdir("g")
    for cache in resctrl.caches:
        sparse = resctrl.kernel == "7.2" and resctrl.sparse(cache)
        expected = resctrl.full(cache) & ~0b1100 if sparse else 0b11
        assert set(resctrl.masks("g", cache).values()) == {expected}


def test_without_a_free_way_there_is_no_space(resctrl: Resctrl) -> None:
    cache = resctrl.cache
    if cache is None or resctrl.number(cache, "shareable_bits", 16) or resctrl.number(cache, "min_cbm_bits") == 0:
        pytest.skip("a new group always gets a way")
    resctrl.mkdir("e")
    for each in resctrl.caches:
        resctrl.set_masks("", each, resctrl.full(each) & ~0xF)
        resctrl.set_masks("e", each, 0xF)
    resctrl.write("e/mode", "exclusive\n")
    resctrl.write("mode", "exclusive\n")
    first = resctrl.caches[0]
    assert mkdir_refusal(resctrl, "g") == "ENOSPC"
    assert resctrl.status == f"No space on {first}:{resctrl.domains(first)[0]}\n"


def test_running_out_of_closids_is_said(resctrl: Resctrl) -> None:
    """Field reports 2 and 14: runc#1913, runc#1878."""
    need_control_groups(resctrl)
    if resctrl.monitors and resctrl.number("L3_MON", "num_rmids") <= resctrl.closids:
        pytest.skip("RMIDs run out first")
    for number in range(resctrl.closids - 1):
        resctrl.mkdir(f"g{number}")
    stale = resctrl.make_stale()
    assert mkdir_refusal(resctrl, "more") == "ENOSPC"
    assert resctrl.status == ("" if resctrl.clears_always else stale) + "Out of CLOSIDs\n"
    resctrl.rmdir("g3" if resctrl.closids > 4 else "g0")
    resctrl.mkdir("more")


def test_monitoring_groups_take_no_closid(resctrl: Resctrl) -> None:
    need_both(resctrl)
    if resctrl.number("L3_MON", "num_rmids") < resctrl.closids + 3:
        pytest.skip("RMIDs run out first")
    for number in range(resctrl.closids + 2):
        resctrl.mkdir(f"mon_groups/m{number}")


def test_running_out_of_rmids_is_said_and_told_from_their_resting(resctrl: Resctrl) -> None:
    """Field report 19: intel-cmt-cat#158, mkdir of a monitoring group fails."""
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    rmids = resctrl.number("L3_MON", "num_rmids")
    for number in range(rmids - 1):
        resctrl.mkdir(f"mon_groups/m{number}")
    resctrl.write("mode", "shareable\n")
    assert (mkdir_refusal(resctrl, "mon_groups/more"), resctrl.status) == ("ENOSPC", "Out of RMIDs\n")
    resctrl.rmdir("mon_groups/m0")
    resctrl.write("mode", "shareable\n")
    if "llc_occupancy" in resctrl.read("info/L3_MON/mon_features"):
        assert (mkdir_refusal(resctrl, "mon_groups/more"), resctrl.status) == ("EBUSY", "Out of RMIDs\n")
        resctrl.mkdir("mon_groups/more")
    else:
        (resctrl.path / "mon_groups/more").mkdir()


def test_control_groups_take_an_rmid_too(resctrl: Resctrl) -> None:
    need_both(resctrl)
    resctrl.mkdir("g")
    places = ("mon_groups", "g/mon_groups")
    for number in range(resctrl.number("L3_MON", "num_rmids") - 2):
        resctrl.mkdir(f"{places[number % 2]}/m{number}")
    resctrl.write("mode", "shareable\n")
    assert (mkdir_refusal(resctrl, "more"), resctrl.status) == ("ENOSPC", "Out of RMIDs\n")


def test_with_neither_left_6_1_complains_of_rmids_and_others_of_closids(resctrl: Resctrl) -> None:
    need_both(resctrl)
    rmids = resctrl.number("L3_MON", "num_rmids")
    if rmids < resctrl.closids:
        pytest.skip("RMIDs run out first")
    for number in range(resctrl.closids - 1):
        resctrl.mkdir(f"g{number}")
    for number in range(rmids - resctrl.closids):
        resctrl.mkdir(f"mon_groups/m{number}")
    resctrl.write("mode", "shareable\n")
    assert mkdir_refusal(resctrl, "more") == "ENOSPC"
    assert resctrl.status == ("Out of RMIDs\n" if resctrl.kernel == "6.1" else "Out of CLOSIDs\n")


# rmdir


def test_only_groups_can_be_removed(resctrl: Resctrl) -> None:
    inner = ["info", *(name for name in ("mon_groups", "mon_data") if resctrl.monitors)]
    if resctrl.monitors and resctrl.allocates:
        resctrl.mkdir("g")
        inner += ["g/mon_groups", "g/mon_data"]
    assert {errno_of(lambda d=directory: resctrl.rmdir(d)) for directory in inner} == {"EPERM"}
    assert errno_of(lambda: resctrl.rmdir("tasks")) == "ENOTDIR"
    assert errno_of(lambda: resctrl.rmdir("nothing")) == "ENOENT"


def test_a_removed_control_groups_tasks_and_cpus_go_to_the_root(resctrl: Resctrl, processes: Processes) -> None:
    need_control_groups(resctrl)
    pid = processes.sleeper()
    resctrl.mkdir("g")
    resctrl.write("g/tasks", str(pid))
    resctrl.write("g/cpus_list", "1")
    resctrl.rmdir("g")
    assert pid in resctrl.tasks()
    assert resctrl.read("cpus") == resctrl.untouched["cpus"]


def test_its_monitoring_groups_go_with_it_and_their_tasks_to_the_root(resctrl: Resctrl, processes: Processes) -> None:
    need_both(resctrl)
    pid = processes.sleeper()
    resctrl.mkdir("g")
    resctrl.mkdir("g/mon_groups/m")
    resctrl.write("g/tasks", str(pid))
    resctrl.write("g/mon_groups/m/tasks", str(pid))
    resctrl.rmdir("g")
    resctrl.mkdir("g")
    resctrl.mkdir("mon_groups/m")
    assert pid in resctrl.tasks()
    assert resctrl.tasks("g") == resctrl.tasks("mon_groups/m") == set()
    resctrl.write("mon_groups/m/tasks", str(pid))


def test_a_removed_monitoring_groups_tasks_go_to_its_control_group(resctrl: Resctrl, processes: Processes) -> None:
    need_both(resctrl)
    pid = processes.sleeper()
    resctrl.mkdir("g")
    resctrl.mkdir("g/mon_groups/m")
    resctrl.mkdir("g/mon_groups/n")
    resctrl.write("g/tasks", str(pid))
    resctrl.write("g/mon_groups/m/tasks", str(pid))
    resctrl.rmdir("g/mon_groups/m")
    assert pid in resctrl.tasks("g")
    resctrl.write("g/mon_groups/n/tasks", str(pid))


def test_a_closid_can_be_had_again_at_once_without_what_it_had(resctrl: Resctrl) -> None:
    if "MB" not in resctrl.schemata():
        pytest.skip("no bandwidth control")
    resctrl.mkdir("g")
    before = resctrl.schemata("g")
    resctrl.write("g/schemata", f"MB:{resctrl.domains('MB')[0]}=30\n")
    resctrl.rmdir("g")
    resctrl.mkdir("h")
    assert resctrl.schemata("h") == before


# rename


def two_groups_with_a_task(resctrl: Resctrl, processes: Processes) -> int:
    """Control groups ``a`` and ``b``, ``a/mon_groups/m``, and in that a process."""
    need_both(resctrl)
    pid = processes.sleeper()
    for group in ("a", "b", "a/mon_groups/m"):
        resctrl.mkdir(group)
    resctrl.write("a/tasks", str(pid))
    resctrl.write("a/mon_groups/m/tasks", str(pid))
    return pid


def need_rename(resctrl: Resctrl) -> None:
    if resctrl.kernel == "6.1":
        pytest.skip("groups cannot be moved")


def test_nothing_can_be_renamed_before_6_5(resctrl: Resctrl, processes: Processes) -> None:
    if resctrl.kernel != "6.1":
        pytest.skip("monitoring groups can be moved")
    two_groups_with_a_task(resctrl, processes)
    stale = resctrl.make_stale()
    for old, new in (("a", "c"), ("a/mon_groups/m", "b/mon_groups/m"), ("a/tasks", "a/t"), ("info", "i")):
        assert errno_of(lambda old=old, new=new: resctrl.rename(old, new)) == "EPERM"
    assert resctrl.status == stale


def test_a_monitoring_group_moves_to_another_control_group_with_all_its_tasks(
    resctrl: Resctrl, processes: Processes
) -> None:
    need_rename(resctrl)
    pid = two_groups_with_a_task(resctrl, processes)
    descriptor = os.open(resctrl.path / "a/mon_groups/m/tasks", os.O_RDWR)
    inode = (resctrl.path / "a/mon_groups/m").stat().st_ino
    resctrl.make_stale()
    resctrl.rename("a/mon_groups/m", "b/mon_groups/new")
    assert resctrl.status == "ok\n"
    assert resctrl.tasks("a") == set()
    assert resctrl.tasks("b") == resctrl.tasks("b/mon_groups/new") == {pid}
    assert not (resctrl.path / "a/mon_groups/m").exists()
    assert (resctrl.path / "b/mon_groups/new").stat().st_ino == inode
    assert os.pread(descriptor, 100, 0).decode() == f"{pid}\n"
    os.write(descriptor, str(pid).encode())
    os.close(descriptor)


def test_it_can_be_renamed_within_its_control_group(resctrl: Resctrl, processes: Processes) -> None:
    need_rename(resctrl)
    pid = two_groups_with_a_task(resctrl, processes)
    resctrl.rename("a/mon_groups/m", "a/mon_groups/new")
    assert resctrl.tasks("a/mon_groups/new") == {pid}
    resctrl.rename("a/mon_groups/new", "mon_groups/of the root")
    assert pid in resctrl.tasks()


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("a", "c", ("EPERM", "Source must be a MON group\n")),
        ("a/mon_groups", "a/other", ("EPERM", "Source must be a MON group\n")),
        ("a/mon_data", "a/mon_groups/x", ("EPERM", "Source must be a MON group\n")),
        ("a/mon_groups/m", "m", ("EPERM", "Destination must be a mon_groups subdirectory\n")),
        ("a/mon_groups/m", "b/m", ("EPERM", "Destination must be a mon_groups subdirectory\n")),
        ("a/mon_groups/m", "b/mon_groups/mon_groups", ("EPERM", "Destination must be a mon_groups subdirectory\n")),
        ("a/tasks", "a/t", ("EPERM", "Source and destination must be directories")),
        ("a/mon_groups/m", "b/mon_groups/taken", ("EEXIST", "ok\n")),
    ],
)
def test_what_cannot_be_moved_says_why(
    resctrl: Resctrl, processes: Processes, old: str, new: str, refusal: tuple[str, str]
) -> None:
    need_rename(resctrl)
    two_groups_with_a_task(resctrl, processes)
    resctrl.mkdir("b/mon_groups/taken")
    resctrl.make_stale()
    assert (errno_of(lambda: resctrl.rename(old, new)), resctrl.status) == refusal


@pytest.mark.parametrize(
    ("old", "new"), [("info", "i"), ("a/mon_groups/m", "info/m"), ("info/L3_MON", "a/mon_groups/x")]
)
def test_info_is_no_place_to_move_from_or_to(resctrl: Resctrl, processes: Processes, old: str, new: str) -> None:
    need_rename(resctrl)
    two_groups_with_a_task(resctrl, processes)
    stale = resctrl.make_stale()
    assert (errno_of(lambda: resctrl.rename(old, new)), resctrl.status) == ("ENOENT", stale)


def test_a_monitoring_group_with_cpus_stays_in_its_control_group(resctrl: Resctrl, processes: Processes) -> None:
    need_rename(resctrl)
    two_groups_with_a_task(resctrl, processes)
    resctrl.write("a/cpus_list", "1")
    resctrl.write("a/mon_groups/m/cpus_list", "1")
    assert errno_of(lambda: resctrl.rename("a/mon_groups/m", "b/mon_groups/m")) == "EPERM"
    assert resctrl.status == "Cannot move a MON group that monitors CPUs\n"
    resctrl.rename("a/mon_groups/m", "a/mon_groups/n")


def test_a_thread_created_while_a_group_moves_ends_up_where_its_creator_is(
    resctrl: Resctrl, processes: Processes
) -> None:
    need_rename(resctrl)
    two_groups_with_a_task(resctrl, processes)
    forking = processes.start(
        """
import os, sys
sys.stdin.readline()
while True:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
"""
    )
    resctrl.write("a/tasks", str(forking.pid))
    resctrl.write("a/mon_groups/m/tasks", str(forking.pid))
    processes.say(forking)
    places = ["a/mon_groups/m", "b/mon_groups/m"]
    for _ in range(20):
        resctrl.rename(*places)
        places.reverse()
        wait_until(lambda: forking.pid in resctrl.tasks(places[0]), "the group has moved")
