"""Control groups, read and written through directory descriptors.

Everything goes through a descriptor of the resctrl root, and what belongs to one group through one descriptor of its
directory: a group that is removed under us, even one made anew by the same name, cannot lend its values to another.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from agent.resctrl import lock, schemata
from agent.resctrl.cpulist import format_cpu_list, parse_cpu_list
from agent.resctrl.errors import (
    CREATING,
    GroupGoneError,
    MachineError,
    NotResctrlError,
    gone,
    group_text,
    refusal,
)
from agent.resctrl.machine import NOT_GROUPS
from agent.resctrl.monitoring_group import DIRECTORY, MonitoringGroup
from agent.resctrl.mount import EMULATED_FSTYPE, FSTYPES, fstype_of
from agent.resctrl.schemata import Schemata
from agent.resctrl.status import LastCommandStatus
from agent.resctrl.tasks import MoveResult, Tasks, takes_lists

__all__ = ["Group", "MoveResult", "Resctrl", "Tasks"]

T = TypeVar("T")

MAX_WRITE = 4096
"""Bytes; the kernel refuses a longer write as a whole (E2BIG)."""


@dataclass(frozen=True, slots=True)
class Group:
    """A control group as it is."""

    name: str
    """"" is the root group."""
    inode: int
    """Tells a group from one made later by the same name."""
    schemata: Schemata
    mode: str
    """``shareable``, ``exclusive``, ``pseudo-locksetup`` or ``pseudo-locked``."""
    cpus: frozenset[int]
    monitoring_groups: tuple[str, ...]


class Resctrl:
    """One resctrl mount. Group names are single directory names; "" is the root group.

    Where it says so, the path of a monitoring group does as well.
    Methods that name a group raise GroupGoneError where it does not exist, and ResctrlError or one of its kinds where
    the kernel refuses.
    """

    def __init__(self, root: Path, *, emulated: bool) -> None:
        """Take any directory for resctrl, as tests do; ``open`` makes sure that it is."""
        self.root = root
        self.emulated = emulated
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self._status = LastCommandStatus(self._root)
        self._claim: int | None = None

    @classmethod
    def open(cls, root: Path) -> Self:
        """Raises NotResctrlError unless ``root`` is the root of a resctrl filesystem, the kernel's or emulated."""
        try:
            fstype = fstype_of(root)
        except OSError as error:
            raise NotResctrlError(f"{root}: {error.strerror}; is resctrl mounted there?") from error
        if fstype not in FSTYPES:
            raise NotResctrlError(
                f"{root} is a {fstype} filesystem, not resctrl: mount it with `mount -t resctrl resctrl {root}`"
            )
        if not (root / lock.CLAIM).is_file():
            raise NotResctrlError(f"{root} is inside a resctrl filesystem; name its root, where info/ is")
        return cls(root, emulated=fstype == EMULATED_FSTYPE)

    def close(self) -> None:
        """Give back the descriptors, and the claim if there is one. Files from ``open_tasks`` stay open."""
        self._status.close()
        os.close(self._root)
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def groups(self) -> list[str]:
        """The control groups besides the root group, sorted."""
        with self._explained("", "listing the groups", None):
            return sorted(name for name in _directories(self._root, ".") if name not in NOT_GROUPS)

    def monitoring_groups(self, control: str) -> tuple[str, ...]:
        """The names of a control group's monitoring groups, sorted; none where the machine cannot monitor."""
        with self._reading(control) as directory:
            return _monitoring_groups(directory)

    def group_inode(self, name: str) -> int:
        """The inode of the group's directory, which no other group of this mount has while it exists.

        Of a monitoring group too, by its path; it keeps it when it is moved.
        """
        with self._reading(name) as directory:
            return os.fstat(directory).st_ino

    def read_group(self, name: str) -> Group:
        """The group as it is. Raises MachineError if it reads like nothing a kernel writes."""
        with self._reading(name) as directory:
            return Group(
                name,
                os.fstat(directory).st_ino,
                _parsed(name, "schemata", schemata.parse, _read(directory, "schemata")),
                _read(directory, "mode").strip(),
                _parsed(name, "cpus_list", parse_cpu_list, _read(directory, "cpus_list")),
                _monitoring_groups(directory),
            )

    def read_groups(self) -> list[Group]:
        """The root group and every other; one that is removed meanwhile is left out."""
        groups = []
        for name in ("", *self.groups()):
            try:
                groups.append(self.read_group(name))
            except GroupGoneError:
                if not name:
                    raise
        return groups

    def tasks(self, name: str) -> list[int]:
        """The ids of the group's threads, its monitoring groups' included, in the kernel's order.

        Of a monitoring group, by its path, only its own.
        """
        with self._reading(name) as directory:
            return [int(tid) for tid in _read(directory, "tasks").split()]

    def open_tasks(self, name: str) -> Tasks:
        """The group's ``tasks`` (a monitoring group's by its path) for moving threads into it; the caller closes it."""
        with self._explained(name, "opening tasks", None), self._directory(name) as directory:
            return Tasks(name, os.open("tasks", os.O_WRONLY, dir_fd=directory), self._status, lambda: self.takes_lists)

    @cached_property
    def takes_lists(self) -> bool:
        """Whether several threads can be moved in one write; tried out once."""
        with self._explained("", "trying a list of threads", None), self._directory("") as root:
            file = os.open("tasks", os.O_WRONLY, dir_fd=root)
            try:
                return takes_lists(file)
            finally:
                os.close(file)

    def create(self, name: str) -> None:
        """Make a control group with the kernel's defaults.

        Raises GroupExistsError, OutOfClosidsError (naming who holds them), OutOfRmidsError, RmidsInLimboError,
        NotPermittedError, or ResctrlError with the kernel's text.
        """
        _check_name(name)
        self._status.clear()
        with self._explained(name, CREATING, self._status):
            self._once_writable(".", lambda: os.mkdir(name, dir_fd=self._root))

    def create_monitoring(self, group: MonitoringGroup) -> None:
        """Make a monitoring group, whose counters then begin at 0 (occupancy does not). Raises as ``create`` does."""
        _check_name(group.path)
        self._status.clear()
        with self._explained(group.path, CREATING, self._status):
            self._once_writable(DIRECTORY, lambda: os.mkdir(group.path, dir_fd=self._root))

    def move_monitoring(self, group: MonitoringGroup, to: MonitoringGroup) -> None:
        """Rename a monitoring group, to another control group if need be: all its threads at once, counters going on.

        Raises NotPermittedError on kernels that cannot (before 6.5), and where the group has CPUs; GroupExistsError.
        """
        _check_name(group.path)
        _check_name(to.path)
        self._status.clear()
        with self._explained(group.path, f"moving it to {to.path}", self._status):
            self._once_writable(
                DIRECTORY, lambda: os.rename(group.path, to.path, src_dir_fd=self._root, dst_dir_fd=self._root)
            )

    def remove_monitoring(self, group: MonitoringGroup) -> None:
        """Remove a monitoring group. Its threads stay in its control group."""
        self.remove(group.path)

    def remove(self, name: str) -> None:
        """Remove a control group with its monitoring groups. The kernel gives tasks and CPUs to the root group."""
        _check_name(name)
        with self._explained(name, "removing it", None):
            os.rmdir(name, dir_fd=self._root)

    def write_schemata(self, name: str, values: Schemata) -> None:
        """Set these values and leave all others as they are.

        It is one write, so that the kernel checks every line before it applies any; only what is longer than the
        kernel takes at once is written in several.
        """
        for lines in _commands(values):
            self._write(name, "schemata", "\n".join(lines) + "\n", ", ".join(f'"{line}"' for line in lines))

    def write_mode(self, name: str, mode: str) -> None:
        """Set ``shareable`` or ``exclusive``."""
        self._write(name, "mode", mode + "\n", f'"{mode}" to mode')

    def write_cpus(self, name: str, cpus: frozenset[int]) -> None:
        """Give the group exactly these CPUs.

        The kernel takes them from other groups, gives those that are dropped to the root group, and leaves the
        group's monitoring groups without any.
        """
        text = format_cpu_list(cpus)
        self._status.clear()
        self._write(name, "cpus_list", text + "\n", f'"{text}" to cpus_list')

    def lock(self, timeout_s: float) -> AbstractContextManager[None]:
        """The documented exclusive lock on resctrl, for whoever changes groups or schemata.

        Raises LockTimeoutError, naming who has it, after ``timeout_s`` seconds; 0 tries once.
        """
        return lock.flocked(self._root, str(self.root), timeout_s)

    def try_claim(self) -> None:
        """Become the one agent of this mount until ``close``. Raises AlreadyRunningError where another one is."""
        if self._claim is None:
            self._claim = lock.claim(self._root, str(self.root))

    def claimed_by_other(self) -> bool:
        """Whether an agent other than this one looks after the mount."""
        return self._claim is None and lock.claimed(self._root)

    def _once_writable(self, directory: str, change: Callable[[], None]) -> None:
        """The root and its ``mon_groups`` are 0555, which stops even root without CAP_DAC_OVERRIDE: not their owner."""
        try:
            change()
        except PermissionError as error:
            if error.errno != errno.EACCES:
                raise
            os.chmod(directory, 0o755, dir_fd=self._root)  # noqa: S103 - as the groups that mkdir makes
            change()

    def _write(self, name: str, file: str, text: str, what: str) -> None:
        with self._explained(name, f"writing {what}", self._status), self._directory(name) as directory:
            target = os.open(file, os.O_WRONLY, dir_fd=directory)
            try:
                os.write(target, text.encode())
            finally:
                os.close(target)

    @contextmanager
    def _reading(self, name: str) -> Iterator[int]:
        with self._explained(name, "reading it", None), self._directory(name) as directory:
            yield directory

    @contextmanager
    def _directory(self, name: str) -> Iterator[int]:
        if name:
            _check_name(name)
        directory = os.open(name or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._root)
        try:
            yield directory
        finally:
            os.close(directory)

    @contextmanager
    def _explained(self, name: str, operation: str, status: LastCommandStatus | None) -> Iterator[None]:
        """Turn what the system says into one of our errors; ``status`` where its text is about this operation."""
        try:
            yield
        except OSError as error:
            text = status.text() if status and not gone(error) else None
            raise refusal(name, operation, error, text, self.groups) from error


