"""What procfs says of a task.

Tasks end while they are read. One that is gone is None, or absent from a list, never an exception. Everywhere
``tid`` may be any thread: /proc/TID exists for each, though a listing of /proc shows only the processes.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from agent.tasks.hierarchy import Hierarchy

_PF_KTHREAD = 0x00200000
"""Flag of include/linux/sched.h in field 9 of /proc/PID/stat."""

_DELETED = " (deleted)"
"""What the kernel appends to the path of a file without a name, and of a removed v2 cgroup."""

_UNTOLD = frozenset({errno.ENOENT, errno.ESRCH, errno.ENAMETOOLONG})
"""The task is gone (ENOENT from open, ESRCH from read), or a path in the answer is too long for the kernel's buffer."""

_CAP_SYS_PTRACE = 19
"""Bit of include/uapi/linux/capability.h in the masks of /proc/PID/status."""

_CUT_LENGTH = 4095
"""Bytes of a cgroup's path that fills the buffer: some kernels cut it short instead, and it would name another."""


@dataclass(frozen=True, slots=True)
class Program:
    """The facts about a process that rules on the program ask for."""

    exe: str | None
    """The program's path as in the process's own mount namespace; None for kernel threads, zombies and where it
    may not be read or is longer than the kernel tells (4 KiB)."""
    comm: str
    """At most 15 bytes, except for kernel threads."""
    uid: int
    """Effective."""
    is_kernel_thread: bool
    exe_hidden: bool = False
    """Whether ``exe`` is None because this process may not read it, see ``may_read_programs``."""


def cgroup_of(proc: Path, tid: int, hierarchy: Hierarchy) -> str | None:
    """The path, below the hierarchy's mount, of the cgroup that the thread is in.

    None when the thread is gone, the mount does not show its cgroup, or the path of one of its cgroups is longer than
    the kernel tells (4 KiB), so that only a walk meets it. A v1 hierarchy shows a thread that has begun to exit in
    ``/``; v2 shows a zombie where it was, even if that cgroup has been removed.
    """
    text = _read(f"{proc}/{tid}/cgroup")
    if text is None:
        return None
    prefix = f"{hierarchy.id}:"
    line = next((line for line in text.split("\n") if line.startswith(prefix)), None)
    if line is None:
        return None
    path = line.split(":", 2)[2]
    if hierarchy.version == 2:
        path = path.removesuffix(_DELETED)
    return hierarchy.path_in_mount(path) if len(os.fsencode(path)) < _CUT_LENGTH else None


def threads_of(proc: Path, pid: int) -> list[int]:
    """The threads of the process; empty when it is gone."""
    try:
        names = os.listdir(f"{proc}/{pid}/task")  # noqa: PTH208  a Path for each of thousands would be thrown away
        return [int(name) for name in names if name.isdigit()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def children_of(proc: Path, pid: int) -> list[int] | None:
    """The processes that the process (any of its threads) has created and that live; None when it is gone itself.

    Empty where the kernel does not tell (CONFIG_PROC_CHILDREN).
    """
    threads = threads_of(proc, pid)
    if not threads:
        return None
    texts = (_read(f"{proc}/{pid}/task/{tid}/children") for tid in threads)
    return [int(child) for text in texts if text for child in text.split()]


def process_of(proc: Path, tid: int) -> int | None:
    """The process (thread group) of the thread; None when it is gone."""
    status = _read(f"{proc}/{tid}/status")
    return None if status is None else int(_status_field(status, "Tgid"))


def read_program(proc: Path, pid: int) -> Program | None:
    """Facts about the program that the process runs now; None when it is gone."""
    stat = _read(f"{proc}/{pid}/stat")
    status = _read(f"{proc}/{pid}/status")
    if stat is None or status is None:
        return None
    comm, fields = _split_stat(stat)
    exe, hidden = _exe(f"{proc}/{pid}/exe")
    return Program(
        exe=exe,
        comm=comm,
        uid=int(_status_field(status, "Uid").split()[1]),
        is_kernel_thread=bool(int(fields[9 - 3]) & _PF_KTHREAD),
        exe_hidden=hidden,
    )


def may_read_programs(proc: Path, pid: int | None = None) -> bool:
    """Whether a process (None: this one) may read the ``exe`` of every other; False when it is gone.

    The kernel asks for CAP_SYS_PTRACE, of root too: without it, root reads that of no other user, nor of a process of
    root's that has more capabilities.
    """
    status = _read(f"{proc}/{'self' if pid is None else pid}/status")
    return status is not None and bool(int(_status_field(status, "CapEff"), 16) >> _CAP_SYS_PTRACE & 1)


def start_time(proc: Path, tid: int) -> int | None:
    """When the thread started, in clock ticks since boot: with its id, its identity. None when it is gone."""
    stat = _read(f"{proc}/{tid}/stat")
    return None if stat is None else int(_split_stat(stat)[1][22 - 3])


def resctrl_groups(proc: Path, pid: int, tid: int) -> tuple[str, str] | None:
    """The names of the thread's control group (``""``: the root group) and monitoring group (``""``: none of its own).

    ``pid`` may be any thread of the process, ``tid`` itself too. None when the thread is gone or resctrl is not
    mounted, and always where the kernel cannot tell: see ``has_resctrl_groups``.
    """
    text = _read(f"{proc}/{pid}/task/{tid}/cpu_resctrl_groups")
    if not text:
        return None
    control, monitoring = (line.partition(":")[2] for line in text.split("\n")[:2])
    return (control.removeprefix("/"), monitoring) if control else None


def has_resctrl_groups(proc: Path) -> bool:
    """Whether this kernel says of each thread which groups it is in (CONFIG_PROC_CPU_RESCTRL)."""
    return (proc / "self/cpu_resctrl_groups").exists()


def _read(path: str) -> str | None:
    """The file's text; None when the task is gone or the kernel cannot tell, see ``_UNTOLD``."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        pieces = []
        while piece := os.read(descriptor, 4096):
            pieces.append(piece)
        return os.fsdecode(b"".join(pieces))
    except OSError as error:
        if error.errno in _UNTOLD:
            return None
        raise
    finally:
        os.close(descriptor)


def _status_field(status: str, name: str) -> str:
    """A field of /proc/PID/status, whose ``Name`` comes first and has its newlines escaped."""
    return status.partition(f"\n{name}:\t")[2].partition("\n")[0]


def _split_stat(stat: str) -> tuple[str, list[str]]:
    """The comm, which may hold parentheses, spaces and newlines, and the fields from the third on."""
    comm, _, rest = stat.partition("(")[2].rpartition(")")
    return comm, rest.split()


def _exe(link: str) -> tuple[str | None, bool]:
    """The program's path, and whether it is kept from this process."""
    try:
        target = os.readlink(link)  # noqa: PTH115  the kernel's text, not a path to tidy up
        return target.removesuffix(_DELETED), False
    except PermissionError:
        return None, True
    except OSError as error:
        if error.errno in _UNTOLD:
            return None, False
        raise
