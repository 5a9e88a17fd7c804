"""From an event to threads in their group, and one line in the log for each workload.

Events that come together are merged by cgroup: whatever happened in it, it is looked at once. What could not be
finished is tried again soon, each time a little later.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import structlog

from agent.events.event import Event, EventKind, EventSource
from agent.reconcile.actions import MoveMonitoring
from agent.reconcile.placement import Outcome, Placement
from agent.reconcile.rules import Target
from agent.resctrl.errors import ResctrlError
from agent.tasks.process import cgroup_of, children_of

log = structlog.get_logger()

K = TypeVar("K", str, int)

READINGS_BEFORE_THE_LOG = 16
"""A line in the log takes longer than placing does, so it waits until no event does, but not through an endless storm:
others in the event loop want their turn."""

LOOK_SETTLE_S = 0.1
"""What leads to a look at everything often comes in numbers; one look does for all."""

GONE_SETTLE_S = 1.0
"""Programs that are gone before they can be placed come in greater numbers still, and seldom leave anybody behind."""

MOST_OFFSPRING = 64
"""Processes placed for one exec; the rest is left to a look at everything, which is no real-time work."""

SAY_LOST_AGAIN_S = 10.0

FIRST_RETRY_S = 0.02
LONGEST_RETRY_S = 5.0

ATTEMPTS_BEFORE_SAYING_SO = 3
"""A cgroup that forks fast is often finished by the second attempt; that is nobody's concern."""


