"""Arithmetic between what somebody wants and what a machine takes: shares and ways → masks. Pure.

``bandwidth.py`` does the same for bandwidth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from agent.resctrl.bandwidth import CapacityNeededError, StepResult, percent_step, rate_step, unlimited
from agent.resctrl.errors import AllocationError
from agent.resctrl.resources import CacheResource

__all__ = [
    "AllocationError",
    "CapacityNeededError",
    "MaskResult",
    "StepResult",
    "check_mask",
    "count_mask",
    "lay_out_partitions",
    "percent_step",
    "range_mask",
    "rate_step",
    "unlimited",
]


@dataclass(frozen=True, slots=True)
class MaskResult:
    """A mask the machine takes, and in ``note`` how it differs from what was asked, if it does."""

    mask: int
    note: str | None


def range_mask(cache: CacheResource, start: Fraction, end: Fraction, within: int | None = None) -> MaskResult:
    """The ways from ``start`` to ``end`` (0 ≤ start < end ≤ 1) of the cache, or of the partition ``within``.

    The first way is ceil(ways × start), the way after the last ceil(ways × end). A range that holds fewer ways
    than the machine takes grows upwards from its first way and, at the top, downwards. Raises AllocationError
    where not even all of ``within`` is enough.
    """
    if not 0 <= start < end <= 1:
        raise ValueError(f"{start} to {end} is not a range within 0 to 1")
    lowest, ways = _region(cache, within)
    return _grown(cache, lowest, ways, ceil(ways * start), ceil(ways * end))


def count_mask(cache: CacheResource, ways: int, within: int | None = None) -> MaskResult:
    """The lowest ``ways`` ways (≥ 1) of the cache, or of the partition ``within``.

    Fewer than the machine takes grow as in ``range_mask``. Raises AllocationError where there are not so many.
    """
    if ways < 1:
        raise AllocationError(f"{ways} ways asked of {cache.name}: the least is 1")
    lowest, available = _region(cache, within)
    if ways > available:
        whole = f"the {cache.name} cache has" if within is None else f"this partition of {cache.name} has"
        raise AllocationError(f"{_count(ways)} asked, but {whole} {_count(available)}")
    return _grown(cache, lowest, available, 0, ways)


def check_mask(cache: CacheResource, bits: int) -> None:
    """Raise AllocationError, with the reason, unless the machine takes this mask."""
    if bits <= 0:
        raise AllocationError(f"{cache.name} mask 0x{max(bits, 0):x} has no way at all")
    if bits & ~cache.cbm_mask:
        raise AllocationError(
            f"{cache.name} mask 0x{bits:x} is out of range: this machine has {_count(cache.ways)}, 0x{cache.cbm_mask:x}"
        )
    if not cache.sparse_masks and not _is_run(bits):
        raise AllocationError(f"{cache.name} mask 0x{bits:x} has holes, which this machine does not take")
    if bits.bit_count() < cache.min_cbm_bits:
        raise AllocationError(
            f"{cache.name} mask 0x{bits:x} has {_count(bits.bit_count())}: this machine takes at least "
            f"{cache.min_cbm_bits}"
        )


def lay_out_partitions(cache: CacheResource, sizes: Sequence[tuple[str, Fraction | int]]) -> Mapping[str, int]:
    """Disjoint masks in the given order from way 0: a Fraction is a share of the cache (0 to 1), an int ways.

    Each ends at ceil(ways × everything so far), so that shares which add up to the whole leave no way over.
    Raises AllocationError, naming the partition, where they do not fit or one gets fewer ways than a mask needs.
    """
    masks: dict[str, int] = {}
    reached, first = Fraction(0), 0
    for name, size in sizes:
        reached += size if isinstance(size, int) else cache.ways * size
        after = ceil(reached)
        if reached > cache.ways:
            raise AllocationError(_does_not_fit(cache, name, after))
        if after - first < _least(cache):
            raise AllocationError(_too_small(cache, name, after - first))
        masks[name] = _run(first, after)
        first = after
    return masks


def _region(cache: CacheResource, within: int | None) -> tuple[int, int]:
    """The lowest way to give out, and how many there are from it upwards."""
    if within is None:
        return 0, cache.ways
    check_mask(cache, within)
    if not _is_run(within):
        raise ValueError(f"a partition is a run of ways, 0x{within:x} is none")
    return _lowest(within), within.bit_count()


def _grown(cache: CacheResource, lowest: int, available: int, first: int, after: int) -> MaskResult:
    """The ways ``first`` up to ``after`` of a region, with as many more as the machine's minimum demands."""
    least = _least(cache)
    if available < least:
        raise AllocationError(f"{cache.name} takes masks of at least {_count(least)}; there are {available} to give")
    asked = after - first
    if asked >= least:
        return MaskResult(_run(lowest + first, lowest + after), None)
    first = min(first, available - least)
    mask = _run(lowest + first, lowest + first + least)
    return MaskResult(mask, f"asked {_count(asked)}, the machine's least is {least}: 0x{mask:x}")


def _least(cache: CacheResource) -> int:
    """AMD's minimum is 0, but nobody who asks for some of a cache means none of it."""
    return max(cache.min_cbm_bits, 1)


def _run(first: int, after: int) -> int:
    return (1 << after) - (1 << first)


def _is_run(bits: int) -> bool:
    run = bits >> _lowest(bits)
    return run & (run + 1) == 0


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _count(ways: int) -> str:
    return "1 way" if ways == 1 else f"{ways} ways"


def _does_not_fit(cache: CacheResource, name: str, after: int) -> str:
    return (
        f'partition "{name}" would end at way {after} of {cache.name}, which has {_count(cache.ways)}: '
        "the partitions together ask for more than there is"
    )


def _too_small(cache: CacheResource, name: str, ways: int) -> str:
    return (
        f'partition "{name}" gets {_count(ways)} of the {cache.ways} of {cache.name}, '
        f"the least is {_least(cache)}: make it larger"
    )
