"""The hardware that contract tests run on, and where: the kernel's is the laboratory's, the emulator's its twin."""

from dataclasses import dataclass, replace

from tests.kernel.lab.guest import AS_DESCRIBED
from tests.kernel.lab.hardware import Counters, Events, Hardware, hardware
from tests.kernel.twins import FEW_IDS, KERNELS


def _tests(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/contract/test_{name}.py" for name in names)


_ALL = tuple(KERNELS)
_FROM_6_7 = ("debian-13", "debian-sid")
_NEWEST = ("debian-sid",)

_EVERYTHING = ("tests/contract",)
_MASKS = _tests("schemata", "mode", "groups", "tree")
_IDS = _tests("groups", "mount", "schemata", "counters", "monitoring", "tree")
_COUNTERS = _tests("counters", "monitoring", "tree")


@dataclass(frozen=True, slots=True)
class Flavour:
    """One kind of hardware, and the kernels that contract tests run on with it."""

    hardware: Hardware
    distributions: tuple[str, ...] = _ALL
    tests: tuple[str, ...] = _EVERYTHING
    """Where one thing alone is special, the tests that look at it."""
    counters: Counters = AS_DESCRIBED

    @property
    def name(self) -> str:
        return self.hardware.name


_INTEL = hardware("intel")

FLAVOURS = {
    flavour.name: flavour
    for flavour in (
        Flavour(_INTEL),
        Flavour(hardware("amd")),
        Flavour(hardware("amd-abmc"), _NEWEST),
        Flavour(hardware("intel-cdp")),
        Flavour(hardware("l2")),
        Flavour(hardware("mbps")),
        Flavour(hardware("monitor-only")),
        Flavour(hardware("shareable"), tests=_MASKS),
        Flavour(hardware("sparse"), _FROM_6_7, tests=_MASKS),
        Flavour(FEW_IDS, tests=_IDS),
        Flavour(replace(_INTEL, name="few-rmids", rmids=8, events=Events.OCCUPANCY | Events.TOTAL), tests=_IDS),
        Flavour(replace(hardware("none"), name="mba-only", mba=True, mount_options="")),
        Flavour(replace(_INTEL, name="no-occupancy", events=Events.TOTAL | Events.LOCAL), tests=_COUNTERS),
        Flavour(replace(_INTEL, name="unavailable"), tests=_COUNTERS, counters=Counters(unavailable_rmid=0)),
        Flavour(replace(_INTEL, name="error"), tests=_COUNTERS, counters=Counters(error_rmid=0)),
    )
}
"""By name."""
