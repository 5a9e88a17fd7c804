"""Cgroups that come and go, by inotify: for where eBPF cannot be used.

It sees directories, not tasks: those that enter a cgroup, are cloned into one or exec are found by looking at
everything once a second, which is for the agent to do.
"""

import errno
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from inotify_simple import Event as Change
from inotify_simple import INotify, flags

from agent.events.event import Event, EventKind

_MASK = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | flags.ONLYDIR


class CgroupScan:
    """Watches every directory of a cgroup hierarchy. An EventSource."""

    def __init__(self, root: Path) -> None:
        """``root`` is where the hierarchy is mounted. Raises OSError when that cannot be watched at all."""
        self._root = root
        self._top = _Directory(None, "", root.stat().st_ino)
        self._inotify = INotify(nonblocking=True)
        self._by_watch: dict[int, _Directory] = {}
        self._lost = 0
        self._renaming: _Directory | None = None
        try:
            self._by_watch[self._inotify.add_watch(root, _MASK)] = self._top
        except OSError:
            self._inotify.close()
            raise
        self._look_around(self._top)

    def fileno(self) -> int:
        """Readable while events wait."""
        return int(self._inotify.fileno())

    def read(self) -> list[Event]:
        """CGROUP_MADE, CGROUP_REMOVED and CGROUP_RENAMED, in the order in which they happened."""
        return [event for change in self._inotify.read(timeout=0) for event in self._follow(change)]

    def lost(self) -> int:
        """How often the queue overflowed and a directory could not be watched (fs.inotify.max_user_watches)."""
        return self._lost

    def watch_execs(self, wanted: bool) -> None:  # noqa: FBT001 - every source has it
        """Has no effect: inotify cannot see them."""

    def close(self) -> None:
        """Stop watching. Take ``fileno()`` out of the event loop first."""
        self._inotify.close()

    def _follow(self, change: Change) -> list[Event]:
        if change.mask & flags.Q_OVERFLOW:
            self._lost += 1
            return self._look_around(self._top)
        directory = self._by_watch.get(change.wd)
        if directory is None:
            return []
        if change.mask & flags.IGNORED:
            del self._by_watch[change.wd]
            return []
        return self._follow_entry(directory, change) if change.mask & flags.ISDIR else []

    def _follow_entry(self, parent: "_Directory", change: Change) -> list[Event]:
        if change.mask & flags.CREATE:
            return self._made(parent, change.name)
        if change.mask & flags.MOVED_TO:
            return self._renamed(parent, change.name)
        child = parent.children.pop(change.name, None)
        if change.mask & flags.MOVED_FROM:
            self._renaming = child
            return []
        return [_event(EventKind.CGROUP_REMOVED, child)] if child else []

    def _made(self, parent: "_Directory", name: str) -> list[Event]:
        child = self._enter(parent, name)
        return [_event(EventKind.CGROUP_MADE, child), *self._look_around(child)] if child else []

    def _renamed(self, parent: "_Directory", name: str) -> list[Event]:
        """Both halves of a rename come in a row: cgroup v1 has no other, and v2 none at all."""
        child, self._renaming = self._renaming, None
        if child is None:
            return self._made(parent, name)
        child.parent, child.name = parent, name
        parent.children[name] = child
        return [_event(EventKind.CGROUP_RENAMED, child)]

    def _look_around(self, top: "_Directory") -> list[Event]:
        """What has come and gone below, as far as it is not yet known."""
        events: list[Event] = []
        pending = [top]
        while pending:
            directory = pending.pop()
            names = self._names_in(directory)
            gone = [directory.children.pop(name) for name in directory.children.keys() - names]
            new = [child for name in names if (child := self._enter(directory, name))]
            events += [_event(EventKind.CGROUP_REMOVED, child) for child in gone]
            events += [_event(EventKind.CGROUP_MADE, child) for child in new]
            pending.extend(directory.children.values())
        return events

    def _enter(self, parent: "_Directory", name: str) -> "_Directory | None":
        """Watch a directory; None if it is known already, since looking around may meet it before its event does."""
        try:
            inode = self._place(parent, name).stat().st_ino
        except OSError as error:
            self._not_seen(error)
            return None
        known = parent.children.get(name)
        if known and known.inode == inode:
            return None
        child = _Directory(parent, name, inode)
        parent.children[name] = child
        # Before anybody looks into it, so that nothing falls in between.
        self._watch(child)
        return child

    def _watch(self, directory: "_Directory") -> None:
        try:
            self._by_watch[self._inotify.add_watch(self._place(directory), _MASK)] = directory
        except OSError as error:
            self._not_seen(error)

    def _names_in(self, directory: "_Directory") -> set[str]:
        try:
            with os.scandir(self._place(directory)) as entries:
                return {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        except OSError as error:
            self._not_seen(error)
            return set()

    def _place(self, directory: "_Directory", name: str = "") -> Path:
        return self._root / directory.path[1:] / name

    def _not_seen(self, error: OSError) -> None:
        """A directory that has gone meanwhile is no loss; one that cannot be watched or read is."""
        if error.errno not in {errno.ENOENT, errno.ENODEV, errno.ENOTDIR}:
            self._lost += 1


@dataclass(slots=True, eq=False)
class _Directory:
    """One cgroup, as a node of the tree, so that a rename need not touch what lies below."""

    parent: "_Directory | None"
    name: str
    inode: int
    children: dict[str, "_Directory"] = field(default_factory=dict)

    @property
    def path(self) -> str:
        names: list[str] = []
        directory = self
        while directory.parent:
            names.append(directory.name)
            directory = directory.parent
        return "/" + "/".join(reversed(names))


def _event(kind: EventKind, directory: _Directory) -> Event:
    return Event(kind, time.monotonic_ns(), directory.inode, path=directory.path)
