"""What goes wrong while the daemon runs: said once, tried again at once the first time, then with patience."""

import time
from collections.abc import Callable

import structlog

log = structlog.get_logger()

RETRY_S = 5.0
"""After so long, what failed for a reason that may pass (a lock, RMIDs in limbo) is tried again."""

SAY_AGAIN_S = 600.0
"""A failure that lasts is said again after so long; one that comes back after so long is news."""


class Trouble:
    """Remembers which failures were said lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def note(self, error: Exception) -> float:
        """Logs the failure if it is news; returns after how many seconds to try again."""
        now, text = self._clock(), _kind(error)
        if now - self._said.get(text, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            log.error(str(error))
            self._said[text] = now
        recent = now - self._last.get(text, -SAY_AGAIN_S) < 2 * RETRY_S
        self._last = {known: at for known, at in self._last.items() if now - at < SAY_AGAIN_S} | {text: now}
        self._said = {known: at for known, at in self._said.items() if known in self._last}
        return RETRY_S if recent else 0.0


def _kind(error: Exception) -> str:
    """What makes two failures the same; a message of the system's may name another task each time."""
    return f"{type(error).__name__} {error.errno}" if isinstance(error, OSError) else str(error)
