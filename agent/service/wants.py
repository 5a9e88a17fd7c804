"""What the worker is asked to see to: a set, so that asking twice is asking once."""

import asyncio
from enum import IntEnum


class Want(IntEnum):
    """In the order in which the worker sees to them."""

    STOP = 0
    WATCHDOG = 1
    """Tell the service manager that the worker gets its turn."""
    REOPEN = 2
    """resctrl was unmounted, or mounted again."""
    RELOAD = 3
    """The policy may have changed."""
    CORRECT = 4
    """Groups or schemata may not be as the policy says."""
    PASS = 5
    """Tasks may not be where they belong."""
    MONITOR = 6
    """Workloads came or went, so that monitoring groups may be missing or left over."""


class Wants:
    """Merges what is asked for until the worker takes it."""

    def __init__(self) -> None:
        self._asked: set[Want] = set()
        self._some = asyncio.Event()

    def ask(self, *wants: Want) -> None:
        """Note what is wanted, and wake the worker."""
        self._asked.update(wants)
        self._some.set()

    async def take(self) -> Want:
        """The first of what is wanted, waiting for something to be."""
        await self._some.wait()
        first = min(self._asked)
        self._asked.remove(first)
        if not self._asked:
            self._some.clear()
        return first
