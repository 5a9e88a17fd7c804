"""The small C programs that services, containers and tests run, and how many threads each comes to."""

import subprocess
from pathlib import Path

SOURCES = Path(__file__).with_name("programs")

ROOT_GROUP = ""


def compiled(name: str, directory: Path) -> Path:
    """The program in ``programs/NAME.c``, linked so that it runs in any root file system."""
    program = directory / name
    command = ["gcc", "-static", "-O1", "-Wall", "-Werror", "-pthread", "-o", program, SOURCES / f"{name}.c"]
    subprocess.run(command, check=True)
    return program


def began_in(pid: int) -> str | None:
    """The resctrl group in which a ``worker`` was when it began; None while it has not."""
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    return name.removeprefix("in:") if name.startswith("in:") else None
