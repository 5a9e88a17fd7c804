"""One mount of resctrl: the machine, the kernel, the options, and the state that all its files share."""

import errno
from dataclasses import dataclass

from agent.emulator.controls import Controls
from agent.emulator.counters import AssignableCounters
from agent.emulator.errors import RefusedError
from agent.emulator.groups import Groups
from agent.emulator.machines import Cache, Machine
from agent.emulator.rules import KernelRules
from agent.emulator.status import LastCommandStatus


@dataclass(frozen=True, slots=True)
class Mount:
    """What a kernel keeps for as long as resctrl is mounted. Nothing of it persists."""

    machine: Machine
    rules: KernelRules
    options: frozenset[str]
    controls: Controls
    groups: Groups
    status: LastCommandStatus
    counters: AssignableCounters | None
    """None where each group has counters of its own."""


def mount(machine: Machine, rules: KernelRules, options: frozenset[str]) -> Mount:
    """A mount with the root group alone. Raises RefusedError (EINVAL) for an option that is not possible here."""
    if not options <= possible_options(machine, rules):
        raise RefusedError(errno.EINVAL)
    every_cpu = (1 << machine.cpus) - 1
    groups, status = Groups(every_cpu), LastCommandStatus()
    counters = _counters(machine, rules, status)
    if counters:
        counters.assign_new(groups.root)
    return Mount(machine, rules, options, Controls(machine, options), groups, status, counters)


def possible_options(machine: Machine, rules: KernelRules) -> frozenset[str]:
    """What this kernel can mount resctrl with on this machine."""
    facts = {
        "cdp": _can_split(machine.l3),
        "cdpl2": _can_split(machine.l2),
        "mba_MBps": bool(controlling_events(machine, rules)),
        "debug": rules.has_debug_option,
    }
    return frozenset(option for option, able in facts.items() if able)


def controlling_events(machine: Machine, rules: KernelRules) -> list[str]:
    """What the feedback loop of mba_MBps can go by, its first choice first; it needs a linear scale besides."""
    if machine.mb is None or not machine.mb.linear or machine.monitoring is None:
        return []
    possible = ("mbm_local_bytes", "mbm_total_bytes") if rules.chooses_mbps_event else ("mbm_local_bytes",)
    return [event for event in possible if event in machine.monitoring.events]


def _counters(machine: Machine, rules: KernelRules, status: LastCommandStatus) -> AssignableCounters | None:
    monitoring = machine.monitoring
    if monitoring and monitoring.assignable_counters and rules.assigns_counters:
        return AssignableCounters(monitoring, status)
    return None


def _can_split(cache: Cache | None) -> bool:
    return cache is not None and cache.cdp
