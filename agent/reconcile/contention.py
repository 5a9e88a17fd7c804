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
class _History:
    group: str
    times: int
    """How often the thread was put into the group by a full pass."""
    last_pass: int
    """The last one that found it elsewhere."""


@dataclass(slots=True)
class Contention:
    """How often each thread had to be put back. A thread is its id and start time."""

    start_time: Callable[[int], int | None]
    managed: frozenset[str]
    """Our own groups: nobody else keeps a thread in one of these."""
    _pass: int = 0
    _put_back: dict[tuple[int, int], _History] = field(default_factory=dict)

    def judge(self, misplaced: Iterable[Misplaced]) -> tuple[list[Misplaced], list[Misplaced]]:
        """(those to place, those to leave). To be called once for each full pass; ``placed`` is to follow."""
        self._pass += 1
        place: list[Misplaced] = []
        leave: list[Misplaced] = []
        for thread in misplaced:
            history = self._put_back.get(self._identity(thread))
            if history is not None:
                history.last_pass = self._pass
            fought_over = history is not None and history.times >= PUT_BACK_AT_MOST and history.group == thread.group
            (leave if fought_over and thread.actual not in self.managed else place).append(thread)
        oldest = self._pass - FORGOTTEN_AFTER
        self._put_back = {thread: seen for thread, seen in self._put_back.items() if seen.last_pass > oldest}
        return place, leave

    def placed(self, threads: Iterable[Misplaced]) -> None:
        """These were put into their group just now."""
        for thread in threads:
            identity = self._identity(thread)
            history = self._put_back.get(identity)
            if history is None or history.group != thread.group:
                history = self._put_back[identity] = _History(thread.group, 0, self._pass)
            history.times += 1

    def _identity(self, thread: Misplaced) -> tuple[int, int]:
        return thread.tid, self.start_time(thread.tid) or 0


def contended(left: Iterable[Misplaced]) -> tuple[Contended, ...]:
    """The threads that are left, by workload and the group that holds them."""
    counts: dict[tuple[str, str, str], int] = {}
    for thread in left:
        workload = thread.target.workload if thread.target else thread.path
        class_name = thread.target.class_name if thread.target else ""
        key = (workload, class_name, thread.actual)
        counts[key] = counts.get(key, 0) + 1
    return tuple(Contended(*key, threads) for key, threads in counts.items())
