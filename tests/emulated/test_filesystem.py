"""Groups, threads and refusals on a live filesystem that answers as each kernel does."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.resctrl.errors import (
    GroupExistsError,
    GroupGoneError,
    NotPermittedError,
    OutOfClosidsError,
    ResctrlError,
)
from agent.resctrl.filesystem import Resctrl
from agent.resctrl.machine import BandwidthUnit, read_machine, save_machine
from agent.resctrl.monitoring_group import MonitoringGroup

KERNELS = ("6.1", "6.12", "7.2")

SERVICE = Path(__file__).parents[2] / "systemd/resctrl-agent.service"

CREATE = """
import sys
from pathlib import Path
from agent.resctrl.filesystem import Resctrl
Resctrl.open(Path(sys.argv[1])).create("batch")
"""

Emulate = Callable[..., Resctrl]


@pytest.fixture
def emulate(emulated: Callable[..., Path]) -> Iterator[Emulate]:
    """Mount an emulated machine and open it; both until the test ends."""
    with ExitStack() as opened:
        yield lambda machine="xeon-2s", kernel="6.12": opened.enter_context(Resctrl.open(emulated(machine, kernel)))


@pytest.fixture
def sleepers() -> Iterator[list[int]]:
    """Processes of one thread each."""
    with ExitStack() as ends:
        started = [ends.enter_context(subprocess.Popen(["/bin/sleep", "infinity"])) for _ in range(5)]
        yield [process.pid for process in started]
        for process in started:
            process.kill()


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_was_written_reads_back_on_every_kernel(emulate: Emulate, kernel: str) -> None:
    resctrl = emulate(kernel=kernel)
    assert resctrl.emulated
    resctrl.create("batch")
    resctrl.write_schemata("batch", {"L3": {0: 0xF, 1: 0x3}, "MB": {0: 20, 1: 100}})
    group = resctrl.read_group("batch")
    assert group.schemata == {"L3": {0: 0xF, 1: 0x3}, "MB": {0: 20, 1: 100}}
    assert (group.mode, group.cpus, group.monitoring_groups) == ("shareable", frozenset(), ())
    assert [each.name for each in resctrl.read_groups()] == ["", "batch"]
    resctrl.remove("batch")
    assert resctrl.groups() == []


def test_the_capabilities_of_the_service_suffice_to_make_groups(emulate: Emulate) -> None:
    """The root directory is 0555, and CAP_DAC_OVERRIDE, which would not mind, is not among them."""
    (granted,) = re.findall(r"^CapabilityBoundingSet=(.*)$", SERVICE.read_text(), re.MULTILINE)
    only = "-all," + ",".join("+" + name.removeprefix("CAP_").lower() for name in granted.split())
    resctrl = emulate()
    under = ["setpriv", f"--bounding-set={only}", f"--inh-caps={only}"]
    made = subprocess.run([*under, "mkdir", resctrl.root / "by-others"], capture_output=True, check=False)
    assert b"Permission denied" in made.stderr
    subprocess.run([*under, sys.executable, "-c", CREATE, resctrl.root], check=True)
    assert resctrl.groups() == ["batch"]


@pytest.mark.parametrize("kernel", KERNELS[1:])
def test_a_monitoring_group_moves_with_its_threads_and_stays_the_same(
    emulate: Emulate, sleepers: list[int], kernel: str
) -> None:
    resctrl = emulate(kernel=kernel)
    resctrl.create("a")
    resctrl.create("b")
    web = MonitoringGroup("a", "web.service")
    resctrl.create_monitoring(web)
    for group in ("a", web.path):
        tasks = resctrl.open_tasks(group)
        tasks.move(sleepers)
        tasks.close()
    inode = resctrl.group_inode(web.path)
    resctrl.move_monitoring(web, MonitoringGroup("b", "web.service"))
    assert set(resctrl.tasks("b/mon_groups/web.service")) == set(resctrl.tasks("b")) == set(sleepers)
    assert resctrl.group_inode("b/mon_groups/web.service") == inode
    resctrl.move_monitoring(MonitoringGroup("b", "web.service"), MonitoringGroup("", "web.service"))
    resctrl.remove_monitoring(MonitoringGroup("", "web.service"))
    assert resctrl.read_group("").monitoring_groups == resctrl.read_group("b").monitoring_groups == ()


def test_an_older_kernel_cannot_move_monitoring_groups(emulate: Emulate) -> None:
    resctrl = emulate(kernel="6.1")
    resctrl.create("a")
    resctrl.create_monitoring(MonitoringGroup("", "web.service"))
    with pytest.raises(NotPermittedError):
        resctrl.move_monitoring(MonitoringGroup("", "web.service"), MonitoringGroup("a", "web.service"))


@pytest.mark.parametrize(
    "path", ["", "info", "a/b", "a/mon_groups", "a/mon_groups/..", "a/b/mon_groups/c", "mon_groups"]
)
def test_what_cannot_be_a_groups_path_never_reaches_the_kernel(emulate: Emulate, path: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a group"):
        emulate().remove(path)


def test_a_rounded_value_reads_back_as_the_machine_took_it(emulate: Emulate) -> None:
    """Field reports 5 and 9: intel-cmt-cat#30, #69."""
    resctrl = emulate()
    resctrl.create("batch")
    resctrl.write_schemata("batch", {"MB": {0: 35}})
    assert resctrl.read_group("batch").schemata["MB"][0] == 40


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"L3": {0: 0xF3}}, 'writing "L3:0=f3" failed: Invalid argument: The mask f3 has non-consecutive 1-bits'),
        ({"MB": {0: 0, 1: 110}}, 'writing "MB:0=0;1=110" failed: Invalid argument: MB value 0 out of range [10,100]'),
        ({"L2": {0: 1}}, 'writing "L2:0=1" failed: Invalid argument: Unknown or unsupported resource name'),
        ({"L3": {9: 1}}, 'writing "L3:9=1" failed: Invalid argument: the kernel gives no reason'),
    ],
)
def test_the_kernels_text_reaches_the_user_with_group_and_line(
    emulate: Emulate, kernel: str, values: dict[str, dict[int, int]], message: str
) -> None:
    """Field report 2, runc#1913, and field report 3, intel-cmt-cat#44."""
    resctrl = emulate(kernel=kernel)
    resctrl.create("batch")
    before = resctrl.read_group("batch")
    with pytest.raises(ResctrlError) as refused:
        resctrl.write_schemata("batch", {"L3": {1: 0x1}} | values if "L3" not in values else values)
    assert message.removeprefix("writing ") in str(refused.value)
    assert str(refused.value).startswith('group "batch": writing ')
    assert resctrl.read_group("batch") == before


