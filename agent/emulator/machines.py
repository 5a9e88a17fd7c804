"""What hardware the emulator can be: named machines, each a frozen value.

The numbers are those of the kind of machine named; what a kernel derives from them (formats, limits, which files
exist) is in ``rules.py`` and beyond.
"""

from dataclasses import dataclass, replace

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of cache that can be divided."""

    level: int
    """2 or 3."""
    domains: tuple[int, ...]
    """Cache ids, ascending; they may have gaps."""
    ways: int
    """Bits in a capacity bitmask, 1 to 32."""
    size: int
    """Bytes of one domain."""
    num_closids: int
    """Without CDP, which halves it."""
    min_cbm_bits: int = 1
    shareable_bits: int = 0
    """Ways that other hardware (I/O) uses too."""
    sparse_masks: bool = False
    """Whether a mask may have holes."""
    cdp: bool = True
    """Whether code and data can be told apart."""

    @property
    def full_mask(self) -> int:
        """Every way."""
        return (1 << self.ways) - 1


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bandwidth of memory (MB) or of slow memory (SMBA) that can be limited."""

    domains: tuple[int, ...]
    num_closids: int
    minimum: int
    maximum: int
    """100 where it counts in per cent; the largest number where it counts in 1/8 GB/s."""
    granularity: int
    linear: bool
    """``delay_linear``."""
    throttle_mode: str | None
    """``max`` or ``per-thread`` (Intel); None where the kernel shows no such file (AMD)."""
    width: int
    """Columns that kernels which pad reserve for a value: 3 on Intel, 4 on AMD."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Counters of the last-level cache."""

    domains: tuple[int, ...]
    """L3 cache ids."""
    num_rmids: int
    events: tuple[str, ...]
    counter_unit: int
    """Bytes of one step of a counter; ``max_threshold_occupancy`` is a multiple of it."""
    threshold_limit: int
    """Largest ``max_threshold_occupancy``, in bytes: the kernel's idea of the cache's size, an L2's on AMD."""
    configurable: bool = False
    """Whether the bandwidth events can be told what to count (AMD's BMEC)."""
    assignable_counters: int = 0
    """How many counters of bandwidth each domain has that are assigned to groups one by one (AMD's ABMC); 0: each
    group has its own."""
    sub_numa_nodes: int = 1
    """NUMA nodes that share one L3."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, and how resctrl is mounted on it unless told otherwise."""

    name: str
    cpus: int
    """All online, numbered from 0."""
    l3: Cache | None = None
    l2: Cache | None = None
    mb: Bandwidth | None = None
    smba: Bandwidth | None = None
    monitoring: Monitoring | None = None
    mount_options: frozenset[str] = frozenset()

    @property
    def can_allocate(self) -> bool:
        """Whether there is anything to divide, so that control groups exist."""
        return any((self.l3, self.l2, self.mb, self.smba))


ALL_EVENTS = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")


def intel_bandwidth(domains: tuple[int, ...], num_closids: int, throttle_mode: str = "max") -> Bandwidth:
    """Per cent in steps of 10 from 10, as every Intel machine so far."""
    return Bandwidth(domains, num_closids, 10, 100, 10, linear=True, throttle_mode=throttle_mode, width=3)


def amd_bandwidth(domains: tuple[int, ...], num_closids: int) -> Bandwidth:
    """1/8 GB/s from 0; 2048 means no limit."""
    return Bandwidth(domains, num_closids, 0, 2048, 1, linear=False, throttle_mode=None, width=4)


_SOCKETS = (0, 1)
_XEON_L3 = 27 * _MIB + _MIB // 2
_ICELAKE_L3 = 54 * _MIB
_EPYC_DOMAINS = (*range(8), *range(16, 24))

_XEON = Machine(
    "xeon-2s",
    cpus=40,
    l3=Cache(3, _SOCKETS, ways=11, size=_XEON_L3, num_closids=16, shareable_bits=0x600),
    mb=intel_bandwidth(_SOCKETS, num_closids=8),
    monitoring=Monitoring(_SOCKETS, 160, ALL_EVENTS, counter_unit=65536, threshold_limit=_XEON_L3),
)
_ICELAKE = Machine(
    "xeon-icelake-2s",
    cpus=64,
    l3=Cache(3, _SOCKETS, ways=12, size=_ICELAKE_L3, num_closids=15, shareable_bits=0xC00),
    mb=intel_bandwidth(_SOCKETS, num_closids=15, throttle_mode="per-thread"),
    monitoring=Monitoring(_SOCKETS, 224, ALL_EVENTS, counter_unit=65536, threshold_limit=_ICELAKE_L3),
)
_EPYC_MONITORING = Monitoring(_EPYC_DOMAINS, 256, ALL_EVENTS, 64, threshold_limit=_MIB // 2, configurable=True)
_EPYC = Machine(
    "epyc-2s",
    cpus=128,
    l3=Cache(3, _EPYC_DOMAINS, 16, 16 * _MIB, num_closids=16, min_cbm_bits=0, sparse_masks=True),
    mb=amd_bandwidth(_EPYC_DOMAINS, num_closids=16),
    monitoring=_EPYC_MONITORING,
)
_L2_ONLY = Machine(
    "l2-only",
    cpus=16,
    l2=Cache(2, (0, 1, 2, 3), ways=8, size=_MIB, num_closids=4, cdp=False),
)
_SNC = Machine(
    "snc2",
    cpus=64,
    l3=_ICELAKE.l3,
    mb=_ICELAKE.mb,
    monitoring=Monitoring(_SOCKETS, 112, ALL_EVENTS, 65536, threshold_limit=_ICELAKE_L3, sub_numa_nodes=2),
)

MACHINES = {
    machine.name: machine
    for machine in (
        _XEON,
        _ICELAKE,
        _EPYC,
        _L2_ONLY,
        replace(_EPYC, name="epyc-abmc", monitoring=replace(_EPYC_MONITORING, assignable_counters=32)),
        replace(_XEON, name="mba-mbps", mount_options=frozenset({"mba_MBps"})),
        replace(_XEON, name="cdp", mount_options=frozenset({"cdp"})),
        _SNC,
        replace(_XEON, name="mba-only", l3=None),
        replace(_XEON, name="monitor-only", l3=None, mb=None),
    )
}
"""The machines that ``--machine`` names."""

DEFAULT_MACHINE = _XEON.name
