"""Sets of CPUs as the kernel reads and prints them: hex masks and lists. A set is an int, bit n being CPU n."""

import errno
import os
import re

_CHUNK_BITS = 32
_CHUNK_DIGITS = 8


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

    Raises OSError: EINVAL for a bad digit, EOVERFLOW for a mask of more than ``count`` CPUs.
    """
    chunks = re.split(r"[\s,]+", text.partition("\n")[0].strip(" \t,"))
    cpus = 0
    for index, chunk in enumerate(filter(None, reversed(chunks))):
        if index * _CHUNK_BITS >= count:
            raise _error(errno.EOVERFLOW)
        cpus |= _chunk(chunk) << index * _CHUNK_BITS
    if cpus >> count:
        raise _error(errno.EOVERFLOW)
    return cpus


def parse_list(text: str, count: int) -> int:
    """Numbers and ranges, ``all``, ``N`` for the last CPU, ``first-last:used/group``, up to the first newline.

    Raises OSError: EINVAL for syntax, ERANGE for a CPU beyond ``count``.
    """
    cpus = 0
    for region in filter(None, re.split(r"[\s,]+", text.partition("\n")[0])):
        cpus |= _region(region, count)
    return cpus


def _chunk(digits: str) -> int:
    if not re.fullmatch(r"[0-9a-fA-F]+", digits):
        raise _error(errno.EINVAL)
    if len(digits) > _CHUNK_DIGITS:
        raise _error(errno.EOVERFLOW)
    return int(digits, 16)


_REGION = re.compile(r"(?:(?P<all>all)|(?P<first>\d+|N)(?:-(?P<last>\d+|N))?)(?::(?P<used>\d+|N)/(?P<group>\d+|N))?")


def _region(text: str, count: int) -> int:
    found = _REGION.fullmatch(text if not text.lower().startswith("all") else text.lower().replace("n", "N"))
    # A pattern needs a range (or "all") to work on: a single CPU is followed by nothing.
    if not found or (found["group"] and not found["all"] and not found["last"]):
        raise _error(errno.EINVAL)

    def number(name: str, default: int) -> int:
        written = found[name]
        return default if written is None else count - 1 if written == "N" else int(written)

    first = number("first", 0)
    last = number("last", count - 1 if found["all"] else first)
    group = number("group", last + 1)
    used = number("used", last + 1)
    if first > last or group == 0 or used > group:
        raise _error(errno.EINVAL)
    if last >= count:
        raise _error(errno.ERANGE)
    return sum(1 << cpu for cpu in range(first, last + 1) if (cpu - first) % group < used)


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
