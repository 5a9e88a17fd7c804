"""Writing schemata: what is taken, what is refused with which text, and that it is all or nothing (§ 10)."""

import pytest

from tests.contract.resctrl_mount import Resctrl, lowest_ways


@pytest.fixture
def cache(resctrl: Resctrl) -> str:
    if resctrl.cache is None:
        pytest.skip("no cache control")
    resctrl.mkdir("g")
    return resctrl.cache


@pytest.fixture
def bandwidth(resctrl: Resctrl) -> str:
    if "MB" not in resctrl.schemata():
        pytest.skip("no bandwidth control")
    resctrl.mkdir("g")
    return "MB"


@pytest.fixture
def in_hardware(resctrl: Resctrl, bandwidth: str) -> str:
    if resctrl.in_mbps:
        pytest.skip("limited by software")
    return bandwidth


def domain(resctrl: Resctrl, resource: str, position: int = 0) -> int:
    return resctrl.domains(resource)[position]


# Masks


@pytest.mark.parametrize(
    "form", ["{0}:{1}=3", "{0}:{1}=0x3", "{0}:{1}=0X3", " {0} :{1}=3", "{0}:{1}= 3 ", "{0}:{1}=003"]
)
@pytest.mark.parametrize("end", ["\n", ";\n", "\0\n"])
def test_a_mask_can_be_written_in_several_ways(resctrl: Resctrl, cache: str, form: str, end: str) -> None:
    first = domain(resctrl, cache)
    resctrl.write("g/schemata", form.format(cache, first) + end)
    assert resctrl.masks("g", cache)[first] == 3


def test_the_number_of_a_domain_takes_zeros_and_a_plus(resctrl: Resctrl, cache: str) -> None:
    last = domain(resctrl, cache, -1)
    resctrl.write("g/schemata", f"{cache}:+0{last}=3\n")
    assert resctrl.masks("g", cache)[last] == 3


def test_domains_left_out_keep_their_masks(resctrl: Resctrl, cache: str) -> None:
    before = resctrl.masks("g", cache)
    last = domain(resctrl, cache, -1)
    resctrl.write("g/schemata", f"{cache}:{last}=3\n")
    assert resctrl.masks("g", cache) == {**before, last: 3}


def test_what_was_read_can_be_written_back(resctrl: Resctrl, cache: str) -> None:
    """Field report 8: crun takes a padded name for an unknown one."""
    resctrl.set_masks("g", cache, 3)
    before = resctrl.read("g/schemata")
    resctrl.write("g/schemata", before)
    assert resctrl.read("g/schemata") == before


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ("{0}=g", "Non-hex character in the mask g\n"),
        ("{0}=", "Non-hex character in the mask \n"),
        ("{0}=f=f", "Non-hex character in the mask f=f\n"),
        ("{0}=fffffffffffffffff", "Non-hex character in the mask fffffffffffffffff\n"),
        ("{0}=1ffffffff", "Mask out of range\n"),
        ("{0}=3;{0}=3", "Duplicate domain {0}\n"),
        ("{0}=3; {1}=3", "Missing '=' or non-numeric domain\n"),
        ("{0} =3", "Missing '=' or non-numeric domain\n"),
        ("{0}=3;;{1}=3", "Missing '=' or non-numeric domain\n"),
        ("{0}=3;{1}", "Missing '=' or non-numeric domain\n"),
        ("=3", "Missing '=' or non-numeric domain\n"),
        ("x=3", "Missing '=' or non-numeric domain\n"),
        ("-1=3", "Missing '=' or non-numeric domain\n"),
        ("", "Missing '{2}' value\n"),
        ("9999=3", "ok\n"),
    ],
)
def test_a_bad_line_is_refused_and_says_why(resctrl: Resctrl, cache: str, values: str, status: str) -> None:
    """Field reports 1 and 2: koordinator#1777, runc#1913. For a domain that is not there the kernel has no word."""
    before = resctrl.read("g/schemata")
    names = (domain(resctrl, cache), domain(resctrl, cache, -1), cache)
    resctrl.make_stale()
    line = f"{cache}:{values.format(*names)}\n"
    assert resctrl.refusal("g/schemata", line) == ("EINVAL", status.format(*names))
    assert resctrl.read("g/schemata") == before


