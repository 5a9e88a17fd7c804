"""CPU lists as the kernel prints and takes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.resctrl.cpulist import format_cpu_list, parse_cpu_list


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("\n", set()), ("", set()), ("0\n", {0}), ("0-3\n", {0, 1, 2, 3}), ("0-1,8,10-11\n", {0, 1, 8, 10, 11})],
)
def test_reads_a_list(text: str, cpus: set[int]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-", "0x1", "1 2"])
def test_refuses_nonsense(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_cpu_list(text)


@pytest.mark.parametrize(("cpus", "text"), [(set(), ""), ({5}, "5"), ({3, 1, 2}, "1-3"), ({0, 2, 4, 5}, "0,2,4-5")])
def test_prints_neighbours_as_ranges(cpus: set[int], text: str) -> None:
    assert format_cpu_list(cpus) == text


@given(st.frozensets(st.integers(0, 300)))
def test_reads_back_whatever_it_prints(cpus: frozenset[int]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == cpus
