"""What a mount says of itself, as far as a program of operations is made from it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Resource:
    """One line of the schemata."""

    name: str
    domains: tuple[int, ...]
    ways: int
    """0: not a cache."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Read from an untouched mount; two mounts with the same facts get the same programs."""

    resources: tuple[Resource, ...]
    cpus: int
    closids: int
    """Control groups, root included; 0 where there can be none besides it."""
    rmids: int
    """Groups, root included; 0 where nothing is monitored."""
    settings: tuple[str, ...]
    """Files below ``info`` that can be written."""
    group_files: tuple[str, ...]
    """Files of the root group."""

    @property
    def few_rmids(self) -> bool:
        """Whether a program runs out of RMIDs without meaning to."""
        return 0 < self.rmids < 64


def read_facts(mount: Path) -> Facts:
    """From the untouched mount."""
    info = mount / "info"
    closids = [int(file.read_text()) for file in sorted(info.glob("*/num_closids"))]
    rmids = info / "L3_MON/num_rmids"
    return Facts(
        resources=tuple(_resource(line, info) for line in (mount / "schemata").read_text().splitlines()),
        cpus=int((mount / "cpus").read_text().replace(",", ""), 16).bit_length(),
        closids=min(closids, default=0),
        rmids=int(rmids.read_text()) if rmids.exists() else 0,
        settings=tuple(
            sorted(str(f.relative_to(mount)) for f in info.rglob("*") if f.is_file() and f.stat().st_mode & 0o200)
        ),
        group_files=tuple(sorted(file.name for file in mount.iterdir() if file.is_file())),
    )


def _resource(line: str, info: Path) -> Resource:
    name, _, values = line.strip().partition(":")
    mask = info / name / "cbm_mask"
    return Resource(
        name,
        domains=tuple(int(value.partition("=")[0]) for value in values.split(";")),
        ways=int(mask.read_text(), 16).bit_length() if mask.exists() else 0,
    )
