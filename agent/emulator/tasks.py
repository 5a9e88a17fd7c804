"""The ``tasks`` files: moving threads into a group, and listing those that are in it."""

import errno

from agent.emulator import numbers
from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group
from agent.emulator.membership import Membership
from agent.emulator.mounted import Mount
from agent.emulator.schemata import WHITESPACE
from agent.emulator.threads import Caller, Threads


class Tasks:
    """Who is in which group. Group and CLOSID decide, as in the kernel; see ``Groups.heir`` for removed groups."""

    def __init__(self, mount: Mount, membership: Membership, threads: Threads) -> None:
        self._mount = mount
        self._groups = mount.groups
        self._membership = membership
        self._threads = threads

    def write(self, group: Group, caller: Caller, text: str) -> None:
        """Move what ``text`` names, in order, until one fails; those before it stay moved. Raises RefusedError."""
        if not self._mount.rules.takes_task_lists:
            number = _number_before_lock(text)
            self._mount.status.clear()
            self._move(group, caller, number)
            return
        self._mount.status.clear()
        while text and not text.startswith("\n"):
            token, _, text = text.partition(",")
            self._move_listed(group, caller, token.strip(WHITESPACE))

    def read(self, group: Group, caller: Caller) -> str:
        """A line a thread. A control group's includes its monitoring groups'."""
        names = self._threads.names_for(caller, self._members(group))
        return "".join(f"{name}\n" for name in names)

    def _move_listed(self, group: Group, caller: Caller, token: str) -> None:
        try:
            number = numbers.signed(token, 0, 32)
        except (ValueError, OverflowError):
            raise RefusedError(errno.EINVAL, f"Task list parsing error pid {token}\n") from None
        if number < 0:
            raise RefusedError(errno.EINVAL, f"Invalid pid {number}\n")
        try:
            self._move(group, caller, number)
        except RefusedError as error:
            raise RefusedError(error.errno or 0, f"{error.status}Error while processing task {number}\n") from None

    def _move(self, group: Group, caller: Caller, number: int) -> None:
        tid = self._threads.named_by(caller, number) if number else caller.tid
        if tid is None:
            raise RefusedError(errno.ESRCH, f"No task {number}\n")
        if caller.uid != 0 and caller.uid not in self._threads.owners(tid):
            raise RefusedError(errno.EPERM, f"No permission to move task {tid}\n")
        if group.parent and self._groups.of_task(self._membership.group_of(tid)).control is not group.parent:
            raise RefusedError(errno.EINVAL, "Can't move task to different control group\n")
        self._membership.place(tid, group.number)

    def _members(self, group: Group) -> list[int]:
        if not group.parent and not self._mount.machine.can_allocate:
            return []
        exists = self._threads.exists
        if group is not self._groups.root:
            return [tid for tid, number in self._membership.placed() if self._belongs(number, group) and exists(tid)]
        elsewhere = {tid for tid, number in self._membership.placed() if not self._belongs(number, group)}
        return [tid for tid in self._threads.every() if tid not in elsewhere]

    def _belongs(self, number: int, group: Group) -> bool:
        """Whether tasks that were put into group ``number`` are ``group``'s now."""
        owner = self._groups.of_task(number)
        return group in (owner, owner.parent)


def _number_before_lock(text: str) -> int:
    """One id, as kernels without lists read it: a mistake leaves the status as it was."""
    try:
        number = numbers.signed(text.strip(WHITESPACE), 0, 32)
    except (ValueError, OverflowError):
        raise RefusedError(errno.EINVAL) from None
    if number < 0:
        raise RefusedError(errno.EINVAL)
    return number
