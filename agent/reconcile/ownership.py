"""Which groups the agent created, remembered across restarts and kills.

A file in the state directory, one for each resctrl mount. A group is ours when name, inode, boot and mount match. A
new mount gives its groups the old inodes, so the modification time of ``info`` is set to a mark that the file holds
too: the kernel keeps it while resctrl is mounted, in every mount namespace, and no capability is needed. Before
mkdir the intent is written down, without an inode: a kill between mkdir and the record leaves an intent, and the
group of that name is then known to be ours, since the intent was written under resctrl's lock after looking that no
such group existed. Losing the file costs the right to remove the groups, nothing else.

A workload's monitoring group is remembered in the same way, with the workload it is for. It is written down under both
names before it is moved, so that a kill in between leaves one of them true.

The file also remembers what the hardware made of an amount where it was not what was asked, so that the difference
is not taken for drift; and what the agent found in groups that it did not create (the root group, an adopted one)
before it first wrote there, so that it can be put back.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent.resctrl.errors import GroupGoneError
from agent.resctrl.filesystem import Resctrl
from agent.resctrl.monitoring_group import MonitoringGroup
from agent.resctrl.schemata import Schemata

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DEFAULT_STATE = Path("/var/lib/resctrl-agent")

Granted = dict[tuple[str, str, int], tuple[int, int]]

Found = dict[tuple[str, str, int], int]
"""(group, resource, domain) → value."""


class StateError(Exception):
    """The state directory cannot be written; says which file and why."""


@dataclass(slots=True)
class Ledger:
    """What the agent created on one resctrl mount. Every change is on disk when the call returns."""

    path: Path
    boot_id: str
    marked: Path
    """The directory whose modification time tells one mount from the next."""
    _mark: int | None = None
    _inodes: dict[str, int | None] = field(default_factory=dict)
    """By path, of control groups and monitoring groups."""
    _workloads: dict[MonitoringGroup, str] = field(default_factory=dict)
    _granted: Granted = field(default_factory=dict)
    _found: Found = field(default_factory=dict)

    @classmethod
    def open(cls, state: Path, resctrl_root: Path, boot_id: str | None = None) -> "Ledger":
        """Reads a mount's ledger. A file that is missing, not readable, of another boot or mount is an empty one."""
        boot = boot_id if boot_id is not None else BOOT_ID.read_text().strip()
        path = state / (str(resctrl_root).strip("/").replace("/", "-") + ".json")
        marked = resctrl_root / "info"
        ledger = cls(path, boot, marked)
        try:
            stored = json.loads(path.read_text())
            mark = stored["mark"]
            if stored["boot_id"] == boot and (mark is None or mark == marked.stat().st_mtime_ns):
                ledger._mark = mark
                ledger._inodes = {str(name): inode for name, inode in stored["groups"].items()}
                ledger._workloads = {
                    MonitoringGroup(control, name): workload for control, name, workload in stored.get("workloads", [])
                }
                ledger._granted = {(g, r, d): (asked, got) for g, r, d, asked, got in stored["granted"]}
                ledger._found = {(g, r, d): value for g, r, d, value in stored["found"]}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(path, boot, marked)
        return ledger

    @property
    def granted(self) -> Mapping[tuple[str, str, int], tuple[int, int]]:
        """(group, resource, domain) → (asked, got) where the hardware did otherwise than asked."""
        return self._granted

    @property
    def found(self) -> Mapping[tuple[str, str, int], int]:
        """(group, resource, domain) → the value before the agent's first write, in groups that it did not create."""
        return self._found

    def owned(self, resctrl: Resctrl) -> frozenset[str]:
        """The groups that exist and that the agent created."""
        return frozenset(name for name in resctrl.groups() if self._is_ours(name, resctrl))

    def settle(self, resctrl: Resctrl) -> None:
        """Forgets groups that do not exist; to be called under resctrl's lock, before anything is changed.

        An intent that came to nothing, or what was ours on an earlier mount, must not claim what somebody makes later.
        """
        existing = set(resctrl.groups())
        for name in self._inodes.keys() - existing - {group.path for group in self._workloads}:
            self.removed(name)
        for group in self._workloads.keys() - self.monitoring(resctrl).keys():
            self.monitoring_removed(group)

    def intend(self, name: str) -> None:
        """About to create a group that does not exist."""
        self._inodes[name] = None
        try:
            self._save()
        except StateError:
            del self._inodes[name]
            raise

    def created(self, name: str, inode: int) -> None:
        """The group was created."""
        self._inodes[name] = inode
        self._save()

    def removed(self, name: str) -> None:
        """The group is gone, or was never created after all."""
        self._inodes.pop(name, None)
        for group in [group for group in self._workloads if group.control == name]:
            self._drop(group)
        self._granted = {key: value for key, value in self._granted.items() if key[0] != name}
        self._found = {key: value for key, value in self._found.items() if key[0] != name}
        self._save()

    def monitoring(self, resctrl: Resctrl) -> Mapping[MonitoringGroup, str]:
        """The monitoring groups that exist and that the agent created → the workload that each is for."""
        return {group: of for group, of in self._workloads.items() if self._is_ours(group.path, resctrl)}

    def intend_monitoring(self, group: MonitoringGroup, workload: str, inode: int | None = None) -> None:
        """About to create a monitoring group that does not exist, or to move one (``inode``) to this name."""
        self._inodes[group.path] = inode
        self._workloads[group] = workload
        try:
            self._save()
        except StateError:
            self._drop(group)
            raise

    def monitoring_created(self, group: MonitoringGroup, inode: int) -> None:
        """The monitoring group was created."""
        self._inodes[group.path] = inode
        self._save()

    def monitoring_removed(self, group: MonitoringGroup) -> None:
        """The monitoring group is gone, has another name now, or was never created after all."""
        self._drop(group)
        self._save()

    def grant(self, differences: Granted, asked: frozenset[tuple[str, str, int]]) -> None:
        """Of the values ``asked`` for just now, those that came out otherwise are ``differences``."""
        granted = {key: value for key, value in self._granted.items() if key not in asked} | differences
        if granted != self._granted:
            self._granted = granted
            self._save()

    def note_found(self, name: str, schemata: Schemata) -> None:
        """About to write these values' successors. Of a group of the agent's, and of later writes, nothing is kept."""
        if name in self._inodes:
            return
        values = {(name, res, domain): value for res, each in schemata.items() for domain, value in each.items()}
        if values.keys() - self._found.keys():
            self._found = values | self._found
            self._save()

    def forget_found(self, names: Iterable[str]) -> None:
        """What was found in these groups has been put back: they are none of the agent's business any more."""
        gone = frozenset(names)
        kept = {key: value for key, value in self._found.items() if key[0] not in gone}
        if kept != self._found:
            self._found = kept
            self._save()

    def _is_ours(self, name: str, resctrl: Resctrl) -> bool:
        if name not in self._inodes:
            return False
        try:
            return self._inodes[name] in (None, resctrl.group_inode(name))
        except GroupGoneError:
            return False

    def _drop(self, group: MonitoringGroup) -> None:
        self._workloads.pop(group, None)
        self._inodes.pop(group.path, None)

    def _leave_mark(self) -> None:
        """Makes the time that the directory shows a lasting one, which other ledgers of this mount then hold too.

        A mount that cannot be marked is taken for the same one until the next boot.
        """
        with suppress(OSError):
            shown = self.marked.stat().st_mtime_ns
            os.utime(self.marked, ns=(shown, shown))
            self._mark = self.marked.stat().st_mtime_ns

    def _save(self) -> None:
        if self._mark is None:
            self._leave_mark()
        stored = {
            "boot_id": self.boot_id,
            "mark": self._mark,
            "groups": self._inodes,
            "workloads": [[group.control, group.name, of] for group, of in self._workloads.items()],
            "granted": [[*key, *value] for key, value in self._granted.items()],
            "found": [[*key, value] for key, value in self._found.items()],
        }
        fresh = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(stored) + "\n")
            fresh.replace(self.path)
        except OSError as error:
            raise StateError(f"{self.path}: cannot remember which groups are the agent's: {error.strerror}") from error
