"""Counters that are assigned to groups one by one (§§ 3, 12)."""

from collections.abc import Iterator

import pytest

from tests.contract.resctrl_mount import Resctrl, errno_of

INFO = "info/L3_MON"
EVENTS = ("mbm_total_bytes", "mbm_local_bytes")
EVERYTHING = (
    "local_reads,remote_reads,local_non_temporal_writes,remote_non_temporal_writes,"
    "local_reads_slow_memory,remote_reads_slow_memory,dirty_victim_writes_all\n"
)
LOCAL = "local_reads,local_non_temporal_writes,local_reads_slow_memory\n"


@pytest.fixture(autouse=True)
def assignable(resctrl: Resctrl) -> Iterator[None]:
    if not (resctrl.path / INFO / "num_mbm_cntrs").exists():
        pytest.skip("each group has counters of its own")
    begin_anew(resctrl)
    yield
    begin_anew(resctrl)


def begin_anew(resctrl: Resctrl) -> None:
    """Changing the mode takes every counter away and resets what they count; then the root gets its own again."""
    for mode in ("default", "mbm_event"):
        resctrl.write(f"{INFO}/mbm_assign_mode", f"{mode}\n")
    resctrl.write(f"{INFO}/mbm_assign_on_mkdir", "1\n")
    resctrl.write("mbm_L3_assignments", "".join(f"{event}:*=e\n" for event in EVENTS))


def per_domain(resctrl: Resctrl, file: str) -> dict[int, int]:
    return {int(d): int(n) for d, _, n in (part.partition("=") for part in resctrl.read(file).strip().split(";"))}


def available(resctrl: Resctrl) -> list[int]:
    return list(per_domain(resctrl, f"{INFO}/available_mbm_cntrs").values())


def assigned(resctrl: Resctrl, group: str = "mon_groups/m") -> dict[str, str]:
    """By event, a letter for each domain."""
    lines = (line.partition(":") for line in resctrl.read(f"{group}/mbm_L3_assignments").splitlines())
    return {event: "".join(part.partition("=")[2] for part in values.split(";")) for event, _, values in lines}


def domains(resctrl: Resctrl) -> list[int]:
    return list(per_domain(resctrl, f"{INFO}/num_mbm_cntrs"))


def assign(resctrl: Resctrl, text: str, group: str = "mon_groups/m") -> None:
    first, *_, last = domains(resctrl)
    resctrl.write(f"{group}/mbm_L3_assignments", text.format(first, last))


def refusal(resctrl: Resctrl, text: str) -> tuple[str, str]:
    first, *_, last = domains(resctrl)
    return resctrl.refusal("mon_groups/m/mbm_L3_assignments", text.format(first, last))


def all_of(resctrl: Resctrl, letter: str) -> str:
    return letter * len(domains(resctrl))


# Modes


def test_assigning_is_the_mode_at_first(resctrl: Resctrl) -> None:
    assert resctrl.read(f"{INFO}/mbm_assign_mode") == "[mbm_event]\ndefault\n"


def test_events_are_filtered_then_and_have_no_other_configuration(resctrl: Resctrl) -> None:
    assert resctrl.read(f"{INFO}/mon_features") == "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n"
    assert not (resctrl.path / INFO / "mbm_total_bytes_config").exists()
    resctrl.write(f"{INFO}/mbm_assign_mode", "default\n")
    assert resctrl.read(f"{INFO}/mbm_assign_mode") == "[default]\nmbm_event\n"
    assert "mbm_total_bytes_config" in resctrl.read(f"{INFO}/mon_features").split()
    assert (resctrl.path / INFO / "mbm_total_bytes_config").exists()


def test_in_the_other_mode_nothing_can_be_assigned(resctrl: Resctrl) -> None:
    resctrl.write(f"{INFO}/mbm_assign_mode", "default\n")
    for file in (f"{INFO}/available_mbm_cntrs", f"{INFO}/mbm_assign_on_mkdir", "mbm_L3_assignments"):
        assert errno_of(lambda file=file: resctrl.read(file)) == "EINVAL"
        assert resctrl.status == "mbm_event counter assignment mode is not enabled\n"
    assert resctrl.refusal("mbm_L3_assignments", "mbm_total_bytes:*=e\n") == (
        "EINVAL",
        "mbm_event mode is not enabled\n",
    )
    for file in (f"{INFO}/mbm_assign_on_mkdir", f"{INFO}/event_configs/mbm_total_bytes/event_filter"):
        assert resctrl.refusal(file, "1\n") == ("EINVAL", "mbm_event counter assignment mode is not enabled\n")
    assert len(per_domain(resctrl, f"{INFO}/num_mbm_cntrs")) > 0


@pytest.mark.parametrize("text", ["junk\n", "[default]\n", "\n"])
def test_other_modes_are_unsupported(resctrl: Resctrl, text: str) -> None:
    assert resctrl.refusal(f"{INFO}/mbm_assign_mode", text) == ("EINVAL", "Unsupported assign mode\n")


