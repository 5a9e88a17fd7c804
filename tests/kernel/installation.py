"""A guest with the agent installed in it as README.md says: from a checkout, by ``make install``."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.lab.guest import CHECKOUT, Guest

SOURCES = (
    *("agent", "bpf", "config", "docs", "systemd", ".ci"),
    *("Makefile", "pyproject.toml", "constraints.txt", "README.md", "CHANGELOG.md", "LICENSE"),
)
"""What ``make install`` reads of a checkout."""

WHEELS = Path("build/wheels")
"""In the checkout, which a guest sees at /mnt/project: a guest has no network, so the host brings packages."""

PACKAGES = ("hatchling", "editables", "inotify-simple", "pyyaml", "structlog")
"""To build the agent and to run it; pip adds what these need."""

PYTHONS = {"debian-12": "3.11", "debian-13": "3.13", "debian-sid": "3.14"}
"""By distribution: the version of its own interpreter."""

_INSTALL = f"""\
set -e
mkdir /root/checkout
tar -C /mnt/project --exclude=__pycache__ -c {" ".join(SOURCES)} | tar -C /root/checkout -x
cd /root/checkout
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt/project/{WHEELS}
make install
"""


def installed(distribution: str) -> Guest:
    """The guest. Raises CalledProcessError where packages cannot be had."""
    fetch_wheels(PYTHONS[distribution])
    return Guest(distribution, prepared=_INSTALL, prepared_from=digest())


def fetch_wheels(python: str) -> None:
    """Downloads what constraints.txt pins for a version of Python, unless it is there."""
    constraints = CHECKOUT / "constraints.txt"
    done = CHECKOUT / WHEELS / f".{python}-{hashlib.sha256(constraints.read_bytes()).hexdigest()[:12]}"
    if done.exists():
        return
    options = ("--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--python-version", python)
    command = (sys.executable, "-m", "pip", "download", *options, "--constraint", constraints, "--dest", WHEELS)
    subprocess.run([*command, *PACKAGES], cwd=CHECKOUT, check=True)
    done.touch()


def digest() -> str:
    """Of all that the installation is made from."""
    sums = hashlib.sha256()
    for path in _files():
        sums.update(f"{path.relative_to(CHECKOUT)}\0{path.stat().st_mode}\0".encode())
        sums.update(hashlib.sha256(path.read_bytes()).digest())
    return sums.hexdigest()


def _files() -> Iterator[Path]:
    for source in (CHECKOUT / name for name in SOURCES):
        found = sorted(source.rglob("*")) if source.is_dir() else [source]
        yield from (path for path in found if path.is_file() and "__pycache__" not in path.parts)
