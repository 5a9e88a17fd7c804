"""The machine's three faces, as the reconciler needs them together: resctrl, cgroups, procfs."""

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.resctrl.errors import GroupGoneError
from agent.resctrl.filesystem import Resctrl
from agent.resctrl.machine import Machine
from agent.resctrl.monitoring_group import MonitoringGroup
from agent.tasks.hierarchy import Hierarchy
from agent.tasks.process import resctrl_groups

ASK_EACH_UP_TO = 32
"""More threads than this are looked up by reading their groups' ``tasks``, a walk over all tasks of the machine."""


@dataclass(frozen=True, slots=True)
class Node:
    """Where tasks are, where they can be put, and what procfs says of them."""

    resctrl: Resctrl
    machine: Machine
    hierarchy: Hierarchy
    proc: Path
    tells_of_each: bool
    """Whether the kernel says of each thread which group it is in. It does not know of an emulated resctrl."""

    def membership(self) -> dict[int, str]:
        """Thread id → control group of every thread that is not in the root group."""
        return {tid: name for name in self.resctrl.groups() for tid in self.members(name)}

    def elsewhere(self, threads: list[int], group: str) -> list[int]:
        """Those of ``threads`` that are not in ``group``, and those that are gone: they may have left children."""
        if self._ask_each(threads):
            found = {tid: resctrl_groups(self.proc, tid, tid) for tid in threads}
            return [tid for tid, groups in found.items() if groups is None or groups[0] != group]
        if group:
            members = set(self.resctrl.tasks(group))
            return [tid for tid in threads if tid not in members]
        placed = self.membership()
        return [tid for tid in threads if tid in placed or self._gone(tid)]

    def unmonitored(self, threads: list[int], group: MonitoringGroup, ours: Collection[MonitoringGroup]) -> list[int]:
        """Those of ``threads`` that nobody measures, or that are in another of ``ours``: they belong in ``group``.

        Who is in a monitoring group that somebody else made is left there.
        """
        if self.tells_of_each:
            found = {tid: resctrl_groups(self.proc, tid, tid) for tid in threads}
            names = {tid: groups[1] for tid, groups in found.items() if groups is not None}
        else:
            names = self.monitored(group.control)
        return [tid for tid in threads if to_be_monitored(names.get(tid, ""), group, ours)]

    def monitored(self, control: str) -> dict[int, str]:
        """Thread id → monitoring group, of the threads that are in one of the control group's."""
        names = self.resctrl.monitoring_groups(control)
        return {tid: name for name in names for tid in self.members(MonitoringGroup(control, name).path)}

    def within(self, threads: list[int], groups: Iterable[str]) -> list[int]:
        """Those of ``threads`` that are in one of ``groups``, and those that are gone: they may have left children."""
        if self._ask_each(threads):
            found = {tid: resctrl_groups(self.proc, tid, tid) for tid in threads}
            wanted = frozenset(groups)
            return [tid for tid, actual in found.items() if actual is None or actual[0] in wanted]
        members = {tid for name in groups for tid in self.members(name)}
        return [tid for tid in threads if tid in members or self._gone(tid)]

    def group_of(self, tid: int) -> str:
        """The control group of one thread; "" is the root group, and what a thread that is gone reads as."""
        if self.tells_of_each:
            groups = resctrl_groups(self.proc, tid, tid)
            return groups[0] if groups else ""
        return self.membership().get(tid, "")

    def members(self, group: str) -> list[int]:
        """A group's threads; none where the group has vanished: others make and remove theirs at any time."""
        with suppress(GroupGoneError):
            return self.resctrl.tasks(group)
        return []

    def _ask_each(self, threads: list[int]) -> bool:
        return self.tells_of_each and len(threads) <= ASK_EACH_UP_TO

    def _gone(self, tid: int) -> bool:
        return not os.path.exists(f"{self.proc}/{tid}")  # noqa: PTH110 - a Path for each of thousands of threads


def to_be_monitored(actual: str, group: MonitoringGroup, ours: Collection[MonitoringGroup]) -> bool:
    """Whether a thread of the control group that is in monitoring group ``actual`` ("": none) is to be in ``group``."""
    return actual == "" or (actual != group.name and MonitoringGroup(group.control, actual) in ours)
