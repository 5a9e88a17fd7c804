"""Two masters: threads that somebody keeps taking out of the group we put them in.

A thread that is found elsewhere again and again is put back three times; then it is left where it is and reported,
until the policy changes or the thread stays in its place for a while.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agent.reconcile.survey import Misplaced

PUT_BACK_AT_MOST = 3
"""Corrections of one thread before it is left to the other side."""

FORGOTTEN_AFTER = 10
"""Full passes in a row that must find a thread in its place before its corrections are forgotten."""


@dataclass(frozen=True, slots=True)
class Contended:
    """A workload some of whose threads are left to somebody else."""

    workload: str
    class_name: str
    other_group: str
    threads: int


@dataclass(slots=True)
class Contention:
    """How often each thread had to be put back. A thread is its id and start time."""

    start_time: Callable[[int], int | None]
    _pass: int = 0
    _put_back: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Thread → (how often it was put back, the last pass that found it out of place)."""

    def judge(self, misplaced: Iterable[Misplaced]) -> tuple[list[Misplaced], list[Misplaced]]:
        """(those to place, those to leave), counting the former. To be called once for each full pass."""
        self._pass += 1
        place: list[Misplaced] = []
        leave: list[Misplaced] = []
        for thread in misplaced:
            started = self.start_time(thread.tid)
            if started is None:
                continue
            times, _ = self._put_back.get((thread.tid, started), (0, 0))
            left = times >= PUT_BACK_AT_MOST
            (leave if left else place).append(thread)
            self._put_back[thread.tid, started] = (times if left else times + 1, self._pass)
        oldest = self._pass - FORGOTTEN_AFTER
        self._put_back = {thread: seen for thread, seen in self._put_back.items() if seen[1] > oldest}
        return place, leave


def contended(left: Iterable[Misplaced]) -> tuple[Contended, ...]:
    """The threads that are left, by workload and the group that holds them."""
    counts: dict[tuple[str, str, str], int] = {}
    for thread in left:
        workload = thread.target.workload if thread.target else thread.path
        class_name = thread.target.class_name if thread.target else ""
        key = (workload, class_name, thread.actual)
        counts[key] = counts.get(key, 0) + 1
    return tuple(Contended(*key, threads) for key, threads in counts.items())
