"""Changes of the mount table: resctrl or a cgroup hierarchy that is mounted anew must be found again."""

import os
import select
from pathlib import Path


class MountWatch:
    """Readable whenever something was mounted or unmounted in our mount namespace.

    The kernel tells of changes by POLLPRI on mountinfo, which is always readable otherwise, so it sits in an epoll of
    its own that waits for nothing else.
    """

    def __init__(self, proc: Path) -> None:
        """Raises OSError where there is no mountinfo below ``proc``."""
        self._mountinfo = os.open(proc / "self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._mountinfo, select.EPOLLPRI)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._epoll.fileno()

    def read(self) -> str | None:
        """The mount table if it changed since the last call, else None."""
        if not self._epoll.poll(0):
            return None
        return self.table()

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
