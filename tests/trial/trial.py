"""Where ``make run`` and ``make demo`` work: the machine's own resctrl, or an emulated one where it has none."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from agent.service.places import run_directory, state_directory
from agent.service.run_state import run_state_path

AGENT = Path(sys.executable).with_name("resctrl-agent")

OWN_RESCTRL = Path("/sys/fs/resctrl")
"""There where both kernel and processor have resctrl, mounted or not."""

MACHINE = "xeon-2s"

PATIENCE_S = 30
_PR_SET_PDEATHSIG = 1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Trial:
    """A resctrl filesystem, and how a command of the agent is told to use it."""

    resctrl: Path
    arguments: tuple[str, ...] = ()


@contextmanager
def trial() -> Iterator[Trial]:
    """The machine's resctrl, or an emulated one for as long as the block lasts. Says which. Exits without root."""
    if os.geteuid() != 0:
        sys.exit("Groups, cgroups and eBPF need root: use sudo.")
    if OWN_RESCTRL.is_dir():
        print(f"Working on this machine's own resctrl, {OWN_RESCTRL}.", flush=True)
        yield Trial(OWN_RESCTRL)
        return
    print(f"This machine has no resctrl. Working on an emulated one instead ({MACHINE}); tasks and cgroups are real.")
    with _emulated(MACHINE) as emulated:
        print(f"It is mounted at {emulated} and goes when this ends.", flush=True)
        yield Trial(emulated, ("--resctrl", str(emulated)))


@contextmanager
def agent(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command of the agent that runs during the block; then it is asked to end, and waited for.

    ``options`` are Popen's. A session of its own keeps the terminal's Ctrl-C from it, so that what serves others can
    end after them.
    """
    process = subprocess.Popen(
        [AGENT, *command],
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 -- no thread runs yet that could hold a lock
        **options,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def wait_until(holds: Callable[[], bool], what: str, *processes: subprocess.Popen[str]) -> None:
    """Return once ``holds``. Exits saying what did not happen, after half a minute or when a process has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        ended = [process.returncode for process in processes if process.poll() is not None]
        if ended:
            sys.exit(f"{what} did not happen: the process for it has ended with status {ended[0]}")
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not happen within {PATIENCE_S} s")
        time.sleep(0.01)


def end_in_order() -> None:
    """Make the first signal to end unwind this program, so that everything it began is undone; ignore the others."""

    def unwind(signum: int, _frame: FrameType | None) -> None:
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + signum)

    for each in _ENDING:
        signal.signal(each, unwind)


@contextmanager
def _emulated(machine: str) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="resctrl-agent-trial-", dir="/run"))
    resctrl = place / "resctrl"
    resctrl.mkdir()
    try:
        with agent("emulate", "--machine", machine, str(resctrl), stdout=subprocess.DEVNULL) as emulator:
            wait_until(lambda: _is_mounted(resctrl), f"Mounting an emulated resctrl at {resctrl}", emulator)
            yield resctrl
    finally:
        if _is_mounted(resctrl):
            subprocess.run(["umount", "--lazy", resctrl], check=True)
        shutil.rmtree(place)
        _forget(resctrl)


def _forget(resctrl: Path) -> None:
    """What the agent remembers of a mount, by its path, is of no use once the mount is gone."""
    for directory in (state_directory(), run_directory()):
        run_state_path(directory, resctrl).unlink(missing_ok=True)


def _is_mounted(path: Path) -> bool:
    """By the table of mounts: a look at the place itself fails when its emulator is gone."""
    return any(line.split()[1] == str(path) for line in Path("/proc/self/mounts").read_text().splitlines())


def _end_with_parent() -> None:
    """Even where this program is killed, what it started does not stay behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
