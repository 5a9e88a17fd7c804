"""What is divided and how: the lines of a schemata file, and each CLOSID's value in each domain."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.emulator.machines import Bandwidth, Cache, Machine

MBPS_UNLIMITED = 0xFFFFFFFF
"""Under mba_MBps, what a group gets that nobody limited."""

_MOST_CLOSIDS = 32
"""What a kernel manages, however many the hardware has."""


@dataclass(frozen=True, slots=True)
class CacheControl:
    """One cache line of the schemata: a whole cache, or its code or data part."""

    name: str
    cache: Cache
    num_closids: int
    peer: str | None
    """The other part of the same cache, under CDP."""

    @property
    def domains(self) -> tuple[int, ...]:
        """Cache ids."""
        return self.cache.domains

    @property
    def unlimited(self) -> int:
        """What the root group starts with."""
        return self.cache.full_mask


@dataclass(frozen=True, slots=True)
class BandwidthControl:
    """``MB`` or ``SMBA``."""

    name: str
    bandwidth: Bandwidth
    in_software: bool
    """Under mba_MBps: MiB/s, kept by the kernel's feedback loop."""

    @property
    def domains(self) -> tuple[int, ...]:
        """Cache ids."""
        return self.bandwidth.domains

    @property
    def num_closids(self) -> int:
        """As the hardware says."""
        return self.bandwidth.num_closids

    @property
    def unlimited(self) -> int:
        """What every group starts with."""
        return MBPS_UNLIMITED if self.in_software else self.bandwidth.maximum


Control = CacheControl | BandwidthControl


class Controls:
    """The controls of a mounted machine, in the order of the schemata file, and their values.

    Values outlive the group that set them, as they do in hardware; only those of CLOSIDs in use mean anything.
    """

    def __init__(self, machine: Machine, options: frozenset[str]) -> None:
        self.all: tuple[Control, ...] = tuple(_controls(machine, options))
        self._by_name: Mapping[str, Control] = {control.name: control for control in self.all}
        self.closids = min((c.num_closids for c in self.all), default=_MOST_CLOSIDS)
        """How many control groups there can be, root included."""
        self.name_width = max((_name_width(control) for control in self.all), default=0)
        self.value_width = max((_value_width(control) for control in self.all), default=0)
        self._values = {
            (control.name, domain): [control.unlimited] * self.closids
            for control in self.all
            for domain in control.domains
        }

    @property
    def caches(self) -> Iterator[CacheControl]:
        """Only the cache lines."""
        return (control for control in self.all if isinstance(control, CacheControl))

    def named(self, name: str) -> Control | None:
        """The control of this exact name, or None."""
        return self._by_name.get(name)

    def value(self, control: str, domain: int, closid: int) -> int:
        """The mask or bandwidth in force."""
        return self._values[control, domain][closid]

    def set(self, control: str, domain: int, closid: int, value: int) -> None:
        """Put a value in force; it has been checked."""
        self._values[control, domain][closid] = value


def _controls(machine: Machine, options: frozenset[str]) -> Iterator[Control]:
    for name, bandwidth in (("SMBA", machine.smba), ("MB", machine.mb)):
        if bandwidth:
            yield BandwidthControl(name, bandwidth, in_software=name == "MB" and "mba_MBps" in options)
    for cache, option in ((machine.l2, "cdpl2"), (machine.l3, "cdp")):
        if cache:
            yield from _parts(cache) if option in options else (_whole(cache),)


def _whole(cache: Cache) -> CacheControl:
    return CacheControl(f"L{cache.level}", cache, cache.num_closids, None)


def _parts(cache: Cache) -> Iterator[CacheControl]:
    code, data = f"L{cache.level}CODE", f"L{cache.level}DATA"
    yield CacheControl(data, cache, cache.num_closids // 2, code)
    yield CacheControl(code, cache, cache.num_closids // 2, data)


def _name_width(control: Control) -> int:
    """A cache that could be split keeps room for CODE and DATA, so that the table looks the same either way."""
    room = 4 if isinstance(control, CacheControl) and control.cache.cdp and not control.peer else 0
    return len(control.name) + room


def _value_width(control: Control) -> int:
    if isinstance(control, CacheControl):
        return (control.cache.ways + 3) // 4
    return control.bandwidth.width
