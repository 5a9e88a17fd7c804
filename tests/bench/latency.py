"""From the kernel's event to the return of the last write: measured from outside, the same for whoever places."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.events.event import EventKind
from agent.events.kernel import KernelEvents
from agent.service.urgency import PRIORITY
from tests.bench.stage import HIERARCHY, Job
from tests.emulated.cgroup_tree import Tree
from tests.emulated.running_agent import until
from tests.emulated.witness import Witness

SETTLE_S = 0.1
"""Making cgroups makes events too; what is measured begins when they are through."""

_NUMBERS = count()
"""Cgroups of different moves have different names: process ids are given again."""


@dataclass
class Stopwatch:
    """Watches one placer from entering to leaving the ``with`` block."""

    placer: int
    tree: Tree
    attached_ns: dict[str, int] = field(default_factory=dict)
    """By cgroup: the kernel's time of the first attach event. Its own record, by the program that the placers use."""

    def __enter__(self) -> Self:
        self._events = KernelEvents.open(HIERARCHY.id)
        self._witness = Witness(self.placer).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._witness.__exit__(kind, error, trace)
        self._events.close()

    def latencies_us(self, jobs: Sequence[Job], into: str, gap_s: float) -> list[float]:
        """Puts each job into a cgroup of its own below ``into``, so long after the one before; how long each took."""
        names = [f"{into}/{next(_NUMBERS)}" for _ in jobs]
        self._witness.read()
        self._witness.placed_ns.clear()  # ids are given again
        entrances = [self.tree.make(name) / "cgroup.procs" for name in names]
        time.sleep(SETTLE_S)
        self._move(jobs, entrances, gap_s)
        tids = set().union(*(job.threads for job in jobs))
        until(lambda: self._all_placed(tids), "every thread is written")
        self._read_events()
        return [
            (max(self._witness.placed_ns[tid] for tid in job.threads) - self.attached_ns[self.tree.cgroup(name)]) / 1000
            for job, name in zip(jobs, names, strict=True)
        ]

    def _move(self, jobs: Sequence[Job], entrances: Sequence[Path], gap_s: float) -> None:
        with ExitStack() as stack:
            files = [stack.enter_context(entrance.open("wb", buffering=0)) for entrance in entrances]
            if not gap_s:
                stack.enter_context(_before_placers())
            for job, file in zip(jobs, files, strict=True):
                file.write(b"%d" % job.pid)
                if gap_s:
                    time.sleep(gap_s)

    def _all_placed(self, tids: set[int]) -> bool:
        self._witness.read()
        return tids <= self._witness.placed_ns.keys()

    def _read_events(self) -> None:
        for event in self._events.read():
            if event.kind is EventKind.ATTACHED:
                self.attached_ns.setdefault(event.path, event.time_ns)


@contextmanager
def _before_placers() -> Iterator[None]:
    """A storm that a placer on the same core can interrupt is none: each move would wait for the one before it."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY + 1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)
