"""Nodes → classes, partitions and the ``resctrl`` section."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from agent.policy.amounts import (
    MAX_CPU,
    MAX_DOMAIN,
    AmountError,
    bandwidth_amount,
    cache_amount,
    id_list,
    partition_amount,
    rate,
)
from agent.policy.model import (
    BANDWIDTH_KEYS,
    CACHE_KEYS,
    ClassPolicy,
    Mode,
    Monitor,
    MountPolicy,
    Partition,
    PerDomain,
    Written,
)
from agent.policy.names import complaint
from agent.policy.nodes import Mapping, Node, Scalar, Sequence
from agent.policy.report import Report
from agent.policy.shape import (
    Entry,
    described,
    entries,
    named_entries,
    nearest,
    one_of,
    quoted,
    text,
    truth,
)

A = TypeVar("A")
Amounts = Callable[[str], A]

CLASS_KEYS = (*CACHE_KEYS, *BANDWIDTH_KEYS, "partition", "mode", "cpus", "optional", "adopt", "default", "monitor")
MOUNT_KEYS = ("cdp", "bandwidth", "bandwidth_capacity")
CDP_CACHES = ("l2", "l3")
BANDWIDTH_UNITS = ("percent", "MBps")

MAX_CLASSES = 256
"""In one file. No machine has half as many CLOSIDs, and reading more would only cost memory."""


def mount_policy(entry: Entry, report: Report) -> MountPolicy:
    """The ``resctrl`` section."""
    found = entries(entry.value, "resctrl", MOUNT_KEYS, report)
    cdp = found.get("cdp")
    bandwidth = found.get("bandwidth")
    capacity = found.get("bandwidth_capacity")
    written = _amount(capacity.value, "resctrl: bandwidth_capacity", rate, report) if capacity else None
    return MountPolicy(
        cdp=_words(cdp, "resctrl: cdp", CDP_CACHES, report) if cdp else frozenset(),
        bandwidth=one_of(bandwidth.value, "resctrl: bandwidth", BANDWIDTH_UNITS, report) if bandwidth else None,
        bandwidth_capacity=written.amount if written else None,
        position=entry.key.position,
    )


def partitions(node: Node, report: Report) -> Iterator[Partition]:
    """The ``partitions`` section."""
    for name, entry in named_entries(node, "partitions", report).items():
        subject = f"partition {quoted(name)}"
        _check_name(entry.key, "partition", report)
        found = entries(entry.value, subject, CACHE_KEYS, report)
        if not found:
            report.error(entry.position, f"{subject} slices no cache", 'say how much, as in "l3: 60%"')
        _check_one_source(found, subject, report)
        amounts = {key: _amount(of.value, f"{subject}: {key}", partition_amount, report) for key, of in found.items()}
        written = {key: amount for key, amount in amounts.items() if amount is not None}
        yield Partition(name, written, entry.key.position)


def classes(node: Node, report: Report) -> Iterator[ClassPolicy]:
    """The ``classes`` section. A class with mistakes in it is there all the same, so that rules find its name."""
    found = named_entries(node, "classes", report)
    if len(found) > MAX_CLASSES:
        message = f"{len(found)} classes: more than any machine has CLOSIDs"
        report.error(
            node.position, message, "rules share classes; give a class to each kind of work, not to each workload"
        )
        return
    for name, entry in found.items():
        _check_name(entry.key, "class", report)
        yield _class(name, entry, report)


def _class(name: str, entry: Entry, report: Report) -> ClassPolicy:
    subject = f"class {quoted(name)}"
    found = entries(entry.value, subject, CLASS_KEYS, report)
    _check_one_source(found, subject, report)
    spec = ClassPolicy(
        name=name,
        position=entry.key.position,
        default=_truth(found, "default", subject, report),
        partition=_partition(found.get("partition"), subject, report),
        caches=_amounts(found, CACHE_KEYS, subject, cache_amount, report),
        bandwidths=_amounts(found, BANDWIDTH_KEYS, subject, bandwidth_amount, report),
        mode=_mode(found.get("mode"), subject, report),
        cpus=_cpus(found.get("cpus"), subject, report),
        optional=_optional(found, subject, report),
        adopt=_truth(found, "adopt", subject, report),
        monitor=_monitor(found.get("monitor"), subject, report),
    )
    _check_default(spec, found, subject, report)
    _check_exclusive(found, subject, report)
    return spec


def _check_name(key: Scalar, what: str, report: Report) -> None:
    why = complaint(key.text)
    if why is not None:
        report.error(key.position, f"{what} {quoted(key.text)}: this {why}")


def _check_one_source(found: dict[str, Entry], subject: str, report: Report) -> None:
    """A cache's plain key sets code and data alike, so it cannot stand beside either."""
    for cache in CDP_CACHES:
        for half in (f"{cache}code", f"{cache}data"):
            if cache in found and half in found:
                first, second = sorted((found[cache], found[half]), key=lambda entry: entry.key.position)
                message = f"{subject}: {second.key.text} says again what {first.key.text} says at {first.key.position}"
                hint = f"{cache} is for code and data alike; give either {cache}, or {cache}code and {cache}data"
                report.error(second.key.position, message, hint)


def _truth(found: dict[str, Entry], key: str, subject: str, report: Report) -> bool:
    return truth(found[key].value, f"{subject}: {key}", report) if key in found else False


def _partition(entry: Entry | None, subject: str, report: Report) -> Written[str] | None:
    name = text(entry.value, f"{subject}: partition", report) if entry else None
    return Written(name.text, name.text, name.position) if name else None


