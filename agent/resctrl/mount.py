"""Where resctrl is mounted, and mounting it."""

import ctypes
import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from agent.resctrl.errors import NotResctrlError

FSTYPE = "resctrl"
EMULATED_FSTYPE = "fuse.resctrl"
FSTYPES = (FSTYPE, EMULATED_FSTYPE)

OPTIONS = frozenset({"cdp", "cdpl2", "mba_MBps", "debug"})
"""The mount options that are resctrl's own, as opposed to ``rw`` and FUSE's."""

CDP_OPTIONS = {"l3": "cdp", "l2": "cdpl2"}
"""What separates code and data, by the cache's level."""


@dataclass(frozen=True, slots=True)
class MountPoint:
    """A resctrl filesystem that is mounted."""

    path: Path
    options: frozenset[str]
    """Of OPTIONS. An emulated one shows none here."""
    source_fstype: str
    """``resctrl``, or ``fuse.resctrl`` for an emulated one."""


class MountFailure(Enum):
    """Why mounting failed, as far as the error tells."""

    NO_KERNEL_SUPPORT = "no kernel support"
    NOT_PERMITTED = "not permitted"
    OPTION_NOT_SUPPORTED = "option not supported"
    ALREADY_MOUNTED = "already mounted"
    OTHER = "other"


class SeveralResctrlError(NotResctrlError):
    """Which of several emulated filesystems is meant, nobody has said."""


class MountError(Exception):
    """Resctrl could not be mounted: ``reason`` for the program, the message with what to do for people."""

    def __init__(self, reason: MountFailure, message: str) -> None:
        self.reason = reason
        super().__init__(message)


def find_resctrl(mountinfo: str) -> MountPoint | None:
    """The resctrl filesystem among the mounts of a ``/proc/PID/mountinfo``, the kernel's rather than an emulated one.

    A bind mount of a single group is not it. Raises SeveralResctrlError where there are several emulated ones alone.
    """
    kernels = _whole(mountinfo, FSTYPE)
    emulated = _whole(mountinfo, EMULATED_FSTYPE)
    if not kernels and len(emulated) > 1:
        places = ", ".join(str(mount.path) for mount in emulated)
        raise SeveralResctrlError(
            f"resctrl is not mounted, and {len(emulated)} emulated ones are, at {places}: name one with --resctrl"
        )
    return next((_mount_point(mount) for mount in (*kernels, *emulated)), None)


def resctrl_at(mountinfo: str, path: Path) -> MountPoint | None:
    """The resctrl filesystem mounted exactly at ``path``, which is absolute and has no symbolic links in it."""
    found = next((m for m in reversed(list(_mounts(mountinfo))) if m.path == path), None)
    return _mount_point(found) if found and found.fstype in FSTYPES else None


def supported(filesystems: str) -> bool:
    """Whether the kernel can mount resctrl, from ``/proc/filesystems``: it registers only where the CPU has it."""
    return FSTYPE in filesystems.split()


def fstype_of(path: Path) -> str:
    """The type of the filesystem at ``path`` by the name it was mounted with, which tells FUSE filesystems apart.

    Raises OSError where there is no such path.
    """
    descriptor = os.open(path, os.O_PATH)
    try:
        fdinfo = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    finally:
        os.close(descriptor)
    number = dict(line.split(":", 1) for line in fdinfo.splitlines())["mnt_id"].strip()
    mounts = _mounts(Path("/proc/self/mountinfo").read_text())
    return next((m.fstype for m in mounts if m.number == number), "unknown")


def mount_resctrl(path: Path, cdp: frozenset[str], *, mba_mbps: bool) -> None:
    """Mount resctrl at ``path`` with CDP for the given levels (of ``l2``, ``l3``), and counting MiB/s if asked.

    Needs CAP_SYS_ADMIN. Raises MountError.
    """
    options = _options(cdp, mba_mbps=mba_mbps)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"resctrl", os.fsencode(path), b"resctrl", ctypes.c_ulong(0), ",".join(options).encode()) != 0:
        raise _mount_error(path, options, ctypes.get_errno())


def how_to_remount(options: frozenset[str]) -> str:
    """What makes resctrl be mounted with just these of OPTIONS, said to whoever administers the machine."""
    named = ",".join(sorted(options))
    by_unit = ",".join(("nosuid,nodev,noexec", *sorted(options)))
    return (
        f"systemctl edit sys-fs-resctrl.mount, with Options={by_unit} under [Mount], then systemctl restart "
        "sys-fs-resctrl.mount; or by hand, with the agent stopped, umount /sys/fs/resctrl, then mount -t resctrl "
        f"{f'-o {named} ' if named else ''}resctrl /sys/fs/resctrl"
    )


