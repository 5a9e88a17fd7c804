"""What a machine can divide and limit, as values. ``machine.py`` reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

Domains = Mapping[str, frozenset[int]]
"""Resource (``L3``, ``MB``) → its cache ids."""

MBPS_UNLIMITED = 0xFFFFFFFF
"""What the kernel shows under mba_MBps for no limit; any u32 can be written there."""

ABSOLUTE_UNLIMITED = 2048
"""What AMD means by no limit: fixed in kernels before 6.12, 2 to the power of a CPUID field since."""


class BandwidthUnit(Enum):
    """What one step of a bandwidth value is worth."""

    PERCENT = "percent"
    MBPS = "MiB/s"
    """Mounted with mba_MBps: the kernel's software controller counts in 2²⁰ bytes a second."""
    EIGHTH_GBPS = "1/8 GB/s"
    """AMD: 8 is 10⁹ bytes a second."""


@dataclass(frozen=True, slots=True)
class CacheResource:
    """A cache level that can be divided, with code and data alike where CDP is on."""

    name: str
    """``L3`` or ``L2``."""
    schemata_names: tuple[str, ...]
    """The lines it has in schemata, in the kernel's order: ``("L3",)`` or ``("L3DATA", "L3CODE")``."""
    domains: tuple[int, ...]
    cbm_mask: int
    min_cbm_bits: int
    """0 on AMD, where the kernel takes even an empty mask."""
    shareable_bits: int
    """Ways that hardware (I/O, graphics) may fill as well."""
    num_closids: int
    """Already halved by the kernel where CDP is on."""
    sparse_masks: bool
    """Whether masks may have holes; kernels before 6.7 do not say, and take none."""
    bytes_per_way: int | None

    @property
    def ways(self) -> int:
        """How many ways can be given out: the bits of the full mask."""
        return self.cbm_mask.bit_length()

    @property
    def cdp(self) -> bool:
        """Whether code and data are divided separately."""
        return len(self.schemata_names) > 1


@dataclass(frozen=True, slots=True)
class BandwidthResource:
    """Memory bandwidth (``MB``), or that of slow memory (``SMBA``, AMD)."""

    name: str
    domains: tuple[int, ...]
    unit: BandwidthUnit
    min_bandwidth: int
    """In steps; under mba_MBps the kernel checks no minimum, and this is 1."""
    granularity: int
    """Values are rounded up to a multiple of it; under mba_MBps 1."""
    maximum: int
    """No limit. Exact unless somebody limited every group of an AMD machine, see ``_maximum``."""
    num_closids: int
    thread_throttle_mode: str | None
    """``max`` or ``per-thread`` on Intel since 5.10, else None."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """What can be measured, for how many groups."""

    num_rmids: int
    features: tuple[str, ...]
    max_threshold_occupancy: int | None
    """Bytes of cache under which a freed RMID may be used again; None where occupancy is not measured."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine as resctrl shows it."""

    caches: tuple[CacheResource, ...]
    bandwidths: tuple[BandwidthResource, ...]
    monitoring: Monitoring | None
    num_closids: int
    """Control groups there can be, the root group included. 1 on a machine that can only monitor: the kernel
    refuses every mkdir of a control group there."""
    mount_options: frozenset[str]
    """Of ``cdp``, ``cdpl2``, ``mba_MBps``, ``debug``; the first three also where only the files show them."""
    cpus: frozenset[int] = field(default=frozenset(), kw_only=True)
    """Those that are online: each of them is some group's. Empty where a description does not say."""

    @property
    def domains(self) -> Domains:
        """The cache ids that each resource has at the moment."""
        caches = {cache.name: frozenset(cache.domains) for cache in self.caches}
        return caches | {bandwidth.name: frozenset(bandwidth.domains) for bandwidth in self.bandwidths}

    def cache(self, name: str) -> CacheResource | None:
        """The cache level of this name (``L3``), or None where it cannot be divided."""
        return next((c for c in self.caches if c.name == name), None)

    def bandwidth(self, name: str) -> BandwidthResource | None:
        """The bandwidth of this name (``MB``), or None where it cannot be limited."""
        return next((b for b in self.bandwidths if b.name == name), None)


def machine_as_json(machine: Machine) -> dict[str, object]:
    """The machine as ``machine --output json`` prints it: masks in hexadecimal as the kernel shows them."""
    resources = {c.name: _cache_as_json(c) for c in machine.caches}
    return {
        "resources": resources | {b.name: _bandwidth_as_json(b) for b in machine.bandwidths},
        "monitoring": _monitoring_as_json(machine.monitoring),
        "num_closids": machine.num_closids,
        "mount_options": sorted(machine.mount_options),
    }


def _cache_as_json(cache: CacheResource) -> dict[str, object]:
    return {
        "domains": list(cache.domains),
        "cbm_mask": f"{cache.cbm_mask:x}",
        "ways": cache.ways,
        "min_cbm_bits": cache.min_cbm_bits,
        "shareable_bits": f"{cache.shareable_bits:x}",
        "sparse_masks": cache.sparse_masks,
        "num_closids": cache.num_closids,
        "cdp": cache.cdp,
        "bytes_per_way": cache.bytes_per_way,
    }


def _bandwidth_as_json(bandwidth: BandwidthResource) -> dict[str, object]:
    return {
        "domains": list(bandwidth.domains),
        "unit": bandwidth.unit.value,
        "min_bandwidth": bandwidth.min_bandwidth,
        "bandwidth_gran": bandwidth.granularity,
        "maximum": bandwidth.maximum,
        "num_closids": bandwidth.num_closids,
        "thread_throttle_mode": bandwidth.thread_throttle_mode,
    }


def _monitoring_as_json(monitoring: Monitoring | None) -> dict[str, object] | None:
    if monitoring is None:
        return None
    return {
        "num_rmids": monitoring.num_rmids,
        "mon_features": list(monitoring.features),
        "max_threshold_occupancy": monitoring.max_threshold_occupancy,
    }
