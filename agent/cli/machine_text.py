"""A machine in words. Pure."""

from collections.abc import Iterator
from pathlib import Path

from agent.cli.table import table
from agent.reconcile.desired import ranges
from agent.resctrl.machine import BandwidthResource, BandwidthUnit, CacheResource, Machine, Monitoring


def mount_line(path: Path, *, emulated: bool) -> str:
    """Where resctrl is; an emulated one limits nothing, so nobody shall take it for the real one."""
    return f"resctrl at {path}" + (", EMULATED: nothing is really limited" if emulated else "")


def one_line(machine: Machine) -> str:
    """``L3 of 11 ways in 2 domains, MB in per cent; 8 CLOSIDs, 160 RMIDs``."""
    caches = [f"{c.name} of {_count(c.ways, 'way')} in {_count(len(c.domains), 'domain')}" for c in machine.caches]
    bandwidths = [f"{b.name} in {_unit(b)}" for b in machine.bandwidths]
    resources = ", ".join([*caches, *bandwidths]) or "nothing to divide"
    rmids = f", {machine.monitoring.num_rmids} RMIDs" if machine.monitoring else ", no monitoring"
    return f"{resources}; {_count(machine.num_closids, 'CLOSID')}{rmids}"


def described(machine: Machine) -> list[str]:
    """All of it, a line for each resource."""
    caches = [(cache.name, *_where(cache), _cache(cache)) for cache in machine.caches]
    rows = [*caches, *((each.name, *_where(each), _bandwidth(each)) for each in machine.bandwidths)]
    lines = table(("RESOURCE", "DOMAINS", "CLOSIDS", "CAN BE GIVEN"), rows) if rows else ["nothing can be divided here"]
    return [*lines, *_mounted(machine), _groups(machine), _monitoring(machine.monitoring)]


def _where(resource: CacheResource | BandwidthResource) -> tuple[str, str]:
    return ranges(resource.domains), str(resource.num_closids)


def _cache(cache: CacheResource) -> str:
    size = f" of {cache.bytes_per_way / (1 << 20):.4g} MiB" if cache.bytes_per_way else ""
    facts = [f"{_count(cache.ways, 'way')}{size} (mask {cache.cbm_mask:x}), at least {max(cache.min_cbm_bits, 1)}"]
    if cache.shareable_bits:
        facts.append(f"{cache.shareable_bits:x} shared with other hardware")
    if cache.sparse_masks:
        facts.append("masks may have holes")
    if cache.cdp:
        facts.append("code and data apart")
    return ", ".join(facts)


def _bandwidth(bandwidth: BandwidthResource) -> str:
    if bandwidth.unit is BandwidthUnit.MBPS:
        return "MiB/s, any number"
    least = max(bandwidth.min_bandwidth, 1)
    facts = [f"{_unit(bandwidth)}, {least} to {bandwidth.maximum} in steps of {bandwidth.granularity}"]
    if bandwidth.thread_throttle_mode:
        facts.append(f"throttle mode {bandwidth.thread_throttle_mode}")
    return ", ".join(facts)


def _unit(bandwidth: BandwidthResource) -> str:
    return "per cent" if bandwidth.unit is BandwidthUnit.PERCENT else bandwidth.unit.value


def _mounted(machine: Machine) -> Iterator[str]:
    if machine.mount_options:
        yield f"mounted with {','.join(sorted(machine.mount_options))}"


def _groups(machine: Machine) -> str:
    if machine.num_closids == 1:
        return "control groups: the root group alone"
    return f"control groups: the root group and {machine.num_closids - 1} more"


def _monitoring(monitoring: Monitoring | None) -> str:
    if monitoring is None:
        return "monitoring: none"
    return f"monitoring: {_count(monitoring.num_rmids, 'RMID')}; {', '.join(monitoring.features)}"


def _count(number: int, one: str) -> str:
    return f"{number} {one}{'' if number == 1 else 's'}"