def test_a_mode_without_newline_is_refused_before_the_status_is_touched(resctrl: Resctrl) -> None:
    stale = resctrl.make_stale()
    assert resctrl.refusal(f"{INFO}/mbm_assign_mode", "default") == ("EINVAL", stale)


def test_changing_the_mode_takes_every_counter_away(resctrl: Resctrl) -> None:
    resctrl.mkdir("mon_groups/m")
    for mode in ("default", "mbm_event"):
        resctrl.write(f"{INFO}/mbm_assign_mode", f"{mode}\n")
    assert assigned(resctrl) == dict.fromkeys(EVENTS, all_of(resctrl, "_"))
    assert available(resctrl) == list(per_domain(resctrl, f"{INFO}/num_mbm_cntrs").values())


# Assigning


def test_a_new_group_gets_a_counter_for_each_event(resctrl: Resctrl) -> None:
    before = available(resctrl)
    resctrl.mkdir("mon_groups/m")
    assert assigned(resctrl) == assigned(resctrl, "") == dict.fromkeys(EVENTS, all_of(resctrl, "e"))
    assert available(resctrl) == [count - 2 for count in before]
    resctrl.rmdir("mon_groups/m")
    assert available(resctrl) == before


@pytest.mark.parametrize(("text", "kept"), [("0\n", "0"), ("off\n", "0"), ("n", "0"), ("1", "1"), ("y\n", "1")])
def test_unless_that_is_switched_off(resctrl: Resctrl, text: str, kept: str) -> None:
    resctrl.write(f"{INFO}/mbm_assign_on_mkdir", text)
    assert resctrl.read(f"{INFO}/mbm_assign_on_mkdir") == f"{kept}\n"
    resctrl.mkdir("mon_groups/m")
    assert assigned(resctrl)["mbm_total_bytes"] == all_of(resctrl, "e" if kept == "1" else "_")


@pytest.mark.parametrize("text", ["2\n", "x\n", "\n"])
def test_what_is_neither_yes_nor_no_is_refused_without_a_word(resctrl: Resctrl, text: str) -> None:
    stale = resctrl.make_stale()
    assert resctrl.refusal(f"{INFO}/mbm_assign_on_mkdir", text) == ("EINVAL", stale)


