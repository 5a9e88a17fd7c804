"""How resctrl comes to its place and goes from it, for tests of mounting itself: the kernel's, and the emulator's."""

import ctypes
import errno
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent.emulator.machines import Machine

_libc = ctypes.CDLL(None, use_errno=True)


class Mounting(Protocol):
    """One place. ``options`` are those that it was found with, or is mounted with at first."""

    path: Path
    options: frozenset[str]

    def mount(self, options: frozenset[str] = frozenset()) -> None:
        """Raises OSError as mount(2) does."""

    def unmount(self) -> None:
        """Raises OSError as umount(2) does."""


class KernelMounting:
    """mount(2) and umount(2) of the kernel's own resctrl, which has to be mounted when this is made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.options = _options_in_force(path)

    def mount(self, options: frozenset[str] = frozenset()) -> None:
        mount_resctrl(self.path, options)

    def unmount(self) -> None:
        umount(self.path)


class EmulatedMounting:
    """An emulator in a process of its own, which mounts when it is told to."""

    def __init__(self, path: Path, machine: "Machine", kernel: str) -> None:
        self.path = path
        self.options = machine.mount_options
        self._machine = machine
        self._kernel = kernel
        self._emulator = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.emulator"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def mount(self, options: frozenset[str] = frozenset()) -> None:
        assert self._emulator.stdin is not None
        pickle.dump((self.path, self._machine, self._kernel, options), self._emulator.stdin)
        self._emulator.stdin.flush()
        said = self._answer()
        assert said, "the emulator ended instead of mounting"
        if said != "mounted":
            code = getattr(errno, said)
            raise OSError(code, os.strerror(code))

    def unmount(self) -> None:
        umount(self.path)
        assert self._answer() == "unmounted"

    def end(self) -> None:
        """Unmounted, whatever was done to it."""
        with self._emulator:
            self._emulator.terminate()

    def _answer(self) -> str:
        assert self._emulator.stdout is not None
        return self._emulator.stdout.readline().decode().strip()


@contextmanager
def emulated_mounting(machine: "Machine", kernel: str) -> Iterator[EmulatedMounting]:
    """An emulator where any user can reach it; unmounted at the end, whatever was done to it."""
    directory = Path(tempfile.mkdtemp(prefix="resctrl-agent-test-"))
    directory.chmod(0o755)
    place = directory / "resctrl"
    place.mkdir()
    mounting = EmulatedMounting(place, machine, kernel)
    try:
        mounting.mount(mounting.options)
        yield mounting
    finally:
        mounting.end()
    # Not with all that is in it: should it still be mounted, that would be the emulated files.
    place.rmdir()
    directory.rmdir()


@contextmanager
def mounted_as_found(mounting: Mounting) -> Iterator[Mounting]:
    """Unmounted at first; at the end mounted as it was, whatever was done in between."""
    mounting.unmount()
    try:
        yield mounting
    finally:
        with suppress(OSError):
            mounting.unmount()
        mounting.mount(mounting.options)


def mount_resctrl(path: Path, options: frozenset[str] = frozenset()) -> None:
    """mount(2). Raises OSError."""
    _checked(_libc.mount(b"resctrl", os.fsencode(path), b"resctrl", 0, ",".join(sorted(options)).encode()))


def umount(path: Path) -> None:
    """umount(2). Raises OSError."""
    _checked(_libc.umount2(os.fsencode(path), 0))


def _checked(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _options_in_force(path: Path) -> frozenset[str]:
    """Those that are resctrl's own."""
    lines = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    (options,) = (options for _, place, kind, options, *_ in lines if place == str(path) and kind == "resctrl")
    return frozenset(options.split(",")) & {"cdp", "cdpl2", "mba_MBps", "debug"}
