"""All that a guest needs, in the order in which one is made from the other."""

from dataclasses import dataclass
from pathlib import Path

from . import cache, guest_boot, guest_system, qemu_build, stages
from .distributions import Distribution
from .errors import LabError


@dataclass(frozen=True, slots=True)
class Built:
    """What QEMU starts a guest from."""

    qemu: Path
    system: Path
    boot: Path
    identity: str
    """Another one for every build, also from the same inputs: a state that was kept fits one build only."""


def built(distribution: Distribution) -> Built:
    """What was built before; only the initramfs is made again if need be. Raises LabError if anything else is."""
    guest = cache.guest(distribution.name)
    _check(cache.qemu(), qemu_build.made_from(), "QEMU", distribution)
    _check(guest / "system", guest_system.made_from(distribution), f"the {distribution.name} guest", distribution)
    guest_boot.build(distribution)
    parts = (cache.qemu(), guest / "system", guest / "boot")
    return Built(*parts, stages.digest(*map(stages.identity, parts)))


def _check(directory: Path, made_from: str, what: str, distribution: Distribution) -> None:
    if not stages.is_current(directory, made_from):
        state = "was built from other sources than this checkout's" if directory.exists() else "is not built"
        raise LabError(
            f"{what} {state} ({directory}): make lab, or python -m tests.kernel.lab build {distribution.name}"
        )