@pytest.mark.parametrize("text", ["", "MB", "L3"])
def test_a_line_without_colon_is_refused(resctrl: Resctrl, text: str) -> None:
    resctrl.make_stale()
    assert resctrl.refusal("schemata", f"{text}\n") == ("EINVAL", "Missing ':'\n")


def test_a_blank_line_is_one_without_colon(resctrl: Resctrl, cache: str) -> None:
    line = f"{cache}:{domain(resctrl, cache)}=3\n"
    assert resctrl.refusal("g/schemata", line + "\n") == ("EINVAL", "Missing ':'\n")


@pytest.mark.parametrize("name", ["L9", "l3", "mb", "", "L3 DATA"])
def test_an_unknown_resource_is_named(resctrl: Resctrl, name: str) -> None:
    """Field report 3: intel-cmt-cat#44, an L2 line on a machine without L2 allocation."""
    resctrl.make_stale()
    assert resctrl.refusal("schemata", f"{name}:0=f\n") == (
        "EINVAL",
        f"Unknown or unsupported resource name '{name}'\n",
    )


def test_what_the_machine_lacks_is_unknown(resctrl: Resctrl) -> None:
    for name in {"L2", "L3", "L3CODE", "MB", "SMBA"} - set(resctrl.schemata()):
        assert resctrl.refusal("schemata", f"{name}:0=f\n") == (
            "EINVAL",
            f"Unknown or unsupported resource name '{name}'\n",
        )


def test_an_empty_mask_is_out_of_range_where_a_least_number_of_bits_is_asked_for(resctrl: Resctrl, cache: str) -> None:
    line = f"{cache}:{domain(resctrl, cache)}=0\n"
    if resctrl.number(cache, "min_cbm_bits"):
        assert resctrl.refusal("g/schemata", line) == ("EINVAL", "Mask out of range\n")
    else:
        resctrl.write("g/schemata", line)
        assert resctrl.masks("g", cache)[domain(resctrl, cache)] == 0


def test_a_mask_with_holes_is_taken_where_the_machine_can(resctrl: Resctrl, cache: str) -> None:
    """Field report 4: intel-cmt-cat#302, the ability guessed from the CPU's family."""
    line = f"{cache}:{domain(resctrl, cache)}=5\n"
    if resctrl.sparse(cache):
        resctrl.write("g/schemata", line)
        assert resctrl.masks("g", cache)[domain(resctrl, cache)] == 5
    else:
        assert resctrl.refusal("g/schemata", line) == ("EINVAL", "The mask 5 has non-consecutive 1-bits\n")


def test_a_way_that_there_is_not_is_out_of_range(resctrl: Resctrl, cache: str) -> None:
    first, full = domain(resctrl, cache), resctrl.full(cache)
    resctrl.write("g/schemata", f"{cache}:{first}={full:x}\n")
    for beyond in (full + 1, full << 1):
        assert resctrl.refusal("g/schemata", f"{cache}:{first}={beyond:x}\n") == ("EINVAL", "Mask out of range\n")


def test_a_domain_may_be_named_once_in_all_lines_of_a_cache(resctrl: Resctrl, cache: str) -> None:
    first = domain(resctrl, cache)
    text = f"{cache}:{first}=3\n{cache}:{first}=7\n"
    before = resctrl.read("g/schemata")
    assert resctrl.refusal("g/schemata", text) == ("EINVAL", f"Duplicate domain {first}\n")
    assert resctrl.read("g/schemata") == before


def test_domains_may_be_in_several_lines(resctrl: Resctrl, cache: str) -> None:
    first, last = domain(resctrl, cache), domain(resctrl, cache, -1)
    resctrl.write("g/schemata", f"{cache}:{last}=7\n{cache}:{first}=3\n")
    masks = resctrl.masks("g", cache)
    assert (masks[first], masks[last]) == (3, 7)


def test_code_and_data_are_apart_under_cdp(resctrl: Resctrl, cache: str) -> None:
    if not cache.endswith(("CODE", "DATA")):
        pytest.skip("no CDP")
    code, data = f"{cache[:2]}CODE", f"{cache[:2]}DATA"
    resctrl.set_masks("g", code, 0b11)
    resctrl.set_masks("g", data, 0b1100)
    assert set(resctrl.masks("g", code).values()) == {0b11}
    assert set(resctrl.masks("g", data).values()) == {0b1100}
    status = f"Unknown or unsupported resource name '{cache[:2]}'\n"
    assert resctrl.refusal("g/schemata", f"{cache[:2]}:0=3\n") == ("EINVAL", status)


