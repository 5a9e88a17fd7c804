"""flock on the resctrl root: the kernel's documented protocol for several programs, and our claim on a mount."""

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.resctrl.errors import AlreadyRunningError, LockTimeoutError

CLAIM = "info/last_cmd_status"
"""A file of the mount that no other program has a reason to lock. A lock on it is seen from every container and
mount namespace, and goes when the process that holds it does."""

CLAIM_PATIENCE_S = 0.2
"""``claimed`` holds the claim for an instant to find out; a starting agent must not take that for another agent."""

LONGEST_PAUSE_S = 0.02


@contextmanager
def flocked(root: int, path: str, timeout_s: float) -> Iterator[None]:
    """Hold the exclusive lock on the root directory, whose ``path`` is for messages.

    Raises LockTimeoutError when somebody else still has it after ``timeout_s``; 0 tries once.
    """
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
    try:
        if not _acquire(directory, fcntl.LOCK_EX, timeout_s):
            raise LockTimeoutError(
                f"{path}: locked for more than {timeout_s:g} s by {_holder(directory)}, which uses flock to keep "
                "others from changing resctrl; nothing was changed here. Try again, or stop that program"
            )
        try:
            yield
        finally:
            # Closing would not do while a process that was forked meanwhile still has the descriptor.
            fcntl.flock(directory, fcntl.LOCK_UN)
    finally:
        os.close(directory)


def claim(root: int, path: str) -> int:
    """Become the agent of this mount for as long as the returned descriptor is open.

    Raises AlreadyRunningError where another agent is.
    """
    file = os.open(CLAIM, os.O_RDONLY, dir_fd=root)
    if _acquire(file, fcntl.LOCK_EX, CLAIM_PATIENCE_S):
        return file
    holder = _holder(file)
    os.close(file)
    raise AlreadyRunningError(f"{path}: {holder} looks after it already; stop that agent first")


def claimed(root: int) -> bool:
    """Whether some agent, this one included, has claimed the mount."""
    file = os.open(CLAIM, os.O_RDONLY, dir_fd=root)
    try:
        return not _acquire(file, fcntl.LOCK_SH, 0)
    finally:
        os.close(file)


def _acquire(file: int, operation: int, timeout_s: float) -> bool:
    """Try until the deadline: a flock that waits can only be ended by a signal, which needs the main thread."""
    deadline = time.monotonic() + timeout_s
    pause = 0.0005
    while True:
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 2, LONGEST_PAUSE_S)
        else:
            return True


def _holder(file: int) -> str:
    """``process 812 (pqos)``, as far as /proc tells: it may be in another pid namespace or gone by now."""
    stat = os.fstat(file)
    place = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        found = re.search(rf": FLOCK .* (\d+) {place} ", line)
        if found:
            return f"process {found[1]}{_name_of(found[1])}"
    return "another process"


def _name_of(pid: str) -> str:
    try:
        return f" ({Path('/proc', pid, 'comm').read_text().strip()})"
    except OSError:
        return ""
