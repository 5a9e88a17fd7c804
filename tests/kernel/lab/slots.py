"""As many guests at once as the machine carries: one for each CPU, and memory for each."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import cache
from .locks import exclusive, try_exclusive

MEMORY_OF_ONE = 3 << 30
"""A guest's memory, what QEMU needs to translate its code, and some room for the host."""

LOOKS_EVERY_S = 0.1
"""No descriptor becomes ready when one of several locks does; only the first in the line looks."""


def count() -> int:
    """How many guests may run on this machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), memory // MEMORY_OF_ONE))


@contextmanager
def slot() -> Iterator[Path]:
    """Have one of the slots, after those who wait already, and its directory for the logs of the guest."""
    with exclusive(cache.slots() / "line"):
        number, taken = _first_free()
    try:
        directory = cache.slots() / str(number)
        directory.mkdir(exist_ok=True)
        yield directory
    finally:
        os.close(taken)


def _first_free() -> tuple[int, int]:
    """Number of a slot, and the descriptor that holds it."""
    while True:
        for number in range(count()):
            taken = try_exclusive(cache.slots() / f"{number}.lock")
            if taken is not None:
                return number, taken
        time.sleep(LOOKS_EVERY_S)
