"""Actions of a plan as sentences. Pure."""

from collections.abc import Iterable

from agent.cli.amounts import amount_text
from agent.reconcile.actions import (
    Action,
    CreateGroup,
    CreateMonitoring,
    MonitoringAction,
    MoveMonitoring,
    MoveTasks,
    RemoveGroup,
    RemoveMonitoring,
    SetCpus,
    SetMode,
    WriteSchemata,
)
from agent.reconcile.desired import ranges
from agent.resctrl.cpulist import format_cpu_list
from agent.resctrl.machine import Machine
from agent.resctrl.schemata import value_text

ROOT_GROUP = "the root group"


def sentences(actions: Iterable[Action], machine: Machine | None = None) -> list[str]:
    """One line each, in order; writes of the same value to several domains of a group share a line.

    With a ``machine`` amounts have their units, without one they are as the kernel takes them.
    """
    lines: dict[str | tuple[str, str, int | None, int], list[WriteSchemata]] = {}
    for action in actions:
        if isinstance(action, WriteSchemata):
            lines.setdefault((action.group, action.resource, action.before, action.after), []).append(action)
        else:
            lines[_sentence(action)] = []
    return [key if isinstance(key, str) else _write(writes, machine) for key, writes in lines.items()]


def threads_text(count: int) -> str:
    """``1 thread``, ``12 threads``."""
    return f"{count} thread{'' if count == 1 else 's'}"


def group_name(group: str) -> str:
    """``group batch``; the root group has no name."""
    return f"group {group}" if group else ROOT_GROUP


def _sentence(action: Action) -> str:
    match action:
        case CreateMonitoring() | MoveMonitoring() | RemoveMonitoring():
            return _monitoring(action)
        case CreateGroup(group):
            return f"create {group_name(group)}"
        case RemoveGroup(group):
            return f"remove {group_name(group)}"
        case SetMode(group, before, after):
            return f"set the mode of {group_name(group)}: {before} → {after}"
        case SetCpus(group, before, after):
            return f"set the CPUs of {group_name(group)}: {_cpus(before)} → {_cpus(after)}"
        case MoveTasks(group, count):
            return f"move {threads_text(count)} into {group_name(group)}"
    raise TypeError(f"{action} is no action with a sentence of its own")


def _monitoring(action: MonitoringAction) -> str:
    path = action.group.path
    match action:
        case CreateMonitoring():
            return f"create monitoring group {path} for {action.workload}"
        case MoveMonitoring():
            return f"move monitoring group {path} to {action.to.path}, and {action.workload} with it"
        case RemoveMonitoring():
            return f"remove monitoring group {path} of {action.workload}"


def _write(writes: list[WriteSchemata], machine: Machine | None) -> str:
    first = writes[0]
    domains = tuple(write.domain for write in writes)
    before = "none" if first.before is None else _amount(machine, first.resource, first.before)
    return (
        f"write {first.resource} domain{'s' if len(domains) > 1 else ''} {ranges(domains)} of "
        f"{group_name(first.group)}: {before} → {_amount(machine, first.resource, first.after)}"
    )


def _amount(machine: Machine | None, resource: str, value: int) -> str:
    return value_text(resource, value) if machine is None else amount_text(machine, resource, value)


def _cpus(cpus: frozenset[int]) -> str:
    return format_cpu_list(cpus) or "none"
