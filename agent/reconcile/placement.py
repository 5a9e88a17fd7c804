"""Placing threads: the fast path for one cgroup or one process, which is also how the full pass heals.

What is done depends on what is there, never on the event that led here: the threads that are in a cgroup now are
compared with the group they belong in, and the difference is written. A thread inherits its group from the thread that
creates it, and the kernel copies the ids early in fork, before the child can be seen. So after every write the
cgroup is read again, until all threads that a reading finds new are alive and in their place. One that has died in
between may have had a child first, with the group that it had then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent.reconcile.node import Node
from agent.reconcile.rules import Target, Verdict
from agent.reconcile.survey import Belonging
from agent.resctrl.filesystem import Tasks
from agent.resctrl.monitoring_group import MonitoringGroup
from agent.tasks.cgroups import read_threads
from agent.tasks.process import cgroup_of, process_of, read_program, threads_of

MAX_PASSES = 10
"""Readings of one cgroup before the rest is left for later: something in it forks faster than we place."""

WRITE_UNASKED_PASSES = 4
WRITE_UNASKED_THREADS = 64
"""In the first passes so many new threads are written without asking where they are: a write costs less than the
question, and writing a thread that is in place already is harmless. After that the answer is needed, to tell threads
that inherit their group from threads that have yet to be placed."""


@dataclass(slots=True)
class Outcome:
    """What placing one cgroup or process did."""

    path: str
    moved: list[tuple[Target | None, int]] = field(default_factory=list)
    """How many threads went to which target; None: to the root group, since no rule claims them any more."""
    complete: bool = True
    """False: threads were still found out of place after MAX_PASSES readings, or could not be moved."""
    monitored: int = 0
    """Threads put into their workload's monitoring group."""
    failures: dict[int, str] = field(default_factory=dict)
    """Thread → why the kernel refused."""

    @property
    def threads(self) -> int:
        """Threads moved, over all targets."""
        return sum(count for _, count in self.moved)


class Placement:
    """Puts threads where they belong. Keeps the groups' ``tasks`` files open."""

    def __init__(self, node: Node, belonging: Belonging) -> None:
        self.node = node
        self.rules = belonging.rules
        self.managed = belonging.managed - {""}
        self.monitoring = belonging.monitoring
        self.leave: Mapping[int, str] = {}
        """Threads that are left to somebody else → the group that they are kept out of."""
        self._files: dict[str, Tasks] = {}

    def close(self) -> None:
        """Closes the ``tasks`` files; those that are needed again are opened anew."""
        for tasks in self._files.values():
            tasks.close()
        self._files.clear()

    def forget(self, group: str) -> None:
        """Closes the ``tasks`` file of a group that is gone, or is another one by now."""
        tasks = self._files.pop(group, None)
        if tasks is not None:
            tasks.close()

    def monitor_of(self, target: Target | None) -> MonitoringGroup | None:
        """The monitoring group for threads of this target; None where they are in none, or it is not there yet."""
        group = self.monitoring.get(target.workload) if target else None
        return group if target and group and group.control == target.group else None

    def place(self, path: str) -> Outcome:
        """Every thread in the cgroup itself (not below it) to where it belongs, except those in ``leave``.

        Raises GroupGoneError when a class's group was removed under us, ResctrlError for what is not about one thread.
        """
        verdict = self.rules.judge_cgroup(path)
        hierarchy = self.node.hierarchy

        def read() -> list[int]:
            return read_threads(hierarchy.mount, path, hierarchy.threads_file) or []

        if verdict.candidates:
            return self._converge(path, read, lambda threads: self._judged(verdict, threads))
        return self._converge(path, read, lambda threads: [(verdict.otherwise, threads)])

    def place_process(self, pid: int) -> Outcome:
        """Every thread of the process, judged anew, as after an exec."""
        proc = self.node.proc
        path = cgroup_of(proc, pid, self.node.hierarchy)
        if path is None:
            return Outcome("")
        verdict = self.rules.judge_cgroup(path)
        return self._converge(path, lambda: threads_of(proc, pid), lambda threads: self._judged(verdict, threads))

    def _converge(
        self,
        path: str,
        read: Callable[[], list[int]],
        sort: Callable[[list[int]], list[tuple[Target | None, list[int]]]],
    ) -> Outcome:
        outcome = Outcome(path)
        seen: set[int] = set()
        for number in range(MAX_PASSES):
            unseen = [tid for tid in read() if tid not in seen]
            if not unseen:
                return outcome
            seen.update(unseen)
            ask = number >= WRITE_UNASKED_PASSES or len(unseen) > WRITE_UNASKED_THREADS
            sorted_out = sort(unseen)
            in_place = [self._put(target, threads, outcome, ask=ask) for target, threads in sorted_out]
            if all(in_place) and sum(len(threads) for _, threads in sorted_out) == len(unseen):
                return outcome
        outcome.complete = False
        return outcome

    def _put(self, target: Target | None, threads: list[int], outcome: Outcome, *, ask: bool) -> bool:
        """Writes what is out of place, or with ``ask`` unset everything; returns whether all was in place."""
        if self.leave and target is not None:
            threads = [tid for tid in threads if self.leave.get(tid) != target.group]
        monitor = self.monitor_of(target)
        if target is None:
            threads = self.node.within(threads, self.managed)
        elif monitor is not None:
            return self._put_monitored(target, monitor, threads, outcome)
        elif ask or not target.group:
            threads = self.node.elsewhere(threads, target.group)
        if not threads:
            return True
        moved = self._move(target.group if target else "", threads, outcome)
        if moved:
            outcome.moved.append((target, len(moved)))
        return False

    def _put_monitored(self, target: Target, monitor: MonitoringGroup, threads: list[int], outcome: Outcome) -> bool:
        """First into the control group, which the kernel asks of whoever is to be in a monitoring group below it.

        Always asks: writing a thread to the control group that is in place would take it out of its monitoring group.
        """
        outside = self.node.elsewhere(threads, target.group)
        inside = [tid for tid in threads if tid not in set(outside)]
        loose = self.node.unmonitored(inside, monitor, self.monitoring.values())
        if not outside and not loose:
            return True
        moved = self._move(target.group, outside, outcome) if outside else ()
        if moved:
            outcome.moved.append((target, len(moved)))
        outcome.monitored += len(self._move(monitor.path, [*moved, *loose], outcome))
        return False

    def _move(self, group: str, threads: list[int], outcome: Outcome) -> tuple[int, ...]:
        result = self._tasks(group).move(threads)
        if result.failed:
            outcome.failures.update(result.failed)
            outcome.complete = False
        return result.moved

    def _judged(self, verdict: Verdict, threads: list[int]) -> list[tuple[Target | None, list[int]]]:
        """Threads by where the process of each belongs. Those that are gone are left out."""
        targets: dict[int, Target | None] = {}
        sorted_out: dict[int, tuple[Target | None, list[int]]] = {}
        for tid in threads:
            pid = process_of(self.node.proc, tid)
            if pid is None:
                continue
            if pid not in targets:
                program = read_program(self.node.proc, pid)
                if program is None:
                    continue
                targets[pid] = self.rules.judge(verdict, program)
            target = targets[pid]
            sorted_out.setdefault(id(target), (target, []))[1].append(tid)
        return list(sorted_out.values())

    def _tasks(self, group: str) -> Tasks:
        tasks = self._files.get(group)
        if tasks is None:
            tasks = self._files[group] = self.node.resctrl.open_tasks(group)
        return tasks