# Bandwidth


def test_bandwidth_is_rounded_up_to_its_step(resctrl: Resctrl, in_hardware: str) -> None:
    """Field report 9: intel-cmt-cat#69, asked for one value, got another."""
    first, step = domain(resctrl, "MB"), resctrl.number("MB", "bandwidth_gran")
    for wanted in (20, 21, 25, 91, 95):
        resctrl.write("g/schemata", f"MB:{first}= {wanted} \n")
        assert int(resctrl.schemata("g")["MB"][first]) == -(-wanted // step) * step


def test_bandwidth_has_a_range(resctrl: Resctrl, in_hardware: str) -> None:
    """Field reports 2 and 10: runc#1913, koordinator#216."""
    first, least = domain(resctrl, "MB"), resctrl.number("MB", "min_bandwidth")
    most = int(resctrl.schemata("")["MB"][first])
    for wanted in {least - 1, most + 1, most + 100} - {-1}:
        status = f"MB value {wanted} out of range [{least},{most}]\n"
        assert resctrl.refusal("g/schemata", f"MB:{first}={wanted}\n") == ("EINVAL", status)
    for wanted in (least, most):
        resctrl.write("g/schemata", f"MB:{first}={wanted}\n")
        assert int(resctrl.schemata("g")["MB"][first]) == wanted


@pytest.mark.parametrize("value", ["abc", "0x20", "-1", "4294967296", "99999999999", "", "20%", "2 0"])
def test_what_is_no_decimal_number_is_invalid(resctrl: Resctrl, bandwidth: str, value: str) -> None:
    line = f"MB:{domain(resctrl, 'MB')}={value}\n"
    assert resctrl.refusal("g/schemata", line) == ("EINVAL", f"Invalid MB value {value}\n")


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ("{0}", "Missing '=' or non-numeric domain\n"),
        ("x=30", "Missing '=' or non-numeric domain\n"),
        ("{0}=30; {1}=30", "Missing '=' or non-numeric domain\n"),
        ("", "Missing 'MB' value\n"),
        ("9999=30", "ok\n"),
    ],
)
def test_domains_of_bandwidth_are_read_as_those_of_caches(
    resctrl: Resctrl, bandwidth: str, values: str, status: str
) -> None:
    before = resctrl.read("g/schemata")
    line = f"MB:{values.format(domain(resctrl, 'MB'), domain(resctrl, 'MB', -1))}\n"
    resctrl.make_stale()
    assert resctrl.refusal("g/schemata", line) == ("EINVAL", status)
    if not (resctrl.in_mbps and "{1}" in values):
        assert resctrl.read("g/schemata") == before


def test_a_plus_is_part_of_a_number(resctrl: Resctrl, bandwidth: str) -> None:
    first = domain(resctrl, "MB")
    resctrl.write("g/schemata", f"MB:{first}=+30\n")
    assert resctrl.schemata("g")["MB"][first] == "30"


def test_a_domain_may_be_named_once(resctrl: Resctrl, in_hardware: str) -> None:
    first = domain(resctrl, "MB")
    for text in (f"MB:{first}=30;{first}=40\n", f"MB:{first}=30\nMB:{first}=40\n"):
        assert resctrl.refusal("g/schemata", text) == ("EINVAL", f"Duplicate domain {first}\n")


# All or nothing


def test_one_bad_line_keeps_all_others_from_being_applied(resctrl: Resctrl, cache: str) -> None:
    first = domain(resctrl, cache)
    before = resctrl.read("g/schemata")
    bandwidth = f"MB:{domain(resctrl, 'MB')}=20\n" if "MB" in resctrl.schemata() and not resctrl.in_mbps else ""
    text = f"{bandwidth}{cache}:{first}=3\nL9:0=f\n"
    assert resctrl.refusal("g/schemata", text)[0] == "EINVAL"
    assert resctrl.read("g/schemata") == before


def test_several_lines_are_applied_together(resctrl: Resctrl, cache: str) -> None:
    lines = "".join(f"{name}:{domain(resctrl, name)}=3\n" for name in resctrl.caches)
    resctrl.write("g/schemata", lines)
    assert {resctrl.masks("g", name)[domain(resctrl, name)] for name in resctrl.caches} == {3}


