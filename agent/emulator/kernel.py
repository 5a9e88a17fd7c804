"""The emulated kernel's resctrl, mounted: one tree of files, and the operations on its directories."""

import errno
import time
from collections.abc import Callable

from agent.emulator.allocation import Identifiers, initialise
from agent.emulator.errors import RefusedError
from agent.emulator.group_files import GroupFiles
from agent.emulator.groups import Group
from agent.emulator.identifiers import ClosidPool, RmidPool
from agent.emulator.info import fill_info
from agent.emulator.machines import Machine
from agent.emulator.membership import Membership
from agent.emulator.mounted import Mount
from agent.emulator.tasks import Tasks
from agent.emulator.threads import Caller, Threads
from agent.emulator.tree import Directory, File, move, root_directory

_LARGEST_WRITE = 4096


class Kernel:
    """resctrl as one kernel shows one machine. Not for several threads: the kernel has one mutex, this has none.

    Operations raise RefusedError with the errno that the system call fails with. ``clock`` counts seconds.
    """

    def __init__(
        self, mount: Mount, membership: Membership, threads: Threads, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._mount = mount
        self._rules = mount.rules
        self._machine = mount.machine
        self._groups = mount.groups
        self._status = mount.status
        self._identifiers = Identifiers(
            ClosidPool(mount.controls.closids),
            _rmids(mount.machine, clock),
            rmid_first=mount.rules.allocates_rmid_first,
        )
        self._files = GroupFiles(mount, Tasks(mount, membership, threads))
        self.root = root_directory(self._groups.root)
        fill_info(self.root, mount)
        self._files.fill(self.root, self._groups.root)

    def links(self, node: File | Directory) -> int:
        """How many links stat(2) shows."""
        return 0 if self._rules.removed_have_no_links and not node.live else node.links

    def read(self, file: File, caller: Caller) -> str:
        """The whole file as it is now."""
        _require_live(file)
        return file.read(caller)

    def write(self, file: File, caller: Caller, data: bytes) -> None:
        """What one system call writes is one command."""
        if len(data) > _LARGEST_WRITE:
            raise RefusedError(errno.E2BIG)
        _require_live(file)
        if file.write is None:
            raise RefusedError(errno.EINVAL)
        try:
            file.write(caller, data.decode("latin-1"))
        except RefusedError as error:
            self._say(error)
            raise

    def make_directory(self, parent: Directory, name: str, permissions: int, caller: Caller) -> None:
        """What mkdir(2) does: a group. ``permissions`` are those after umask."""
        _require_live(parent)
        if "\n" in name:
            raise RefusedError(errno.EINVAL)
        if self._rules.clears_status_always and parent.group is not None:
            self._status.clear()
        try:
            group = self._make_group(parent, name)
        except RefusedError as error:
            self._say(error)
            raise
        if self._mount.counters:
            self._mount.counters.assign_new(group)
        self._files.fill(parent.subdirectory(name, permissions, caller.uid, caller.gid, group), group)

    def remove_directory(self, directory: Directory) -> None:
        """What rmdir(2) does: only of a group, however full."""
        parent, group = directory.parent, directory.group
        if parent is None or group is None or not self._is_group(directory):
            raise RefusedError(errno.EPERM)
        self._identifiers.give_back(group)
        if self._mount.counters:
            self._mount.counters.release(group)
        self._groups.remove(group)
        parent.remove(directory.name)

    def rename(self, node: File | Directory, destination: Directory, name: str) -> None:
        """Move a monitoring group with all its tasks, within its control group or to another."""
        if not self._rules.moves_monitoring_groups:
            raise RefusedError(errno.EPERM)
        _require_live(destination)
        if _owner(node) is None or destination.group is None:
            raise RefusedError(errno.ENOENT)
        self._status.clear()
        try:
            group = self._movable(node, destination, name)
        except RefusedError as error:
            self._say(error)
            raise
        move(node, destination, name)
        self._groups.move(group, destination.group)

    def _make_group(self, parent: Directory, name: str) -> Group:
        if parent is self.root and self._machine.can_allocate:
            return self._make_control_group()
        if self._machine.monitoring is None:
            raise RefusedError(errno.EPERM)
        if parent.group is None:
            raise RefusedError(errno.ENODEV if self._rules.no_device_below_info else errno.EPERM)
        if not parent.takes_monitoring_groups or name == "mon_groups":
            raise RefusedError(errno.EPERM)
        return self._groups.make_monitoring(parent.group, self._identifiers.take_rmid())

    def _make_control_group(self) -> Group:
        others = tuple(self._groups.controls)
        group = self._groups.make_control(*self._identifiers.take_both())
        try:
            initialise(self._mount, others, group)
        except RefusedError:
            self._identifiers.give_back(group)
            self._groups.remove(group)
            raise
        return group

    def _is_group(self, directory: Directory) -> bool:
        """Whether it is a group's own directory, not one within it."""
        parent, group = directory.parent, directory.group
        if parent is None or group is None or group is self._groups.root:
            return False
        return parent.takes_monitoring_groups if group.parent else parent is self.root

    def _movable(self, node: File | Directory, destination: Directory, name: str) -> Group:
        """The monitoring group that ``node`` is, if it may become ``name`` in ``destination``."""
        if isinstance(node, File):
            # The kernel ends this one text without a newline.
            raise RefusedError(errno.EPERM, "Source and destination must be directories")
        group = node.group
        if group is None or group.parent is None or not self._is_group(node):
            raise RefusedError(errno.EPERM, "Source must be a MON group\n")
        if not destination.takes_monitoring_groups or name == "mon_groups":
            raise RefusedError(errno.EPERM, "Destination must be a mon_groups subdirectory\n")
        if group.cpus and destination.group is not group.parent:
            raise RefusedError(errno.EPERM, "Cannot move a MON group that monitors CPUs\n")
        if name in destination.entries:
            raise RefusedError(errno.EEXIST)
        return group

    def _say(self, error: RefusedError) -> None:
        if error.status is not None:
            self._status.say(error.status)


def _owner(node: File | Directory) -> Group | None:
    """The group that a directory is in, or a file's directory."""
    if isinstance(node, Directory):
        return node.group
    return node.parent.group if node.parent else None


def _rmids(machine: Machine, clock: Callable[[], float]) -> RmidPool | None:
    monitoring = machine.monitoring
    if monitoring is None:
        return None
    return RmidPool(monitoring.num_rmids, has_limbo="llc_occupancy" in monitoring.events, clock=clock)


def _require_live(node: File | Directory) -> None:
    """What belonged to a removed group is no device any more."""
    if not node.live:
        raise RefusedError(errno.ENODEV)
