"""Getting a place ready to be mounted on, and knowing what FUSE needs that is missing."""

import ctypes.util
import errno
import subprocess
from pathlib import Path

from agent.resctrl.mount import resctrl_at


class EmulatorError(Exception):
    """The emulator cannot run here; the message says why and what to do."""


def require_fuse(device: Path = Path("/dev/fuse")) -> None:
    """Raises EmulatorError when the kernel's part of FUSE or libfuse 3 is missing."""
    if ctypes.util.find_library("fuse3") is None:
        raise EmulatorError("libfuse 3 is not installed: install fuse3 (Debian, Ubuntu, Fedora)")
    if not device.exists():
        raise EmulatorError(
            f"{device} does not exist: load the module (modprobe fuse), or give the container the device"
        )


def prepare(mountpoint: Path) -> str | None:
    """Make ``mountpoint`` a directory that can be mounted on; returns what had to be cleared up, or None.

    What an emulator left behind that was killed is unmounted; one that still answers is left alone. Raises
    EmulatorError.
    """
    cleared = None
    if _is_stale(mountpoint):
        subprocess.run(["fusermount3", "-u", "-z", mountpoint], check=True)
        cleared = f"{mountpoint}: unmounted what an emulator had left behind that was killed"
    if resctrl_at(Path("/proc/self/mountinfo").read_text(), mountpoint):
        raise EmulatorError(
            f"{mountpoint}: a resctrl filesystem is mounted here already; unmount it, or name another place"
        )
    mountpoint.mkdir(parents=True, exist_ok=True)
    return cleared


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
