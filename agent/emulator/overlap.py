"""Which ways are whose: what keeps exclusive groups apart, and what a new group may have."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.emulator.controls import CacheControl, Controls
from agent.emulator.groups import Group, Mode


@dataclass(frozen=True, slots=True)
class Part:
    """One domain of one cache line, and the control groups that share it."""

    controls: Controls
    groups: Iterable[Group]
    control: CacheControl
    domain: int

    def meets_other(self, mask: int, closid: int) -> bool:
        """Whether ``mask`` meets ways that hardware uses or another group has, the other part's under CDP too."""
        taken = self.control.cache.shareable_bits
        for group in self.groups:
            if group.closid != closid:
                taken |= self._ways(group)
        return bool(mask & taken)

    def meets_exclusive(self, mask: int, closid: int) -> bool:
        """Whether ``mask`` meets the ways of another group that has them for itself."""
        return any(
            mask & self._ways(group) for group in self.groups if group.closid != closid and group.mode is Mode.EXCLUSIVE
        )

    def free_ways(self) -> int:
        """All that no group has for itself."""
        cache = self.control.cache
        used = offered = cache.shareable_bits
        for group in self.groups:
            ways = self._ways(group)
            used |= ways
            if group.mode is Mode.SHAREABLE:
                offered |= ways
        return offered | (~used & cache.full_mask)

    def usage(self) -> str:
        """A letter for each way, most significant first, as in ``bit_usage``."""
        used = dict.fromkeys(Mode, 0)
        for group in self.groups:
            used[group.mode] |= self.controls.value(self.control.name, self.domain, group.closid)
        hardware, shareable, exclusive = self.control.cache.shareable_bits, used[Mode.SHAREABLE], used[Mode.EXCLUSIVE]
        return "".join(
            _letter(hardware >> bit & 1, shareable >> bit & 1, exclusive >> bit & 1)
            for bit in reversed(range(self.control.cache.ways))
        )

    def _ways(self, group: Group) -> int:
        ways = self.controls.value(self.control.name, self.domain, group.closid)
        if self.control.peer:
            ways |= self.controls.value(self.control.peer, self.domain, group.closid)
        return ways


def lowest_run(mask: int) -> int:
    """The lowest run of ones in ``mask``."""
    lowest = mask & -mask
    return mask & ~(mask + lowest)


def _letter(hardware: int, shareable: int, exclusive: int) -> str:
    if hardware:
        return "X" if shareable else "H"
    if shareable:
        return "S"
    return "E" if exclusive else "0"
