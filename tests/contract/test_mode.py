"""The mode of a control group, and how bit_usage shows it (§§ 3, 11)."""

import pytest

from tests.contract.resctrl_mount import Resctrl


@pytest.fixture
def group(resctrl: Resctrl) -> str:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    return resctrl.mkdir("g")


@pytest.fixture
def apart(resctrl: Resctrl, group: str) -> str:
    """A group whose four lowest ways are nobody else's; the name of a cache."""
    if resctrl.cache is None:
        pytest.skip("no cache control")
    for cache in resctrl.caches:
        resctrl.set_masks("", cache, resctrl.full(cache) & ~0xF)
        resctrl.set_masks("g", cache, 0xF)
    return resctrl.cache


def test_a_group_apart_can_become_exclusive_and_shareable_again(resctrl: Resctrl, apart: str) -> None:
    for mode in ("exclusive\n", "exclusive\n", "shareable\n", "shareable\n"):
        resctrl.write("g/mode", mode)
        assert resctrl.read("g/mode") == mode


def test_one_that_meets_the_root_cannot(resctrl: Resctrl, group: str) -> None:
    if resctrl.cache is None:
        pytest.skip("no cache control")
    assert resctrl.refusal("g/mode", "exclusive\n") == ("EINVAL", "Schemata overlaps\n")
    assert resctrl.read("g/mode") == "shareable\n"


def test_one_domain_that_meets_another_group_is_enough(resctrl: Resctrl, apart: str) -> None:
    resctrl.write("g/schemata", f"{apart}:{resctrl.domains(apart)[-1]}=1f\n")
    assert resctrl.refusal("g/mode", "exclusive\n") == ("EINVAL", "Schemata overlaps\n")


def test_ways_that_hardware_uses_cannot_be_exclusive(resctrl: Resctrl, apart: str) -> None:
    shared = resctrl.number(apart, "shareable_bits", 16)
    if not shared:
        pytest.skip("no such ways")
    for cache in resctrl.caches:
        if resctrl.number(cache, "shareable_bits", 16):
            resctrl.set_masks("", cache, 0xF)
            resctrl.set_masks("g", cache, shared)
    assert resctrl.refusal("g/mode", "exclusive\n") == ("EINVAL", "Schemata overlaps\n")


def test_under_cdp_code_may_not_meet_others_data(resctrl: Resctrl, apart: str) -> None:
    if not apart.endswith(("CODE", "DATA")):
        pytest.skip("no CDP")
    resctrl.set_masks("", f"{apart[:2]}CODE", 0xF)
    resctrl.set_masks("g", f"{apart[:2]}CODE", 0xF0)
    assert resctrl.refusal("g/mode", "exclusive\n") == ("EINVAL", "Schemata overlaps\n")


def test_bandwidth_does_not_matter(resctrl: Resctrl, apart: str) -> None:
    resctrl.write("g/mode", "exclusive\n")
    if "MB" in resctrl.schemata():
        resctrl.write("g/schemata", f"MB:{resctrl.domains('MB')[0]}=50\n")


def test_without_a_cache_nothing_is_exclusive(resctrl: Resctrl) -> None:
    if resctrl.cache is not None:
        pytest.skip("a cache can be divided")
    assert resctrl.refusal("mode", "exclusive\n") == ("EINVAL", "Cannot be exclusive without CAT/CDP\n")


@pytest.mark.parametrize("mode", ["junk", "Shareable", "shareable ", "", "pseudo-locked"])
def test_other_modes_are_unknown(resctrl: Resctrl, mode: str) -> None:
    assert resctrl.refusal("mode", f"{mode}\n") == ("EINVAL", "Unknown or unsupported mode\n")


def test_pseudo_locking_says_what_it_lacks(resctrl: Resctrl, group: str) -> None:
    split = any(cache.endswith("CODE") for cache in resctrl.caches)
    text = "CDP enabled\n" if split else "Pseudo-locking not supported\n"
    assert resctrl.refusal("g/mode", "pseudo-locksetup\n") == ("EINVAL", text)
    assert resctrl.refusal("mode", "pseudo-locksetup\n") == ("EINVAL", "Cannot pseudo-lock default group\n")


def test_bit_usage_shows_who_has_what(resctrl: Resctrl, apart: str) -> None:
    shared, ways = resctrl.number(apart, "shareable_bits", 16), resctrl.full(apart).bit_length()
    resctrl.write("g/mode", "exclusive\n")
    for cache in resctrl.caches:
        resctrl.set_masks("g", cache, 0b11)
        resctrl.set_masks("", cache, 0b110000)

    def letter(bit: int) -> str:
        if shared >> bit & 1:
            return "H"
        return "E" if bit in (0, 1) else "S" if bit in (4, 5) else "0"

    usage = "".join(letter(bit) for bit in reversed(range(ways)))
    expected = ";".join(f"{domain}={usage}" for domain in resctrl.domains(apart))
    assert resctrl.read(f"info/{apart}/bit_usage") == f"{expected}\n"
