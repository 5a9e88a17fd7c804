"""Policy + machine → what each class's control group should look like, and what cannot be. Pure.

``check``, ``plan`` and the daemon all go through ``resolve``, so that what the first promises is what the last writes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

from agent.policy.model import (
    BandwidthAmount,
    BandwidthPercent,
    BandwidthRate,
    CacheAmount,
    ClassPolicy,
    Mode,
    Monitor,
    PerDomain,
    Policy,
    Position,
    WayCount,
    WayMask,
    WayRange,
    Written,
)
from agent.policy.problem import Problem, Severity
from agent.reconcile.overlap import overlap_problems
from agent.resctrl.allocation import (
    AllocationError,
    check_mask,
    count_mask,
    lay_out_partitions,
    percent_step,
    range_mask,
    rate_step,
    unlimited,
)
from agent.resctrl.machine import BandwidthResource, BandwidthUnit, CacheResource, Machine
from agent.resctrl.mount import CDP_OPTIONS, how_to_remount
from agent.resctrl.resources import Domains
from agent.resctrl.schemata import Schemata


@dataclass(frozen=True, slots=True)
class DesiredGroup:
    """A control group as the policy wants it; ``schemata`` is complete: every domain of every resource."""

    name: str
    """"" is the root group."""
    class_name: str
    schemata: Schemata
    mode: Mode
    cpus: frozenset[int] | None
    """None: the policy does not say."""
    adopt: bool


@dataclass(frozen=True, slots=True)
class Desired:
    """The groups, and everything worth saying about how they follow from policy and machine."""

    groups: Mapping[str, DesiredGroup]
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """What makes the policy impossible on this machine."""
        return tuple(p for p in self.problems if p.severity is Severity.ERROR)


def resolve(policy: Policy, machine: Machine, root: Schemata, known: Domains = MappingProxyType({})) -> Desired:
    """What ``policy`` means on ``machine``; ``root``: the root group's schemata, which stay unless a class is default.

    Domains that are ``known`` and not there have gone offline with their last CPU and may come back.

    Never raises for what a policy says: an amount that cannot be is a problem with its position, and that resource
    of that class is left at everything, so that all mistakes are found at once.
    """
    resolution = _Resolution(policy, machine, known)
    resolution.check_mount()
    groups = {spec.group: resolution.group(spec) for spec in policy.classes.values()}
    resolution.check_closids()
    resolution.problems += overlap_problems(policy, machine, groups_masks(groups), root, resolution.slices)
    return Desired(groups, tuple(sorted(resolution.problems, key=lambda p: p.position)))


def groups_masks(groups: Mapping[str, DesiredGroup]) -> dict[str, Schemata]:
    """The schemata by class name."""
    return {group.class_name: group.schemata for group in groups.values()}


A = TypeVar("A")

Slices = Mapping[str, Mapping[str, int]]
"""Schemata name (``L3``, ``L3CODE``, …) → partition → its mask."""


@dataclass(slots=True)
class _Resolution:
    policy: Policy
    machine: Machine
    known: Domains
    problems: list[Problem] = field(default_factory=list)
    slices: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for cache in self.machine.caches:
            for name in cache.schemata_names:
                self.slices[name] = self._lay_out(cache, name)
        self._check_partition_keys()

    def check_mount(self) -> None:
        mount = self.policy.mount
        position = mount.position or Position(self.policy.files[0], 1, 1)
        for key in sorted(mount.cdp):
            cache = self.machine.cache(key.upper())
            if cache is not None and not cache.cdp:
                message = f"resctrl is mounted without CDP for {key}, which takes effect at mount only"
                self._say(Severity.WARNING, message, position, self._how_to_remount())
        mb = self.machine.bandwidth("MB")
        if mount.bandwidth and mb and (mount.bandwidth == "MBps") != (mb.unit is BandwidthUnit.MBPS):
            counts = "with mba_MBps" if mb.unit is BandwidthUnit.MBPS else "without mba_MBps"
            message = f"bandwidth is to be counted in {mount.bandwidth}, but resctrl is mounted {counts}"
            hint = "amounts are converted, and this machine counts in nothing else"
            if mb.unit is not BandwidthUnit.EIGHTH_GBPS:
                hint = f"amounts are converted; to change it: {self._how_to_remount()}"
            self._say(Severity.WARNING, message, position, hint)

    def check_closids(self) -> None:
        named = [spec for spec in self.policy.classes.values() if not spec.default]
        if not self.machine.caches and not self.machine.bandwidths:
            for spec in named[:1]:
                self._error("this machine can only monitor: it has no cache or bandwidth allocation", spec.position)
            return
        room = self.machine.num_closids - 1
        if len(named) > room:
            message = (
                f"class {_quoted(named[room].name)} is one too many: the machine has {self.machine.num_closids} "
                f"CLOSIDs, for the root group and {room} classes"
            )
            self._error(message, named[room].position)

    def group(self, spec: ClassPolicy) -> DesiredGroup:
        self._check_resources(spec)
        schemata: dict[str, Mapping[int, int]] = {}
        for bandwidth in self.machine.bandwidths:
            schemata[bandwidth.name] = dict(self._steps(spec, bandwidth))
        for cache in self.machine.caches:
            for name in cache.schemata_names:
                schemata[name] = dict(self._masks(spec, cache, name))
        if spec.mode is Mode.EXCLUSIVE and not self.machine.caches:
            self._error(
                f"class {_quoted(spec.name)}: exclusive needs cache allocation, which is not here", spec.position
            )
        if spec.monitor is Monitor.WORKLOAD and self.machine.monitoring is None:
            message = f"class {_quoted(spec.name)}: this machine cannot monitor, so nothing is counted for workloads"
            self._say(Severity.WARNING, message, spec.position)
        cpus = spec.cpus.amount if spec.cpus else None
        self._check_cpus(spec)
        return DesiredGroup(spec.group, spec.name, schemata, spec.mode, cpus, spec.adopt)

    def _masks(self, spec: ClassPolicy, cache: CacheResource, name: str) -> Iterator[tuple[int, int]]:
        key, amounts = _amounts_for(spec, name)
        within = self.slices[name].get(spec.partition.amount) if spec.partition else None
        everything = within if within is not None else cache.cbm_mask
        self._check_domains(spec, amounts, cache.domains, cache.name)
        for domain in cache.domains:
            written = _written(amounts, domain)
            mask = self._mask(spec, key, cache, written, within) if written else None
            yield domain, everything if mask is None else mask

    def _mask(
        self, spec: ClassPolicy, key: str, cache: CacheResource, written: Written[CacheAmount], within: int | None
    ) -> int | None:
        what = f"class {_quoted(spec.name)}: {key} {_quoted(written.text)}"
        try:
            mask, note = _cache_mask(cache, written.amount, within)
        except AllocationError as error:
            self._error(f"{what}: {error}", written.position)
            return None
        if note:
            self._say(Severity.NOTE, f"{what}: {note}", written.position)
        return mask

    def _steps(self, spec: ClassPolicy, bandwidth: BandwidthResource) -> Iterator[tuple[int, int]]:
        key = bandwidth.name.lower()
        amounts = spec.bandwidths.get(key)
        self._check_domains(spec, amounts, bandwidth.domains, bandwidth.name)
        for domain in bandwidth.domains:
            written = _written(amounts, domain)
            value = self._step(spec, key, bandwidth, written) if written else None
            yield domain, unlimited(bandwidth) if value is None else value

    def _step(
        self, spec: ClassPolicy, key: str, bandwidth: BandwidthResource, written: Written[BandwidthAmount]
    ) -> int | None:
        what = f"class {_quoted(spec.name)}: {key} {_quoted(written.text)}"
        try:
            value, note = _bandwidth_step(bandwidth, written.amount, self.policy.mount.bandwidth_capacity)
        except AllocationError as error:
            self._error(f"{what}: {error}", written.position)
            return None
        if note:
            self._say(Severity.NOTE, f"{what}: {note}", written.position)
        return value

    def _check_domains(
        self, spec: ClassPolicy, amounts: PerDomain[A] | None, domains: tuple[int, ...], resource: str
    ) -> None:
        if amounts is None:
            return
        missing: dict[tuple[Position, bool], list[int]] = {}
        for domain, written in amounts.domains.items():
            if domain not in domains:
                known = domain in self.known.get(resource, ())
                missing.setdefault((written.position, known), []).append(domain)
        for (position, known), ids in missing.items():
            what = f"no domain{'s' if len(ids) > 1 else ''} {ranges(tuple(ids))}"
            message = f"class {_quoted(spec.name)}: {resource} has {what}"
            if known:
                hint = "all its CPUs are offline; it gets its amount once one is back"
                self._say(Severity.WARNING, f"{message} at the moment", position, hint)
            else:
                self._error(message, position, f"its domains are {ranges(domains)}")

    def _check_cpus(self, spec: ClassPolicy) -> None:
        offline = spec.cpus.amount - self.machine.cpus if spec.cpus and self.machine.cpus else None
        if spec.cpus and offline:
            message = f"class {_quoted(spec.name)}: not online at the moment: CPU {ranges(tuple(offline))}"
            self._say(Severity.WARNING, message, spec.cpus.position, "the class gets them when they come online")

    def _check_resources(self, spec: ClassPolicy) -> None:
        positions = {key: amounts.position for key, amounts in spec.caches.items()}
        positions |= {key: amounts.position for key, amounts in spec.bandwidths.items()}
        for key, position in positions.items():
            missing = self._missing(key)
            if missing:
                optional = key in spec.optional or key[:2] in spec.optional
                severity = Severity.WARNING if optional else Severity.ERROR
                hint = None if optional else self._way_out(key)
                self._say(severity, f"class {_quoted(spec.name)}: {key}: {missing}", position, hint)

    def _way_out(self, key: str) -> str:
        optional = f"if the class may do without it, say so: optional: [{key}]"
        if key[:2].upper() not in {cache.name for cache in self.machine.caches}:
            return optional
        return f"{optional}; for separate masks: {self._how_to_remount(key[:2])}"

    def _how_to_remount(self, *levels: str) -> str:
        """For the options that the policy asks for and the machine may have, and CDP for the ``levels`` as well."""
        mount, names = self.policy.mount, {cache.name for cache in self.machine.caches}
        cdp = {CDP_OPTIONS[level] for level in {*mount.cdp, *levels} if level.upper() in names}
        options = self.machine.mount_options | cdp
        if mount.bandwidth:
            options -= {"mba_MBps"}
        if mount.bandwidth == "MBps":
            options |= {"mba_MBps"}
        return how_to_remount(frozenset(options))

    def _check_partition_keys(self) -> None:
        for partition in self.policy.partitions.values():
            members = [c for c in self.policy.classes.values() if c.partition and c.partition.amount == partition.name]
            for key, written in partition.caches.items():
                missing = self._missing(key)
                if missing:
                    spared = bool(members) and all({key, key[:2]} & c.optional for c in members)
                    severity = Severity.WARNING if spared else Severity.ERROR
                    hint = None if spared else f"its classes can do without it if each says optional: [{key}]"
                    self._say(
                        severity, f"partition {_quoted(partition.name)}: {key}: {missing}", written.position, hint
                    )

    def _missing(self, key: str) -> str | None:
        """Why the machine has nothing for a key of a class; None when it has."""
        if key in ("mb", "smba"):
            what = "memory bandwidth" if key == "mb" else "slow memory bandwidth"
            return None if self.machine.bandwidth(key.upper()) else f"this machine has no {what} allocation"
        cache = self.machine.cache(key[:2].upper())
        if cache is None:
            return f"this machine has no {key[:2].upper()} allocation"
        if len(key) > len("l3") and not cache.cdp:
            return f"resctrl is mounted without CDP for {key[:2]}, so code and data have one mask"
        return None

    def _lay_out(self, cache: CacheResource, name: str) -> dict[str, int]:
        sizes: list[tuple[str, Fraction | int]] = []
        last: Written[CacheAmount] | None = None
        for partition in self.policy.partitions.values():
            written = next((partition.caches[key] for key in _keys_for(name) if key in partition.caches), None)
            if written is not None:
                sizes.append((partition.name, _share(written.amount)))
                last = written
        if last is None:
            return {}
        try:
            return dict(lay_out_partitions(cache, sizes))
        except AllocationError as error:
            self._error(f"partitions: {cache.name}: {error}", last.position)
            return {}

    def _error(self, message: str, position: Position, hint: str | None = None) -> None:
        self._say(Severity.ERROR, message, position, hint)

    def _say(self, severity: Severity, message: str, position: Position, hint: str | None = None) -> None:
        problem = Problem(severity, message, position, hint)
        if problem not in self.problems:  # the same amount counts for every domain; one message is enough
            self.problems.append(problem)


def ranges(ids: tuple[int, ...]) -> str:
    """``(0, 1, 2, 16)`` → ``0–2, 16``."""
    out: list[list[int]] = []
    for number in sorted(ids):
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in out)


def _keys_for(name: str) -> tuple[str, ...]:
    """The policy's keys that set a schemata line, the particular one first: ``L3CODE`` → ``l3code``, ``l3``."""
    return (name.lower(),) if len(name) == len("L3") else (name.lower(), name[:2].lower())


