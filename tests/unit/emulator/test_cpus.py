import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.emulator import cpus


@given(st.integers(1, 300).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, (1 << count) - 1))))
def test_what_is_printed_reads_as_it_was(case: tuple[int, int]) -> None:
    count, members = case
    assert cpus.parse_mask(cpus.mask_text(members, count), count) == members
    assert cpus.parse_list(cpus.list_text(members), count) == members


@pytest.mark.parametrize(
    ("members", "count", "text"),
    [(0xF, 4, "f"), (0, 4, "0"), (1, 40, "00,00000001"), (0, 40, "00,00000000"), (1 << 33, 64, "00000002,00000000")],
)
def test_a_mask_is_as_wide_as_the_machine(members: int, count: int, text: str) -> None:
    assert cpus.mask_text(members, count) == text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("100000000", errno.EOVERFLOW),
        ("1,00000000", errno.EOVERFLOW),
        ("1,2", errno.EOVERFLOW),
        ("10", errno.EOVERFLOW),
        ("x", errno.EINVAL),
        ("g,1", errno.EOVERFLOW),
        ("1,g", errno.EINVAL),
    ],
)
def test_a_mask_for_more_cpus_overflows(text: str, code: int) -> None:
    with pytest.raises(OSError) as refused:  # noqa: PT011 - the errno says which
        cpus.parse_mask(text, 4)
    assert refused.value.errno == code


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("ALL", 0xFF),
        ("all:1/2", 0x55),
        ("N", 0x80),
        ("4-N:2/3", 0xB0),
        ("\n1", 2),
        ("1\nx", 2),
        ("0-3:1/2\n4", 0x15),
    ],
)
def test_lists_know_words_and_patterns(text: str, members: int) -> None:
    assert cpus.parse_list(text, 8) == members


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("8", errno.ERANGE),
        ("7-8", errno.ERANGE),
        ("3-", errno.EINVAL),
        ("4294967296", errno.EOVERFLOW),
        ("0:1/2", errno.EINVAL),
    ],
)
def test_a_list_that_is_none_is_refused(text: str, code: int) -> None:
    with pytest.raises(OSError) as refused:  # noqa: PT011 - the errno says which
        cpus.parse_list(text, 8)
    assert refused.value.errno == code


def test_one_odd_character_before_a_full_chunk_is_passed_over() -> None:
    """The kernel reads from the end, and looks at the character there only to see that it is no ninth digit."""
    assert cpus.parse_mask("x0000000f", 4) == 0xF