class FastPath:
    """Places what events point at, with the placement that is in force (none yet: the first full pass finds it all)."""

    def __init__(
        self,
        look_at_everything: Callable[[float], None],
        monitor: Callable[[], None],
        trouble: Callable[[Exception], None],
    ) -> None:
        """``look_at_everything`` asks for a full pass in so many seconds, ``monitor`` for a look at monitoring groups.

        ``trouble`` takes other failures.
        """
        self.placement: Placement | None = None
        self.without_group: frozenset[str] = frozenset()
        """Workloads that could not get a monitoring group; they are tried again by the clock, not by their events."""
        self._monitor = monitor
        self._unmonitored: set[str] = set()
        self._look_at_everything = look_at_everything
        self._trouble = trouble
        self._known: dict[str, str] = {}
        """Workload → class, of those that the log has told of."""
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._lost = 0
        self._lost_said = 0
        self._lost_said_at = -SAY_LOST_AGAIN_S
        self._paths: dict[int, str] = {}
        """Cgroup id → path, of cgroups that were made while we looked: births in them name the id only."""
        self._placed: list[tuple[Outcome, Event, int]] = []
        """What is to be reported yet: what was done, why, and when by the clock of events."""

    def use(self, placement: Placement) -> None:
        """Rules have changed: every workload is news again, and what was to be tried again is looked at anyway."""
        self.placement = placement
        self._known.clear()
        self._drop_retries()

    def rest(self) -> None:
        """Nothing is in force: events are taken in and dropped until ``use`` is called."""
        self.placement = None
        self._drop_retries()

    def drain(self, source: EventSource) -> None:
        """Takes in everything that waits in ``source``."""
        for _ in range(READINGS_BEFORE_THE_LOG):
            events = source.read()
            if not events:
                break
            try:
                self._take(events)
            except OSError as error:  # what of these events was not looked at yet is found by looking at everything
                self._trouble(error)
        self._report_placed()
        lost = source.lost()
        if lost != self._lost:
            self._say_lost(lost)
            self._lost = lost
            self._paths.clear()
            if self.placement is not None:
                self.placement.rules.forget_all()  # removals may be among what was lost
            self._look_at_everything(LOOK_SETTLE_S)

    def report(self, outcome: Outcome, event: Event | None = None, done_ns: int = 0) -> None:
        """Logs what was placed, once for each workload, and arranges for the rest.

        ``event`` led to it (None: a full pass did it), and ``done_ns`` is when it was done, by the clock of events.
        """
        self._report_moved(outcome, _cause(event, done_ns))
        if not outcome.complete and outcome.path:
            self._try_again(outcome, attempt=1)

    def report_carried(self, action: MoveMonitoring, threads: int) -> None:
        """Logs a workload that changed class at once, with its monitoring group."""
        target = self.placement.rules.target_of(action.workload) if self.placement else None
        if target is not None and threads:
            self._log_placed(target, threads, Outcome(action.workload), {"cause": "group_moved"})

    def take_unmonitored(self) -> set[str]:
        """Workloads that came and have no monitoring group yet, though they are to have one; each is told once."""
        taken, self._unmonitored = self._unmonitored, set()
        return taken

    def _report_moved(self, outcome: Outcome, cause: Mapping[str, object]) -> None:
        for target, threads in outcome.moved:
            if target is not None:
                self._log_placed(target, threads, outcome, cause)
                self._note_unmonitored(target)

    def _note_unmonitored(self, target: Target) -> None:
        waits = target.workload in self.without_group
        if self.placement and target.monitored and not waits and self.placement.monitor_of(target) is None:
            self._unmonitored.add(target.workload)
            self._monitor()

    def _take(self, events: Iterable[Event]) -> None:
        cgroups: dict[str, Event] = {}
        processes: dict[int, Event] = {}
        for event in events:
            if event.kind in _ENTERED and event.path:
                cgroups.setdefault(event.path, event)
                if event.cgroup_id:
                    self._paths[event.cgroup_id] = event.path
            else:
                self._note(event, cgroups, processes)
        placement = self.placement
        if placement is None:
            return
        for path, event in cgroups.items():
            self._attempt(placement.place, path, event)
        for pid, event in processes.items():
            self._place_program(placement, pid, event)

    def _place_program(self, placement: Placement, pid: int, event: Event) -> None:
        """A process that has execed, and the children that it had before it could be placed.

        One that is gone already may have left children to somebody else, as daemons do, and so may any of them that
        is: only a look at everything finds those.
        """
        before = len(self._placed)
        waiting = [pid]
        for _ in range(MOST_OFFSPRING):
            if not waiting:
                break
            process = waiting.pop()
            self._attempt(placement.place_process, process, event)
            offspring = children_of(placement.node.proc, process)
            if offspring is None:
                self._look_at_everything(GONE_SETTLE_S)
            else:
                waiting += offspring
        if waiting or len(self._placed) > before:
            self._look_at_everything(GONE_SETTLE_S)

    def _say_lost(self, lost: int) -> None:
        """At most once in a while: whoever can make cgroups can make the kernel drop events of them."""
        now = time.monotonic()
        if now - self._lost_said_at >= SAY_LOST_AGAIN_S:
            log.warning("events lost", lost=lost - self._lost_said)
            self._lost_said, self._lost_said_at = lost, now

    def _note(self, event: Event, cgroups: dict[str, Event], processes: dict[int, Event]) -> None:
        match event.kind:
            case EventKind.CLONED_INTO | EventKind.FORK_RACED | EventKind.ATTACHED:
                self._note_cgroup_of(event, cgroups)
            case EventKind.EXECED:
                processes.setdefault(event.tid, event)
            case EventKind.CGROUP_REMOVED:
                cgroups.pop(event.path, None)
                self._report_placed()  # before it is forgotten
                self._paths.pop(event.cgroup_id, None)
                self._forget(event.path)
            case EventKind.CGROUP_RENAMED:
                self._paths.clear()
                self._look_at_everything(LOOK_SETTLE_S)

    def _note_cgroup_of(self, event: Event, cgroups: dict[str, Event]) -> None:
        """The task may have died since, perhaps not without children: the cgroup's id names the place all the same."""
        if self.placement is None:
            return
        node = self.placement.node
        path = self._paths.get(event.cgroup_id) or cgroup_of(node.proc, event.tid, node.hierarchy)
        if path is None:
            self._look_at_everything(LOOK_SETTLE_S)
        else:
            cgroups.setdefault(path, event)

    def _attempt(self, place: Callable[[K], Outcome], what: K, event: Event) -> None:
        try:
            outcome = place(what)
        except (ResctrlError, OSError) as error:
            self._trouble(error)
            return
        if outcome.moved or not outcome.complete:
            self._placed.append((outcome, event, time.monotonic_ns()))

    def _report_placed(self) -> None:
        placed, self._placed = self._placed, []
        for outcome, event, done_ns in placed:
            self.report(outcome, event, done_ns)

    def _log_placed(self, target: Target, threads: int, outcome: Outcome, cause: Mapping[str, object]) -> None:
        say = log.debug if self._known.get(target.workload) == target.class_name else log.info
        self._known[target.workload] = target.class_name
        say(
            "placed",
            workload=target.workload,
            class_=target.class_name,
            group=target.group,
            rule=target.rule.label,
            cgroup=outcome.path,
            threads=threads,
            **cause,
        )

    def _try_again(self, outcome: Outcome, attempt: int) -> None:
        path = outcome.path
        if path in self._retries:
            return
        if attempt == ATTEMPTS_BEFORE_SAYING_SO:
            self._log_partial(outcome)
        delay = min(FIRST_RETRY_S * 2 ** (attempt - 1), LONGEST_RETRY_S)
        self._retries[path] = asyncio.get_running_loop().call_later(delay, self._retry, path, attempt)

    def _retry(self, path: str, attempt: int) -> None:
        del self._retries[path]
        placement = self.placement
        if placement is None:
            return
        try:
            outcome = placement.place(path)
        except (ResctrlError, OSError) as error:
            self._trouble(error)
            return
        self._report_moved(outcome, {})
        if not outcome.complete:
            self._try_again(outcome, attempt + 1)

    def _log_partial(self, outcome: Outcome) -> None:
        placement = self.placement
        target = placement.rules.judge_cgroup(outcome.path).otherwise if placement else None
        reasons = set(outcome.failures.values()) or {"it creates threads faster than they can be placed"}
        log.warning(
            "partial",
            workload=target.workload if target else outcome.path,
            class_=target.class_name if target else "",
            cgroup=outcome.path,
            reason="; ".join(sorted(reasons)),
        )

    def _drop_retries(self) -> None:
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()

    def _forget(self, path: str) -> None:
        if self.placement is not None:
            self.placement.rules.forget(path)
            if path in self.placement.monitoring:
                self._monitor()
        self._known.pop(path, None)
        retry = self._retries.pop(path, None)
        if retry is not None:
            retry.cancel()


_ENTERED = frozenset({EventKind.ATTACHED, EventKind.CGROUP_MADE})


def _cause(event: Event | None, done_ns: int) -> dict[str, object]:
    if event is None:
        return {}
    return {
        "cause": event.kind.name.lower(),
        "event_ns": event.time_ns,
        "latency_us": (done_ns - event.time_ns) // 1000,
    }
