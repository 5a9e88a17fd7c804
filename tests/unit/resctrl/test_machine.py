"""Machines of every kind are described as they are, and what cannot be read is said with its path."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.resctrl.errors import MachineError, NotResctrlError
from agent.resctrl.machine import BandwidthUnit, Monitoring, machine_as_json, read_machine, save_machine

MachineTree = Callable[[str], Path]


@pytest.mark.parametrize(
    ("name", "caches", "bandwidths", "num_closids", "options"),
    [
        ("intel-12way", [("L3", (0, 1), 12, 1, False)], [("MB", "percent", 100)], 16, set()),
        ("cdp", [("L3", (0, 1), 12, 1, True)], [("MB", "percent", 100)], 8, {"cdp"}),
        ("amd", [("L3", (0, 1), 16, 0, False)], [("MB", "1/8 GB/s", 2048)], 16, set()),
        ("xeon-11way", [("L3", (0, 1), 11, 1, False)], [("MB", "percent", 100)], 8, set()),
        ("l2-only", [("L2", (0, 1, 2, 3), 8, 1, False)], [], 4, set()),
        ("mba-only", [], [("MB", "percent", 100)], 8, set()),
        ("mba-mbps", [("L3", (0, 1), 11, 1, False)], [("MB", "MiB/s", 2**32 - 1)], 8, {"mba_MBps"}),
        ("monitor-only", [], [], 1, set()),
        ("padded-20way", [("L3", (0, 1), 20, 1, False)], [("MB", "percent", 100)], 8, set()),
        ("snc2", [("L3", (0, 1), 15, 1, False)], [("MB", "percent", 100)], 15, set()),
        ("haswell-2bits", [("L3", (0,), 20, 2, False)], [], 4, set()),
    ],
)
def test_describes_each_kind_of_machine(
    *, machine_tree: MachineTree, name: str, caches: object, bandwidths: object, num_closids: int, options: object
) -> None:
    machine = read_machine(machine_tree(name))
    assert [(c.name, c.domains, c.ways, c.min_cbm_bits, c.cdp) for c in machine.caches] == caches
    assert [(b.name, b.unit.value, b.maximum) for b in machine.bandwidths] == bandwidths
    assert (machine.num_closids, machine.mount_options) == (num_closids, options)


def test_takes_ids_from_the_root_schemata_sparse_as_they_are(machine_tree: MachineTree) -> None:
    """Field report 1, koordinator#1777: ids 0–7 and 16–23."""
    machine = read_machine(machine_tree("epyc-sparse-ids"))
    ids = (*range(8), *range(16, 24))
    assert [c.domains for c in machine.caches] == [ids]
    assert [(b.name, b.domains) for b in machine.bandwidths] == [("MB", ids), ("SMBA", ids)]


def test_cache_and_bandwidth_ids_may_differ(machine_tree: MachineTree) -> None:
    root = machine_tree("xeon-11way")
    (root / "schemata").write_text("    MB:0=100;64=100\n    L3:0=7ff;1=7ff;130=7ff\n")
    machine = read_machine(root)
    assert machine.caches[0].domains == (0, 1, 130)
    assert machine.bandwidths[0].domains == (0, 64)


def test_asking_for_a_resource_by_name(machine_tree: MachineTree) -> None:
    """Field report 3, intel-cmt-cat#44: that there is no L2 allocation is known before anything is written."""
    machine = read_machine(machine_tree("xeon-11way"))
    assert machine.cache("L2") is None
    assert machine.bandwidth("SMBA") is None
    assert machine.cache("L3") is machine.caches[0]
    assert machine.bandwidth("MB") is machine.bandwidths[0]


def test_a_host_with_only_l2_allocation_has_control_groups(machine_tree: MachineTree) -> None:
    """Field report 27, runc#3550: taken for a host without resctrl."""
    machine = read_machine(machine_tree("l2-only"))
    assert (machine.num_closids, machine.monitoring) == (4, None)


