"""Files and directories of the emulated filesystem, with the attributes that stat(2) shows."""

import errno
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group
from agent.emulator.threads import Caller

Read = Callable[[Caller], str]
Write = Callable[[Caller, str], None]

_inodes = count(1)
"""Never used twice in one process, as the kernel does not within one mount."""


@dataclass(slots=True, eq=False)
class Node:
    """What a file and a directory have in common."""

    name: str
    parent: "Directory | None"
    mode: int
    """Type and permissions, as in ``st_mode``."""
    uid: int
    gid: int
    inode: int = field(default_factory=lambda: next(_inodes))
    live: bool = True
    """False once the group that it belonged to is gone."""
    accessed_ns: int = field(default_factory=time.time_ns)
    modified_ns: int = field(default_factory=time.time_ns)
    changed_ns: int = field(default_factory=time.time_ns)


@dataclass(slots=True, eq=False)
class File(Node):
    """A file whose content is made when it is read."""

    read: Read = lambda _: ""
    write: Write | None = None
    """Takes one write(2), up to its first NUL. Raises RefusedError."""

    @property
    def links(self) -> int:
        """A file has one name."""
        return 1


@dataclass(slots=True, eq=False)
class Directory(Node):
    """A directory. Those of a group, and those within it, know the group; ``info`` and below have none."""

    group: Group | None = None
    entries: "dict[str, File | Directory]" = field(default_factory=dict)

    @property
    def links(self) -> int:
        """Its name, itself, and each directory's way back."""
        return 2 + sum(isinstance(entry, Directory) for entry in self.entries.values())

    @property
    def takes_monitoring_groups(self) -> bool:
        """Whether this is a ``mon_groups``."""
        return self.group is not None and self.name == "mon_groups"

    def file(self, name: str, read: Read, write: Write | None = None) -> File:
        """Add a file: 0644 when it can be written, else 0444."""
        mode = stat.S_IFREG | (0o644 if write else 0o444)
        file = File(name, self, mode, self.uid, self.gid, read=read, write=write)
        self.entries[name] = file
        return file

    def directory(self, name: str) -> "Directory":
        """Add a directory with this one's permissions and group."""
        return self.subdirectory(name, stat.S_IMODE(self.mode), self.uid, self.gid, self.group)

    def subdirectory(self, name: str, permissions: int, uid: int, gid: int, group: Group | None) -> "Directory":
        """Add a directory."""
        directory = Directory(name, self, stat.S_IFDIR | permissions, uid, gid, group=group)
        self.entries[name] = directory
        return directory

    def find(self, path: str) -> "File | Directory":
        """What a path below this directory names. Raises RefusedError: ENOENT, ENOTDIR."""
        node: File | Directory = self
        for name in filter(None, path.split("/")):
            if not isinstance(node, Directory):
                raise RefusedError(errno.ENOTDIR)
            if name not in node.entries:
                raise RefusedError(errno.ENOENT)
            node = node.entries[name]
        return node

    def hide(self, node: "File | Directory") -> None:
        """Take an entry out that may come back: whoever has it open keeps it."""
        del self.entries[node.name]

    def show(self, node: "File | Directory") -> None:
        """Put an entry in that was hidden."""
        self.entries[node.name] = node

    def remove(self, name: str) -> None:
        """Take an entry out; what was below it is no longer live, and each by itself."""
        for node in list(_all_below(self.entries.pop(name))):
            node.live = False
            if isinstance(node, Directory):
                node.entries.clear()


def root_directory(group: Group) -> Directory:
    """The mount's own directory, which nobody may write to but by capability."""
    return Directory("", None, stat.S_IFDIR | 0o555, 0, 0, group=group)


def move(node: File | Directory, destination: Directory, name: str) -> None:
    """Give a node another place and name; it stays the same node."""
    if node.parent:
        del node.parent.entries[node.name]
    node.parent, node.name = destination, name
    destination.entries[name] = node


def fixed(text: str) -> Read:
    """A file that always reads the same."""
    return lambda _: text


def _all_below(node: File | Directory) -> Iterator[File | Directory]:
    yield node
    if isinstance(node, Directory):
        for entry in node.entries.values():
            yield from _all_below(entry)
