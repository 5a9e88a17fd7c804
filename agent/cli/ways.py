"""A map of which ways of a cache belong to whom, drawn with characters. Pure.

One row for each group and one cell for each way, the highest first as in a mask. Ways stand in fours, so that each
block is a digit of the mask beside it. Domains that look the same share a drawing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.reconcile.desired import ranges

HELD = "█"
SHARED = "▒"
NOT_HELD = "·"

LEGEND = f"{HELD} no other group   {SHARED} another group too   {NOT_HELD} not to be used"
LEGEND_BESIDE_ROOT = (
    f"{HELD} no other group, the root group aside   {SHARED} another group too   {NOT_HELD} not to be used"
)
HARDWARE = "H"
HARDWARE_LEGEND = f"{HARDWARE} used by other hardware (I/O) too"

WIDTH = 80
"""Columns that a drawing keeps to."""

DIGITS_A_BLOCK = 4

_MASK_WIDTH = 8
"""Hexadecimal digits of a mask of 32 ways."""

_MARGINS = 6
"""Blanks before the label, and on both sides of the cells."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody with a mask in each domain."""

    label: str
    masks: Mapping[int, int]
    """By domain. A domain that is not there is not drawn for this holder."""
    is_root: bool = False
    """The root group where no class speaks for it. It has every way then, which makes nothing shared."""


def draw(name: str, cbm_mask: int, shareable: int, holders: Sequence[Holder]) -> list[str]:
    """The drawings of one schemata line (``L3``, ``L3CODE``), a blank line between them.

    ``cbm_mask`` is the full mask, ``shareable`` the ways that other hardware fills as well.
    """
    lines: list[str] = []
    for domains in _alike(holders):
        if lines:
            lines.append("")
        lines += _drawing(name, domains, cbm_mask, shareable, holders)
    return lines


def _alike(holders: Sequence[Holder]) -> Iterator[tuple[int, ...]]:
    """The domains, those in which everybody has the same mask together."""
    domains = sorted({domain for holder in holders for domain in holder.masks})
    alike: dict[tuple[int | None, ...], list[int]] = {}
    for domain in domains:
        alike.setdefault(tuple(holder.masks.get(domain) for holder in holders), []).append(domain)
    yield from (tuple(group) for group in alike.values())


def _drawing(
    name: str, domains: tuple[int, ...], cbm_mask: int, shareable: int, holders: Sequence[Holder]
) -> Iterator[str]:
    ways = cbm_mask.bit_length()
    here = [(holder, holder.masks[domains[0]]) for holder in holders if domains[0] in holder.masks]
    cells = len(_blocks("." * ways))
    labels = [_fitted(holder.label, WIDTH - _MARGINS - cells - _MASK_WIDTH) for holder, _ in here]
    width = max(map(len, labels), default=0)
    yield f"{name}, domain{'s' if len(domains) > 1 else ''} {ranges(domains)}"
    yield f"{_ruler(ways):>{width + cells + 4}}"
    if shareable:
        yield f"  {'':{width}}  {_blocks(_marks(ways, shareable))}".rstrip()
    for label, (holder, mask) in zip(labels, here, strict=True):
        yield f"  {label:{width}}  {_blocks(_signs(ways, mask, _held_by_others(holder, here)))}  {mask:x}"


def _held_by_others(holder: Holder, here: Sequence[tuple[Holder, int]]) -> int:
    bits = 0
    for other, mask in here:
        if other is not holder and not other.is_root:
            bits |= mask
    return bits


def _signs(ways: int, mask: int, others: int) -> str:
    return "".join(_sign(mask >> way & 1, others >> way & 1) for way in reversed(range(ways)))


def _sign(held: int, by_others: int) -> str:
    if not held:
        return NOT_HELD
    return SHARED if by_others else HELD


def _marks(ways: int, shareable: int) -> str:
    return "".join(HARDWARE if shareable >> way & 1 else " " for way in reversed(range(ways)))


def _blocks(cells: str) -> str:
    """In fours, counted from the lowest way."""
    first = len(cells) % DIGITS_A_BLOCK
    rest = (cells[start : start + DIGITS_A_BLOCK] for start in range(first, len(cells), DIGITS_A_BLOCK))
    return " ".join([cells[:first], *rest] if first else rest)


def _ruler(ways: int) -> str:
    """The number of each block's lowest way, so that it ends where the block does."""
    lowest = reversed(range(0, ways, DIGITS_A_BLOCK))
    blocks = _blocks("." * ways).split(" ")
    return " ".join(f"{way:>{len(block)}}" for way, block in zip(lowest, blocks, strict=True))


def _fitted(label: str, room: int) -> str:
    return label if len(label) <= room else label[: room - 1] + "…"
