"""Counters, and what can be set about them (§§ 3, 12)."""

import re

import pytest

from tests.contract.resctrl_mount import Resctrl, errno_of

INFO = "info/L3_MON"


@pytest.fixture(autouse=True)
def monitoring(resctrl: Resctrl) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")


def events(resctrl: Resctrl) -> list[str]:
    return [line for line in resctrl.read(f"{INFO}/mon_features").split() if not line.endswith("_config")]


def test_every_group_has_counters_for_each_cache(resctrl: Resctrl) -> None:
    groups = ["", resctrl.mkdir("mon_groups/m"), *([resctrl.mkdir("g")] if resctrl.allocates else [])]
    for group in groups:
        directories = [
            entry for entry in (resctrl.path / group / "mon_data").iterdir() if entry.name.startswith("mon_L3")
        ]
        assert directories
        for directory in directories:
            assert re.fullmatch(r"mon_L3_\d\d", directory.name)
            files = [entry for entry in directory.iterdir() if entry.is_file()]
            assert sorted(file.name for file in files) == sorted(events(resctrl))
            for file in files:
                assert re.fullmatch(r"\d+\n|Unavailable\n|Error\n|Unassigned\n", file.read_text())


def test_sub_numa_clusters_have_their_own_below_their_caches(resctrl: Resctrl) -> None:
    clusters = sorted(path.name for path in resctrl.path.glob("mon_data/mon_L3_*/mon_sub_L3_*"))
    if not clusters:
        pytest.skip("no sub-NUMA clustering")
    assert clusters == [f"mon_sub_L3_{number:02}" for number in range(len(clusters))]
    for path in resctrl.path.glob("mon_data/mon_L3_*/mon_sub_L3_*"):
        assert sorted(entry.name for entry in path.iterdir()) == sorted(events(resctrl))


def test_counters_cannot_be_written(resctrl: Resctrl) -> None:
    file = next(resctrl.path.glob(f"mon_data/mon_L3_*/{events(resctrl)[0]}"))
    assert errno_of(lambda: file.write_text("0")) == "EACCES"


def test_events_are_told_in_the_kernels_order_each_before_its_configuration(resctrl: Resctrl) -> None:
    order = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"]
    every = [name for event in order for name in (event, f"{event}_config")]
    features = resctrl.read(f"{INFO}/mon_features").splitlines()
    assert features == sorted(features, key=every.index)


def test_what_configures_an_event_comes_with_both_or_none(resctrl: Resctrl) -> None:
    configured = {feature for feature in resctrl.read(f"{INFO}/mon_features").split() if feature.endswith("_config")}
    assert configured in (set(), {"mbm_total_bytes_config", "mbm_local_bytes_config"})


def test_a_new_threshold_leaves_the_status_alone(resctrl: Resctrl) -> None:
    stale = resctrl.make_stale()
    resctrl.write(f"{INFO}/max_threshold_occupancy", "0\n")
    assert resctrl.status == stale


@pytest.mark.parametrize("form", ["{}", "{}\n", "+{}", "0x{:x}\n", "0{:o}"])
def test_the_threshold_is_rounded_down_to_what_is_counted(resctrl: Resctrl, form: str) -> None:
    file = f"{INFO}/max_threshold_occupancy"
    before = int(resctrl.read(file))
    resctrl.write(file, form.format(before))
    assert int(resctrl.read(file)) == before
    resctrl.write(file, form.format(before + 1))
    assert int(resctrl.read(file)) == before
    resctrl.write(file, "0")
    assert resctrl.read(file) == "0\n"


@pytest.mark.parametrize(
    ("text", "code"), [("abc", "EINVAL"), ("-1", "EINVAL"), ("\n", "EINVAL"), ("99999999999", "ERANGE")]
)
def test_a_threshold_that_is_none_is_refused_without_a_word(resctrl: Resctrl, text: str, code: str) -> None:
    stale = resctrl.make_stale()
    assert resctrl.refusal(f"{INFO}/max_threshold_occupancy", text) == (code, stale)


def test_a_threshold_larger_than_the_cache_is_refused(resctrl: Resctrl) -> None:
    assert errno_of(lambda: resctrl.write(f"{INFO}/max_threshold_occupancy", "4294967295")) == "EINVAL"


def test_events_can_be_configured_where_hardware_and_kernel_can(resctrl: Resctrl) -> None:
    features = resctrl.read(f"{INFO}/mon_features").split()
    for event in ("mbm_total_bytes", "mbm_local_bytes"):
        assert (f"{event}_config" in features) == (resctrl.path / INFO / f"{event}_config").exists()


