"""Which monitoring groups there are to be, from which there are and which workloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reconcile.actions import CreateMonitoring, MoveMonitoring, RemoveMonitoring
from agent.reconcile.workload_groups import plan_monitoring
from agent.resctrl.monitoring_group import MonitoringGroup

WEB = MonitoringGroup("batch", "web.service")


def test_a_workload_without_a_group_gets_one_that_is_called_as_its_cgroup():
    assert plan_monitoring({}, {"/system.slice/web.service": "batch"}, ()) == (
        CreateMonitoring(WEB, "/system.slice/web.service"),
    )


def test_a_workload_that_changes_class_takes_its_group_along():
    changed = plan_monitoring({WEB: "/web.service"}, {"/web.service": ""}, {WEB.path})
    assert changed == (MoveMonitoring(WEB, MonitoringGroup("", "web.service"), "/web.service"),)


def test_a_group_whose_workload_is_gone_is_removed():
    assert plan_monitoring({WEB: "/web.service"}, {}, {WEB.path}) == (RemoveMonitoring(WEB, "/web.service"),)


def test_nothing_is_done_where_all_is_well():
    assert plan_monitoring({WEB: "/web.service"}, {"/web.service": "batch"}, {WEB.path}) == ()


def test_of_two_groups_for_one_workload_one_stays():
    """As a kill between a move and its record may leave them, on a kernel that cannot move."""
    other = MonitoringGroup("latency", "web.service")
    for stays, goes in ((WEB, other), (other, WEB)):
        plan = plan_monitoring({WEB: "/web.service", other: "/web.service"}, {"/web.service": stays.control}, ())
        assert plan == (RemoveMonitoring(goes, "/web.service"),)


@pytest.mark.parametrize("taken", [WEB.path, "batch/mon_groups/info"])
def test_a_name_that_is_taken_gets_a_mark(taken):
    workload = "/a/" + taken.rpartition("/")[2]
    (creation,) = plan_monitoring({}, {workload: "batch"}, {taken})
    assert creation.group.control == "batch"
    assert creation.group.name.startswith(workload[3:] + "~")


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ("/", "root"),
        ("transcoding", "transcoding"),
        ("a/b", "b"),
        ("two\nlines", "two lines"),
        ("/" + "ä" * 200, "ä" * 100),
        ("/a\udcffb", "ab"),
        ("/\udcff", "unnamed"),
    ],
)
def test_any_workload_has_a_name_that_the_kernel_takes(workload, name):
    (creation,) = plan_monitoring({}, {workload: "batch"}, ())
    assert creation.group.name == name


CONTROLS = st.sampled_from(["", "a", "b"])
WORKLOADS = st.sampled_from([f"/{parent}/{name}" for parent in "xy" for name in ("one", "two", "info", "mon_groups")])


@given(st.dictionaries(WORKLOADS, CONTROLS), st.dictionaries(WORKLOADS, CONTROLS))
def test_after_the_plan_each_workload_has_one_group_in_its_control_group_and_the_next_plan_is_empty(before, after):
    groups = _follow({}, before)
    groups = _follow(groups, after)
    assert {of: group.control for group, of in groups.items()} == after
    assert len({group.path for group in groups}) == len(groups)
    assert plan_monitoring(groups, after, {group.path for group in groups}) == ()


def _follow(groups, wanted):
    """What the machine has afterwards. No step finds its name taken."""
    groups = dict(groups)
    for action in plan_monitoring(groups, wanted, {group.path for group in groups}):
        match action:
            case MoveMonitoring(group, to, workload):
                assert groups.pop(group) == workload
                assert to not in groups
                groups[to] = workload
            case RemoveMonitoring(group, workload):
                assert groups.pop(group) == workload
            case CreateMonitoring(group, workload):
                assert group not in groups
                groups[group] = workload
    return groups
