"""Control groups and monitoring groups: what each holds, and which exist."""

from dataclasses import dataclass, field
from enum import Enum
from itertools import count

ROOT_NUMBER = 0
"""The root group's number, and that of every task that nobody has moved."""


class Mode(Enum):
    """A control group's mode as the kernel spells it. Pseudo-locking is not emulated."""

    SHAREABLE = "shareable"
    EXCLUSIVE = "exclusive"


@dataclass(slots=True, eq=False)
class Group:
    """One group. A monitoring group has a ``parent``; its CLOSID, mode and controls are the parent's."""

    number: int
    """Never used again, unlike CLOSID and RMID: membership refers to it."""
    own_closid: int
    rmid: int
    parent: "Group | None" = None
    children: list["Group"] = field(default_factory=list)
    mode: Mode = Mode.SHAREABLE
    cpus: int = 0
    """Bit n: CPU n."""
    mbps_event: str | None = None
    """What was chosen for it; None: the first that there is."""

    @property
    def control(self) -> "Group":
        """The control group: itself, or the one it monitors a part of."""
        return self.parent or self

    @property
    def closid(self) -> int:
        """What its tasks run with."""
        return self.control.own_closid


class Groups:
    """The groups of one mount, root first, control groups in the order of their making."""

    def __init__(self, every_cpu: int) -> None:
        self.root = Group(ROOT_NUMBER, 0, 0, cpus=every_cpu)
        self.controls: list[Group] = [self.root]
        self._numbers = count(ROOT_NUMBER + 1)
        self._by_number = {ROOT_NUMBER: self.root}
        self._heirs: dict[int, int] = {}

    def make_control(self, closid: int, rmid: int) -> Group:
        """A control group without tasks and CPUs."""
        group = self._register(Group(next(self._numbers), closid, rmid))
        self.controls.append(group)
        return group

    def make_monitoring(self, parent: Group, rmid: int) -> Group:
        """A monitoring group of ``parent``'s."""
        group = self._register(Group(next(self._numbers), parent.own_closid, rmid, parent))
        parent.children.append(group)
        return group

    def remove(self, group: Group) -> None:
        """Its tasks and CPUs are its parent's now, a control group's the root's."""
        heir = group.parent or self.root
        (group.parent.children if group.parent else self.controls).remove(group)
        for gone in (group, *group.children):
            heir.cpus |= gone.cpus
            self._heirs[gone.number] = heir.number
            del self._by_number[gone.number]

    def move(self, group: Group, parent: Group) -> None:
        """Make a monitoring group another control group's, with all its tasks."""
        group.control.children.remove(group)
        group.parent = parent
        parent.children.append(group)

    def of_task(self, number: int) -> Group:
        """Whose a task is that was put into group ``number``: that group's, or those that inherited its tasks."""
        while number in self._heirs:
            number = self._heirs[number]
        return self._by_number[number]

    def _register(self, group: Group) -> Group:
        self._by_number[group.number] = group
        return group