@pytest.fixture
def configuration(resctrl: Resctrl) -> str:
    file = f"{INFO}/mbm_total_bytes_config"
    if not (resctrl.path / file).exists():
        pytest.skip("events cannot be configured")
    return file


def configured(resctrl: Resctrl, file: str) -> dict[int, int]:
    return {int(d): int(v, 16) for d, _, v in (part.partition("=") for part in resctrl.read(file).strip().split(";"))}


def test_each_domain_is_configured_by_itself(resctrl: Resctrl, configuration: str) -> None:
    first, *others = configured(resctrl, configuration)
    resctrl.write(configuration, f"{first}=0x33\n")
    assert configured(resctrl, configuration) == {first: 0x33, **dict.fromkeys(others, 0x7F)}
    resctrl.make_stale()
    resctrl.write(configuration, f" {first}=3 ;{others[0]}=0x44;\n")
    assert resctrl.status == "ok\n"
    assert re.match(rf"{first}=0x03;", resctrl.read(configuration))


def test_at_first_everything_is_counted_and_what_is_local(resctrl: Resctrl, configuration: str) -> None:
    assert set(configured(resctrl, configuration).values()) == {0x7F}
    assert set(configured(resctrl, configuration.replace("total", "local")).values()) == {0x15}


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("{0}=0x80\n", "Invalid event configuration: max valid mask is 0x7f\n"),
        ("x=1\n", "Missing '=' or non-numeric domain id\n"),
        ("{0}=1;;{1}=2\n", "Missing '=' or non-numeric domain id\n"),
        ("{0}\n", "Non-numeric event configuration value\n"),
        ("{0}=zz\n", "Non-numeric event configuration value\n"),
        ("{0}= 1\n", "Non-numeric event configuration value\n"),
        ("{0}=1;9999=1\n", "ok\n"),
    ],
)
def test_a_bad_configuration_says_why(resctrl: Resctrl, configuration: str, text: str, status: str) -> None:
    domains = list(configured(resctrl, configuration))
    assert resctrl.refusal(configuration, text.format(*domains)) == ("EINVAL", status)


def test_what_comes_before_a_mistake_is_in_force(resctrl: Resctrl, configuration: str) -> None:
    first = next(iter(configured(resctrl, configuration)))
    assert errno_of(lambda: resctrl.write(configuration, f"{first}=0x11;x=1\n")) == "EINVAL"
    assert configured(resctrl, configuration)[first] == 0x11


def test_a_configuration_without_newline_is_refused_before_the_status_is_touched(
    resctrl: Resctrl, configuration: str
) -> None:
    stale = resctrl.make_stale()
    assert resctrl.refusal(configuration, "0=1") == ("EINVAL", stale)


def test_the_assign_mode_is_told_from_6_18_on(resctrl: Resctrl) -> None:
    file = resctrl.path / INFO / "mbm_assign_mode"
    assert file.exists() == (resctrl.kernel == "7.2")
    if not file.exists() or "mbm_event" in file.read_text():
        return
    assert file.read_text() == "[default]\n"
    resctrl.write(f"{INFO}/mbm_assign_mode", "default\n")
    assert resctrl.refusal(f"{INFO}/mbm_assign_mode", "mbm_event\n") == ("EINVAL", "mbm_event mode is not supported\n")
    assert resctrl.refusal(f"{INFO}/mbm_assign_mode", "junk\n") == ("EINVAL", "Unsupported assign mode\n")


def test_under_mba_mbps_each_control_group_chooses_its_event_from_6_14_on(resctrl: Resctrl) -> None:
    if not (resctrl.in_mbps and resctrl.kernel == "7.2"):
        pytest.skip("no choice")
    resctrl.mkdir("g")
    resctrl.make_stale()
    resctrl.write("g/mba_MBps_event", "mbm_total_bytes\n")
    assert resctrl.status == "ok\n"
    assert (resctrl.read("g/mba_MBps_event"), resctrl.read("mba_MBps_event")) == (
        "mbm_total_bytes\n",
        "mbm_local_bytes\n",
    )
    for event in ("junk", "llc_occupancy"):
        status = f"Unsupported event id '{event}'\n"
        assert resctrl.refusal("g/mba_MBps_event", f"{event}\n") == ("EINVAL", status)
    stale = resctrl.make_stale()
    assert resctrl.refusal("g/mba_MBps_event", "mbm_local_bytes") == ("EINVAL", stale)
