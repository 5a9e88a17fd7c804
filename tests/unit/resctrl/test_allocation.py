"""Shares and ways become masks the machine takes: never an illegal one, never less than was asked."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.resctrl.allocation import (
    AllocationError,
    check_mask,
    count_mask,
    lay_out_partitions,
    range_mask,
)
from agent.resctrl.machine import CacheResource


def cache(ways: int = 11, least: int = 1, *, sparse: bool = False) -> CacheResource:
    return CacheResource("L3", ("L3",), (0, 1), (1 << ways) - 1, least, 0, 16, sparse, None)


def percent(number: int) -> Fraction:
    return Fraction(number, 100)


@pytest.mark.parametrize(
    ("ways", "least", "start", "end", "mask"),
    [
        (11, 1, 0, 100, 0x7FF),
        (11, 1, 0, 30, 0xF),  # 3.3 ways
        (11, 1, 20, 60, 0x78),  # 2.2 to 6.6
        (11, 1, 0, 1, 0x1),
        (12, 1, 0, 50, 0x3F),
        (12, 1, 50, 100, 0xFC0),
        (16, 0, 0, 1, 0x1),
        (20, 2, 0, 1, 0x3),
        (20, 2, 0, 10, 0x3),
        (11, 1, 91, 100, 0x400),  # ceil(10.01) is 11, so no way is left: grows downwards
        (20, 2, 96, 100, 0xC0000),
        (11, 2, 95, 100, 0x600),
        (11, 1, 28, 29, 0x10),  # ceil(3.08) and ceil(3.19) are both 4: grows upwards from way 4
    ],
)
def test_a_range_takes_the_ways_it_reaches(ways: int, least: int, start: int, end: int, mask: int) -> None:
    assert range_mask(cache(ways, least), percent(start), percent(end)).mask == mask


@pytest.mark.parametrize(
    ("start", "end", "note"),
    [
        (0, 50, None),
        (0, 1, "asked 1 way, the machine's least is 2: 0x3"),
        (97, 100, "asked 0 ways, the machine's least is 2: 0xc0000"),
    ],
)
def test_a_range_that_is_too_small_grows_and_says_so(start: int, end: int, note: str | None) -> None:
    assert range_mask(cache(20, 2), percent(start), percent(end)).note == note


@pytest.mark.parametrize(("start", "end", "mask"), [(0, 100, 0xF0), (0, 50, 0x30), (75, 100, 0x80), (90, 100, 0x80)])
def test_a_range_within_a_partition_is_relative_to_it(start: int, end: int, mask: int) -> None:
    assert range_mask(cache(), percent(start), percent(end), within=0xF0).mask == mask


def test_a_partition_below_the_least_cannot_be_given() -> None:
    with pytest.raises(AllocationError, match="at least 2"):
        range_mask(cache(20, 2), percent(0), percent(100), within=0x10)


@pytest.mark.parametrize(
    ("ways", "within", "mask"), [(1, None, 0x1), (4, None, 0xF), (11, None, 0x7FF), (2, 0xF0, 0x30)]
)
def test_ways_are_counted_from_the_lowest(ways: int, within: int | None, mask: int) -> None:
    assert count_mask(cache(), ways, within).mask == mask


def test_fewer_ways_than_the_least_grow_and_say_so() -> None:
    result = count_mask(cache(20, 2), 1)
    assert (result.mask, result.note) == (0x3, "asked 1 way, the machine's least is 2: 0x3")


@pytest.mark.parametrize(
    ("ways", "within", "message"),
    [
        (12, None, "12 ways asked, but the L3 cache has 11 ways"),
        (3, 0x3, "3 ways asked, but this partition of L3 has 2 ways"),
        (0, None, "the least is 1"),
    ],
)
def test_more_ways_than_there_are_cannot_be_given(ways: int, within: int | None, message: str) -> None:
    with pytest.raises(AllocationError, match=message):
        count_mask(cache(), ways, within)


@pytest.mark.parametrize(
    ("machine", "mask", "reason"),
    [
        pytest.param(cache(), 0xF3, "has holes", id="field report 2, runc#1913"),
        pytest.param(cache(), 0x800, "out of range: this machine has 11 ways, 0x7ff", id="above the full mask"),
        pytest.param(cache(), 0, "no way at all", id="zero"),
        pytest.param(cache(16, 0), 0, "no way at all", id="zero where the kernel would take it"),
        pytest.param(cache(20, 2), 0x10, "has 1 way: this machine takes at least 2", id="too few"),
        pytest.param(cache(20, 2, sparse=True), 0x10, "at least 2", id="too few with holes allowed"),
    ],
)
def test_a_mask_the_kernel_refuses_is_refused_with_the_reason(machine: CacheResource, mask: int, reason: str) -> None:
    with pytest.raises(AllocationError, match=reason):
        check_mask(machine, mask)


@pytest.mark.parametrize(
    ("machine", "mask"),
    [(cache(), 0x7FF), (cache(), 0x10), (cache(20, 2), 0x30), (cache(sparse=True), 0xF3), (cache(16, 0), 0x8000)],
)
def test_a_mask_the_kernel_takes_is_fine(machine: CacheResource, mask: int) -> None:
    check_mask(machine, mask)


@pytest.mark.parametrize(
    ("ways", "sizes", "masks"),
    [
        (11, [percent(60), percent(40)], [0x7F, 0x780]),
        (12, [percent(50), percent(50)], [0x3F, 0xFC0]),
        (12, [percent(30), 4, percent(10)], [0xF, 0xF0, 0x100]),
        (11, [3, 8], [0x7, 0x7F8]),
        (16, [percent(10)], [0x3]),
        (3, [Fraction(1, 3)] * 3, [0x1, 0x2, 0x4]),
    ],
)
def test_partitions_lie_side_by_side_in_order(ways: int, sizes: Sequence[Fraction | int], masks: list[int]) -> None:
    assert list(lay_out_partitions(cache(ways), [(str(i), size) for i, size in enumerate(sizes)]).values()) == masks


@pytest.mark.parametrize(
    ("machine", "sizes", "message"),
    [
        (cache(11), [percent(60), percent(50)], 'partition "p1" would end at way 13 of L3, which has 11 ways'),
        (cache(11), [8, 4], 'partition "p1" would end at way 12'),
        (cache(16), [percent(1), percent(1)], 'partition "p1" gets 0 ways of the 16'),
        (cache(20, 2), [1], 'partition "p0" gets 1 way of the 20 of L3, the least is 2'),
    ],
)
def test_partitions_that_do_not_fit_are_refused_by_name(
    machine: CacheResource, sizes: Sequence[Fraction | int], message: str
) -> None:
    with pytest.raises(AllocationError, match=message):
        lay_out_partitions(machine, [(f"p{i}", size) for i, size in enumerate(sizes)])


shares = st.fractions(0, 1, max_denominator=1000)


@st.composite
def caches(draw: st.DrawFn) -> CacheResource:
    ways = draw(st.integers(1, 32))
    return cache(ways, draw(st.integers(0, min(4, ways))), sparse=draw(st.booleans()))


@st.composite
def runs(draw: st.DrawFn, machine: CacheResource) -> int:
    """A partition of the machine that is large enough for a mask."""
    least = max(machine.min_cbm_bits, 1)
    first = draw(st.integers(0, machine.ways - least))
    after = draw(st.integers(first + least, machine.ways))
    return (1 << after) - (1 << first)


@given(st.data(), caches(), shares, shares)
def test_no_range_gives_an_illegal_mask(data: st.DataObject, machine: CacheResource, a: Fraction, b: Fraction) -> None:
    assume(a != b)
    within = data.draw(st.none() | runs(machine))
    mask = range_mask(machine, min(a, b), max(a, b), within).mask
    check_mask(cache(machine.ways, machine.min_cbm_bits), mask)  # without holes, even where they would be taken
    assert mask & ~(within or machine.cbm_mask) == 0


@given(caches(), shares, shares, shares)
def test_a_larger_range_never_gets_fewer_ways(machine: CacheResource, a: Fraction, b: Fraction, c: Fraction) -> None:
    start, middle, end = sorted((a, b, c))
    assume(start < middle < end)
    whole = range_mask(machine, start, end).mask
    lower = range_mask(machine, start, middle).mask
    upper = range_mask(machine, middle, end).mask
    assert lower & ~whole == 0
    assert upper.bit_count() <= whole.bit_count()


@given(caches(), st.fractions(0, 1, max_denominator=100), st.fractions(0, 1, max_denominator=100))
def test_ranges_that_meet_divide_what_they_cover_together(
    machine: CacheResource, one: Fraction, other: Fraction
) -> None:
    """As long as neither had to grow."""
    a, b = sorted((one, other))
    if not 0 < a < b:
        return
    lower, upper = range_mask(machine, Fraction(0), a), range_mask(machine, a, b)
    if lower.note is None and upper.note is None:
        assert lower.mask & upper.mask == 0
        assert lower.mask | upper.mask == range_mask(machine, Fraction(0), b).mask


@given(st.data(), caches())
def test_no_count_gives_an_illegal_mask(data: st.DataObject, machine: CacheResource) -> None:
    within = data.draw(st.none() | runs(machine))
    available = (within or machine.cbm_mask).bit_count()
    ways = data.draw(st.integers(1, available))
    mask = count_mask(machine, ways, within).mask
    check_mask(cache(machine.ways, machine.min_cbm_bits), mask)
    assert mask.bit_count() == max(ways, machine.min_cbm_bits)
    assert mask & ~(within or machine.cbm_mask) == 0


@given(caches(), st.lists(st.fractions(0, 1, max_denominator=100) | st.integers(0, 12), max_size=6))
def test_partitions_are_disjoint_legal_and_within_the_cache(
    machine: CacheResource, sizes: list[Fraction | int]
) -> None:
    try:
        masks = lay_out_partitions(machine, [(str(i), size) for i, size in enumerate(sizes)]).values()
    except AllocationError:
        return
    covered = 0
    for mask in masks:
        check_mask(cache(machine.ways, machine.min_cbm_bits), mask)
        assert mask & covered == 0
        covered |= mask
    assert covered & (covered + 1) == 0  # no gap between them


@given(caches(), st.lists(st.integers(1, 100), min_size=1, max_size=4))
def test_shares_that_add_up_to_the_whole_leave_no_way_over(machine: CacheResource, weights: list[int]) -> None:
    sizes = [(str(i), Fraction(weight, sum(weights))) for i, weight in enumerate(weights)]
    try:
        masks = lay_out_partitions(machine, sizes).values()
    except AllocationError:
        return
    assert sum(masks) == machine.cbm_mask
