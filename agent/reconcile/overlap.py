"""Where masks meet that should not: what the kernel would refuse, and what defeats the policy's purpose. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.policy.model import ClassPolicy, Mode, Policy, Position
from agent.policy.problem import Problem, Severity
from agent.resctrl.machine import CacheResource, Machine
from agent.resctrl.schemata import Schemata


def overlap_problems(
    policy: Policy,
    machine: Machine,
    masks: Mapping[str, Schemata],
    root: Schemata,
    slices: Mapping[str, Mapping[str, int]],
) -> list[Problem]:
    """``masks``: class → schemata; ``root``: the root group's as found; ``slices``: schemata name → partition → mask.

    An exclusive class may meet nothing: neither another class nor the root group nor ways that hardware shares
    (the kernel refuses the mode). A partition that others reach into is legal and seldom meant: a warning.
    """
    holders = _holders(policy, masks, root)
    return [
        *(problem for cache in machine.caches for problem in _exclusive(cache, holders)),
        *(problem for cache in machine.caches for problem in _intrusions(policy, cache, holders, slices)),
    ]


@dataclass(frozen=True, slots=True)
class _Holder:
    """Somebody with a mask: a class, or the root group that no class speaks for (``spec`` is None)."""

    label: str
    spec: ClassPolicy | None
    schemata: Schemata

    def ways(self, cache: CacheResource, domain: int) -> int:
        """Code and data together, since the kernel judges overlap by both."""
        bits = 0
        for name in cache.schemata_names:
            bits |= self.schemata.get(name, {}).get(domain, cache.cbm_mask)
        return bits


def _holders(policy: Policy, masks: Mapping[str, Schemata], root: Schemata) -> list[_Holder]:
    holders = [_Holder(f'class "{name}"', policy.classes[name], schemata) for name, schemata in masks.items()]
    if policy.default_class is None:
        holders.append(_Holder("the root group", None, root))
    return holders


def _exclusive(cache: CacheResource, holders: list[_Holder]) -> Iterator[Problem]:
    for holder in holders:
        if holder.spec is None or holder.spec.mode is not Mode.EXCLUSIVE:
            continue
        for other in holders:
            if other is not holder and (domain := _meeting(cache, holder, other)) is not None:
                yield _exclusive_meets(cache, holder, holder.spec, other, domain)
        for domain in cache.domains:
            if holder.ways(cache, domain) & cache.shareable_bits:
                message = (
                    f"{holder.label} is exclusive and includes ways that hardware shares "
                    f"({cache.name}: {cache.shareable_bits:x}), which the kernel refuses"
                )
                free = cache.cbm_mask & ~cache.shareable_bits
                hint = f"use ways outside {cache.shareable_bits:x}; those that hardware does not fill are {free:x}"
                yield Problem(Severity.ERROR, message, _cache_position(holder.spec, cache), hint)
                break


def _exclusive_meets(cache: CacheResource, holder: _Holder, spec: ClassPolicy, other: _Holder, domain: int) -> Problem:
    both = holder.ways(cache, domain) & other.ways(cache, domain)
    message = f"{holder.label} is exclusive and meets {other.label} in {cache.name} domain {domain}, ways {both:x}"
    hint = None
    if other.spec is None:
        hint = f"name a class with `default: true` and give it the {cache.name} ways that are left"
    return Problem(Severity.ERROR, message, _cache_position(spec, cache), hint)


def _meeting(cache: CacheResource, one: _Holder, other: _Holder) -> int | None:
    return next((d for d in cache.domains if one.ways(cache, d) & other.ways(cache, d)), None)


def _intrusions(
    policy: Policy, cache: CacheResource, holders: list[_Holder], slices: Mapping[str, Mapping[str, int]]
) -> Iterator[Problem]:
    for partition in policy.partitions.values():
        bits = 0
        for name in cache.schemata_names:
            bits |= slices.get(name, {}).get(partition.name, 0)
        for holder in holders:
            inside = holder.spec is not None and holder.spec.partition is not None
            domain = next((d for d in cache.domains if holder.ways(cache, d) & bits), None)
            if inside or domain is None:
                continue
            yield _intrusion(cache, partition.name, partition.position, holder, holder.ways(cache, domain) & bits)


def _intrusion(cache: CacheResource, partition: str, where: Position, holder: _Holder, ways: int) -> Problem:
    root = holder.spec is None or holder.spec.default
    message = f'{holder.label} reaches into partition "{partition}" ({cache.name} ways {ways:x})'
    if root:
        message += ", so everything that no rule names shares it"
    hint = f"limit its {cache.name.lower()}, or put it in a partition"
    if holder.spec is None:
        hint = f"name a class with `default: true` and limit its {cache.name.lower()}"
        return Problem(Severity.WARNING, message, where, hint)
    return Problem(Severity.WARNING, message, _cache_position(holder.spec, cache), hint)


def _cache_position(spec: ClassPolicy, cache: CacheResource) -> Position:
    """Where the class says what it may use of this cache; the class itself where it does not."""
    level = cache.name.lower()
    return next(
        (spec.caches[key].position for key in (level, f"{level}data", f"{level}code") if key in spec.caches),
        spec.position,
    )