@dataclass(frozen=True, slots=True)
class _Mount:
    number: str
    device: str
    root: str
    path: Path
    fstype: str
    options: frozenset[str]


def _whole(mountinfo: str, fstype: str) -> list[_Mount]:
    """The filesystems of a type, each where it was mounted first."""
    whole = (m for m in _mounts(mountinfo) if m.fstype == fstype and m.root == "/")
    by_device: dict[str, _Mount] = {}
    for mount in whole:
        by_device.setdefault(mount.device, mount)
    return list(by_device.values())


def _mount_point(mount: _Mount) -> MountPoint:
    return MountPoint(mount.path, mount.options & OPTIONS, mount.fstype)


def _mounts(mountinfo: str) -> Iterator[_Mount]:
    """``36 35 0:31 / /sys/fs/resctrl rw,relatime shared:9 - resctrl resctrl rw,cdp``, oldest mount first."""
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, last = before.split(" "), after.split(" ")
        if separator and len(fields) >= 6 and len(last) >= 3:
            path = Path(_unescaped(fields[4]))
            yield _Mount(fields[0], fields[2], fields[3], path, last[0], frozenset(last[2].split(",")))


def _unescaped(field: str) -> str:
    """Blanks and backslashes stand as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _options(cdp: frozenset[str], *, mba_mbps: bool) -> list[str]:
    levels = [option for level, option in CDP_OPTIONS.items() if level in cdp]
    return levels + (["mba_MBps"] if mba_mbps else [])


def _mount_error(path: Path, options: list[str], number: int) -> MountError:
    match number:
        case errno.ENODEV:
            return MountError(MountFailure.NO_KERNEL_SUPPORT, _no_support(path, os.strerror(number)))
        case errno.ENOENT | errno.EPERM | errno.EACCES if not path.exists():
            # The kernel makes /sys/fs/resctrl itself, and only where it has resctrl.
            return MountError(MountFailure.NO_KERNEL_SUPPORT, _no_support(path, "there is no such directory"))
        case errno.EPERM | errno.EACCES:
            advice = "mounting needs root (CAP_SYS_ADMIN); let systemd mount it with sys-fs-resctrl.mount"
            return MountError(MountFailure.NOT_PERMITTED, f"cannot mount resctrl at {path}: {advice}")
        case errno.EINVAL if options:
            return MountError(MountFailure.OPTION_NOT_SUPPORTED, _unsupported(path, options))
        case errno.EBUSY:
            return MountError(MountFailure.ALREADY_MOUNTED, _busy(path, options))
        case _:
            return MountError(MountFailure.OTHER, f"cannot mount resctrl at {path}: {os.strerror(number)}")


def _no_support(path: Path, why: str) -> str:
    return (
        f"cannot mount resctrl at {path}: {why}; this kernel has no resctrl here. It needs CONFIG_X86_CPU_RESCTRL=y, "
        "a CPU with cat_l3, cat_l2, mba or cqm among its flags in /proc/cpuinfo, and no rdt=! option in /proc/cmdline "
        "that turns them off; virtual machines seldom have it. `resctrl-agent emulate` serves to try things out"
    )


_NEEDS = {
    "cdp": "cdp (resctrl.cdp: [l3]) needs a CPU with the flag cdp_l3",
    "cdpl2": "cdpl2 (resctrl.cdp: [l2]) needs a CPU with the flag cdp_l2 and Linux 4.16",
    "mba_MBps": "mba_MBps (resctrl.bandwidth: MBps) needs Linux 4.18 and an Intel CPU with the flags mba and "
    "cqm_mbm_local",
}


def _unsupported(path: Path, options: list[str]) -> str:
    needs = "; ".join(_NEEDS[option] for option in options)
    return f"cannot mount resctrl at {path} with {','.join(options)}: this machine does not support it: {needs}"


def _busy(path: Path, options: list[str]) -> str:
    asked = f" with {','.join(options)}" if options else ""
    mounted = _whole(Path("/proc/self/mountinfo").read_text(), FSTYPE)
    if not mounted:
        where = "it is mounted already, in another mount namespace or by another name"
    else:
        having = ",".join(sorted(mounted[0].options & OPTIONS)) or "no options"
        where = f"it is mounted already at {mounted[0].path} with {having}"
    return (
        f"cannot mount resctrl at {path}{asked}: {where}. To change the options unmount it first, "
        "which removes every group and limit"
    )
