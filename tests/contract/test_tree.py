"""Which files there are, how they are protected, and what an untouched machine says (§§ 1, 3, 10)."""

import os
import stat

import pytest

from tests.contract.resctrl_mount import Resctrl, lowest_ways, run_as

GROUP_FILES = {"cpus", "cpus_list", "tasks"}
CONTROL_FILES = {"schemata", "mode", "size"}
WRITABLE = {
    "schemata",
    "mode",
    "mba_MBps_event",
    "max_threshold_occupancy",
    "mbm_total_bytes_config",
    "mbm_local_bytes_config",
    "mbm_assign_mode",
    "mbm_assign_on_mkdir",
    "mbm_L3_assignments",
    "event_filter",
}
"""Besides those of each group."""


def entries(resctrl: Resctrl, directory: str) -> set[str]:
    return {entry.name for entry in (resctrl.path / directory).iterdir()}


def permissions(resctrl: Resctrl, entry: str) -> int:
    return stat.S_IMODE((resctrl.path / entry).stat().st_mode)


def expected_control_entries(resctrl: Resctrl) -> set[str]:
    expected = GROUP_FILES | CONTROL_FILES
    if resctrl.monitors:
        expected |= {"mon_data", "mon_groups"}
    if resctrl.in_mbps and resctrl.kernel == "7.2":
        expected |= {"mba_MBps_event"}
    return expected | assignments(resctrl)


def assignments(resctrl: Resctrl) -> set[str]:
    """What each group has besides where counters are assigned."""
    return {"mbm_L3_assignments"} if (resctrl.path / "info/L3_MON/num_mbm_cntrs").exists() else set()


def test_the_root_group_has_the_files_of_a_control_group_and_info(resctrl: Resctrl) -> None:
    assert entries(resctrl, "") == expected_control_entries(resctrl) | {"info"}


def test_a_control_group_has_them_too(resctrl: Resctrl) -> None:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    assert entries(resctrl, resctrl.mkdir("g")) == expected_control_entries(resctrl)


def test_a_monitoring_group_has_neither_controls_nor_groups(resctrl: Resctrl) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    assert entries(resctrl, resctrl.mkdir("mon_groups/m")) == GROUP_FILES | {"mon_data"} | assignments(resctrl)


def test_every_file_is_0644_or_0444_and_empty_to_stat(resctrl: Resctrl) -> None:
    for directory, _, files in os.walk(resctrl.path):
        for file in files:
            found = os.stat(os.path.join(directory, file))  # noqa: PTH116, PTH118 - os.walk gives strings
            assert stat.S_IMODE(found.st_mode) == (0o444 if _read_only(file) else 0o644), file
            assert found.st_size == 0


def _read_only(file: str) -> bool:
    return file not in GROUP_FILES | WRITABLE


def test_the_root_and_what_is_the_roots_cannot_be_written_to(resctrl: Resctrl) -> None:
    inner = ["", "info", *(name for name in ("mon_data", "mon_groups") if resctrl.monitors)]
    assert [oct(permissions(resctrl, directory)) for directory in inner] == ["0o555"] * len(inner)


def test_a_groups_directories_take_the_mode_of_mkdir_after_umask(resctrl: Resctrl) -> None:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    before = os.umask(0o027)
    try:
        resctrl.mkdir("g", 0o777)
    finally:
        os.umask(before)
    inner = ["g", *(f"g/{name}" for name in ("mon_data", "mon_groups") if resctrl.monitors)]
    assert [oct(permissions(resctrl, directory)) for directory in inner] == ["0o750"] * len(inner)
    assert permissions(resctrl, "g/tasks") == 0o644


def test_a_group_belongs_to_who_made_it(resctrl: Resctrl) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    place = resctrl.path / "mon_groups"
    place.chmod(0o777)
    try:
        run_as(1000, "import os, sys; os.mkdir(sys.argv[1])", str(place / "theirs"))
    finally:
        place.chmod(0o555)
    found = [(place / "theirs" / name).stat() for name in ("", "tasks", "mon_data")]
    assert {(each.st_uid, each.st_gid) for each in found} == {(1000, 1000)}


