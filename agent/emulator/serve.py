"""Mounting an emulated kernel and serving it until somebody ends that."""

import errno
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

from agent.emulator.errors import RefusedError
from agent.emulator.filesystem import Filesystem
from agent.emulator.fuse import UNANSWERED, Connection, Operation, Request
from agent.emulator.kernel import Kernel
from agent.service.urgency import Urgency

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(kernel: Kernel, mountpoint: Path, ready: Callable[[], None]) -> None:
    """Mount at ``mountpoint`` and answer until unmounted or told to end by SIGINT, SIGTERM or SIGHUP.

    ``ready`` is called once the kernel has heard from this side, so that whoever looks at the mount is answered. Raises
    OSError where mounting fails.
    """
    filesystem = Filesystem(kernel)
    # It stands for the kernel, which answers at once whatever else wants to run.
    Urgency().take()
    # Signals first: one that comes while mounting must not leave a mount behind that nobody serves.
    with _ending_signals() as signalled, closing(Connection("resctrl-emulator", "resctrl", mountpoint)) as connection:
        for request in _requests(connection, signalled):
            _serve_one(filesystem, connection, request)
            if request.operation == Operation.INIT:
                ready()


def _requests(connection: Connection, signalled: int) -> Iterator[Request]:
    poll = select.poll()
    poll.register(connection.descriptor, select.POLLIN)
    poll.register(signalled, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if signalled in ready:
            return
        try:
            yield connection.receive()
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            # The caller was interrupted before its request was taken.
            if error.errno != errno.ENOENT:
                raise


def _serve_one(filesystem: Filesystem, connection: Connection, request: Request) -> None:
    try:
        answer = filesystem.answer(request)
        if request.operation not in UNANSWERED:
            connection.reply(request, answer)
    except RefusedError as error:
        connection.refuse(request, error.errno or errno.EIO)


@contextmanager
def _ending_signals() -> Iterator[int]:
    """A descriptor that can be read once one of the ending signals has come."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def remember(_signal: int, _frame: FrameType | None) -> None:
        """The descriptor below says it."""

    before = {ending: signal.signal(ending, remember) for ending in _ENDING}
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(woken)
        for ending, handler in before.items():
            signal.signal(ending, handler)
        os.close(reading)
        os.close(writing)
