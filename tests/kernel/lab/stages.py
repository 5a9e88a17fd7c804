"""What is built once: a directory that appears whole or not at all, stamped with a digest of what it was made from.

Digests and not times of change: a fresh clone has fresh times, and must find what another clone built.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import external
from .cache import logs
from .locks import exclusive

STAMP = "made-from"


def digest(*inputs: Path | str) -> str:
    """Of texts as they are, of files by content, and of directories by names and contents of all below."""
    total = hashlib.sha256()
    for each in inputs:
        for part in [each] if isinstance(each, str) else _parts(each):
            total.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return total.hexdigest()[:16]


def is_current(directory: Path, made_from: str) -> bool:
    """Whether the directory was completed from just these inputs."""
    try:
        return (directory / STAMP).read_text() == made_from
    except FileNotFoundError:
        return False


def identity(directory: Path) -> str:
    """Of one build, which no other has: the same inputs give other packages on another day."""
    stamp = directory / STAMP
    return f"{stamp.read_text()} {stamp.stat().st_mtime_ns}"


@contextmanager
def rebuilt(directory: Path, made_from: str) -> Iterator[Path]:
    """An empty directory that takes the place of ``directory`` when the block ends well, and else goes away."""
    fresh = directory.with_name(f"{directory.name}.new")
    _remove(fresh)  # of a build that was killed
    fresh.mkdir(parents=True)
    try:
        yield fresh
        (fresh / STAMP).write_text(made_from)
    except BaseException:
        _remove(fresh)
        raise
    _remove(directory)
    fresh.rename(directory)


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Only one process at a time builds what goes here; others wait."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(directory.with_name(f"{directory.name}.lock")):
        yield


def _parts(path: Path) -> Iterator[str | bytes]:
    if path.is_file():
        yield path.read_bytes()
        return
    for below in sorted(path.rglob("*")):
        if "__pycache__" in below.parts or not (below.is_file() or below.is_symlink()):
            continue
        yield str(below.relative_to(path))
        yield str(below.readlink()) if below.is_symlink() else below.read_bytes()


def _remove(directory: Path) -> None:
    """All of a directory, but nothing that a killed bootstrap may have left mounted in it."""
    if directory.exists():
        external.run(["rm", "-rf", "--one-file-system", directory], logs() / "remove.log")
