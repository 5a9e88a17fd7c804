"""Locks between processes, as files: the kernel drops them with the process, however that ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock alone; waits for it."""
    descriptor = _locked(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold the lock together with others that share it; waits for whoever holds it alone."""
    descriptor = _locked(path, fcntl.LOCK_SH)
    try:
        yield
    finally:
        os.close(descriptor)


def try_exclusive(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed, or None if somebody else has it."""
    try:
        return _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def _locked(path: Path, operation: int) -> int:
    """Who waited may get the lock of a file that was removed meanwhile: then it excludes nobody, and we start again."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, operation)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
