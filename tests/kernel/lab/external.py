"""Commands of the machine, with their output kept in a log."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import LabError

LINES_SHOWN = 20

DIES_WITH_US = ("setpriv", "--pdeathsig", "TERM", "--")
"""A build that is killed must not leave a compiler or a debootstrap behind that goes on writing."""


def run(
    command: Sequence[str | Path],
    log: Path,
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
) -> None:
    """Run a command with its output appended to ``log``. Raises LabError with the last lines if it fails."""
    line = [str(part) for part in command]
    with log.open("ab") as output:
        output.write(f"$ {' '.join(line)}\n".encode())
        output.flush()
        ended = subprocess.run(
            [*DIES_WITH_US, *line],
            input=stdin.encode(),
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=_plain_environment(environment or {}),
            check=False,
        )
    if ended.returncode:
        raise LabError(f"{line[0]} ended with status {ended.returncode}:\n{last_lines(log)}\nAll of it: {log}")


def archive(directory: Path, target: Path, log: Path) -> None:
    """Everything below a directory as an archive for an initramfs, owned by root whoever owns the files here."""
    pack = 'find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc --owner=+0:+0 >"$1"'
    run(["sh", "-c", pack, "sh", target], log, directory=directory)


def output_of(command: Sequence[str | Path]) -> str:
    """What a command prints. Raises LabError with what it complained of if it fails."""
    line = [str(part) for part in command]
    ended = subprocess.run(line, capture_output=True, text=True, env=_plain_environment({}), check=False)
    if ended.returncode:
        raise LabError(f"{' '.join(line)} ended with status {ended.returncode}: {ended.stderr.strip()}")
    return ended.stdout


def last_lines(log: Path, count: int = LINES_SHOWN) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-count:])


def _plain_environment(more: Mapping[str, str]) -> dict[str, str]:
    """The distribution's own tools, whatever comes first on PATH, in the language in which they are searched for."""
    system = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    return {**os.environ, **system, **more}