@pytest.mark.parametrize(("text", "sparse"), [("1\n", True), ("0\n", False), (None, False)])
def test_masks_with_holes_are_taken_only_where_the_kernel_says_so(
    machine_tree: MachineTree, text: str | None, *, sparse: bool
) -> None:
    """Field report 4, intel-cmt-cat#302: not guessed from the processor. Kernels before 6.7 do not say."""
    root = machine_tree("amd")
    if text is not None:
        (root / "info/L3/sparse_masks").write_text(text)
    assert read_machine(root).caches[0].sparse_masks is sparse


def test_cdp_is_one_cache_with_two_lines_and_the_halved_closids(machine_tree: MachineTree) -> None:
    cache = read_machine(machine_tree("cdp")).caches[0]
    assert (cache.schemata_names, cache.num_closids) == (("L3DATA", "L3CODE"), 8)


def test_shareable_ways_and_bytes_per_way_are_read(machine_tree: MachineTree) -> None:
    cache = read_machine(machine_tree("xeon-11way")).caches[0]
    assert (cache.shareable_bits, cache.bytes_per_way) == (0x600, 1310720)


def test_bytes_per_way_come_out_of_a_limited_root(machine_tree: MachineTree) -> None:
    root = machine_tree("xeon-11way")
    (root / "schemata").write_text("    MB:0=100;1=100\n    L3:0=f;1=7ff\n")
    (root / "size").write_text("    MB:0=100;1=100\n    L3:0=5242880;1=14417920\n")
    assert read_machine(root).caches[0].bytes_per_way == 1310720


def test_bytes_per_way_are_unknown_without_the_size_file(machine_tree: MachineTree) -> None:
    root = machine_tree("xeon-11way")
    (root / "size").unlink()
    assert read_machine(root).caches[0].bytes_per_way is None


def test_monitoring_lists_what_can_be_measured(machine_tree: MachineTree) -> None:
    assert read_machine(machine_tree("monitor-only")).monitoring == Monitoring(
        64, ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"), 90112
    )


@pytest.mark.parametrize(
    ("name", "line", "options", "unit"),
    [
        pytest.param("xeon-11way", "100", set(), "percent", id="an untouched Intel"),
        pytest.param("xeon-11way", "10", set(), "percent", id="a limited Intel"),
        pytest.param("amd", "2048", set(), "1/8 GB/s", id="an untouched AMD"),
        pytest.param("amd", "4096", set(), "1/8 GB/s", id="an AMD with a wider field"),
        pytest.param("amd", "64", set(), "1/8 GB/s", id="a limited AMD: its minimum is 0"),
        pytest.param("xeon-11way", "100", {"mba_MBps"}, "MiB/s", id="mba_MBps among the mount options"),
        pytest.param("xeon-11way", "4294967295", set(), "MiB/s", id="a root without limit under mba_MBps"),
        pytest.param("xeon-11way", "5000", set(), "MiB/s", id="a limited root under mba_MBps"),
        pytest.param("mba-mbps", "50", set(), "MiB/s", id="a strict limit, but the kernel has mba_MBps_event"),
    ],
)
def test_how_bandwidth_counts_is_read_from_resctrl(
    machine_tree: MachineTree, name: str, line: str, options: set[str], unit: str
) -> None:
    """Field reports 10 and 11: koordinator#216, #1162, intel-cmt-cat#276."""
    root = machine_tree(name)
    text = (root / "schemata").read_text()
    caches = [line for line in text.splitlines() if "L3" in line]
    (root / "schemata").write_text("\n".join([f"MB:0={line};1={line}", *caches]) + "\n")
    assert read_machine(root, frozenset(options)).bandwidths[0].unit.value == unit


@pytest.mark.parametrize(("root_value", "group_value", "maximum"), [(64, 128, 2048), (64, 4096, 4096), (8192, 8, 8192)])
def test_no_limit_on_an_absolute_machine_is_the_most_that_any_group_shows(
    machine_tree: MachineTree, root_value: int, group_value: int, maximum: int
) -> None:
    root = machine_tree("amd")
    (root / "schemata").write_text(f"MB:0={root_value};1={root_value}\nL3:0=ffff;1=ffff\n")
    (root / "batch").mkdir()
    (root / "batch/schemata").write_text(f"MB:0={group_value};1={group_value}\nL3:0=f;1=f\n")
    assert read_machine(root).bandwidths[0].maximum == maximum


