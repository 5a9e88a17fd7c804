"""As many guests at once as the machine carries: one for each CPU, and memory for each."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
def slot() -> Iterator[None]:
    """Have one of the slots, which other processes of this user's respect too; waits in a line for it."""
    with exclusive(cache.slots() / "line"):
        taken = _first_free()
    try:
        yield
    finally:
        os.close(taken)


def _first_free() -> int:
    while True:
        for number in range(count()):
            taken = try_exclusive(cache.slots() / str(number))
            if taken is not None:
                return taken
        time.sleep(LOOKS_EVERY_S)
