"""Changes of the mount table: resctrl that is unmounted, or mounted anew, must be found again."""

import os
import select
from pathlib import Path


class MountWatch:
    """Readable whenever something was mounted or unmounted in our mount namespace.

    The kernel tells of a change by POLLPRI on mountinfo, which is always readable otherwise, so it sits in an epoll of
    its own that waits for nothing else. The kernel tells each change once, to whoever polls first; that is the event
    loop, so a wake-up may find nothing more in here and is a change all the same.
    """

    def __init__(self, proc: Path) -> None:
        """Raises OSError where there is no mountinfo below ``proc``."""
        self._mountinfo = os.open(proc / "self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._mountinfo, select.EPOLLPRI)

    def fileno(self) -> int:
        """The descriptor to wait on; call ``acknowledge`` when it is readable."""
        return self._epoll.fileno()

    def acknowledge(self) -> None:
        """Takes the change in, so that the next one wakes again."""
        self._epoll.poll(0)

    def table(self) -> str:
        """The mount table as it is."""
        os.lseek(self._mountinfo, 0, os.SEEK_SET)
        pieces = []
        while piece := os.read(self._mountinfo, 1 << 16):
            pieces.append(piece)
        return os.fsdecode(b"".join(pieces))

    def close(self) -> None:
        """Stops watching."""
        self._epoll.close()
        os.close(self._mountinfo)


def mount_line(table: str, path: Path) -> str | None:
    """The line of a mount table about what is mounted at ``path``, which tells one mount from the next there."""
    found = [line for line in table.splitlines() if line.split(" ", 5)[4:5] == [str(path)]]
    return found[-1] if found else None