def _amounts(
    found: dict[str, Entry], keys: tuple[str, ...], subject: str, parse: Amounts[A], report: Report
) -> dict[str, PerDomain[A]]:
    read = ((key, _per_domain(found[key], f"{subject}: {key}", parse, report)) for key in keys if key in found)
    return {key: amounts for key, amounts in read if amounts is not None}


def _per_domain(entry: Entry, subject: str, parse: Amounts[A], report: Report) -> PerDomain[A] | None:
    if not isinstance(entry.value, Mapping):
        everywhere = _amount(entry.value, subject, parse, report)
        return PerDomain(everywhere, {}, entry.position) if everywhere else None
    found = named_entries(entry.value, subject, report)
    if not found:
        report.error(entry.position, f"{subject} names no cache id", 'write "default: 30%", or an id as in "0: 30%"')
    default = found.pop("default", None)
    everywhere = _amount(default.value, f"{subject} default", parse, report) if default else None
    return PerDomain(everywhere, _by_domain(found, subject, parse, report), entry.position)


def _by_domain(found: dict[str, Entry], subject: str, parse: Amounts[A], report: Report) -> dict[int, Written[A]]:
    given: dict[int, Entry] = {}
    amounts: dict[int, Written[A]] = {}
    for name, entry in found.items():
        ids = _domains(entry, subject, report)
        taken = next((domain for domain in ids if domain in given), None)
        if taken is not None:
            first = given[taken].key.position
            report.error(entry.key.position, f"{subject}: cache id {taken} is given twice, first at {first}")
        amount = _amount(entry.value, f"{subject} of domain {name}" if ids else subject, parse, report)
        given |= dict.fromkeys(ids, entry)
        amounts |= dict.fromkeys(ids, amount) if amount else {}
    return amounts


def _domains(entry: Entry, subject: str, report: Report) -> tuple[int, ...]:
    try:
        return id_list(entry.key.text, MAX_DOMAIN)
    except AmountError as error:
        hint = nearest(entry.key.text, ("default",)) or 'cache ids are written "1", "8-15" or "default"'
        report.error(entry.key.position, f"{subject}: cache id {quoted(entry.key.text)} {error.message}", hint)
        return ()


def _amount(node: Node, subject: str, parse: Amounts[A], report: Report) -> Written[A] | None:
    written = text(node, subject, report)
    if written is None:
        return None
    try:
        return Written(parse(written.text), written.text, written.position)
    except AmountError as error:
        report.error(written.position, f"{subject} {quoted(written.text)} {error.message}", error.hint)
        return None


def _mode(entry: Entry | None, subject: str, report: Report) -> Mode:
    modes = {mode.value: mode for mode in Mode}
    word = one_of(entry.value, f"{subject}: mode", modes, report) if entry else None
    return modes[word] if word else Mode.SHAREABLE


def _monitor(entry: Entry | None, subject: str, report: Report) -> Monitor:
    choices = {choice.value: choice for choice in Monitor}
    word = one_of(entry.value, f"{subject}: monitor", choices, report) if entry else None
    return choices[word] if word else Monitor.CLASS


def _cpus(entry: Entry | None, subject: str, report: Report) -> Written[frozenset[int]] | None:
    if entry is None:
        return None
    return _amount(entry.value, f"{subject}: cpus", lambda cpus: frozenset(id_list(cpus, MAX_CPU)), report)


def _optional(found: dict[str, Entry], subject: str, report: Report) -> frozenset[str]:
    entry = found.get("optional")
    if entry is None:
        return frozenset()
    words = _words(entry, f"{subject}: optional", (*CACHE_KEYS, *BANDWIDTH_KEYS), report)
    for word in sorted(words - found.keys()):
        message = f"{subject}: optional {quoted(word)} makes no difference, since the class gives no {word}"
        report.warning(entry.position, message)
    return words


def _words(entry: Entry, subject: str, choices: tuple[str, ...], report: Report) -> frozenset[str]:
    if not isinstance(entry.value, Sequence):
        word = entry.value.text if isinstance(entry.value, Scalar) and entry.value.text in choices else choices[0]
        hint = f'write "[{word}]"'
        report.error(entry.position, f"{subject} must be a list, not {described(entry.value)}", hint)
        return frozenset()
    words = [one_of(item, subject, choices, report) for item in entry.value.items]
    return frozenset(word for word in words if word is not None)


def _check_default(spec: ClassPolicy, found: dict[str, Entry], subject: str, report: Report) -> None:
    if not spec.default:
        return
    if spec.mode is Mode.EXCLUSIVE:
        hint = "make the other classes exclusive, or put this one into a partition"
        report.error(found["mode"].position, f"{subject}: the default class cannot be exclusive", hint)
    if "cpus" in found:
        message = f"{subject}: the default class has the CPUs that no other class takes"
        report.error(found["cpus"].key.position, message, "leave cpus out here")


def _check_exclusive(found: dict[str, Entry], subject: str, report: Report) -> None:
    mode = found.get("mode")
    exclusive = mode and isinstance(mode.value, Scalar) and mode.value.text == Mode.EXCLUSIVE.value
    if mode and exclusive and not found.keys() & {*CACHE_KEYS, "partition"}:
        message = f"{subject} is exclusive but has the whole cache, like every other class"
        report.error(mode.position, message, 'give it ways of its own, as in "l3: 0-30%"')
