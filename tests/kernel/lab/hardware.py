"""What the emulated processor offers, and how resctrl is mounted on it."""

from dataclasses import dataclass, field, fields, replace
from enum import IntFlag
from typing import Literal

from .errors import LabError


class Events(IntFlag):
    """What can be counted for a monitoring group, with the bits of CPUID leaf 0xf."""

    OCCUPANCY = 1
    TOTAL = 2
    LOCAL = 4
    ALL = 7


@dataclass(frozen=True, slots=True)
class Hardware:
    """Two sockets of two CPUs, one L3 each, with control and monitoring of these kinds.

    Each field but the first and last is a setting of the model in ``qemu/``, under the same name.
    """

    name: str
    vendor: Literal["intel", "amd"] = "intel"
    closids: int = 16
    """Classes of service, 1–128; also the bandwidth control's unless ``mba_closids`` says otherwise."""
    l3_bits: int = 12
    """Length of an L3 mask, 1–32; 0: no control of the L3."""
    l3_shareable: int = 0
    """Bits of an L3 mask that other hardware uses too."""
    l2_bits: int = 0
    """Length of an L2 mask, 1–32; 0: no control of the L2."""
    cdp: bool = True
    """Caches can be divided between code and data."""
    sparse_masks: bool = False
    """Intel's masks may have holes (AMD's always may). The kernel asks from 6.7 on."""
    mba: bool = True
    """Control of memory bandwidth: percents on Intel, eighths of a GB/s on AMD."""
    mba_closids: int = 16
    rmids: int = 256
    """Monitoring groups that hardware tells apart, 1–1024; 0: no monitoring."""
    events: Events = Events.ALL
    counter_unit: int = 65536
    """Bytes that one step of a counter stands for; the unit of occupancy too."""
    counter_bits: int = 32
    """Width of the bandwidth counters, 24–62: then they start again at 0."""
    bmec: bool = False
    """AMD: what the bandwidth counters count is configurable. The kernel asks from 6.3 on."""
    abmc: int = 0
    """AMD: number of counters that are assigned to groups one by one, up to 32. The kernel asks from 6.18 on."""
    mount_options: str | None = field(default="", kw_only=True)
    """Of /sys/fs/resctrl; None: it is not mounted."""

    def settings(self) -> dict[str, str]:
        """As the model in QEMU reads them from its environment."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        del values["name"], values["mount_options"]
        return {_variable(name): value if name == "vendor" else str(int(value)) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Counters:
    """How the counters behave in one run: changes nothing that the guest saw while it booted."""

    busy_cpu_mbps: int = 2000
    """Memory traffic of a CPU that is busy all the time, in MB/s of the host's processor time."""
    unavailable_rmid: int | None = None
    """Counters of this RMID read ``Unavailable``."""
    error_rmid: int | None = None
    """Counters of this RMID read ``Error``."""

    def settings(self) -> dict[str, str]:
        """As the model in QEMU reads them from its environment."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {_variable(name): str(value) for name, value in values.items() if value is not None}


def hardware(name: str) -> Hardware:
    """The flavour of that name. Raises LabError."""
    if name not in FLAVOURS:
        raise LabError(f"no hardware {name!r}; there are {', '.join(FLAVOURS)}")
    return FLAVOURS[name]


def _variable(name: str) -> str:
    return f"QEMU_RDT_{name.upper()}"


_INTEL = Hardware("intel")
_AMD = Hardware("amd", "amd", l3_bits=16, counter_unit=64, counter_bits=44, bmec=True)
_NOTHING = Hardware("none", l3_bits=0, mba=False, rmids=0, mount_options=None)

FLAVOURS = {
    each.name: each
    for each in (
        _INTEL,
        _AMD,
        replace(_AMD, name="amd-abmc", abmc=16),
        replace(_INTEL, name="intel-cdp", mount_options="cdp"),
        replace(_NOTHING, name="l2", l2_bits=8, mount_options=""),
        replace(_INTEL, name="mbps", mount_options="mba_MBps"),
        replace(_NOTHING, name="monitor-only", rmids=256, mount_options=""),
        replace(_INTEL, name="shareable", l3_shareable=0xC00),
        replace(_INTEL, name="sparse", sparse_masks=True),
        _NOTHING,
    )
}
"""By name. ``none`` is a machine without any of it, which has no /sys/fs/resctrl to mount."""