def test_under_mba_mbps_any_number_is_taken(resctrl: Resctrl, bandwidth: str) -> None:
    """Field report 11: intel-cmt-cat#276, a per cent written where MiB/s count."""
    if not resctrl.in_mbps:
        pytest.skip("limited by hardware")
    first = domain(resctrl, "MB")
    for value in (0, 15, 1000, 4294967295):
        resctrl.write("g/schemata", f"MB:{first}={value}\n")
        assert int(resctrl.schemata("g")["MB"][first]) == value


def test_under_mba_mbps_values_survive_a_later_failure_and_the_last_wins(resctrl: Resctrl, bandwidth: str) -> None:
    if not resctrl.in_mbps:
        pytest.skip("limited by hardware")
    first = domain(resctrl, "MB")
    resctrl.write("g/schemata", f"MB:{first}=5;{first}=6\n")
    assert int(resctrl.schemata("g")["MB"][first]) == 6
    assert resctrl.refusal("g/schemata", f"MB:{first}=77\nL9:0=f\n")[0] == "EINVAL"
    assert int(resctrl.schemata("g")["MB"][first]) == 77


# Exclusive groups


@pytest.fixture
def exclusive(resctrl: Resctrl, cache: str) -> str:
    """The lowest four ways are an exclusive group's, the others the root's."""
    resctrl.mkdir("e")
    resctrl.rmdir("g")
    for each in resctrl.caches:
        resctrl.set_masks("", each, resctrl.full(each) & ~0xF)
        resctrl.set_masks("e", each, 0xF)
    resctrl.write("e/mode", "exclusive\n")
    return cache


def test_nobody_may_take_ways_of_an_exclusive_group(resctrl: Resctrl, exclusive: str) -> None:
    line = f"{exclusive}:{domain(resctrl, exclusive)}=18\n"
    assert resctrl.refusal("schemata", line) == ("EINVAL", "Overlaps with exclusive group\n")


def test_under_cdp_not_of_its_other_part_either(resctrl: Resctrl, exclusive: str) -> None:
    if not exclusive.endswith(("CODE", "DATA")):
        pytest.skip("no CDP")
    code, data = f"{exclusive[:2]}CODE", f"{exclusive[:2]}DATA"
    resctrl.set_masks("e", data, 0b11)
    line = f"{data}:{domain(resctrl, data)}=18\n"
    assert resctrl.refusal("schemata", line) == ("EINVAL", "Overlaps with exclusive group\n")
    assert set(resctrl.masks("e", code).values()) == {0xF}


def test_an_exclusive_group_takes_nobodys_ways(resctrl: Resctrl, exclusive: str) -> None:
    line = f"{exclusive}:{domain(resctrl, exclusive)}=1f\n"
    assert resctrl.refusal("e/schemata", line) == ("EINVAL", "Overlaps with other group\n")


def test_nor_those_that_hardware_uses(resctrl: Resctrl, exclusive: str) -> None:
    shared = resctrl.number(exclusive, "shareable_bits", 16)
    if not shared:
        pytest.skip("no such ways")
    resctrl.set_all_masks("", lowest_ways(1) << 4)
    line = f"{exclusive}:{domain(resctrl, exclusive)}={shared:x}\n"
    assert resctrl.refusal("e/schemata", line) == ("EINVAL", "Overlaps with other group\n")


def test_overlap_is_judged_by_the_masks_in_force(resctrl: Resctrl, exclusive: str) -> None:
    resctrl.set_all_masks("e", lowest_ways(2))
    resctrl.set_masks("", exclusive, resctrl.full(exclusive) & ~lowest_ways(2))
    line = f"{exclusive}:{domain(resctrl, exclusive)}=7\n"
    assert resctrl.refusal("e/schemata", line) == ("EINVAL", "Overlaps with other group\n")


def test_two_exclusive_groups_keep_off_each_other(resctrl: Resctrl, exclusive: str) -> None:
    resctrl.mkdir("f")
    for cache in resctrl.caches:
        resctrl.set_masks("", cache, resctrl.full(cache) & ~0x3F)
        resctrl.set_masks("f", cache, 0x30)
    resctrl.write("f/mode", "exclusive\n")
    line = f"{exclusive}:{domain(resctrl, exclusive)}=1f\n"
    assert resctrl.refusal("e/schemata", line) == ("EINVAL", "Overlaps with exclusive group\n")
