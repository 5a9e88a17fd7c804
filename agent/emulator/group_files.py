"""The files of a group: what each shows, and what writing it does."""

import errno
from collections.abc import Callable

from agent.emulator import cpus
from agent.emulator.assignment import AssignmentFiles, begin_line
from agent.emulator.cpu_assignment import assign_cpus
from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group
from agent.emulator.modes import set_mode
from agent.emulator.monitoring import fill_counters
from agent.emulator.mounted import Mount, controlling_events
from agent.emulator.numbers import c_string
from agent.emulator.schemata import SchemataWrite, schemata_text, size_text
from agent.emulator.tasks import Tasks
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory, Write


class GroupFiles:
    """Fills the directories of groups. Everything it is given belongs to one mount."""

    def __init__(self, mount: Mount, tasks: Tasks) -> None:
        self._mount = mount
        self._tasks = tasks

    def fill(self, directory: Directory, group: Group) -> None:
        """Add all the files and directories that the group has."""
        self._add_cpus(directory, group)
        directory.file("tasks", lambda caller: self._tasks.read(group, caller), self._tasks_write(group))
        if not group.parent:
            self._add_controls(directory, group)
        if self._mount.machine.monitoring:
            self._add_monitoring(directory, group)

    def _add_cpus(self, directory: Directory, group: Group) -> None:
        count = self._mount.machine.cpus
        directory.file(
            "cpus", lambda _: f"{cpus.mask_text(group.cpus, count)}\n", self._cpus_write(group, cpus.parse_mask)
        )
        directory.file(
            "cpus_list", lambda _: f"{cpus.list_text(group.cpus)}\n", self._cpus_write(group, cpus.parse_list)
        )

    def _add_controls(self, directory: Directory, group: Group) -> None:
        controls, padded = self._mount.controls, self._mount.rules.pads_values

        def write_schemata(_: Caller, text: str) -> None:
            command = self._begin_line(text)
            SchemataWrite(self._mount, group).apply(command)

        def write_mode(_: Caller, text: str) -> None:
            set_mode(self._mount, group, self._begin_line(text))

        directory.file("schemata", lambda _: schemata_text(controls, group.closid, padded=padded), write_schemata)
        directory.file("mode", lambda _: f"{group.mode.value}\n", write_mode)
        directory.file("size", lambda _: size_text(controls, group.closid))
        if self._mount.rules.chooses_mbps_event and "mba_MBps" in self._mount.options:
            self._add_mbps_event(directory, group)
        if "debug" in self._mount.options:
            directory.file("ctrl_hw_id", lambda _: f"{group.closid}\n")

    def _add_mbps_event(self, directory: Directory, group: Group) -> None:
        events = controlling_events(self._mount.machine, self._mount.rules)

        def write(_: Caller, text: str) -> None:
            event = self._begin_line(text)
            if event not in events:
                raise RefusedError(errno.EINVAL, f"Unsupported event id '{event}'\n")
            group.mbps_event = event

        directory.file("mba_MBps_event", lambda _: f"{group.mbps_event or events[0]}\n", write)

    def _add_monitoring(self, directory: Directory, group: Group) -> None:
        monitoring = self._mount.machine.monitoring
        if monitoring is None:
            return
        fill_counters(directory, group, monitoring, self._mount)
        if self._mount.counters:
            AssignmentFiles(self._mount.counters, self._mount.status).fill_group(directory, group)
        if not group.parent:
            directory.directory("mon_groups")
        if "debug" in self._mount.options:
            directory.file("mon_hw_id", lambda _: f"{group.rmid}\n")

    def _begin_line(self, text: str) -> str:
        return begin_line(self._mount.status, text)

    def _cpus_write(self, group: Group, parse: Callable[[str, int], int]) -> Write:
        def write(_: Caller, text: str) -> None:
            if self._mount.rules.clears_status_always:
                self._mount.status.clear()
            try:
                wanted = parse(c_string(text), self._mount.machine.cpus)
            except OSError as error:
                raise RefusedError(error.errno or 0, "Bad CPU list/mask\n") from None
            assign_cpus(self._mount.groups, group, wanted)

        return write

    def _tasks_write(self, group: Group) -> Write:
        def write(caller: Caller, text: str) -> None:
            self._tasks.write(group, caller, c_string(text))

        return write
