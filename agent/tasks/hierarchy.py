"""Which cgroup hierarchy to follow: one of those that /proc/self/mountinfo lists, and its id in the kernel.

A machine may have cgroup v2 alone, several v1 hierarchies, or both side by side (hybrid). Container runtimes and
systemd put a task into every hierarchy they use, so following one is enough, as long as it is one that they use.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

USUAL_MOUNT = Path("/sys/fs/cgroup")

FOLLOWED_V1 = ("name=systemd", "memory", "cpu", "pids", "cpuset", "cpuacct", "blkio", "devices", "freezer")
"""v1 hierarchies by preference: systemd's own holds every unit; the rest are those that the kubelet creates pods in."""

ROOT_CGROUP_ID = 1
"""Inode of a hierarchy's root directory: the first that kernfs hands out."""

INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of include/linux/proc_ns.h: the inode of the first pid namespace, the same on every boot."""

FOREIGN_PID_NAMESPACE = (
    "running inside a pid namespace: the thread ids in kernel events and cgroup files are the host's, and mean other "
    "threads or none in here. Run on the host, or set `hostPID: true` in the pod's spec (docker: `--pid=host`)"
)
"""Why the agent refuses to run where ``in_initial_pid_namespace`` is false."""


class NoHierarchyError(Exception):
    """No cgroup hierarchy can be followed; the message lists those that are mounted and says what to do."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted cgroup hierarchy.

    Paths of cgroups are written from what the mount shows as ``/``. That is the hierarchy's root, except where
    only a part of it is mounted (``root_path``).
    """

    mount: Path
    version: int
    """1 or 2."""
    id: int
    """First field of /proc/PID/cgroup, which tracepoints call ``dst_root``; 0 is v2."""
    controllers: tuple[str, ...]
    """As mounted, e.g. ``("cpu", "cpuacct")`` or ``("name=systemd",)``; empty for v2."""
    root_path: str
    """What the mount shows as ``/``, in the words of /proc/PID/cgroup: ``/``; ``/docker/<id>`` where a part is
    mounted; ``/../..`` where the reader lives in a cgroup namespace below the mount's root."""

    @property
    def threads_file(self) -> str:
        """The file in each cgroup that lists its threads."""
        return "cgroup.threads" if self.version == 2 else "tasks"

    def path_in_mount(self, path: str) -> str | None:
        """The path below the mount of what /proc/PID/cgroup calls ``path``; None when the mount does not show it."""
        root = self.root_path.rstrip("/")
        if not f"{path}/".startswith(f"{root}/"):
            return None
        below = path[len(root) :] or "/"
        return None if f"{below}/".startswith("/../") else below

    def __str__(self) -> str:
        name = "cgroup v2" if self.version == 2 else f"cgroup v1 ({','.join(self.controllers)})"
        return f"{name} at {self.mount}"


def current_hierarchy(proc: Path, requested: Path | None = None) -> Hierarchy:
    """The hierarchy that this machine's agent follows; see ``find_hierarchy``.

    Raises NoHierarchyError too when nobody asked for a mount that, as in a cgroup namespace, shows only a part of
    its hierarchy while looking like the whole.
    """
    mountinfo = os.fsdecode((proc / "self/mountinfo").read_bytes())
    hierarchy = find_hierarchy(mountinfo, os.fsdecode((proc / "self/cgroup").read_bytes()), requested)
    if requested is None and hierarchy.mount.stat().st_ino != ROOT_CGROUP_ID:
        raise NoHierarchyError(
            f"{hierarchy} shows only this container's part of the hierarchy: mount the host's /sys/fs/cgroup into "
            "the container at another place and name that with --cgroup"
        )
    return hierarchy


def find_hierarchy(mountinfo: str, proc_cgroup: str, requested: Path | None = None) -> Hierarchy:
    """The hierarchy to follow, from the texts of /proc/self/mountinfo and /proc/self/cgroup.

    v2 when it is mounted at /sys/fs/cgroup; else the v1 hierarchy that systemd uses, else one that the kubelet
    uses, else v2 wherever it is mounted. ``requested`` names any mount, or a directory with mounts below it, among
    which the same order decides. Raises NoHierarchyError.
    """
    mounted = _mounted_hierarchies(mountinfo, proc_cgroup)
    named = next((h for h in mounted if h.mount == requested), None)
    if named is not None:
        return named
    root = requested or USUAL_MOUNT
    candidates = [h for h in mounted if requested is None or root in h.mount.parents]
    ranked = [(rank, h) for h in candidates if (rank := _rank(h, root)) is not None]
    if not ranked:
        raise NoHierarchyError(_nothing_to_follow(mounted, requested))
    return min(ranked, key=lambda pair: pair[0])[1]


def in_initial_pid_namespace(proc: Path) -> bool:
    """Whether this process sees threads by the ids that the kernel's events carry. Raises OSError without procfs."""
    return (proc / "self/ns/pid").stat().st_ino == INITIAL_PID_NAMESPACE


def _mounted_hierarchies(mountinfo: str, proc_cgroup: str) -> list[Hierarchy]:
    ids = dict(_hierarchy_ids(proc_cgroup))
    by_mount_point: dict[Path, Hierarchy | None] = {}
    for line in mountinfo.splitlines():
        mount, hierarchy = _read_mount(line, ids)
        by_mount_point.pop(mount, None)
        by_mount_point[mount] = hierarchy  # a later mount at the same place hides the earlier one
    return [hierarchy for hierarchy in by_mount_point.values() if hierarchy is not None]


def _hierarchy_ids(proc_cgroup: str) -> Iterable[tuple[frozenset[str], int]]:
    for line in proc_cgroup.splitlines():
        number, controllers, _ = line.split(":", 2)
        yield frozenset(controllers.split(",")) - {""}, int(number)


def _read_mount(line: str, ids: dict[frozenset[str], int]) -> tuple[Path, Hierarchy | None]:
    """Where a line of mountinfo (proc_pid_mountinfo(5)) mounts something, and the hierarchy if it mounts one."""
    place, _, filesystem = line.partition(" - ")
    root_path, mount_point = (_unescape(field) for field in place.split(" ")[3:5])
    kind, _, options = filesystem.split(" ", 2)
    mount = Path(mount_point)
    if kind == "cgroup2":
        return mount, Hierarchy(mount, 2, 0, (), root_path)
    if kind != "cgroup":
        return mount, None
    named = options.split(",")
    found = next((key for key in ids if key and key.issubset(named)), None)
    if found is None:
        return mount, None
    return mount, Hierarchy(mount, 1, ids[found], tuple(o for o in named if o in found), root_path)


def _unescape(field: str) -> str:
    """Space, tab, newline and backslash are written as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _rank(hierarchy: Hierarchy, root: Path) -> int | None:
    """Lower is better; None: neither systemd nor the kubelet puts anything there."""
    if hierarchy.version == 2:
        return 0 if hierarchy.mount == root else len(FOLLOWED_V1) + 1
    return min((1 + FOLLOWED_V1.index(c) for c in hierarchy.controllers if c in FOLLOWED_V1), default=None)


def _nothing_to_follow(mounted: list[Hierarchy], requested: Path | None) -> str:
    names = "; ".join(map(str, mounted))
    if mounted:
        what = "none of them is used by systemd or the kubelet" if requested is None else f"{requested} is none of them"
        return f"these cgroup hierarchies are mounted: {names}; {what}. Name one with --cgroup"
    return (
        "no cgroup hierarchy is mounted: mount one with `mount -t cgroup2 none /sys/fs/cgroup`, "
        "or, in a container, make the host's /sys/fs/cgroup visible and name it with --cgroup"
    )
