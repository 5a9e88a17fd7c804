"""What this machine can do, read from ``info/`` and the schemata: the same files, live, emulated or saved."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.resctrl import schemata
from agent.resctrl.cpulist import parse_cpu_list
from agent.resctrl.errors import MachineError, NotResctrlError, gone
from agent.resctrl.resources import (
    ABSOLUTE_UNLIMITED,
    MBPS_UNLIMITED,
    BandwidthResource,
    BandwidthUnit,
    CacheResource,
    Machine,
    Monitoring,
    machine_as_json,
)
from agent.resctrl.schemata import Schemata

__all__ = [
    "BandwidthResource",
    "BandwidthUnit",
    "CacheResource",
    "Machine",
    "Monitoring",
    "machine_as_json",
    "read_machine",
    "save_machine",
]

MOUNT_OPTIONS_FILE = "mount_options"
"""Only in saved descriptions: what resctrl was mounted with, since none of its own files says so."""

NOT_GROUPS = frozenset({"info", "mon_data", "mon_groups"})
"""Directories below the root that are not control groups."""


def read_machine(root: Path, mount_options: frozenset[str] = frozenset()) -> Machine:
    """Describe the resctrl filesystem at ``root``, mounted with ``mount_options``, or a saved description.

    Raises NotResctrlError where ``root`` is nothing of the kind, and MachineError where a file is missing or
    does not read as a kernel would write it.
    """
    if not (root / "info").is_dir() or not (root / "schemata").is_file():
        raise NotResctrlError(
            f"{root} is not a resctrl filesystem (no info/ and schemata in it): "
            "mount it with `mount -t resctrl resctrl /sys/fs/resctrl`, or name a saved description"
        )
    mount_options |= _saved_mount_options(root)
    in_force = _read_schemata(root / "schemata")
    caches = tuple(_caches(root, in_force))
    bandwidths = tuple(_bandwidths(root, in_force, mount_options))
    return Machine(
        caches,
        bandwidths,
        _read_monitoring(root / "info" / "L3_MON"),
        min([c.num_closids for c in caches] + [b.num_closids for b in bandwidths], default=1),
        mount_options | _options_that_show(caches, bandwidths),
        cpus=_online_cpus(root),
    )


def save_machine(root: Path, destination: Path, mount_options: frozenset[str] = frozenset()) -> None:
    """Write a description of the resctrl filesystem at ``root`` that ``read_machine`` takes in its place.

    It holds what the root group, ``info/`` and each control group show, without who runs in them (``tasks`` is
    emptied). Files that the kernel refuses to read, like ``io_alloc_cbm`` where I/O allocation is off, are left
    out. Raises as ``read_machine`` does, and MachineError where ``destination`` has something in it already.
    """
    machine = read_machine(root, mount_options)
    destination.mkdir(parents=True, exist_ok=True)
    if any(destination.iterdir()):
        raise MachineError(f"{destination}: is not empty; name a directory that is, or does not exist")
    for source in _described_files(root):
        content = b"" if source.name == "tasks" else _bytes_if_readable(source)
        if content is not None:
            copy = destination / source.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    (destination / MOUNT_OPTIONS_FILE).write_text(",".join(sorted(machine.mount_options)) + "\n")


def _saved_mount_options(root: Path) -> frozenset[str]:
    text = _read_if_there(root / MOUNT_OPTIONS_FILE) or ""
    return frozenset(text.replace(",", " ").split())


def _caches(root: Path, in_force: Schemata) -> Iterator[CacheResource]:
    sizes = _read_if_there(root / "size") or ""
    for name in ("L2", "L3"):
        lines = (f"{name}DATA", f"{name}CODE") if (root / "info" / f"{name}CODE").is_dir() else (name,)
        if (root / "info" / lines[0]).is_dir():
            yield _read_cache(root, name, lines, in_force, sizes)


def _read_cache(root: Path, name: str, lines: tuple[str, ...], in_force: Schemata, sizes: str) -> CacheResource:
    info = root / "info" / lines[0]
    masks = _domains_of(root, lines[0], in_force)
    cbm_mask = _read_number(info / "cbm_mask", 16)
    if cbm_mask == 0:
        raise MachineError(f"{info / 'cbm_mask'}: 0, but a cache that can be divided has ways")
    return CacheResource(
        name,
        lines,
        tuple(masks),
        cbm_mask,
        _read_number(info / "min_cbm_bits"),
        _read_number(info / "shareable_bits", 16),
        _read_number(info / "num_closids"),
        (_read_if_there(info / "sparse_masks") or "0").strip() == "1",
        _bytes_per_way(lines[0], masks, sizes),
    )


def _bytes_per_way(line: str, masks: Mapping[int, int], sizes: str) -> int | None:
    """From the root's ``size``, which is a way's bytes times the bits set in its mask. None without that file."""
    found = re.search(rf"^\s*{line}:(\d+)=\s*(\d+)", sizes, re.MULTILINE)
    if found is None:
        return None
    bits = masks.get(int(found[1]), 0).bit_count()
    return int(found[2]) // bits if bits else None


def _bandwidths(root: Path, in_force: Schemata, options: frozenset[str]) -> Iterator[BandwidthResource]:
    groups = tuple(_schemata_of_groups(root))
    for name in ("MB", "SMBA"):
        if (root / "info" / name).is_dir():
            values = _domains_of(root, name, in_force)
            seen = {v for each in (in_force, *groups) for v in each.get(name, {}).values()}
            software = name == "MB" and ("mba_MBps" in options or (root / "mba_MBps_event").exists())
            yield _read_bandwidth(root / "info" / name, tuple(values), seen, software=software)


def _read_bandwidth(info: Path, domains: tuple[int, ...], seen: set[int], *, software: bool) -> BandwidthResource:
    minimum = _read_number(info / "min_bandwidth")
    mode = (_read_if_there(info / "thread_throttle_mode") or "").strip() or None
    linear = (_read_if_there(info / "delay_linear") or "0").strip() == "1"
    absolute = minimum == 0 and mode is None
    unit = BandwidthUnit.MBPS if software else _unit(seen, absolute=absolute, linear=linear)
    counted_by_hardware = unit is not BandwidthUnit.MBPS
    return BandwidthResource(
        info.name,
        domains,
        unit,
        minimum if counted_by_hardware else 1,
        max(1, _read_number(info / "bandwidth_gran")) if counted_by_hardware else 1,
        _maximum(unit, seen),
        _read_number(info / "num_closids"),
        mode,
    )


def _unit(seen: set[int], *, absolute: bool, linear: bool) -> BandwidthUnit:
    """How the values that groups have are counted, when neither mount options nor files say mba_MBps.

    Nothing in resctrl names the unit, so it is concluded. No per cent is above 100. Only a machine whose throttle
    is linear can be mounted with mba_MBps, and AMD's never is. With every value at 100 or below, a minimum of 0
    gives away an absolute machine that somebody limited, since Intel's lowest step is above 0.
    """
    if MBPS_UNLIMITED in seen:
        return BandwidthUnit.MBPS
    if any(value > 100 for value in seen):
        return BandwidthUnit.MBPS if linear else BandwidthUnit.EIGHTH_GBPS
    return BandwidthUnit.EIGHTH_GBPS if absolute else BandwidthUnit.PERCENT


def _maximum(unit: BandwidthUnit, seen: set[int]) -> int:
    """No limit, in steps.

    On an absolute machine no file gives it: a value that some group has is a lower bound (a new group starts at
    the maximum), and 2048 is what every kernel before 6.12 and the hardware known so far use.
    """
    match unit:
        case BandwidthUnit.PERCENT:
            return 100
        case BandwidthUnit.MBPS:
            return MBPS_UNLIMITED
        case BandwidthUnit.EIGHTH_GBPS:
            return max(ABSOLUTE_UNLIMITED, *seen)


def _schemata_of_groups(root: Path) -> Iterator[Schemata]:
    """Of the control groups besides root. One that disappears meanwhile is left out."""
    for directory in _group_directories(root):
        text = _read_if_there(directory / "schemata")
        if text is not None:
            yield _parse_schemata(directory / "schemata", text)


def _read_monitoring(info: Path) -> Monitoring | None:
    if not info.is_dir():
        return None
    threshold = info / "max_threshold_occupancy"
    return Monitoring(
        _read_number(info / "num_rmids"),
        tuple(_read(info / "mon_features").split()),
        _read_number(threshold) if threshold.exists() else None,
    )


def _options_that_show(caches: tuple[CacheResource, ...], bandwidths: tuple[BandwidthResource, ...]) -> frozenset[str]:
    cdp = {"cdp" if c.name == "L3" else "cdpl2" for c in caches if c.cdp}
    software = {"mba_MBps" for b in bandwidths if b.unit is BandwidthUnit.MBPS}
    return frozenset(cdp | software)


def _online_cpus(root: Path) -> frozenset[int]:
    """A CPU that is online belongs to one control group, and one that is not to none."""
    lists = (directory / "cpus_list" for directory in (root, *_group_directories(root)))
    return frozenset(cpu for path in lists for cpu in _parse_cpus(path))


def _parse_cpus(path: Path) -> frozenset[int]:
    try:
        return parse_cpu_list(_read_if_there(path) or "")
    except ValueError as error:
        raise MachineError(f"{path}: {error}") from error


def _described_files(root: Path) -> Iterator[Path]:
    for directory in (root, *_group_directories(root)):
        yield from (path for path in directory.iterdir() if path.is_file())
    for tree in ("info", "mon_data"):
        yield from (path for path in (root / tree).rglob("*") if path.is_file())


def _group_directories(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if path.is_dir() and path.name not in NOT_GROUPS]


def _bytes_if_readable(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _domains_of(root: Path, line: str, in_force: Schemata) -> Mapping[int, int]:
    """The root group's values of a resource: the only place that lists the domains there are."""
    values = in_force.get(line)
    if not values:
        raise MachineError(f"{root / 'schemata'}: info/ knows {line}, but there is no line for it")
    return values


def _read_schemata(path: Path) -> Schemata:
    return _parse_schemata(path, _read(path))


def _parse_schemata(path: Path, text: str) -> Schemata:
    try:
        return schemata.parse(text)
    except schemata.SchemataError as error:
        raise MachineError(f"{path}: {error}") from error


def _read_number(path: Path, base: int = 10) -> int:
    text = _read(path).strip()
    try:
        return int(text, base)
    except ValueError:
        raise MachineError(f'{path}: "{text}" is not a number to the base {base}') from None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise MachineError(f"{path}: {reason}; a machine description needs this file") from error


def _read_if_there(path: Path) -> str | None:
    """None where the file does not exist, or its group was removed while it was open (ENODEV reads as such)."""
    try:
        return path.read_text()
    except OSError as error:
        if gone(error):
            return None
        raise MachineError(f"{path}: {error.strerror}") from error
