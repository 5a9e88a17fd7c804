"""Text as the kernel reads it: strings that end at a NUL, and numbers (kstrtoul and its kin)."""

import string

_DIGITS = string.digits + string.ascii_lowercase
_WIDEST = 64
"""Bits of the number that the kernel reads before it looks how many are wanted."""


def c_string(text: str) -> str:
    """What comes before the first NUL."""
    return text.partition("\0")[0]


def unsigned(text: str, base: int, bits: int) -> int:
    """A number of at most ``bits`` bits: an optional ``+``, digits, at most one newline at the end.

    Base 16 allows ``0x``; base 0 takes ``0x``, a leading 0 for octal, else decimal. Raises ValueError for
    anything else and OverflowError for a number too large. Digits that make more than 64 bits are too large whatever
    comes after them.
    """
    base, digits = _radix(text.removeprefix("+"), base)
    number, rest = _leading_number(digits, base)
    if rest.removesuffix("\n"):
        raise ValueError(text)
    if number >> bits:
        raise OverflowError(text)
    return number


def signed(text: str, base: int, bits: int) -> int:
    """The same with a sign: ``-`` or ``+``, from -2^(bits-1) to 2^(bits-1)-1."""
    if text.startswith("-"):
        magnitude = unsigned(_without_plus(text[1:]), base, 64)
        return _within(-magnitude, bits)
    return _within(unsigned(text, base, 64), bits)


def _radix(digits: str, base: int) -> tuple[int, str]:
    prefixed = digits[:2].lower() == "0x" and digits[2:3] in set(string.hexdigits)
    if base == 0:
        if prefixed:
            return 16, digits[2:]
        return (8 if digits.startswith("0") else 10), digits
    if base == 16 and digits[:2].lower() == "0x":
        return 16, digits[2:]
    return base, digits


def _leading_number(text: str, base: int) -> tuple[int, str]:
    """The number that ``text`` begins with, and what comes after it."""
    allowed = _DIGITS[:base]
    rest = text.lower().lstrip(allowed)
    digits = text[: len(text) - len(rest)]
    if not digits:
        raise ValueError(text)
    number = int(digits, base)
    if number >> _WIDEST:
        raise OverflowError(text)
    return number, rest


def _without_plus(text: str) -> str:
    if text.startswith("+"):
        raise ValueError(text)
    return text


def _within(number: int, bits: int) -> int:
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(str(number))
    return number