def test_who_may_not_write_to_the_root_makes_no_group(resctrl: Resctrl) -> None:
    said = run_as(
        1000,
        "import os, sys\ntry: os.mkdir(sys.argv[1])\nexcept PermissionError as e: print(e.errno)",
        str(resctrl.path / "g"),
    )
    assert said.strip() == "13"


def test_a_group_made_again_is_another_inode(resctrl: Resctrl) -> None:
    place = "g" if resctrl.allocates else "mon_groups/g"
    inodes = []
    for _ in range(2):
        resctrl.mkdir(place)
        inodes.append((resctrl.path / place).stat().st_ino)
        resctrl.rmdir(place)
    assert inodes[0] != inodes[1]


def test_a_directory_counts_its_subdirectories_as_links(resctrl: Resctrl) -> None:
    for directory, subdirectories, _ in os.walk(resctrl.path):
        assert os.stat(directory).st_nlink == 2 + len(subdirectories)  # noqa: PTH116 - os.walk gives strings


def test_info_has_a_directory_for_each_resource(resctrl: Resctrl) -> None:
    monitoring = {"L3_MON"} if resctrl.monitors else set()
    assert entries(resctrl, "info") >= {"last_cmd_status", *resctrl.schemata(), *monitoring}


def test_the_cache_information_agrees_with_the_root_group(resctrl: Resctrl) -> None:
    for cache in resctrl.caches:
        assert set(resctrl.masks("", cache).values()) == {resctrl.full(cache)}
        shared = resctrl.number(cache, "shareable_bits", 16)
        ways = resctrl.full(cache).bit_length()
        usage = "".join("X" if shared >> bit & 1 else "S" for bit in reversed(range(ways)))
        expected = ";".join(f"{domain}={usage}" for domain in resctrl.domains(cache))
        assert resctrl.read(f"info/{cache}/bit_usage") == f"{expected}\n"
        assert resctrl.number(cache, "min_cbm_bits") in (0, 1, 2)


def test_numbers_in_info_are_hex_for_masks_and_decimal_else(resctrl: Resctrl) -> None:
    for cache in resctrl.caches:
        assert resctrl.read(f"info/{cache}/cbm_mask") == f"{resctrl.full(cache):x}\n"
        assert resctrl.read(f"info/{cache}/num_closids") == f"{resctrl.number(cache, 'num_closids')}\n"


def test_a_cache_is_described(resctrl: Resctrl) -> None:
    expected = {"num_closids", "cbm_mask", "min_cbm_bits", "shareable_bits", "bit_usage"}
    expected |= {"sparse_masks"} if resctrl.kernel != "6.1" else set()
    for cache in resctrl.caches:
        assert entries(resctrl, f"info/{cache}") == expected


def test_monitoring_is_described(resctrl: Resctrl) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    features = resctrl.read("info/L3_MON/mon_features").split()
    expected = {"num_rmids", "mon_features", "max_threshold_occupancy"}
    expected |= {feature for feature in features if feature.endswith("_config")}
    traffic = {"mbm_total_bytes", "mbm_local_bytes"} & set(features)
    if resctrl.kernel == "7.2" and traffic:
        expected |= {"mbm_assign_mode"}
    if assignments(resctrl):
        expected |= {"num_mbm_cntrs", "available_mbm_cntrs", "mbm_assign_on_mkdir", "event_configs"}
        assert entries(resctrl, "info/L3_MON/event_configs") == traffic
    assert entries(resctrl, "info/L3_MON") == expected


def test_sparse_masks_is_told_from_6_7_on(resctrl: Resctrl) -> None:
    for cache in resctrl.caches:
        file = resctrl.path / "info" / cache / "sparse_masks"
        assert file.exists() == (resctrl.kernel != "6.1")
        if file.exists():
            assert file.read_text() in ("0\n", "1\n")


