"""Guests that have booted, kept: their memory in one file, the rest of their state in another."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from . import cache, locks
from .errors import LabError
from .machine import Machine, Parts, booting, waiting
from .slots import slot

KEPT = 48
"""Those used last. Each takes 200–300 MB: what its guest touched of its memory."""

MEMORY = "memory"
STATE = "state"

Prepare = Callable[[Machine], None]


@contextmanager
def restored(key: str, parts: Parts, prepare: Prepare) -> Iterator[Machine]:
    """A machine as ``prepare`` left it, from the snapshot of that key, which is made first if there is none.

    The machine takes one of the slots. Raises LabError.
    """
    with ExitStack() as stack:
        with _kept(key, parts, prepare) as snapshot:
            logs = stack.enter_context(slot())
            machine = stack.enter_context(waiting(parts, snapshot / MEMORY, logs))
            machine.load(snapshot / STATE)
        yield machine


@contextmanager
def _kept(key: str, parts: Parts, prepare: Prepare) -> Iterator[Path]:
    """The directory of a snapshot, which stays for as long as the block lasts."""
    snapshot = cache.snapshots() / key
    lock = _lock(snapshot)
    while True:
        with locks.shared(lock):
            if snapshot.exists():
                os.utime(snapshot)
                yield snapshot
                return
        with locks.exclusive(lock):
            if not snapshot.exists():  # else somebody made it between the two locks
                _make(snapshot, parts, prepare)
                _drop_oldest()


def _make(snapshot: Path, parts: Parts, prepare: Prepare) -> None:
    fresh = snapshot.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)  # of a process that was killed
    fresh.mkdir()
    try:
        with slot() as logs, booting(parts, fresh / MEMORY, logs) as machine:
            try:
                prepare(machine)
                machine.save(fresh / STATE)
            except LabError as failed:
                raise LabError(f"{failed}\n{machine.last_words()}") from failed
    except BaseException:
        shutil.rmtree(fresh)
        raise
    fresh.rename(snapshot)


def _drop_oldest() -> None:
    """All but the last used, and what killed processes left; none that somebody uses."""
    entries = [entry for entry in cache.snapshots().iterdir() if entry.is_dir()]
    complete = [entry for entry in entries if not entry.suffix]
    complete.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in (*complete[KEPT:], *(entry for entry in entries if entry.suffix)):
        _drop(entry)


def _drop(entry: Path) -> None:
    lock = _lock(entry.with_suffix(""))
    held = locks.try_exclusive(lock)
    if held is not None:
        shutil.rmtree(entry)
        lock.unlink()
        os.close(held)


def _lock(snapshot: Path) -> Path:
    return snapshot.with_suffix(".lock")