def test_under_mba_mbps_the_kernel_checks_no_percent(machine_tree: MachineTree) -> None:
    bandwidth = read_machine(machine_tree("mba-mbps")).bandwidths[0]
    assert (bandwidth.unit, bandwidth.min_bandwidth, bandwidth.granularity) == (BandwidthUnit.MBPS, 1, 1)


@pytest.mark.parametrize("name", ["info", "schemata"])
def test_a_place_without_the_files_is_not_resctrl(tmp_path: Path, machine_tree: MachineTree, name: str) -> None:
    with pytest.raises(NotResctrlError, match=r"not a resctrl filesystem.*mount -t resctrl"):
        read_machine(tmp_path / "nowhere")
    root = machine_tree("mba-only")
    (root / name).rename(root / "elsewhere")
    with pytest.raises(NotResctrlError):
        read_machine(root)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("info/L3/cbm_mask", None, "info/L3/cbm_mask: No such file"),
        ("info/L3/cbm_mask", "xyz\n", 'info/L3/cbm_mask: "xyz" is not a number'),
        ("info/L3/cbm_mask", "0\n", "info/L3/cbm_mask: 0, but"),
        ("info/L3/num_closids", "\n", 'info/L3/num_closids: "" is not a number'),
        ("info/MB/min_bandwidth", None, "info/MB/min_bandwidth: No such file"),
        ("info/L3_MON/num_rmids", "many", 'info/L3_MON/num_rmids: "many" is not a number'),
        ("info/L3_MON/mon_features", None, "info/L3_MON/mon_features: No such file"),
        ("schemata", "MB:0=100;1=100\n", "info/ knows L3, but there is no line for it"),
        ("schemata", "L3:0=zz\n", 'schemata: schemata line "L3:0=zz"'),
        ("schemata", "\xff", "schemata: schemata line"),
    ],
)
def test_a_file_that_is_missing_or_nonsense_is_named(
    machine_tree: MachineTree, file: str, text: str | None, message: str
) -> None:
    root = machine_tree("xeon-11way")
    if text is None:
        (root / file).unlink()
    else:
        (root / file).write_text(text)
    with pytest.raises(MachineError) as refused:
        read_machine(root)
    assert str(refused.value).startswith(str(root))
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["xeon-11way", "epyc-sparse-ids", "cdp", "mba-mbps", "monitor-only", "padded-20way"])
def test_a_saved_machine_reads_as_the_one_it_was_saved_from(
    machine_tree: MachineTree, tmp_path: Path, name: str
) -> None:
    root = machine_tree(name)
    (root / "tasks").write_text("1\n2\n")
    save_machine(root, tmp_path / "saved")
    assert read_machine(tmp_path / "saved") == read_machine(root)
    assert (tmp_path / "saved/tasks").read_text() == ""


def test_a_saved_machine_remembers_how_it_was_mounted(machine_tree: MachineTree, tmp_path: Path) -> None:
    root = machine_tree("xeon-11way")
    save_machine(root, tmp_path / "saved", frozenset({"mba_MBps"}))
    machine = read_machine(tmp_path / "saved")
    assert (set(machine.mount_options), machine.bandwidths[0].unit) == ({"mba_MBps"}, BandwidthUnit.MBPS)


def test_saving_leaves_what_is_there_alone(machine_tree: MachineTree, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/notes").write_text("mine")
    with pytest.raises(MachineError, match="is not empty"):
        save_machine(machine_tree("amd"), tmp_path / "saved")


def test_the_json_shows_masks_as_the_kernel_does(machine_tree: MachineTree) -> None:
    machine = json.loads(json.dumps(machine_as_json(read_machine(machine_tree("xeon-11way")))))
    assert machine["resources"]["L3"]["cbm_mask"] == "7ff"
    assert machine["resources"]["L3"]["domains"] == [0, 1]
    assert machine["resources"]["MB"]["unit"] == "percent"
    assert machine["monitoring"]["num_rmids"] == 176


def test_the_json_of_a_machine_that_does_not_monitor_says_null(machine_tree: MachineTree) -> None:
    assert machine_as_json(read_machine(machine_tree("l2-only")))["monitoring"] is None
