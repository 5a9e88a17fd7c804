"""What can go wrong with resctrl, each with the group, what was asked, what the kernel said, and what to do."""

import errno
import os


class NotResctrlError(Exception):
    """The place is no resctrl filesystem and no description of one."""


class MachineError(Exception):
    """A file that describes the machine is missing or reads like nothing a kernel writes. The path comes first."""


class AllocationError(Exception):
    """The machine cannot give what was asked; the message says what was asked and what there is."""


class ResctrlError(Exception):
    """The kernel refused an operation on a group; also the base of the refusals that callers tell apart."""

    def __init__(
        self, group: str, operation: str, number: int, status: str | None = None, advice: str | None = None
    ) -> None:
        """``operation`` as in ``writing "L3:0=5"``; ``status`` is the text of last_cmd_status if it is ours."""
        self.group = group
        self.operation = operation
        self.errno = number
        self.status = status
        parts = (f"{group_text(group)}: {operation} failed", os.strerror(number), status, advice)
        super().__init__(": ".join(part for part in parts if part))


class GroupGoneError(ResctrlError):
    """The group was removed, or resctrl unmounted, before or while it was used (ENOENT, ENODEV)."""


class GroupExistsError(ResctrlError):
    """There is a group, or a file of the kernel's, of this name (EEXIST)."""


class OutOfClosidsError(ResctrlError):
    """Every CLOSID is taken: no control group can be made until another one is removed."""


class OutOfRmidsError(ResctrlError):
    """Every RMID is taken: no group can be made until another one is removed."""


class RmidsInLimboError(ResctrlError):
    """No RMID is free yet, but some will be when what they filled has left the cache (EBUSY). Try again later."""


class NotPermittedError(ResctrlError):
    """The kernel refused for want of rights, or the filesystem is mounted read-only."""


class LockTimeoutError(Exception):
    """Somebody else kept the documented lock on the resctrl root for longer than we were to wait."""


class AlreadyRunningError(Exception):
    """Another agent looks after this mount."""


def gone(error: OSError) -> bool:
    """Whether an error says that the group is no longer there: looked up anew ENOENT, already open ENODEV."""
    return error.errno in (errno.ENOENT, errno.ENODEV)


def group_text(group: str) -> str:
    """What messages call a group; "" is the root group."""
    return f'group "{group}"' if group else "the root group"
