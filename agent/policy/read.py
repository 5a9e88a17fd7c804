"""Which files make a policy, whether they can be trusted, and their texts.

A file is opened once and judged and read through that descriptor, so that what was checked is what is read. Like
sudo, this refuses a file that somebody else could have written: the policy decides what others may use of the machine.
Directories are not judged, since what matters is who wrote the files, and Kubernetes mounts its own as 0777.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.policy.model import Position
from agent.policy.nodes import Source
from agent.policy.problem import Problem, Severity
from agent.policy.report import DROP_IN_DIRECTORY
from agent.resources import resource

EXAMPLES = Path("/usr/share/doc/resctrl-agent/examples")
"""There once the agent is installed."""

MAX_BYTES = 1 << 20
"""Of one file."""

# Without O_NONBLOCK, opening a FIFO waits for somebody to write to it.
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """The files that could be read, the main one first, and what was wrong with the others."""

    sources: tuple[Source, ...]
    problems: tuple[Problem, ...]


def drop_in_directory(policy: Path) -> Path:
    """Where the drop-ins of a policy are: beside it, as its path is given, whatever that is a link to."""
    return policy.parent / DROP_IN_DIRECTORY


def read_policy_files(policy: Path, *, insecure: bool) -> PolicyFiles:
    """Read policy.yaml and its drop-ins, in lexical order. ``insecure`` also takes files that others can write.

    A drop-in that disappears while the directory is read was an editor's, and is passed over.
    """
    sources: list[Source] = []
    problems: list[Problem] = []
    files = _Reading(insecure=insecure)
    for result in (files.main(policy), *files.drop_ins(drop_in_directory(policy))):
        if isinstance(result, Source):
            sources.append(result)
        else:
            problems.append(result)
    return PolicyFiles(tuple(sources), tuple(problems))


class _UnreadableError(Exception):
    """Why a file is no policy."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Reading:
    insecure: bool

    def main(self, path: Path) -> Source | Problem:
        try:
            return Source(_shown(path.name), self._text(path))
        except FileNotFoundError:
            return _problem(_shown(path.name), f"{_shown(str(path))} does not exist", _where_to_begin())
        except _UnreadableError as error:
            return _problem(_shown(path.name), f"{_shown(str(path))} {error.message}", error.hint)

    def drop_ins(self, directory: Path) -> Iterator[Source | Problem]:
        try:
            names = sorted(os.listdir(directory), key=os.fsencode)  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            return
        except OSError as error:
            yield _problem(DROP_IN_DIRECTORY, f"{_shown(str(directory))} cannot be read: {error.strerror}")
            return
        for name in names:
            # Editors hide their temporary files, and Kubernetes the directories behind its links.
            if name.startswith("."):
                continue
            if name.endswith(".yaml"):
                yield from self._drop_in(directory / name)
            elif name.endswith((".yml", ".YAML", ".YML")):
                file = f"{DROP_IN_DIRECTORY}/{_shown(name)}"
                message = f"{file} is not read: the name of a drop-in ends in .yaml"
                yield _problem(file, message, severity=Severity.WARNING)

    def _drop_in(self, path: Path) -> Iterator[Source | Problem]:
        file = f"{DROP_IN_DIRECTORY}/{_shown(path.name)}"
        try:
            yield Source(file, self._text(path))
        except FileNotFoundError:
            if path.is_symlink():
                yield _problem(file, f"{_shown(str(path))} is a symbolic link that leads nowhere")
        except _UnreadableError as error:
            yield _problem(file, f"{_shown(str(path))} {error.message}", error.hint)

    def _text(self, path: Path) -> str:
        """Raises FileNotFoundError and _UnreadableError."""
        try:
            descriptor = os.open(path, _OPEN_FLAGS)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _UnreadableError(f"cannot be opened: {error.strerror}") from error
        try:
            return _decoded(self._content(descriptor))
        except OSError as error:
            raise _UnreadableError(f"cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _content(self, descriptor: int) -> bytes:
        before = os.fstat(descriptor)
        _check_kind(before)
        if not self.insecure:
            _check_owner(before)
        content = _read_all(descriptor)
        after = os.fstat(descriptor)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise _UnreadableError("changed while it was read", "read it again when it is saved")
        return content


def _check_kind(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise _UnreadableError("is a directory, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise _UnreadableError("is not a regular file")
    if status.st_size > MAX_BYTES:
        raise _UnreadableError(f"has {status.st_size} bytes, more than the {MAX_BYTES} that a policy may have")


def _check_owner(status: os.stat_result) -> None:
    """Root's files can be trusted, and those of whoever runs this, who gets no more by them than is theirs."""
    if status.st_uid not in (0, os.geteuid()):
        hint = "chown root it, or say --insecure-policy"
        raise _UnreadableError(f"belongs to user {status.st_uid}, not to root", hint)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "everybody" if status.st_mode & stat.S_IWOTH else "its group"
        hint = "chmod go-w it, or say --insecure-policy"
        raise _UnreadableError(f"can be written by {who} (mode {stat.S_IMODE(status.st_mode):04o})", hint)


def _read_all(descriptor: int) -> bytes:
    content = bytearray()
    while len(content) <= MAX_BYTES:
        block = os.read(descriptor, MAX_BYTES + 1 - len(content))
        if not block:
            break
        content += block
    if len(content) > MAX_BYTES:
        raise _UnreadableError(f"has more than the {MAX_BYTES} bytes that a policy may have")
    return bytes(content)


def _decoded(content: bytes) -> str:
    if not content:
        raise _UnreadableError("is empty", 'a policy without classes and rules is "version: 1"')
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _UnreadableError(f"is not UTF-8: line {line}, byte 0x{content[error.start]:02x}") from error


def _where_to_begin() -> str:
    examples = f" or an example of {EXAMPLES}" if EXAMPLES.is_dir() else ""
    return f"name another with --policy, or begin with a copy of {resource('config/policy.yaml')}{examples}"


def _problem(file: str, message: str, hint: str | None = None, severity: Severity = Severity.ERROR) -> Problem:
    return Problem(severity, message, Position(file, 0, 0), hint)


def _shown(path: str) -> str:
    """A path that can be printed, whatever bytes and controls are in it."""
    printable = os.fsencode(path).decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in printable)
