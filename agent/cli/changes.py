"""Actions of a plan as sentences. Pure."""

from collections.abc import Iterable

from agent.reconcile.desired import ranges
from agent.reconcile.plan import Action, CreateGroup, MoveTasks, RemoveGroup, SetCpus, SetMode, WriteSchemata
from agent.resctrl.cpulist import format_cpu_list
from agent.resctrl.schemata import value_text


def sentences(actions: Iterable[Action]) -> list[str]:
    """One line each, in order; writes of the same value to several domains of a group share a line."""
    lines: dict[str | tuple[str, str, int | None, int], list[WriteSchemata]] = {}
    for action in actions:
        if isinstance(action, WriteSchemata):
            lines.setdefault((action.group, action.resource, action.before, action.after), []).append(action)
        else:
            lines[_sentence(action)] = []
    return [key if isinstance(key, str) else _write(writes) for key, writes in lines.items()]


def threads_text(count: int) -> str:
    """``1 thread``, ``12 threads``."""
    return f"{count} thread{'' if count == 1 else 's'}"


def group_name(group: str) -> str:
    """``group batch``; the root group has no name."""
    return f"group {group}" if group else "the root group"


def _sentence(action: Action) -> str:
    match action:
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


def _write(writes: list[WriteSchemata]) -> str:
    first = writes[0]
    domains = tuple(write.domain for write in writes)
    before = "none" if first.before is None else value_text(first.resource, first.before)
    return (
        f"write {first.resource} domain{'s' if len(domains) > 1 else ''} {ranges(domains)} of "
        f"{group_name(first.group)}: {before} → {value_text(first.resource, first.after)}"
    )


def _cpus(cpus: frozenset[int]) -> str:
    return format_cpu_list(cpus) or "none"
