"""From an event to threads in their group, and one line in the log for each workload.

Events that come together are merged by cgroup: whatever happened in it, it is looked at once. What could not be
finished is tried again soon, each time a little later.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial

import structlog

from agent.events.event import Event, EventKind, EventSource
from agent.reconcile.placement import Outcome, Placement
from agent.reconcile.rules import Target
from agent.resctrl.errors import ResctrlError
from agent.tasks.process import cgroup_of

log = structlog.get_logger()

FIRST_RETRY_S = 0.02
LONGEST_RETRY_S = 5.0

ATTEMPTS_BEFORE_SAYING_SO = 3
"""A cgroup that forks fast is often finished by the second attempt; that is nobody's concern."""


class FastPath:
    """Places what events point at, with the placement that is in force (none yet: the first full pass finds it all)."""

    def __init__(self, look_at_everything: Callable[[], None], trouble: Callable[[Exception], None]) -> None:
        """``look_at_everything`` asks for a full pass; ``trouble`` takes what is not about one thread."""
        self.placement: Placement | None = None
        self._look_at_everything = look_at_everything
        self._trouble = trouble
        self._known: dict[str, str] = {}
        """Workload → class, of those that the log has told of."""
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._lost = 0

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
        self.take(source.read())
        lost = source.lost()
        if lost != self._lost:
            log.warning("events lost", lost=lost - self._lost)
            self._lost = lost
            if self.placement is not None:
                self.placement.rules.forget_all()  # removals may be among what was lost
            self._look_at_everything()

    def take(self, events: Iterable[Event]) -> None:
        """Places what these events point at."""
        cgroups: dict[str, Event] = {}
        processes: dict[int, Event] = {}
        for event in events:
            match event.kind:
                case EventKind.ATTACHED | EventKind.CGROUP_MADE:
                    cgroups.setdefault(event.path, event)
                case EventKind.CLONED_INTO | EventKind.FORK_RACED:
                    self._note_cgroup_of(event, cgroups)
                case EventKind.EXECED:
                    processes.setdefault(event.tid, event)
                case EventKind.CGROUP_REMOVED:
                    cgroups.pop(event.path, None)
                    self._forget(event.path)
                case EventKind.CGROUP_RENAMED:
                    self._look_at_everything()
        placement = self.placement
        if placement is None:
            return
        for path, event in cgroups.items():
            self._place(path, event)
        for pid, event in processes.items():
            self._attempt(partial(placement.place_process, pid), event)

    def report(self, outcome: Outcome, event: Event | None = None) -> None:
        """Logs what was placed, once for each workload, and arranges for the rest."""
        for target, threads in outcome.moved:
            if target is not None:
                self._log_placed(target, threads, outcome, event)
        if not outcome.complete and outcome.path:
            self._try_again(outcome, attempt=1)

    def _note_cgroup_of(self, event: Event, cgroups: dict[str, Event]) -> None:
        if self.placement is not None:
            node = self.placement.node
            path = cgroup_of(node.proc, event.tid, node.hierarchy)
            if path is not None:
                cgroups.setdefault(path, event)

    def _place(self, path: str, event: Event | None) -> None:
        placement = self.placement
        if placement is not None:
            self._attempt(partial(placement.place, path), event)

    def _attempt(self, place: Callable[[], Outcome], event: Event | None) -> None:
        try:
            outcome = place()
        except ResctrlError as error:
            self._trouble(error)
            return
        if outcome.moved or not outcome.complete:
            self.report(outcome, event)

    def _log_placed(self, target: Target, threads: int, outcome: Outcome, event: Event | None) -> None:
        say = log.debug if self._known.get(target.workload) == target.class_name else log.info
        self._known[target.workload] = target.class_name
        facts: dict[str, object] = {}
        if event is not None:
            done = time.monotonic_ns()
            facts = {
                "cause": event.kind.name.lower(),
                "event_ns": event.time_ns,
                "latency_us": (done - event.time_ns) // 1000,
            }
        say(
            "placed",
            workload=target.workload,
            class_=target.class_name,
            group=target.group,
            rule=target.rule.label,
            cgroup=outcome.path,
            threads=threads,
            **facts,
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
        except ResctrlError as error:
            self._trouble(error)
            return
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
        self._known.pop(path, None)
        retry = self._retries.pop(path, None)
        if retry is not None:
            retry.cancel()
