"""The monitoring groups of workloads: one for each workload of a class that says so, while the workload is there.

A workload that changes class takes its monitoring group along: renamed below the other control group, all its threads
change class at once and the counters go on. Where the kernel cannot do that (before 6.5) a new group is made, whose
counters begin anew, and the threads follow one by one.

What is to be done follows from which workloads there are and which groups, so that a kill at any moment, or a group
that somebody removed, is put right by the next look.
"""

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.reconcile.actions import CreateMonitoring, MonitoringAction, MoveMonitoring, RemoveMonitoring
from agent.reconcile.ownership import Ledger
from agent.reconcile.plan import ROOT
from agent.reconcile.rules import RuleBook
from agent.resctrl.errors import GroupGoneError, NotPermittedError, OutOfRmidsError, ResctrlError, RmidsInLimboError
from agent.resctrl.filesystem import Resctrl
from agent.resctrl.machine import NOT_GROUPS
from agent.resctrl.monitoring_group import MonitoringGroup
from agent.tasks.cgroups import cgroup_id

LONGEST_NAME = 200
"""Bytes of a workload's name that its group's name keeps; the kernel takes 255 in all."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one action."""

    action: MonitoringAction
    threads: int = 0
    """Threads that changed class at once, by moving their group."""
    failure: ResctrlError | None = None
    """Why it could not be done; the workload is placed in its class all the same."""

    @property
    def made(self) -> bool:
        """Whether there is a group now that is still to be filled, thread by thread."""
        moved_alone = isinstance(self.action, MoveMonitoring) and not self.threads
        return self.failure is None and (moved_alone or isinstance(self.action, CreateMonitoring))


def plan_monitoring(
    existing: Mapping[MonitoringGroup, str], wanted: Mapping[str, str], taken: Collection[str]
) -> tuple[MonitoringAction, ...]:
    """``existing``: ours → workload. ``wanted``: workload → control group. ``taken``: every monitoring group's path.

    Pure. Moves come first, since they bring threads to their class; removals before what is new, for their RMIDs,
    which go to the workloads in the order of ``wanted``.
    """
    moves: list[MoveMonitoring] = []
    removals: list[RemoveMonitoring] = []
    held: set[str] = set()
    in_use = set(taken)
    in_place_first = sorted(existing.items(), key=lambda item: (wanted.get(item[1]) != item[0].control, item[0]))
    for group, workload in in_place_first:
        control = wanted.get(workload)
        if control is None or workload in held:
            removals.append(RemoveMonitoring(group, workload))
        elif control != group.control:
            moves.append(MoveMonitoring(group, _named(control, workload, in_use), workload))
        held.add(workload)
    fresh = (workload for workload in wanted if workload not in held)
    creations = [CreateMonitoring(_named(wanted[workload], workload, in_use), workload) for workload in fresh]
    return (*moves, *removals, *creations)


def wanted_monitoring(rules: RuleBook, cgroups: Path, workloads: Iterable[str]) -> dict[str, str]:
    """Of these workloads, those that exist and whose class is to count them apart → their control group.

    A cgroup exists while its directory does, also without tasks; a rule on the program while the policy has it.
    Those whose rule comes first in the policy are first.
    """
    if not rules.monitors:
        return {}
    existing = (workload for workload in sorted(workloads) if _exists(cgroups, workload))
    targets = {workload: target for workload in existing if (target := rules.target_of(workload)) and target.monitored}
    by_rule = sorted(targets.items(), key=lambda item: item[1].rule.index)
    return {workload: target.group for workload, target in by_rule}


