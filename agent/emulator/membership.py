"""Which group each task is in, by the group's number. A task that is not mentioned is in the root group."""

from collections.abc import Iterator
from typing import Protocol

from agent.emulator.groups import ROOT_NUMBER


class Membership(Protocol):
    """Tasks are named by their global thread ids."""

    def place(self, tid: int, group: int) -> None:
        """Put a thread into a group."""

    def group_of(self, tid: int) -> int:
        """The number of the group that the thread was put into, or inherited."""

    def placed(self) -> Iterator[tuple[int, int]]:
        """Thread id and group of each that is mentioned; some of the threads may be dead by now."""


class RememberedMembership:
    """Membership in this process's memory: children inherit nothing."""

    def __init__(self) -> None:
        self._groups: dict[int, int] = {}

    def place(self, tid: int, group: int) -> None:
        """Put a thread into a group."""
        self._groups[tid] = group

    def group_of(self, tid: int) -> int:
        """The group it was put into."""
        return self._groups.get(tid, ROOT_NUMBER)

    def placed(self) -> Iterator[tuple[int, int]]:
        """All that were ever put anywhere."""
        return iter(self._groups.items())
