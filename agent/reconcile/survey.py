"""Looking over every task: which workload it belongs to, and whether it is in its group. Writes nothing.

``plan`` and ``status`` print it, the full pass places what it finds out of place.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agent.reconcile.node import Node, to_be_monitored
from agent.reconcile.rules import RuleBook, Target, Verdict
from agent.resctrl.monitoring_group import MonitoringGroup
from agent.tasks.cgroups import read_threads, walk
from agent.tasks.process import process_of, read_program

CGROUPS_A_STEP = 32
"""After so many cgroups a survey lets others run."""


@dataclass(frozen=True, slots=True)
class Belonging:
    """Where tasks belong."""

    rules: RuleBook
    managed: frozenset[str]
    """Control groups whose members are the agent's to move: threads that no rule claims leave these and no others."""
    monitoring: Mapping[str, MonitoringGroup] = field(default_factory=dict)
    """Workload → the monitoring group that its threads belong in, of those that have one."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A thread that is not where it belongs."""

    tid: int
    path: str
    target: Target | None
    """None: no rule claims it, so it belongs in the root group."""
    actual: str

    @property
    def group(self) -> str:
        """The control group that it belongs in."""
        return self.target.group if self.target else ""


@dataclass(slots=True)
class Workload:
    """A cgroup that a rule matched, or a rule on the program, with the threads that belong to it."""

    name: str
    class_name: str
    rule: str
    threads: int = 0


@dataclass(slots=True)
class Survey:
    """Every task that is somebody's business."""

    workloads: dict[tuple[str, str], Workload] = field(default_factory=dict)
    """By (workload, class); those without threads are not listed."""
    misplaced: list[Misplaced] = field(default_factory=list)
    unmonitored: list[Misplaced] = field(default_factory=list)
    """Threads in their control group, but not in their workload's monitoring group, which may not exist yet."""
    members: Counter[str] = field(default_factory=Counter)
    """Control group → threads in it, the root group left out."""
    threads: int = 0

    def moves(self) -> Counter[str]:
        """Control group → threads to be moved into it."""
        return Counter(m.group for m in self.misplaced)

    def names(self) -> set[str]:
        """Names of the workloads."""
        return {name for name, _ in self.workloads}


def survey(node: Node, belonging: Belonging, below: str = "/") -> Survey:
    """A survey of the cgroup ``below`` and all below it, in one go."""
    result = Survey()
    for _ in survey_steps(node, belonging, result, below):
        pass
    return result


def survey_steps(node: Node, belonging: Belonging, into: Survey, below: str = "/") -> Iterator[None]:
    """Fills ``into``, and yields now and then so that events are not kept waiting.

    Threads that appear or move meanwhile look misplaced at first; what is still out of place at the end, on a second
    look, is. Raises ResctrlError when the groups cannot be read.
    """
    look = _Look(node, belonging.rules, belonging.managed, belonging.monitoring, into)
    yield from look.read_groups()
    into.members.update(look.placed.values())
    for number, cgroup in enumerate(walk(node.hierarchy.mount, below)):
        if number % CGROUPS_A_STEP == CGROUPS_A_STEP - 1:
            yield
        threads = look.threads(cgroup.path)
        if threads:
            into.threads += len(threads)
            look.compare(cgroup.path, threads)
    if into.misplaced or into.unmonitored:
        yield from look.read_groups()
        look.confirm()


def out_of_place(target: Target | None, actual: str, managed: frozenset[str]) -> bool:
    """Whether a thread in the group ``actual`` is to be moved; one that no rule claims, only out of a managed group."""
    return actual in managed if target is None else actual != target.group


@dataclass(slots=True)
class _Look:
    node: Node
    rules: RuleBook
    managed: frozenset[str]
    monitoring: Mapping[str, MonitoringGroup]
    into: Survey
    placed: dict[int, str] = field(default_factory=dict)
    """Thread → control group."""
    measured: dict[str, dict[int, str]] = field(default_factory=dict)
    """Control group → thread → monitoring group, of those control groups that have some of ours."""

    def read_groups(self) -> Iterator[None]:
        """There may be hundreds of monitoring groups, and the kernel walks all tasks for each."""
        self.placed = self.node.membership()
        yield
        self.measured = {}
        for control in {group.control for group in self.monitoring.values()}:
            members = self.measured[control] = {}
            for name in self.node.resctrl.monitoring_groups(control):
                members.update(dict.fromkeys(self.node.members(MonitoringGroup(control, name).path), name))
                yield

    def threads(self, path: str) -> list[int]:
        hierarchy = self.node.hierarchy
        return read_threads(hierarchy.mount, path, hierarchy.threads_file) or []

    def compare(self, path: str, threads: list[int]) -> None:
        for target, claimed in self._by_target(self.rules.judge_cgroup(path), threads):
            if target is not None:
                self._count(target, len(claimed))
            for tid in claimed:
                thread = Misplaced(tid, path, target, self.placed.get(tid, ""))
                if out_of_place(target, thread.actual, self.managed):
                    self.into.misplaced.append(thread)
                elif target is not None and self._is_unmonitored(target, tid):
                    self.into.unmonitored.append(thread)

    def confirm(self) -> None:
        """Drops what has died, moved or been placed since it was seen."""
        found = (*self.into.misplaced, *self.into.unmonitored)
        present = {path: set(self.threads(path)) for path in {thread.path for thread in found}}
        still = {m.tid for m in found if m.tid in present[m.path] and self.placed.get(m.tid, "") == m.actual}
        self.into.misplaced = [thread for thread in self.into.misplaced if thread.tid in still]
        self.into.unmonitored = [
            thread
            for thread in self.into.unmonitored
            if thread.tid in still and thread.target is not None and self._is_unmonitored(thread.target, thread.tid)
        ]

    def _is_unmonitored(self, target: Target, tid: int) -> bool:
        if not target.monitored:
            return False
        group = self.monitoring.get(target.workload)
        if group is None or group.control != target.group:
            return True
        return to_be_monitored(self.measured.get(group.control, {}).get(tid, ""), group, self.monitoring.values())

    def _by_target(self, verdict: Verdict, threads: list[int]) -> Iterator[tuple[Target | None, list[int]]]:
        if not verdict.candidates:
            yield verdict.otherwise, threads
            return
        for tid in threads:
            pid = process_of(self.node.proc, tid)
            program = read_program(self.node.proc, pid) if pid is not None else None
            if program is not None:
                yield self.rules.judge(verdict, program), [tid]

    def _count(self, target: Target, threads: int) -> None:
        key = (target.workload, target.class_name)
        workload = self.into.workloads.get(key)
        if workload is None:
            workload = self.into.workloads[key] = Workload(target.workload, target.class_name, target.rule.label)
        workload.threads += threads
