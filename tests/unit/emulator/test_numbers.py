import pytest

from agent.emulator import numbers


@pytest.mark.parametrize(
    ("text", "base", "number"),
    [
        ("0", 10, 0),
        ("+12\n", 10, 12),
        ("012", 10, 12),
        ("012", 0, 10),
        ("0x1F", 0, 31),
        ("0X1f", 16, 31),
        ("1F", 16, 31),
        ("4294967295", 10, 2**32 - 1),
    ],
)
def test_a_number_is_read_as_kstrtoul_does(text: str, base: int, number: int) -> None:
    assert numbers.unsigned(text, base, 32) == number


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("", 10),
        ("\n", 10),
        ("1\n\n", 10),
        (" 1", 10),
        ("-1", 10),
        ("++1", 10),
        ("0x1f", 10),
        ("0x", 0),
        ("08", 0),
        ("g", 16),
    ],
)
def test_anything_else_is_none(text: str, base: int) -> None:
    with pytest.raises(ValueError, match=r".*"):
        numbers.unsigned(text, base, 32)


def test_one_that_is_too_large_is_told_apart() -> None:
    with pytest.raises(OverflowError):
        numbers.unsigned("4294967296", 10, 32)


@pytest.mark.parametrize("rest", ["\n\n", "x", " "])
def test_more_than_64_bits_are_too_large_whatever_comes_after_them(rest: str) -> None:
    """As seen on running kernels: the digits are judged before what follows them."""
    with pytest.raises(OverflowError):
        numbers.unsigned(f"{1 << 64}{rest}", 10, 32)
    with pytest.raises(ValueError, match=r".*"):
        numbers.unsigned(f"{(1 << 64) - 1}{rest}", 10, 32)


@pytest.mark.parametrize(("text", "number"), [("-1", -1), ("-0x10", -16), ("+7", 7), ("2147483647", 2**31 - 1)])
def test_a_signed_number_may_be_negative(text: str, number: int) -> None:
    assert numbers.signed(text, 0, 32) == number


@pytest.mark.parametrize("text", ["2147483648", "-2147483649"])
def test_and_has_a_range(text: str) -> None:
    with pytest.raises(OverflowError):
        numbers.signed(text, 0, 32)


@pytest.mark.parametrize("text", ["--1", "-+1", "-", ""])
def test_it_has_one_sign(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        numbers.signed(text, 0, 32)


def test_a_string_ends_at_its_first_nul() -> None:
    assert numbers.c_string("ab\0c\0d") == "ab"
