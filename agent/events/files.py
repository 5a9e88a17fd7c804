"""Changes of the policy file and its drop-ins, by inotify.

Directories are watched, not files: an editor puts a new file in the old one's place, and Kubernetes swaps a symbolic
link two links away from it. So the policy's path is resolved step by step, and each step at which it could come to mean
something else is watched: the directory of every link, of the file in the end, or of the first name that is missing.
"""

import errno
import stat
from dataclasses import dataclass, field
from pathlib import Path

from inotify_simple import Event, INotify, flags

from agent.policy.read import drop_in_directory

_ITSELF = flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR
_NAMES = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
_CONTENTS = flags.CLOSE_WRITE | flags.ATTRIB | flags.MODIFY
_GONE = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT | flags.IGNORED

_MOST_LINKS = 40
"""After so many symbolic links the kernel gives a path up, too."""


class PolicyWatch:
    """Tells when the policy should be read again.

    It is armed when it is made: make it first, then read the policy, so that no change falls in between. A file that is
    being written is waited for until its writer closes it, whatever else changes meanwhile.
    """

    def __init__(self, policy: Path) -> None:
        """Watch ``policy`` and ``policy.d/*.yaml`` beside it; none need exist. Raises OSError as ``read`` does."""
        self._policy = policy.absolute()
        self._inotify = INotify(nonblocking=True)
        self._places: dict[Path, _Place] = {}
        self._watched: dict[int, _Place] = {}
        self._being_written: set[tuple[int, str]] = set()
        self._changed = False
        try:
            self._arm()
        except OSError:
            self._inotify.close()
            raise

    def fileno(self) -> int:
        """Readable while there is something to ``read``."""
        return int(self._inotify.fileno())

    def read(self) -> bool:
        """Whether the policy may have changed since the last call, and is complete.

        Raises OSError when a directory cannot be watched: too few inotify watches, or no permission.
        """
        for event in self._inotify.read(timeout=0):
            if self._concerns(event):
                self._changed = True
        if self._changed:
            self._arm()
        complete = self._changed and not self._being_written
        if complete:
            self._changed = False
        return complete

    @property
    def being_written(self) -> bool:
        """Whether somebody is in the middle of writing a policy file, as far as ``read`` has seen."""
        return bool(self._being_written)

    def close(self) -> None:
        """Stop watching. Take ``fileno()`` out of the event loop first."""
        self._inotify.close()

    def _concerns(self, event: Event) -> bool:
        if event.mask & flags.Q_OVERFLOW:
            self._being_written.clear()
            return True
        place = self._watched.get(event.wd)
        if place is None:
            return False
        if event.mask & _GONE:
            # The same path may be another directory by now.
            self._places = {}
            return True
        return place.concerns(event) and self._is_change(event, place)

    def _is_change(self, event: Event, place: "_Place") -> bool:
        file = (event.wd, event.name)
        if event.mask & flags.MODIFY or (event.mask & flags.CREATE and _is_still_empty(place.path / event.name)):
            self._being_written.add(file)
            return False
        if not event.mask & flags.ATTRIB:
            self._being_written.discard(file)
        return True

    def _arm(self) -> None:
        """Watch what the path consists of now; again, if it changed before the watches were there."""
        while (places := _places(self._policy)) != self._places:
            self._places = places
            watched = {wd: place for place in places.values() if (wd := self._watch(place)) is not None}
            for wd in self._watched.keys() - watched.keys():
                self._unwatch(wd)
            self._watched = watched
        self._being_written = {file for file in self._being_written if file[0] in self._watched}

    def _watch(self, place: "_Place") -> int | None:
        """None for a directory that has just gone, and for one above the policy that may not be read."""
        try:
            return int(self._inotify.add_watch(place.path, place.mask))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            if place.mask == _ITSELF:
                return None
            raise
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            message = "no inotify watch is left for it: raise fs.inotify.max_user_watches"
            raise OSError(errno.ENOSPC, message, str(place.path)) from error

    def _unwatch(self, wd: int) -> None:
        try:
            self._inotify.rm_watch(wd)
        except OSError as error:
            # The kernel has dropped it together with its directory.
            if error.errno != errno.EINVAL:
                raise


@dataclass(slots=True)
class _Place:
    """A directory on the way to a file of the policy, and what in it matters."""

    path: Path
    names: set[str] = field(default_factory=set)
    """Entries that are links, or missing."""
    files: set[str] = field(default_factory=set)
    """Entries whose contents matter."""
    drop_ins: bool = False
    """So do those of every drop-in."""

    @property
    def mask(self) -> int:
        mask = int(_ITSELF)
        if self.names or self.files or self.drop_ins:
            mask |= _NAMES
        if self.files or self.drop_ins:
            mask |= _CONTENTS
        return mask

    def concerns(self, event: Event) -> bool:
        """Whether it is of an entry that matters; no name means the directory's own mode or owner."""
        if event.name in self.names:
            return not event.mask & _CONTENTS
        return not event.name or event.name in self.files or (self.drop_ins and _is_drop_in(event.name))


def _places(policy: Path) -> dict[Path, _Place]:
    places: dict[Path, _Place] = {}
    _resolve(policy, places)
    directory = _resolve(drop_in_directory(policy), places)
    if directory and directory.is_dir():
        places.setdefault(directory, _Place(directory)).drop_ins = True
        for entry in _entries(directory):
            if _is_drop_in(entry.name):
                _resolve(entry, places)
    return places


def _resolve(path: Path, places: dict[Path, _Place]) -> Path | None:
    """Where the absolute ``path`` leads, links followed, whether its last name exists or not; None if not so far.

    ``places`` gets each directory on the way.
    """
    here, parts, links = Path("/"), _reversed_parts(path), 0
    while parts:
        place = places.setdefault(here, _Place(here))
        name = parts.pop()
        if name == "..":
            here = here.parent
        elif target := _link_target(here / name):
            place.names.add(name)
            links += 1
            if links > _MOST_LINKS:
                return None
            here = Path("/") if target.is_absolute() else here
            parts += _reversed_parts(target)
        elif not parts:
            place.files.add(name)
            here /= name
        elif (here / name).is_dir():
            here /= name
        else:
            place.names.add(name)
            return None
    return here


def _reversed_parts(path: Path) -> list[str]:
    return [part for part in reversed(path.parts) if part != path.anchor]


def _link_target(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:
        return None


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _is_drop_in(name: str) -> bool:
    """Editors' temporary files and locks begin with a dot."""
    return name.endswith(".yaml") and not name.startswith(".")


def _is_still_empty(path: Path) -> bool:
    """Of a name that has just appeared: whether its writer is still to come. A link is there with all its contents."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0