@pytest.mark.parametrize("kernel", KERNELS)
def test_running_out_of_closids_names_who_has_them(emulate: Emulate, kernel: str) -> None:
    """Field reports 14 and 16: runc#1878, collectd#3764."""
    resctrl = emulate(kernel=kernel)
    closids = read_machine(resctrl.root).num_closids
    names = [f"leaked-{number}" for number in range(1, closids)]
    for name in names:
        resctrl.create(name)
    with pytest.raises(OutOfClosidsError) as refused:
        resctrl.create("batch")
    assert all(name in str(refused.value) for name in names)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_stale_status_is_not_taken_for_the_reason(emulate: Emulate, kernel: str) -> None:
    """Before 6.16 mkdir and writes to cpus leave, or append to, what an earlier command said."""
    resctrl = emulate(kernel=kernel)
    resctrl.create("batch")
    with pytest.raises(ResctrlError, match="non-consecutive"):
        resctrl.write_schemata("batch", {"L3": {0: 5}})
    with pytest.raises(GroupExistsError) as refused:
        resctrl.create("batch")
    assert refused.value.status is None
    with pytest.raises(ResctrlError, match=r"failed: Invalid argument: Can't drop CPUs from default group$"):
        resctrl.write_cpus("", frozenset())


@pytest.mark.parametrize("kernel", KERNELS)
def test_threads_move_and_those_that_are_gone_do_not_keep_the_others(
    emulate: Emulate, sleepers: list[int], kernel: str
) -> None:
    """Field report 26, telegraf#14272; lists are taken from 6.7 on, one by one before."""
    resctrl = emulate(kernel=kernel)
    resctrl.create("batch")
    with subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
    tasks = resctrl.open_tasks("batch")
    result = tasks.move([sleepers[0], gone.pid, *sleepers[1:], gone.pid])
    assert (result.moved, set(result.dead), dict(result.failed)) == (tuple(sleepers), {gone.pid}, {})
    assert sorted(resctrl.tasks("batch")) == sorted(sleepers)
    assert resctrl.takes_lists == (kernel != "6.1")
    tasks.close()


