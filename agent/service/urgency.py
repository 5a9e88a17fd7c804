"""Going before others, for the microseconds that placing a thread takes.

What the agent does late leaves work in the wrong class, and containers start when the machine is busy. A nice value
would not help: it counts within a cgroup or session only. So events are handled under a real-time policy. Whatever
takes long (a full pass) is done without it, so that the agent never keeps a CPU from the work that it serves.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

PRIORITY = 1
"""The lowest real-time priority: before everything ordinary, after everything else that is real-time."""


class Urgency:
    """Whether this process may go before others, and the switch for it."""

    def __init__(self) -> None:
        self.granted = False

    def take(self) -> None:
        """Go before others from now on, where that is permitted (CAP_SYS_NICE, or LimitRTPRIO=1 in the unit).

        Children do not inherit it. A policy that somebody chose for this process stays as it is.
        """
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            self.granted = _set(os.SCHED_RR | os.SCHED_RESET_ON_FORK, PRIORITY)

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """For what takes long."""
        if not self.granted:
            yield
            return
        # With the flag, since giving that up would take CAP_SYS_NICE.
        _set(os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, 0)
        try:
            yield
        finally:
            self.granted = _set(os.SCHED_RR | os.SCHED_RESET_ON_FORK, PRIORITY)


def _set(policy: int, priority: int) -> bool:
    try:
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    except PermissionError:
        return False
    return True
