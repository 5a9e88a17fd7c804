"""The texts of amounts: ``20-60%``, ``4 ways``, ``0x7f0``, ``8GB/s``, ``2-3,8``.

Each function raises AmountError for a text that it cannot take; the message goes on from the text in quotes.
"""

import math
import re
from fractions import Fraction

from agent.policy.model import (
    EVERY_WAY,
    BandwidthAmount,
    BandwidthPercent,
    BandwidthRate,
    CacheAmount,
    Unlimited,
    WayCount,
    WayMask,
    WayRange,
)

MAX_CPU = 8191
"""The kernel's NR_CPUS ends here on every architecture."""

MAX_DOMAIN = 2**31 - 1
"""Cache ids are a signed int in the kernel; Arm's are far apart."""

MAX_IDS = 8192
"""Ids in one list, so that a slip of a digit does not fill the memory."""

MAX_CACHE_WAYS = 32
"""resctrl keeps a capacity bitmask in 32 bits."""

CACHE_FORMS = 'write "30%", "20-60%", "4 ways", "0x7f0" or "max"'
BANDWIDTH_FORMS = 'write "40%", "8GB/s", "500MB/s" or "max"'

_DECIMAL = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_PERCENT = re.compile(rf"{_DECIMAL} *%")
_RANGE = re.compile(rf"{_DECIMAL} *%? *- *{_DECIMAL} *%")
_WAYS = re.compile(r"([0-9]{1,9}) *ways?")
_MASK = re.compile(r"0[xX]([0-9a-fA-F]{1,64})")
_RATE = re.compile(rf"{_DECIMAL} *([KMGT]i?)B/s")
_BARE_NUMBER = re.compile(r"[0-9.]+")
_BARE_HEX = re.compile(r"[0-9a-fA-F]+")
_LOOSE_RATE = re.compile(rf"{_DECIMAL} *([kKmMgGtT])(i?)[bB]?(?:/s|ps)?")
_ID_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")

_SCALES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class AmountError(ValueError):
    """A text is not an amount; ``message`` says why and follows the text, ``hint`` what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def cache_amount(text: str) -> CacheAmount:
    """``30%``, ``20-60%``, ``4 ways``, ``0x7f0`` or ``max``."""
    if text == "max":
        return EVERY_WAY
    if found := _PERCENT.fullmatch(text):
        return WayRange(Fraction(0), _percent(found[1]))
    if found := _RANGE.fullmatch(text):
        return _way_range(Fraction(found[1]), _percent(found[2]))
    if found := _WAYS.fullmatch(text):
        return WayCount(_way_count(int(found[1])))
    if found := _MASK.fullmatch(text):
        return WayMask(_mask(int(found[1], 16)))
    raise _not_a_cache_amount(text)


def partition_amount(text: str) -> CacheAmount:
    """``30%``, ``4 ways`` or ``max``: how much, never where, since the agent lays partitions out side by side."""
    amount = cache_amount(text)
    if isinstance(amount, WayMask) or (isinstance(amount, WayRange) and amount.start > 0):
        raise AmountError("says where a partition lies", 'give its size, as in "40%" or "4 ways"; the agent places it')
    return amount


def bandwidth_amount(text: str) -> BandwidthAmount:
    """``40%``, a rate or ``max``."""
    if text == "max":
        return Unlimited()
    if found := _PERCENT.fullmatch(text):
        return BandwidthPercent(_percent(found[1]))
    if found := _RATE.fullmatch(text):
        return BandwidthRate(_bytes_per_second(found[1], found[2]))
    raise _not_a_rate(text, "an amount of bandwidth", BANDWIDTH_FORMS)


def rate(text: str) -> int:
    """Bytes per second: ``8GB/s`` is 8 × 10⁹, ``8GiB/s`` 8 × 2³⁰; a fraction of a byte rounds up."""
    if found := _RATE.fullmatch(text):
        return _bytes_per_second(found[1], found[2])
    raise _not_a_rate(text, "a rate", 'write "160GB/s" or "500MB/s"')


def id_list(text: str, highest: int) -> tuple[int, ...]:
    """The kernel's list format, ``2-3,8``: ids from 0 to ``highest``, ascending, none of them twice."""
    ids: list[int] = []
    for part in text.split(","):
        found = _ID_RANGE.fullmatch(part)
        if found is None:
            raise AmountError("is not a list of numbers", 'write "3", "0-3" or "0-3,8"')
        ids += _span(int(found[1]), int(found[2] or found[1]), highest)
        if len(ids) > MAX_IDS:
            raise AmountError(f"names more than {MAX_IDS} numbers")
    if len(set(ids)) < len(ids):
        raise AmountError("names a number twice")
    return tuple(sorted(ids))


def _percent(digits: str) -> Fraction:
    percent = Fraction(digits)
    if percent > 100:
        raise AmountError("is more than 100 %")
    if percent == 0:
        raise AmountError("is nothing at all", "give at least one way or step; the smallest possible is rounded up")
    return percent


def _way_range(start: Fraction, end: Fraction) -> WayRange:
    if start >= end:
        raise AmountError("ends where it starts or before", 'write the lower bound first, as in "20-60%"')
    return WayRange(start, end)


def _way_count(ways: int) -> int:
    if ways == 0:
        raise AmountError("is nothing at all", "a class needs at least one way")
    if ways > MAX_CACHE_WAYS:
        raise AmountError(f"is more than {MAX_CACHE_WAYS} ways, the most that resctrl can divide")
    return ways


def _mask(bits: int) -> int:
    if bits == 0:
        raise AmountError("is a mask without ways", "a class needs at least one way")
    if bits >= 1 << MAX_CACHE_WAYS:
        raise AmountError(f"is a mask of more than {MAX_CACHE_WAYS} ways, the most that resctrl can divide")
    return bits


def _not_a_cache_amount(text: str) -> AmountError:
    if _BARE_NUMBER.fullmatch(text):
        return AmountError("has no unit", f'write "{text}%" or "{text} ways"; a mask is written 0x{text}')
    if _BARE_HEX.fullmatch(text):
        return AmountError("is not an amount of cache", f"a mask is written 0x{text}")
    return AmountError("is not an amount of cache", CACHE_FORMS)


def _bytes_per_second(digits: str, scale: str) -> int:
    amount = math.ceil(Fraction(digits) * _SCALES[scale])
    if amount == 0:
        raise AmountError("is nothing at all", "leave the key out for no limit")
    return amount


def _not_a_rate(text: str, what: str, forms: str) -> AmountError:
    if _BARE_NUMBER.fullmatch(text):
        return AmountError("has no unit", forms)
    if found := _LOOSE_RATE.fullmatch(text):
        return AmountError(f"is not {what}", f'write "{found[1]}{found[2].upper()}{found[3]}B/s"')
    return AmountError(f"is not {what}", forms)


def _span(first: int, last: int, highest: int) -> range:
    if first > last:
        raise AmountError(f"has a range that ends before it starts: {first}-{last}")
    if last > highest:
        raise AmountError(f"goes beyond {highest}")
    if last - first >= MAX_IDS:
        raise AmountError(f"names more than {MAX_IDS} numbers")
    return range(first, last + 1)