class WorkloadGroups:
    """Those that there are on one mount. Whoever calls what changes them holds resctrl's lock."""

    def __init__(self, resctrl: Resctrl, ledger: Ledger) -> None:
        self._resctrl = resctrl
        self._ledger = ledger
        self.by_workload: dict[str, MonitoringGroup] = {}
        """Workload → group; the same mapping for as long as this object lives."""
        self.look()

    def look(self) -> None:
        """Reads which there are."""
        found = {of: group for group, of in sorted(self._ledger.monitoring(self._resctrl).items())}
        self.by_workload.clear()
        self.by_workload.update(found)

    def plan(self, wanted: Mapping[str, str]) -> tuple[MonitoringAction, ...]:
        """What to do so that there are the groups for ``wanted`` (workload → control group) and no others of ours."""
        return plan_monitoring(self._ledger.monitoring(self._resctrl), wanted, self._taken())

    def carry_out(self, actions: Iterable[MonitoringAction]) -> Iterator[Done]:
        """Does one after the other. What the kernel refuses is part of what is returned, and keeps no other from it.

        Once RMIDs have run out nothing more is created. Raises StateError.
        """
        exhausted: ResctrlError | None = None
        try:
            for action in actions:
                if exhausted is not None and isinstance(action, CreateMonitoring):
                    yield Done(action, failure=exhausted)
                    continue
                try:
                    threads = self._do(action)
                except ResctrlError as error:
                    exhausted = error if isinstance(error, (OutOfRmidsError, RmidsInLimboError)) else exhausted
                    yield Done(action, failure=error)
                else:
                    yield Done(action, threads)
        finally:
            self.look()

    def _do(self, action: MonitoringAction) -> int:
        match action:
            case MoveMonitoring(group, to, workload):
                return self._move(group, to, workload)
            case RemoveMonitoring(group):
                self._remove(group)
            case CreateMonitoring(group, workload):
                self._create(group, workload)
        return 0

    def _move(self, group: MonitoringGroup, to: MonitoringGroup, workload: str) -> int:
        self._ledger.intend_monitoring(to, workload, self._resctrl.group_inode(group.path))
        try:
            self._resctrl.move_monitoring(group, to)
        except NotPermittedError:
            self._ledger.monitoring_removed(to)
            self._remove(group)  # first, for its RMID
            self._create(to, workload)
            return 0
        except ResctrlError:
            self._ledger.monitoring_removed(to)
            raise
        self._ledger.monitoring_removed(group)
        with suppress(GroupGoneError):
            return len(self._resctrl.tasks(to.path))
        return 0

    def _create(self, group: MonitoringGroup, workload: str) -> None:
        self._ledger.intend_monitoring(group, workload)
        try:
            self._resctrl.create_monitoring(group)
            inode = self._resctrl.group_inode(group.path)
        except ResctrlError:
            self._ledger.monitoring_removed(group)
            raise
        self._ledger.monitoring_created(group, inode)

    def _remove(self, group: MonitoringGroup) -> None:
        with suppress(GroupGoneError):
            self._resctrl.remove_monitoring(group)
        self._ledger.monitoring_removed(group)

    def _taken(self) -> set[str]:
        taken: set[str] = set()
        for control in (ROOT, *self._resctrl.groups()):
            with suppress(GroupGoneError):
                taken |= {MonitoringGroup(control, name).path for name in self._resctrl.monitoring_groups(control)}
        return taken


def _exists(cgroups: Path, workload: str) -> bool:
    return not workload.startswith("/") or cgroup_id(cgroups, workload) is not None


def _named(control: str, workload: str, in_use: set[str]) -> MonitoringGroup:
    """A name that a person recognises: the cgroup's own or the rule's, with a mark where somebody else has that."""
    last = workload.rstrip("/").rpartition("/")[2].replace("\n", " ") or "root"
    name = os.fsencode(last)[:LONGEST_NAME].decode(errors="ignore") or "unnamed"
    group = MonitoringGroup(control, name)
    if group.path in in_use or name in NOT_GROUPS or name in (".", ".."):
        group = MonitoringGroup(control, f"{name}~{hashlib.sha256(os.fsencode(workload)).hexdigest()[:8]}")
    in_use.add(group.path)
    return group