def test_bandwidth_is_described(resctrl: Resctrl) -> None:
    for resource in set(resctrl.schemata()) & {"MB", "SMBA"}:
        expected = {"num_closids", "min_bandwidth", "bandwidth_gran", "delay_linear"}
        found = entries(resctrl, f"info/{resource}")
        assert found in (expected, expected | {"thread_throttle_mode"})
        if "thread_throttle_mode" in found:
            assert resctrl.read(f"info/{resource}/thread_throttle_mode") in ("max\n", "per-thread\n")


def test_schemata_lines_come_in_the_kernels_order(resctrl: Resctrl) -> None:
    order = ["SMBA", "MB", "L2", "L2DATA", "L2CODE", "L3", "L3DATA", "L3CODE"]
    names = list(resctrl.schemata())
    assert names == sorted(names, key=order.index)


def test_domains_are_ascending(resctrl: Resctrl) -> None:
    for resource in resctrl.schemata():
        assert resctrl.domains(resource) == sorted(resctrl.domains(resource))


def test_names_are_right_aligned(resctrl: Resctrl) -> None:
    names = [line.partition(":")[0] for line in resctrl.read("schemata").splitlines()]
    assert len({len(name) for name in names}) <= 1
    assert all(name == name.strip().rjust(len(name)) for name in names)
    assert [line.partition(":")[0] for line in resctrl.read("size").splitlines()] == names


def test_values_are_padded_to_the_widest_up_to_6_14(resctrl: Resctrl) -> None:
    if not resctrl.caches or "MB" not in resctrl.schemata():
        pytest.skip("not both kinds of value")
    cache = str(resctrl.cache)
    resctrl.mkdir("g")
    resctrl.set_masks("g", cache, lowest_ways(2))
    resctrl.write("g/schemata", f"MB:{resctrl.domains('MB')[0]}=20\n")
    lines = {line.partition(":")[0].strip(): line.partition(":")[2] for line in resctrl.read("g/schemata").splitlines()}
    mask = lines[cache].split(";")[0].partition("=")[2]
    bandwidth = lines["MB"].split(";")[0].partition("=")[2]
    width = max(len(f"{resctrl.full(cache):x}"), 4 if resctrl.number("MB", "min_bandwidth") == 0 else 3)
    assert (mask, bandwidth) == (("3".zfill(width), "20".rjust(width)) if resctrl.pads else ("3", "20"))


def test_size_is_bytes_in_whole_ways(resctrl: Resctrl) -> None:
    for cache in resctrl.caches:
        sizes = _sizes(resctrl, "")[cache]
        ways = resctrl.full(cache).bit_length()
        assert all(size % ways == 0 for size in sizes.values())
        resctrl.set_masks("", cache, lowest_ways(2))
        assert _sizes(resctrl, "")[cache] == {domain: size // ways * 2 for domain, size in sizes.items()}


def test_size_repeats_bandwidth(resctrl: Resctrl) -> None:
    for resource in set(resctrl.schemata()) & {"MB", "SMBA"}:
        values = {domain: int(value) for domain, value in resctrl.schemata()[resource].items()}
        assert _sizes(resctrl, "")[resource] == values


def test_a_machine_that_can_only_monitor_still_has_the_roots_controls(resctrl: Resctrl) -> None:
    if resctrl.allocates:
        pytest.skip("something can be divided")
    assert (resctrl.read("schemata"), resctrl.read("size"), resctrl.read("mode")) == ("", "", "shareable\n")
    assert resctrl.read("tasks") == ""


def _sizes(resctrl: Resctrl, group: str) -> dict[str, dict[int, int]]:
    lines = (line.split(":") for line in resctrl.read(f"{group}/size").splitlines())
    return {
        name.strip(): {int(d): int(v) for d, _, v in (part.partition("=") for part in values.split(";"))}
        for name, values in lines
    }