def _amounts_for(spec: ClassPolicy, name: str) -> tuple[str, PerDomain[CacheAmount] | None]:
    for key in _keys_for(name):
        if key in spec.caches:
            return key, spec.caches[key]
    return _keys_for(name)[-1], None


def _written(amounts: PerDomain[A] | None, domain: int) -> Written[A] | None:
    return None if amounts is None else amounts.domains.get(domain, amounts.default)


def _share(amount: CacheAmount) -> Fraction | int:
    match amount:
        case WayCount(ways):
            return ways
        case WayRange(start, end):
            return (end - start) / 100
    raise TypeError(f"a partition's size is a share or a number of ways, not {amount}")


def _cache_mask(cache: CacheResource, amount: CacheAmount, within: int | None) -> tuple[int, str | None]:
    match amount:
        case WayMask(bits):
            check_mask(cache, bits)
            return bits, None
        case WayCount(ways):
            result = count_mask(cache, ways, within)
        case WayRange(start, end):
            result = range_mask(cache, start / 100, end / 100, within)
    return result.mask, result.note


def _bandwidth_step(
    bandwidth: BandwidthResource, amount: BandwidthAmount, capacity: int | None
) -> tuple[int, str | None]:
    match amount:
        case BandwidthPercent(percent):
            result = percent_step(bandwidth, percent, capacity)
        case BandwidthRate(rate):
            result = rate_step(bandwidth, rate, capacity)
        case _:
            return unlimited(bandwidth), None
    return result.value, result.note


def _quoted(text: str) -> str:
    return f'"{text}"'
