"""What can go wrong with resctrl, each with the group, what was asked, what the kernel said, and what to do."""

import errno
import os
from collections.abc import Callable

CREATING = "creating it"
"""The operation whose errno have meanings of their own."""

SILENT_REFUSAL = "the kernel gives no reason, as for a domain id that the machine does not have"


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


def refusal(
    group: str, operation: str, error: OSError, status: str | None, groups: Callable[[], list[str]]
) -> ResctrlError:
    """The error of the kind that callers tell apart; ``groups`` is asked for the names only when they run out."""
    number = error.errno or errno.EIO
    making = operation == CREATING
    if gone(error):
        advice = None if group else "resctrl is not mounted there any more"
        return GroupGoneError(group, operation, number, advice=advice)
    if number == errno.EEXIST:
        return GroupExistsError(group, operation, number, status)
    if number in (errno.EPERM, errno.EACCES, errno.EROFS):
        return NotPermittedError(group, operation, number, status, _what_permits(number, making=making))
    if making and number == errno.EBUSY:
        return RmidsInLimboError(group, operation, number, status, "RMIDs of removed groups come free in a while")
    if making and number == errno.ENOSPC and status:
        return _out_of(group, operation, status, groups)
    advice = SILENT_REFUSAL if number == errno.EINVAL and status is None and not making else None
    return ResctrlError(group, operation, number, status, advice)


def _out_of(group: str, operation: str, status: str, groups: Callable[[], list[str]]) -> ResctrlError:
    """ENOSPC has three meanings, which only the text tells apart; kernels differ in its capitals."""
    if "closid" in status.lower():
        names = groups()
        advice = f"{len(names)} control groups besides the root group have them: {', '.join(names)}"
        return OutOfClosidsError(group, operation, errno.ENOSPC, status, advice)
    if "rmid" in status.lower():
        return OutOfRmidsError(group, operation, errno.ENOSPC, status, "remove a group that nobody needs")
    return ResctrlError(group, operation, errno.ENOSPC, status)


def _what_permits(number: int, *, making: bool) -> str:
    if number == errno.EROFS:
        return "resctrl is mounted read-only; `mount -o remount,rw` it (in a container, mount /sys/fs/resctrl writable)"
    if os.geteuid() != 0:
        return "only root may"
    if number == errno.EACCES and making:
        return "the resctrl root directory is not writable (0555) without CAP_DAC_OVERRIDE; `chmod u+w` it first"
    if making:
        return "the kernel makes no control groups here, as on a machine that can only monitor"
    return "a capability or a security module is missing"
