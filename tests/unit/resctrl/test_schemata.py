"""What any kernel prints reads as the same values, and nonsense is refused with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.resctrl.schemata import (
    NAMES,
    SchemataError,
    format_line,
    is_cache,
    parse,
    unknown_lines,
    value_text,
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("L3:0=7ff;1=7ff\n", {"L3": {0: 0x7FF, 1: 0x7FF}}, id="plain"),
        pytest.param("    L3:0=f\n", {"L3": {0: 0xF}}, id="name padded where CDP could be on, crun of field report 8"),
        pytest.param("MB:0=  100;1=   20\n", {"MB": {0: 100, 1: 20}}, id="values padded up to 6.14"),
        pytest.param("L3:0=0000f\n", {"L3": {0: 0xF}}, id="mask padded with zeros"),
        pytest.param(
            "    MB:0=100\nL3DATA:0=fff\nL3CODE:0=f0\n",
            {"MB": {0: 100}, "L3DATA": {0: 0xFFF}, "L3CODE": {0: 0xF0}},
            id="CDP",
        ),
        pytest.param("SMBA:0=2048\n  MB:0=2048\n", {"SMBA": {0: 2048}, "MB": {0: 2048}}, id="slow memory"),
        pytest.param("MB:0=4294967295\n", {"MB": {0: 4294967295}}, id="no limit under mba_MBps"),
        pytest.param("L3:0=ffff;16=ffff;23=ff\n", {"L3": {0: 0xFFFF, 16: 0xFFFF, 23: 0xFF}}, id="sparse ids"),
        pytest.param("L3:255=1\n", {"L3": {255: 1}}, id="an id above 128"),
        pytest.param("L3:0=F0\n", {"L3": {0: 0xF0}}, id="capital digits"),
        pytest.param("L3:0=f;\n", {"L3": {0: 0xF}}, id="a semicolon at the end"),
        pytest.param("L3:0=f", {"L3": {0: 0xF}}, id="no newline at the end"),
        pytest.param("L3:uninitialized\nMB:0=10\n", {"L3": {}, "MB": {0: 10}}, id="pseudo-locksetup"),
        pytest.param("", {}, id="a machine that can only monitor"),
        pytest.param("\n\n", {}, id="blank lines"),
        pytest.param("L4:0=f\nL3:0=f\n", {"L3": {0: 0xF}}, id="a resource of the future is left out"),
    ],
)
def test_reads_what_kernels_print(text: str, values: dict[str, dict[int, int]]) -> None:
    assert parse(text) == values


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("L3", 'line "L3" is not'),
        (":0=f", 'line ":0=f" is not'),
        ("L3:", '"" is not ID=VALUE'),
        ("L3:0", '"0" is not ID=VALUE'),
        ("L3:0=", '"0=" is not ID=VALUE'),
        ("L3:=f", '"=f" is not ID=VALUE'),
        ("L3:0=f;;1=f", '"" is not ID=VALUE'),
        ("L3:0=g", '"0=g" is not ID=VALUE'),
        ("L3:a=f", '"a=f" is not ID=VALUE'),
        ("L3:-1=f", '"-1=f" is not ID=VALUE'),
        ("L3:0=0xf", '"0=0xf" is not ID=VALUE'),
        ("L3:1_0=f", '"1_0=f" is not ID=VALUE'),
        ("MB:0=1f", '"0=1f" is not ID=VALUE'),
        ("MB:0=-1", '"0=-1" is not ID=VALUE'),
        ("L3:0=f;0=f", "domain 0 is given twice"),
        ("L3:0=f\nL3:1=f", "L3 was already given"),
    ],
)
def test_refuses_what_no_kernel_prints(line: str, reason: str) -> None:
    with pytest.raises(SchemataError, match="schemata line") as refused:
        parse(line)
    assert reason in str(refused.value)


def test_shows_the_lines_it_does_not_understand() -> None:
    assert unknown_lines("  MB:0=100\n  L4:0=f;1=f\nL3:0=f\n") == ("L4:0=f;1=f",)


@pytest.mark.parametrize(
    ("resource", "values", "line"),
    [
        ("L3", {1: 0x7FF, 0: 0xF}, "L3:0=f;1=7ff"),
        ("L2CODE", {3: 1}, "L2CODE:3=1"),
        ("MB", {0: 100, 16: 20}, "MB:0=100;16=20"),
        ("SMBA", {0: 2048}, "SMBA:0=2048"),
    ],
)
def test_prints_what_every_kernel_takes(resource: str, values: dict[int, int], line: str) -> None:
    assert format_line(resource, values) == line


def test_shows_masks_in_hexadecimal_and_bandwidths_in_decimal() -> None:
    assert (value_text("L3DATA", 0x7FF), value_text("MB", 100)) == ("7ff", "100")
    assert [name for name in NAMES if not is_cache(name)] == ["SMBA", "MB"]


@given(
    st.dictionaries(st.sampled_from(NAMES), st.dictionaries(st.integers(0, 999), st.integers(0, 2**32 - 1), min_size=1))
)
def test_reads_back_whatever_it_prints(values: dict[str, dict[int, int]]) -> None:
    assert parse("".join(format_line(name, each) + "\n" for name, each in values.items())) == values
