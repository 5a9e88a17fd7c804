"""Getting a place ready to be mounted on, and knowing what is missing for FUSE."""

import errno
from pathlib import Path

from agent.emulator.errors import EmulatorError
from agent.emulator.fuse import DEVICE, unmount
from agent.resctrl.mount import resctrl_at

_NAMED = 3
"""How many of the entries that are in the way are named."""


def require_fuse(device: Path = DEVICE) -> None:
    """Raises EmulatorError when the kernel offers no FUSE here."""
    if not device.exists():
        raise EmulatorError(
            f"{device} does not exist: load the module (modprobe fuse), or give the container the device"
        )


def prepare(mountpoint: Path) -> str | None:
    """Make ``mountpoint`` a directory that can be mounted on; returns what had to be cleared up, or None.

    What an emulator left behind that was killed is unmounted; one that still answers is left alone, and so is a
    directory that anything is in, which mounting would hide. Raises EmulatorError.
    """
    cleared = None
    if _is_stale(mountpoint):
        unmount(mountpoint)
        cleared = f"{mountpoint}: unmounted what an emulator had left behind that was killed"
    if resctrl_at(Path("/proc/self/mountinfo").read_text(), mountpoint):
        raise EmulatorError(
            f"{mountpoint}: a resctrl filesystem is mounted here already; unmount it, or name another place"
        )
    _make_empty_directory(mountpoint)
    return cleared


def _make_empty_directory(mountpoint: Path) -> None:
    try:
        mountpoint.mkdir(parents=True, exist_ok=True)
        names = sorted(entry.name for entry in mountpoint.iterdir())
    except FileExistsError as error:
        raise EmulatorError(f"{mountpoint}: this is a file; name an empty directory, or a new one") from error
    if names:
        found = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        raise EmulatorError(
            f"{mountpoint}: not empty: there is {found}, which the mount would hide; "
            "name an empty directory, or a new one"
        )


def _is_stale(mountpoint: Path) -> bool:
    """Whether a FUSE filesystem is mounted here that nobody serves any more."""
    try:
        mountpoint.stat()
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            return True
        if error.errno != errno.ENOENT:
            raise
    return False
