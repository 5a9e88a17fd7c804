"""The ``mode`` of a control group: when it may become exclusive."""

import errno

from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group, Mode
from agent.emulator.mounted import Mount
from agent.emulator.overlap import Part


def set_mode(mount: Mount, group: Group, wanted: str) -> None:
    """Writing the mode in force is always fine. Raises RefusedError."""
    if wanted == group.mode.value:
        return
    if wanted == Mode.SHAREABLE.value:
        group.mode = Mode.SHAREABLE
    elif wanted == Mode.EXCLUSIVE.value:
        _require_disjoint(mount, group)
        group.mode = Mode.EXCLUSIVE
    elif wanted == "pseudo-locksetup":
        raise RefusedError(errno.EINVAL, _why_not_locked(mount, group))
    else:
        raise RefusedError(errno.EINVAL, "Unknown or unsupported mode\n")


def _require_disjoint(mount: Mount, group: Group) -> None:
    controls = mount.controls
    if not any(controls.caches):
        raise RefusedError(errno.EINVAL, "Cannot be exclusive without CAT/CDP\n")
    for control in controls.caches:
        for domain in control.domains:
            mask = controls.value(control.name, domain, group.closid)
            if Part(controls, mount.groups.controls, control, domain).meets_other(mask, group.closid):
                raise RefusedError(errno.EINVAL, "Schemata overlaps\n")


def _why_not_locked(mount: Mount, group: Group) -> str:
    """The emulated processors cannot turn their prefetchers off, as pseudo-locking needs."""
    if group is mount.groups.root:
        return "Cannot pseudo-lock default group\n"
    if any(control.peer for control in mount.controls.caches):
        return "CDP enabled\n"
    return "Pseudo-locking not supported\n"