def test_when_counters_run_out_groups_are_made_all_the_same(resctrl: Resctrl) -> None:
    count = min(available(resctrl))
    for number in range(count // 2):
        resctrl.mkdir(f"mon_groups/m{number}")
    assert available(resctrl) == [0] * len(domains(resctrl))
    resctrl.mkdir("mon_groups/m")
    lacking = "".join(
        f"Failed to allocate counter for {event} in domain {domain}\n"
        for event in EVENTS
        for domain in domains(resctrl)
    )
    assert resctrl.status == lacking[:511]  # as much as there is room for
    assert assigned(resctrl) == dict.fromkeys(EVENTS, all_of(resctrl, "_"))
    first = domains(resctrl)[0]
    status = f"Failed to allocate counter for mbm_total_bytes in domain {first}\n"
    status += f"Assign operation 'mbm_total_bytes:{first}=e' failed\n"
    assert refusal(resctrl, "mbm_total_bytes:{0}=e\n") == ("ENOSPC", status)


def test_an_event_without_counter_reads_unassigned(resctrl: Resctrl) -> None:
    resctrl.mkdir("mon_groups/m")
    assign(resctrl, "mbm_total_bytes:{0}=_\n")
    first, last = domains(resctrl)[0], domains(resctrl)[-1]
    place = "mon_groups/m/mon_data/mon_L3_"
    assert resctrl.read(f"{place}{first:02}/mbm_total_bytes") == "Unassigned\n"
    assert resctrl.read(f"{place}{last:02}/mbm_total_bytes") != "Unassigned\n"
    assert resctrl.read(f"{place}{first:02}/mbm_local_bytes") != "Unassigned\n"
    assert resctrl.read(f"{place}{first:02}/llc_occupancy") != "Unassigned\n"


@pytest.mark.parametrize(
    ("text", "total", "local"),
    [
        ("mbm_total_bytes:{0}=_\n", "_e", "ee"),
        ("mbm_total_bytes:*=_\n", "__", "ee"),
        ("mbm_total_bytes:*=_;\n", "__", "ee"),
        ("mbm_total_bytes:{0}=_;{1}=_\n", "__", "ee"),
        ("mbm_total_bytes:{0}=_;{0}=e\n", "ee", "ee"),
        ("mbm_total_bytes:{0}=_\nmbm_local_bytes:{1}=_\n", "_e", "e_"),
        ("mbm_total_bytes:{0}=e\n", "ee", "ee"),
        ("mbm_total_bytes\n", "ee", "ee"),
    ],
)
def test_counters_are_given_and_taken_by_event_and_domain(resctrl: Resctrl, text: str, total: str, local: str) -> None:
    if len(domains(resctrl)) != 2:
        pytest.skip("not two domains")
    resctrl.mkdir("mon_groups/m")
    before = available(resctrl)
    resctrl.make_stale()
    assign(resctrl, text)
    assert resctrl.status == "ok\n"
    assert assigned(resctrl) == {"mbm_total_bytes": total, "mbm_local_bytes": local}
    taken = [(total[domain] + local[domain]).count("_") for domain in range(2)]
    assert available(resctrl) == [count + more for count, more in zip(before, taken, strict=True)]


@pytest.mark.parametrize(
    ("text", "code", "status"),
    [
        ("junk:{0}=e\n", "ENOENT", "Invalid event junk\n"),
        ("llc_occupancy:{0}=e\n", "ENOENT", "Invalid event llc_occupancy\n"),
        ("\n", "ENOENT", "Invalid event \n"),
        ("mbm_total_bytes:99=e\n", "EINVAL", "Invalid domain id 99\n"),
        ("mbm_total_bytes:x=e\n", "EINVAL", "Missing domain id\n"),
        ("mbm_total_bytes:{0}=x\n", "EINVAL", "Assign operation 'mbm_total_bytes:{0}=x' failed\n"),
        ("mbm_total_bytes:{0}=\n", "EINVAL", "Assign operation 'mbm_total_bytes:{0}=' failed\n"),
    ],
)
def test_a_bad_assignment_says_why(resctrl: Resctrl, text: str, code: str, status: str) -> None:
    resctrl.mkdir("mon_groups/m")
    assert refusal(resctrl, text) == (code, status.format(domains(resctrl)[0]))


def test_without_its_newline_it_fails_before_the_status_is_touched(resctrl: Resctrl) -> None:
    resctrl.mkdir("mon_groups/m")
    stale = resctrl.make_stale()
    assert refusal(resctrl, "mbm_total_bytes:{0}=_") == ("EINVAL", stale)


def test_what_comes_before_a_mistake_is_done(resctrl: Resctrl) -> None:
    resctrl.mkdir("mon_groups/m")
    assert refusal(resctrl, "mbm_total_bytes:*=_\njunk:{0}=e\n")[0] == "ENOENT"
    assert assigned(resctrl) == {"mbm_total_bytes": all_of(resctrl, "_"), "mbm_local_bytes": all_of(resctrl, "e")}


def test_a_moved_group_keeps_its_counters(resctrl: Resctrl) -> None:
    for group in ("a", "b", "a/mon_groups/m"):
        resctrl.mkdir(group)
    assign(resctrl, "mbm_local_bytes:*=_\n", "a/mon_groups/m")
    before, free = assigned(resctrl, "a/mon_groups/m"), available(resctrl)
    resctrl.rename("a/mon_groups/m", "b/mon_groups/m")
    assert (assigned(resctrl, "b/mon_groups/m"), available(resctrl)) == (before, free)


# What is counted


def filter_of(event: str) -> str:
    return f"{INFO}/event_configs/{event}/event_filter"


def test_at_first_everything_is_counted_and_what_is_local(resctrl: Resctrl) -> None:
    assert resctrl.read(filter_of("mbm_total_bytes")) == EVERYTHING
    assert resctrl.read(filter_of("mbm_local_bytes")) == LOCAL


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("local_reads\n", "local_reads\n"),
        ("remote_reads,local_reads\n", "local_reads,remote_reads\n"),
        ("local_reads, remote_reads\n", "local_reads,remote_reads\n"),
        ("local_reads,local_reads\n", "local_reads\n"),
        ("\n", "\n"),
    ],
)
def test_a_filter_names_what_is_counted(resctrl: Resctrl, text: str, kept: str) -> None:
    resctrl.write(filter_of("mbm_total_bytes"), text)
    assert resctrl.read(filter_of("mbm_total_bytes")) == kept
    assert resctrl.read(filter_of("mbm_local_bytes")) == LOCAL


@pytest.mark.parametrize("text", ["junk\n", "local_reads,junk\n"])
def test_an_unknown_kind_of_traffic_is_named_and_nothing_changed(resctrl: Resctrl, text: str) -> None:
    status = "Invalid memory transaction type junk\n"
    assert resctrl.refusal(filter_of("mbm_total_bytes"), text) == ("EINVAL", status)
    assert resctrl.read(filter_of("mbm_total_bytes")) == EVERYTHING


def test_a_filter_without_newline_is_refused_before_the_status_is_touched(resctrl: Resctrl) -> None:
    stale = resctrl.make_stale()
    assert resctrl.refusal(filter_of("mbm_total_bytes"), "local_reads") == ("EINVAL", stale)
