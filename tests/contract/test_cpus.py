"""CPUs of groups (§ 9)."""

import pytest

from tests.contract.resctrl_mount import Resctrl


@pytest.fixture
def group(resctrl: Resctrl) -> str:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    return resctrl.mkdir("g")


@pytest.fixture
def monitoring(resctrl: Resctrl, group: str) -> str:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    resctrl.write("g/cpus_list", "0-1")
    return resctrl.mkdir("g/mon_groups/m")


def mask(resctrl: Resctrl, group: str) -> int:
    return int(resctrl.read(f"{group}/cpus").replace(",", ""), 16)


def all_cpus(resctrl: Resctrl) -> int:
    return int(resctrl.untouched["cpus"].replace(",", ""), 16)


def refusal(resctrl: Resctrl, file: str, text: str) -> tuple[str, str]:
    resctrl.write("mode", "shareable\n")
    return resctrl.refusal(file, text)


@pytest.mark.parametrize("text", ["2", "2\n", " 2 \n", "0002", "2,", ",2", "2\nzz"])
def test_a_mask_can_be_written_in_several_ways(resctrl: Resctrl, group: str, text: str) -> None:
    resctrl.write("g/cpus", text)
    assert mask(resctrl, "g") == 0b10
    assert mask(resctrl, "") == all_cpus(resctrl) & ~0b10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"),
        ("0-1", "0-1"),
        ("0,2", "0,2"),
        (" 1 , 2 ", "1-2"),
        ("1 2", "1-2"),
        ("1,,2", "1-2"),
        ("0-3:1/2", "0,2"),
        ("\n", ""),
        ("0\n9999", "0"),
    ],
)
def test_so_can_a_list(resctrl: Resctrl, group: str, text: str, expected: str) -> None:
    resctrl.write("g/cpus_list", text)
    assert resctrl.read("g/cpus_list") == f"{expected}\n"


def test_all_and_n_are_lists_too(resctrl: Resctrl, group: str) -> None:
    resctrl.write("g/cpus_list", "all")
    assert mask(resctrl, "g") == all_cpus(resctrl)
    resctrl.write("g/cpus_list", "N")
    assert mask(resctrl, "g") == (all_cpus(resctrl) + 1) >> 1


def test_a_mask_has_a_comma_every_32_bits_and_is_as_wide_as_the_machine(resctrl: Resctrl, group: str) -> None:
    resctrl.write("g/cpus", "1")
    width = len(resctrl.untouched["cpus"])
    assert len(resctrl.read("g/cpus")) == width
    chunks = resctrl.read("g/cpus").strip().split(",")
    assert all(len(chunk) == 8 for chunk in chunks[1:])


@pytest.mark.parametrize("text", ["zz", "0x1", "-1", "1-2"])
def test_what_is_no_mask_is_bad(resctrl: Resctrl, group: str, text: str) -> None:
    assert refusal(resctrl, "g/cpus", text) == ("EINVAL", "Bad CPU list/mask\n")


def test_a_mask_of_more_cpus_than_there_are_overflows(resctrl: Resctrl, group: str) -> None:
    too_many = all_cpus(resctrl) + 1
    chunks = [f"{too_many >> shift & 0xFFFFFFFF:x}" for shift in range(0, too_many.bit_length(), 32)]
    assert refusal(resctrl, "g/cpus", ",".join(reversed(chunks))) == ("EOVERFLOW", "Bad CPU list/mask\n")


@pytest.mark.parametrize("text", ["x", "1-", "2-1", "-1", "0x1", "+1", "0-3:2", "0-3:2/0", "0-3:3/2", "1;2"])
def test_what_is_no_list_is_bad(resctrl: Resctrl, group: str, text: str) -> None:
    assert refusal(resctrl, "g/cpus_list", text) == ("EINVAL", "Bad CPU list/mask\n")


def test_a_list_with_a_cpu_that_is_not_there_is_out_of_range(resctrl: Resctrl, group: str) -> None:
    beyond = all_cpus(resctrl).bit_length()
    for text in (str(beyond), f"0-{beyond}"):
        assert refusal(resctrl, "g/cpus_list", text) == ("ERANGE", "Bad CPU list/mask\n")


def test_the_root_cannot_drop_cpus(resctrl: Resctrl) -> None:
    assert refusal(resctrl, "cpus_list", "0") == ("EINVAL", "Can't drop CPUs from default group\n")
    assert mask(resctrl, "") == all_cpus(resctrl)


def test_a_control_group_takes_cpus_from_others_and_gives_what_it_drops_to_the_root(
    resctrl: Resctrl, group: str
) -> None:
    resctrl.mkdir("h")
    resctrl.write("g/cpus_list", "0-2")
    resctrl.write("h/cpus_list", "2-3")
    assert (resctrl.read("g/cpus_list"), resctrl.read("h/cpus_list")) == ("0-1\n", "2-3\n")
    resctrl.write("h/cpus_list", "3")
    assert mask(resctrl, "") == all_cpus(resctrl) & ~0b1011


def test_the_root_can_take_them_back(resctrl: Resctrl, group: str) -> None:
    resctrl.write("g/cpus_list", "0-2")
    resctrl.write("cpus", resctrl.untouched["cpus"])
    assert resctrl.read("g/cpus_list") == "\n"


def test_a_monitoring_group_has_cpus_of_its_control_group(resctrl: Resctrl, monitoring: str) -> None:
    resctrl.write(f"{monitoring}/cpus_list", "1")
    assert resctrl.read("g/cpus_list") == "0-1\n"
    text = "Can only add CPUs to mongroup that belong to parent\n"
    assert refusal(resctrl, f"{monitoring}/cpus_list", "2") == ("EINVAL", text)
    assert resctrl.read(f"{monitoring}/cpus_list") == "1\n"


def test_monitoring_groups_take_cpus_from_one_another(resctrl: Resctrl, monitoring: str) -> None:
    resctrl.mkdir("g/mon_groups/n")
    resctrl.write(f"{monitoring}/cpus_list", "0-1")
    resctrl.write("g/mon_groups/n/cpus_list", "1")
    assert resctrl.read(f"{monitoring}/cpus_list") == "0\n"


def test_writing_a_control_groups_cpus_clears_those_of_its_monitoring_groups(resctrl: Resctrl, monitoring: str) -> None:
    resctrl.write(f"{monitoring}/cpus_list", "1")
    resctrl.write("g/cpus_list", "0-2")
    assert resctrl.read(f"{monitoring}/cpus_list") == "\n"


def test_cpus_taken_from_a_control_group_leave_its_monitoring_groups_too(resctrl: Resctrl, monitoring: str) -> None:
    resctrl.write(f"{monitoring}/cpus_list", "0-1")
    resctrl.mkdir("h")
    resctrl.write("h/cpus_list", "1")
    assert resctrl.read("g/cpus_list") == resctrl.read(f"{monitoring}/cpus_list") == "0\n"
