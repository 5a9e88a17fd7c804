"""Which group's each CPU is: the effect of writing ``cpus`` or ``cpus_list``."""

import errno

from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group, Groups


def assign_cpus(groups: Groups, group: Group, cpus: int) -> None:
    """Make ``cpus`` (a set of bits, all online) the group's. Raises RefusedError."""
    if group.parent:
        _assign_to_monitoring(group, group.parent, cpus)
    else:
        _assign_to_control(groups, group, cpus)


def _assign_to_control(groups: Groups, group: Group, cpus: int) -> None:
    dropped, added = group.cpus & ~cpus, cpus & ~group.cpus
    if dropped and group is groups.root:
        raise RefusedError(errno.EINVAL, "Can't drop CPUs from default group\n")
    groups.root.cpus |= dropped
    for other in groups.controls:
        other.cpus &= ~added
        for child in other.children:
            child.cpus &= ~added
    group.cpus = cpus
    for child in group.children:
        child.cpus = 0


def _assign_to_monitoring(group: Group, parent: Group, cpus: int) -> None:
    if cpus & ~parent.cpus:
        raise RefusedError(errno.EINVAL, "Can only add CPUs to mongroup that belong to parent\n")
    for sibling in parent.children:
        sibling.cpus &= ~cpus
    group.cpus = cpus
