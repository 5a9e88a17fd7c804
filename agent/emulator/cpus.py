"""Sets of CPUs as the kernel reads and prints them: hex masks and lists. A set is an int, bit n being CPU n."""

import errno
import os
import string
from dataclasses import dataclass

_CHUNK_BITS = 32
_CHUNK_DIGITS = 8
_NUMBER_BITS = 32

_BETWEEN = ", \t\n\v\f\r\xa0"
"""What separates chunks and regions."""


def mask_text(cpus: int, count: int) -> str:
    """``%*pb``: hex, a comma every 32 bits, as wide as ``count`` CPUs need."""
    chunks = []
    for low in range(0, count, _CHUNK_BITS):
        bits = min(_CHUNK_BITS, count - low)
        chunks.append(f"{cpus >> low & ((1 << bits) - 1):0{(bits + 3) // 4}x}")
    return ",".join(reversed(chunks))


def list_text(cpus: int) -> str:
    """``%*pbl``: ranges; nothing for the empty set."""
    bits = [cpu for cpu in range(cpus.bit_length()) if cpus >> cpu & 1]
    starts = [cpu for cpu in bits if cpu - 1 not in bits]
    ends = [cpu for cpu in bits if cpu + 1 not in bits]
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def parse_mask(text: str, count: int) -> int:
    """Hex digits in chunks of at most eight, separated by commas or blanks, up to the first newline.

    Read from the end, as the kernel does, which shows in what it calls a mistake, and in that one odd character before
    a chunk of eight is passed over. Raises OSError: EINVAL for a bad digit, EOVERFLOW for a mask of more than ``count``
    CPUs.
    """
    rest = text.partition("\n")[0].rstrip(_BETWEEN)
    cpus = position = 0
    while rest:
        if position >= count:
            raise _error(errno.EOVERFLOW)
        chunk, rest = _last_chunk(rest)
        cpus |= chunk << position
        position += _CHUNK_BITS
        rest = rest.rstrip(_BETWEEN)
    if cpus >> count:
        raise _error(errno.EOVERFLOW)
    return cpus


def parse_list(text: str, count: int) -> int:
    """Numbers and ranges, ``all``, ``N`` for the last CPU, ``first-last:used/group``, up to the newline after one.

    Raises OSError: EINVAL for syntax, ERANGE for a CPU beyond ``count``, EOVERFLOW for a number of more than 32 bits.
    """
    cpus = 0
    rest = text.lstrip(_BETWEEN)
    while rest:
        region, rest = _region(rest, count)
        cpus |= region.members(count)
        rest = rest.lstrip(_BETWEEN)
    return cpus


def _last_chunk(text: str) -> tuple[int, str]:
    """The chunk that ``text`` ends with, and what comes before it."""
    digits = ""
    while text and len(digits) < _CHUNK_DIGITS and text[-1] not in _BETWEEN:
        if text[-1] not in string.hexdigits:
            raise _error(errno.EINVAL)
        text, digits = text[:-1], text[-1] + digits
    if text and text[-1] not in _BETWEEN:
        if text[-1] in string.hexdigits:
            raise _error(errno.EOVERFLOW)
        text = text[:-1]
    return int(digits, 16), text


@dataclass(frozen=True, slots=True)
class _Region:
    """From ``first`` to ``last``, of each ``group`` CPUs the first ``used``."""

    first: int
    last: int
    used: int
    group: int

    def members(self, count: int) -> int:
        """As a set. Raises OSError."""
        if self.first > self.last or self.group == 0 or self.used > self.group:
            raise _error(errno.EINVAL)
        if self.last >= count:
            raise _error(errno.ERANGE)
        return sum(1 << cpu for cpu in range(self.first, self.last + 1) if (cpu - self.first) % self.group < self.used)


def _region(text: str, count: int) -> tuple[_Region, str]:
    """The region that ``text`` begins with, and what comes after it."""
    if text[:3].lower() == "all":
        first, last, rest = 0, count - 1, text[3:]
    else:
        first, rest = _number(text, count)
        if _ends(rest):
            return _Region(first, first, first + 1, first + 1), _after(rest)
        last, rest = _number(_without("-", rest), count)
    if _ends(rest):
        return _Region(first, last, last + 1, last + 1), _after(rest)
    used, rest = _number(_without(":", rest), count)
    group, rest = _number(_without("/", rest), count)
    return _Region(first, last, used, group), rest


def _ends(rest: str) -> bool:
    return not rest or rest[0] in _BETWEEN


def _after(rest: str) -> str:
    """A newline ends the list."""
    return "" if rest.startswith("\n") else rest


def _number(text: str, count: int) -> tuple[int, str]:
    if text.startswith("N"):
        return count - 1, text[1:]
    rest = text.lstrip(string.digits)
    digits = text[: len(text) - len(rest)]
    if not digits:
        raise _error(errno.EINVAL)
    if int(digits) >> _NUMBER_BITS:
        raise _error(errno.EOVERFLOW)
    return int(digits), rest


def _without(character: str, text: str) -> str:
    if not text.startswith(character):
        raise _error(errno.EINVAL)
    return text[1:]


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
