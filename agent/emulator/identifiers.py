"""CLOSIDs and RMIDs: who may have how many, and when one can be had again."""

import errno
import os
from collections import deque
from collections.abc import Callable

LIMBO_SECONDS = 1.0
"""How often the kernel looks whether the cache has forgotten an RMID."""


class ClosidPool:
    """The lowest free CLOSID is the next one given out; 0 belongs to the root group."""

    def __init__(self, count: int) -> None:
        self._free = set(range(1, count))

    def take(self) -> int | None:
        """A CLOSID, or None when all are in use."""
        if not self._free:
            return None
        closid = min(self._free)
        self._free.remove(closid)
        return closid

    def give_back(self, closid: int) -> None:
        """It can be had again at once."""
        self._free.add(closid)


class RmidPool:
    """RMIDs come round in turn; one that was given back rests until the cache has forgotten it.

    ``has_limbo`` is whether there is occupancy to wait for. ``clock`` counts seconds.
    """

    def __init__(self, count: int, *, has_limbo: bool, clock: Callable[[], float]) -> None:
        self._free = deque(range(1, count))
        self._limbo: list[int] = []
        self._has_limbo = has_limbo
        self._clock = clock
        self._next_look = 0.0

    def take(self) -> int:
        """An RMID. Raises OSError: ENOSPC when all are in use, EBUSY when some only rest."""
        self._look()
        if self._free:
            return self._free.popleft()
        code = errno.EBUSY if self._limbo else errno.ENOSPC
        raise OSError(code, os.strerror(code))

    def give_back(self, rmid: int) -> None:
        """Into limbo, or to the end of the queue where there is none."""
        self._look()
        if not self._has_limbo:
            self._free.append(rmid)
            return
        if not self._limbo:
            self._next_look = self._clock() + LIMBO_SECONDS
        self._limbo.append(rmid)

    def _look(self) -> None:
        """The kernel's periodic look, caught up with. Nothing occupies an emulated cache, so all have left it."""
        if self._limbo and self._clock() >= self._next_look:
            self._free.extend(sorted(self._limbo))
            self._limbo.clear()
