"""The emulator's twin of a guest: the same hardware, as the emulator describes a machine.

The numbers that the lab does not set are those that guests show in ``info``, ``size`` and /sys/devices/system/cpu.
"""

from dataclasses import replace

from agent.emulator.machines import Bandwidth, Cache, Machine, Monitoring, amd_bandwidth, intel_bandwidth
from tests.kernel.lab.hardware import Events, Hardware

KERNELS = {"debian-12": "6.1", "debian-13": "6.12", "debian-sid": "7.2"}
"""The rules that each distribution's kernel follows, by the emulator's name for them."""

FEW_IDS = Hardware("few-ids", closids=6, mba_closids=4, rmids=10, l2_bits=8, l3_shareable=0xC00)
"""Two levels of cache, ways that hardware shares, and so few CLOSIDs and RMIDs that a test soon has them all."""

_KIB = 1 << 10
_MIB = 1 << 20
_SOCKETS = (0, 1)
_CORES = (0, 1, 2, 3)
_L3_SIZE = 16 * _MIB
_L2_SIZE = {"intel": 4 * _MIB, "amd": 512 * _KIB}
_SIZE_OF_CACHE = {"intel": _L3_SIZE, "amd": _L2_SIZE["amd"]}
"""What /proc/cpuinfo calls the cache's size, which the kernel divides among the RMIDs."""
_EVENTS = {"llc_occupancy": Events.OCCUPANCY, "mbm_total_bytes": Events.TOTAL, "mbm_local_bytes": Events.LOCAL}


def twin(hardware: Hardware) -> Machine:
    """The machine that the emulator is to be, ``mount_options`` included."""
    return Machine(
        hardware.name,
        cpus=4,
        l3=_cache(hardware, Cache(3, _SOCKETS, hardware.l3_bits, _L3_SIZE, hardware.closids)),
        l2=_cache(hardware, Cache(2, _CORES, hardware.l2_bits, _L2_SIZE[hardware.vendor], hardware.closids)),
        mb=_bandwidth(hardware),
        monitoring=_monitoring(hardware),
        mount_options=frozenset(filter(None, (hardware.mount_options or "").split(","))),
    )


def _cache(hardware: Hardware, intel: Cache) -> Cache | None:
    """``intel`` with what else the hardware says, None where it cannot be divided."""
    if not intel.ways:
        return None
    amd = hardware.vendor == "amd"
    return replace(
        intel,
        min_cbm_bits=0 if amd else 1,
        shareable_bits=hardware.l3_shareable if intel.level == 3 else 0,
        sparse_masks=amd or hardware.sparse_masks,
        cdp=hardware.cdp,
    )


def _bandwidth(hardware: Hardware) -> Bandwidth | None:
    if not hardware.mba:
        return None
    return (amd_bandwidth if hardware.vendor == "amd" else intel_bandwidth)(_SOCKETS, hardware.mba_closids)


def _monitoring(hardware: Hardware) -> Monitoring | None:
    if not hardware.rmids:
        return None
    return Monitoring(
        _SOCKETS,
        hardware.rmids,
        tuple(event for event, bit in _EVENTS.items() if bit in hardware.events),
        hardware.counter_unit,
        threshold_limit=_SIZE_OF_CACHE[hardware.vendor],
        configurable=hardware.bmec,
        assignable_counters=hardware.abmc,
    )