def test_asking_whether_lists_are_taken_moves_nobody(emulate: Emulate) -> None:
    resctrl = emulate(kernel="6.12")
    before = set(resctrl.tasks(""))
    assert resctrl.takes_lists
    assert os.getpid() in before & set(resctrl.tasks(""))


def test_a_removed_group_is_gone_for_whoever_still_has_its_tasks_open(emulate: Emulate, sleepers: list[int]) -> None:
    resctrl = emulate()
    resctrl.create("batch")
    tasks = resctrl.open_tasks("batch")
    tasks.move(sleepers[:1])
    resctrl.remove("batch")
    resctrl.create("batch")
    for tids in (sleepers[:1], sleepers):
        with pytest.raises(GroupGoneError):
            tasks.move(tids)
    assert resctrl.tasks("batch") == []
    tasks.close()


def test_a_group_made_anew_has_another_inode(emulate: Emulate) -> None:
    resctrl = emulate()
    resctrl.create("batch")
    first = resctrl.group_inode("batch")
    resctrl.create("other")
    resctrl.remove("batch")
    resctrl.create("batch")
    assert resctrl.group_inode("batch") != first


def test_exclusive_groups_and_cpus(emulate: Emulate) -> None:
    resctrl = emulate("xeon-icelake-2s")
    resctrl.create("render")
    with pytest.raises(ResctrlError, match='writing "exclusive" to mode failed: Invalid argument: Schemata overlaps'):
        resctrl.write_mode("render", "exclusive")
    resctrl.write_schemata("", {"L3": {0: 0xFF0, 1: 0xFF0}})
    resctrl.write_schemata("render", {"L3": {0: 0xF, 1: 0xF}})
    resctrl.write_mode("render", "exclusive")
    assert resctrl.read_group("render").mode == "exclusive"
    cpus = frozenset({max(resctrl.read_group("").cpus)})
    resctrl.write_cpus("render", cpus)
    assert resctrl.read_group("render").cpus == cpus
    resctrl.write_cpus("render", frozenset())
    assert cpus <= resctrl.read_group("").cpus


def test_a_machine_that_can_only_monitor_makes_no_control_groups(emulate: Emulate) -> None:
    resctrl = emulate("monitor-only")
    assert read_machine(resctrl.root).num_closids == 1
    before = resctrl.root.stat().st_mode
    with pytest.raises(NotPermittedError, match="can only monitor"):
        resctrl.create("batch")
    assert resctrl.root.stat().st_mode == before, "a permission that does not help is not given"


@pytest.mark.parametrize(
    ("machine", "unit"),
    [("xeon-2s", BandwidthUnit.PERCENT), ("epyc-2s", BandwidthUnit.EIGHTH_GBPS), ("mba-mbps", BandwidthUnit.MBPS)],
)
def test_how_bandwidth_counts_is_read_before_and_after_somebody_limits_the_root(
    emulate: Emulate, machine: str, unit: BandwidthUnit
) -> None:
    """Field reports 10 and 11."""
    resctrl = emulate(machine)
    described = read_machine(resctrl.root)
    bandwidth = described.bandwidths[0]
    assert bandwidth.unit is unit
    resctrl.create("untouched")
    resctrl.write_schemata("", {"MB": dict.fromkeys(bandwidth.domains, 50)})
    assert read_machine(resctrl.root) == described


def test_ids_of_a_machine_may_have_gaps(emulate: Emulate) -> None:
    """Field report 1, koordinator#1777."""
    resctrl = emulate("epyc-2s")
    machine = read_machine(resctrl.root)
    assert machine.caches[0].domains == (*range(8), *range(16, 24))
    resctrl.create("batch")
    resctrl.write_schemata("batch", {"L3": {23: 0xF}})
    assert resctrl.read_group("batch").schemata["L3"][23] == 0xF


@pytest.mark.parametrize(
    "machine", ["xeon-2s", "epyc-2s", "l2-only", "mba-mbps", "cdp", "snc2", "mba-only", "monitor-only"]
)
def test_a_live_machine_saves_as_what_it_is(emulate: Emulate, tmp_path: Path, machine: str) -> None:
    resctrl = emulate(machine)
    save_machine(resctrl.root, tmp_path / "saved")
    assert read_machine(tmp_path / "saved") == read_machine(resctrl.root)


def test_the_lock_and_the_claim_hold_across_openings(emulate: Emulate) -> None:
    resctrl = emulate()
    with Resctrl.open(resctrl.root) as other, resctrl.lock(0):
        resctrl.try_claim()
        assert other.claimed_by_other()
