"""What only the whole policy can show: names that lead nowhere, shares that do not add up, claims that collide."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from agent.policy.model import (
    CACHE_KEYS,
    CacheAmount,
    ClassPolicy,
    Partition,
    PerDomain,
    Policy,
    Rule,
    WayMask,
    WayRange,
    Written,
)
from agent.policy.report import Report
from agent.policy.shape import label, nearest, quoted

HALVES = {key: (key,) if key[2:] else (f"{key}code", f"{key}data") for key in CACHE_KEYS}
"""What each key sets: the plain ones both halves."""


def check_consistency(policy: Policy, report: Report) -> None:
    """Report, as errors, where the policy contradicts itself."""
    _check_one_default(policy, report)
    _check_partition_sums(policy.partitions, report)
    for spec in policy.classes.values():
        _check_partition(spec, policy.partitions, report)
    _check_cpus(policy.classes.values(), report)
    for rule in policy.rules:
        _check_class_of(rule, policy.classes, report)


def _check_one_default(policy: Policy, report: Report) -> None:
    first = policy.default_class
    for other in policy.classes.values():
        if first is not None and other.default and other is not first:
            message = f"class {quoted(other.name)} is the default, as is {quoted(first.name)} at {first.position}"
            report.error(other.position, message, "there is one root group; make one class the default")


def _check_partition_sums(partitions: Mapping[str, Partition], report: Report) -> None:
    sums: dict[str, Fraction] = {}
    for partition in partitions.values():
        for key, written in partition.caches.items():
            if not isinstance(written.amount, WayRange):
                continue
            for half in HALVES[key]:
                sums[half] = sums.get(half, Fraction(0)) + written.amount.end
            total = max(sums[half] for half in HALVES[key])
            if total > 100:
                message = f"partition {quoted(partition.name)}: with this {key} the partitions take {_percent(total)}"
                report.error(written.position, message, "partitions are disjoint: make them 100 % or less together")


def _check_partition(spec: ClassPolicy, partitions: Mapping[str, Partition], report: Report) -> None:
    if spec.partition is None:
        return
    partition = partitions.get(spec.partition.amount)
    if partition is None:
        message = f"class {quoted(spec.name)}: there is no partition {quoted(spec.partition.text)}"
        report.error(spec.partition.position, message, _known(spec.partition.text, partitions, "partitions"))
        return
    sliced = {half for key in partition.caches for half in HALVES[key]}
    for key, amounts in spec.caches.items():
        if sliced & set(HALVES[key]):
            _refuse_masks(spec, key, amounts, report)


def _refuse_masks(spec: ClassPolicy, key: str, amounts: PerDomain[CacheAmount], report: Report) -> None:
    for written in _each(amounts):
        if isinstance(written.amount, WayMask) and spec.partition:
            message = f"class {quoted(spec.name)}: {key} {quoted(written.text)} is a mask, which cannot be relative"
            hint = f'inside partition {quoted(spec.partition.text)}, write per cents or "4 ways" of it'
            report.error(written.position, message, hint)


def _each(amounts: PerDomain[CacheAmount]) -> Iterator[Written[CacheAmount]]:
    given = (amounts.default, *amounts.domains.values())
    return (written for written in given if written is not None)


def _check_cpus(classes: Iterable[ClassPolicy], report: Report) -> None:
    taken: dict[int, ClassPolicy] = {}
    for spec in classes:
        cpus = spec.cpus.amount if spec.cpus else frozenset()
        shared = min((cpu for cpu in cpus if cpu in taken), default=None)
        if shared is not None and spec.cpus is not None:
            other = taken[shared]
            at = other.cpus.position if other.cpus else other.position
            message = f"class {quoted(spec.name)}: CPU {shared} belongs to class {quoted(other.name)} at {at}"
            report.error(spec.cpus.position, message, "a CPU is in one control group")
        taken |= dict.fromkeys(cpus, spec)


def _check_class_of(rule: Rule, classes: Mapping[str, ClassPolicy], report: Report) -> None:
    if rule.class_name not in classes:
        message = f"{label(rule)}: there is no class {quoted(rule.class_name)}"
        report.error(rule.class_position or rule.position, message, _known(rule.class_name, classes, "classes"))


def _known(word: str, names: Iterable[str], what: str) -> str:
    known = list(names)
    if not known:
        return f"the policy defines no {what}"
    return nearest(word, known) or f"{what} are {', '.join(known)}"


def _percent(total: Fraction) -> str:
    return f"{float(total):.10g} %"
