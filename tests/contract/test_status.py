"""What clears last_cmd_status, and what leaves it as it was (§ 4)."""

import os

import pytest

from tests.contract.resctrl_mount import Resctrl, errno_of


def test_a_command_that_succeeds_leaves_ok(resctrl: Resctrl) -> None:
    resctrl.make_stale()
    resctrl.write("mode", "shareable\n")
    assert resctrl.status == "ok\n"


def test_so_does_a_schemata_that_is_written(resctrl: Resctrl) -> None:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    resctrl.make_stale()
    resctrl.write("schemata", resctrl.read("schemata"))
    assert resctrl.status == "ok\n"


def test_reading_leaves_it_alone(resctrl: Resctrl) -> None:
    stale = resctrl.make_stale()
    for file in ("tasks", "cpus", "cpus_list", "schemata", "size", "mode"):
        resctrl.read(file)
    assert resctrl.status == stale


@pytest.mark.parametrize("file", ["schemata", "mode"])
def test_without_its_newline_a_line_fails_before_the_status_is_touched(resctrl: Resctrl, file: str) -> None:
    stale = resctrl.make_stale()
    assert resctrl.refusal(file, "shareable") == ("EINVAL", stale)


def test_tasks_and_cpus_need_no_newline(resctrl: Resctrl) -> None:
    resctrl.write("tasks", "0")
    resctrl.write("cpus", resctrl.read("cpus").rstrip("\n"))
    resctrl.write("cpus_list", resctrl.read("cpus_list").rstrip("\n"))


def test_mkdir_clears_it_from_6_16_on(resctrl: Resctrl) -> None:
    place = "g" if resctrl.allocates else "mon_groups/g"
    resctrl.mkdir(place)
    resctrl.rmdir(place)
    stale = resctrl.make_stale()
    resctrl.mkdir(place)
    assert resctrl.status == ("ok\n" if resctrl.clears_always else stale)


def test_rmdir_never_touches_it(resctrl: Resctrl) -> None:
    place = resctrl.mkdir("g" if resctrl.allocates else "mon_groups/g")
    stale = resctrl.make_stale()
    resctrl.rmdir(place)
    assert resctrl.status == stale
    assert errno_of(lambda: resctrl.rmdir("info")) == "EPERM"
    assert resctrl.status == stale


def test_cpus_writes_clear_it_from_6_16_on_and_append_to_it_before(resctrl: Resctrl) -> None:
    stale = resctrl.make_stale()
    resctrl.write("cpus", resctrl.read("cpus"))
    assert resctrl.status == ("ok\n" if resctrl.clears_always else stale)
    code, status = resctrl.refusal("cpus", "what\n")
    assert (code, status) == ("EINVAL", ("" if resctrl.clears_always else stale) + "Bad CPU list/mask\n")


def test_tasks_clear_it(resctrl: Resctrl) -> None:
    resctrl.make_stale()
    resctrl.write("tasks", f"{os.getpid()}\n")
    assert resctrl.status == "ok\n"


def test_an_existing_name_leaves_it_alone(resctrl: Resctrl) -> None:
    stale = resctrl.make_stale()
    assert errno_of(lambda: resctrl.mkdir("tasks")) == "EEXIST"
    assert resctrl.status == stale


def test_texts_append_until_the_buffer_of_512_bytes_is_full(resctrl: Resctrl) -> None:
    if resctrl.clears_always:
        pytest.skip("each failure clears what was there")
    resctrl.write("mode", "shareable\n")
    text = "Bad CPU list/mask\n"
    for _ in range(40):
        resctrl.refusal("cpus", "what\n")
    assert resctrl.status == text * (511 // len(text))
