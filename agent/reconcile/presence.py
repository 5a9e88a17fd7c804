"""Cache domains and CPUs that come and go while a policy is in force. Pure.

A cache domain is there while one of its CPUs is online. One that comes back has no limits in any group, whatever it
had before, and groups that are exclusive are so in name only there until masks are written again. A CPU that goes
leaves its group, and one that comes back is the root group's.
"""

from collections.abc import Mapping
from dataclasses import replace

from agent.reconcile.actions import Action, SetCpus, SetMode, WriteSchemata
from agent.reconcile.desired import ranges
from agent.reconcile.plan import ROOT
from agent.resctrl.allocation import unlimited
from agent.resctrl.filesystem import Group
from agent.resctrl.machine import Machine
from agent.resctrl.resources import Domains


def machine_now(machine: Machine, groups: Mapping[str, Group]) -> Machine:
    """The machine with the domains and CPUs that its groups show; all else is as it was when it was first read.

    Only then do the groups show what the machine can do (see ``_unit`` and ``_maximum`` of machine.py).
    """
    root = groups[ROOT].schemata
    return replace(
        machine,
        caches=tuple(replace(c, domains=tuple(root.get(c.schemata_names[0], ()))) for c in machine.caches),
        bandwidths=tuple(replace(b, domains=tuple(root.get(b.name, ()))) for b in machine.bandwidths),
        cpus=frozenset(cpu for group in groups.values() for cpu in group.cpus),
    )


def together(one: Domains, other: Domains) -> Domains:
    """The domains of both."""
    return {resource: one.get(resource, frozenset()) | other.get(resource, frozenset()) for resource in {*one, *other}}


def told(before: Machine, now: Machine) -> dict[str, str]:
    """What happened, as a sentence → which domains or CPUs it happened to. Empty where nothing did."""
    sentences = {
        "Cache domains went offline": _only_in(before.domains, now.domains),
        "Cache domains came online, without limits in any group": _only_in(now.domains, before.domains),
        "CPUs went offline": ranges(tuple(before.cpus - now.cpus)),
        "CPUs came online": ranges(tuple(now.cpus - before.cpus)),
    }
    return {sentence: which for sentence, which in sentences.items() if which}


def follows_from_hotplug(action: Action, machine: Machine) -> bool:
    """Whether CPUs that came or went can be why the action is needed: what they undo is undone as a whole."""
    match action:
        case WriteSchemata(resource=resource, before=before):
            return before == _no_limit(machine, resource)
        case SetMode() | SetCpus():
            return True
        case _:
            return False


def _only_in(one: Domains, other: Domains) -> str:
    """``L3 1, MB 1``."""
    gone = {resource: tuple(ids - other.get(resource, frozenset())) for resource, ids in one.items()}
    return ", ".join(f"{resource} {ranges(ids)}" for resource, ids in gone.items() if ids)


def _no_limit(machine: Machine, resource: str) -> int | None:
    bandwidth = machine.bandwidth(resource)
    if bandwidth is not None:
        return unlimited(bandwidth)
    cache = machine.cache(resource[: len("L3")])
    return cache.cbm_mask if cache else None