def _check_name(path: str) -> None:
    parts = path.split("/")
    monitoring = parts[-2:-1] == [DIRECTORY]
    names = [*parts[:-2], parts[-1]] if monitoring else parts
    if len(names) > 1 + monitoring or not all(map(_is_name, names)):
        raise ValueError(f"{path!r} is not the name of a group")


def _is_name(text: str) -> bool:
    return text not in ("", ".", "..", *NOT_GROUPS) and not set(text) & {"\0", "\n"}


def _read(directory: int, file: str) -> str:
    """The whole file: one snapshot, however many reads it takes."""
    descriptor = os.open(file, os.O_RDONLY, dir_fd=directory)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts).decode()
    finally:
        os.close(descriptor)


def _parsed(name: str, file: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise MachineError(f"{group_text(name)}: {file}: {error}") from error


def _monitoring_groups(group: int) -> tuple[str, ...]:
    try:
        return tuple(sorted(_directories(group, "mon_groups")))
    except FileNotFoundError:
        return ()  # the machine cannot monitor, or the group is going: then the next access says so


def _directories(parent: int, path: str) -> list[str]:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    finally:
        os.close(directory)


def _commands(values: Schemata) -> Iterator[list[str]]:
    """The lines to write, in as few writes as their length allows; a resource without values has no line."""
    command: list[str] = []
    for line in (line for resource, each in values.items() if each for line in _lines(resource, each)):
        if command and sum(map(len, command)) + len(command) + len(line) + 1 > MAX_WRITE:
            yield command
            command = []
        command.append(line)
    if command:
        yield command


def _lines(resource: str, values: Mapping[int, int]) -> Iterator[str]:
    line = schemata.format_line(resource, values)
    if len(line) < MAX_WRITE:
        yield line
        return
    domains = sorted(values)
    middle = len(domains) // 2
    for half in (domains[:middle], domains[middle:]):
        yield from _lines(resource, {domain: values[domain] for domain in half})
