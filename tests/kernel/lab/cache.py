"""Where the laboratory keeps what it built: outside the checkout, so that fresh clones find it."""

import os
from pathlib import Path


def cache() -> Path:
    """The directory, made if it is missing: ``$RESCTRL_LAB_DIR``, else ``~/.cache/resctrl-agent-lab``."""
    directory = Path(os.environ.get("RESCTRL_LAB_DIR") or "~/.cache/resctrl-agent-lab").expanduser().absolute()
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def logs() -> Path:
    directory = cache() / "logs"
    directory.mkdir(exist_ok=True)
    return directory


def slots() -> Path:
    directory = cache() / "slots"
    directory.mkdir(exist_ok=True)
    return directory


def snapshots() -> Path:
    directory = cache() / "snapshots"
    directory.mkdir(exist_ok=True)
    return directory


def qemu() -> Path:
    return cache() / "qemu"


def guest(distribution: str) -> Path:
    return cache() / "guests" / distribution
