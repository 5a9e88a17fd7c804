"""The map of ways, as it is drawn."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.ways import HELD, NOT_HELD, SHARED, WIDTH, Holder, draw


def drawn(text: str) -> list[str]:
    return textwrap.dedent(text).strip("\n").split("\n")


def test_each_way_is_in_nobodys_row_in_one_or_in_several():
    holders = [Holder("latency", {0: 0x7F0}), Holder("batch", {0: 0x01F})]
    assert draw("L3", 0x7FF, 0, holders) == drawn("""
        L3, domain 0
                     8    4    0
          latency  ███ ███▒ ····  7f0
          batch    ··· ···▒ ████  1f
    """)


def test_the_root_group_shares_every_way_and_makes_none_shared():
    holders = [Holder("batch", {0: 0x0F}), Holder("the root group", {0: 0xFF}, is_root=True)]
    assert draw("L3", 0xFF, 0, holders) == drawn("""
        L3, domain 0
                             4    0
          batch           ···· ████  f
          the root group  ████ ▒▒▒▒  ff
    """)


def test_ways_of_other_hardware_are_marked():
    assert draw("L3", 0x7FF, 0x600, [Holder("a", {0: 0x600})]) == drawn("""
        L3, domain 0
               8    4    0
             HH
          a  ██· ···· ····  600
    """)


def test_domains_that_look_alike_share_a_drawing():
    masks = dict.fromkeys((*range(8), *range(16, 24)), 0xFF)
    lines = draw("L3", 0xFF, 0, [Holder("a", masks), Holder("b", masks | {3: 0x0F})])
    assert [line for line in lines if line.startswith("L3")] == ["L3, domains 0–2, 4–7, 16–23", "L3, domain 3"]
    assert lines.count("") == 1


def test_the_number_of_a_single_way_at_the_top_has_room():
    assert draw("L3", 0x1FFF, 0, [Holder("a", {0: 0x1FFF})]) == [
        "L3, domain 0",
        "    12    8    4    0",
        "  a  █ ████ ████ ████  1fff",
    ]


@pytest.mark.parametrize("ways", range(1, 33))
def test_every_width_of_mask_is_drawn_within_80_columns(ways):
    full = (1 << ways) - 1
    for line in draw("L3CODE", full, full, [Holder("n" * 255, {0: full}), Holder("b", {0: 1})]):
        assert len(line) <= WIDTH


def masks_of(ways: int) -> st.SearchStrategy[tuple[int, list[int]]]:
    return st.tuples(st.just(ways), st.lists(st.integers(1, 2**ways - 1), min_size=1))


@given(st.integers(1, 32).flatmap(masks_of))
def test_a_row_has_a_cell_for_each_way_that_tells_who_has_it(case):
    ways, masks = case
    holders = [Holder(f"h{number}", {0: mask}) for number, mask in enumerate(masks)]
    rows = draw("L3", (1 << ways) - 1, 0, holders)[2:]
    for number, (row, mask) in enumerate(zip(rows, masks, strict=True)):
        label, *blocks, text = row.split()
        cells = "".join(blocks)
        assert (label, len(cells), int(text, 16)) == (f"h{number}", ways, mask)
        for way, cell in enumerate(reversed(cells)):
            having = [index for index, each in enumerate(masks) if each >> way & 1]
            expected = NOT_HELD if number not in having else HELD if having == [number] else SHARED
            assert cell == expected


def test_nobody_is_drawn_where_nobody_has_the_resource():
    assert draw("L3", 0x7FF, 0, []) == []
