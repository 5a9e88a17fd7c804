"""A situation as people read it."""

from collections.abc import Iterator, Sequence

from agent.cli.changes import ROOT_GROUP, group_name, sentences, threads_text
from agent.cli.machine_text import mount_line, one_line
from agent.cli.maps import tell_map
from agent.cli.names import workload_name
from agent.cli.output import tell
from agent.cli.problems import counted
from agent.cli.situation import GroupStatus, Holdings, Situation
from agent.cli.status_json import UNKNOWN, event_source
from agent.cli.table import table, values_text
from agent.policy.problem import Severity
from agent.reconcile.survey import Misplaced, Workload
from agent.resctrl.cpulist import format_cpu_list

FEW = 5
"""Workloads of a class that are shown unless all are asked for, and threads out of place."""


def tell_status(situation: Situation, workloads_a_class: int | None) -> None:
    """Prints it; ``workloads_a_class``: how many workloads of each class to list, None for all."""
    tell(_header(situation))
    tell(["", *_table(situation)])
    tell(_workloads(situation, workloads_a_class))
    tell(["", *_state(situation)])
    groups = {_label(group): group.schemata for group in situation.groups if group.mode is not None}
    root = next((ROOT_GROUP for group in situation.groups if not group.group and group.class_name is None), None)
    tell_map(situation.machine, groups, root)


def _header(situation: Situation) -> Iterator[str]:
    yield mount_line(situation.mount, emulated=situation.emulated)
    yield f"machine: {one_line(situation.machine)}"
    yield f"cgroups: {str(situation.hierarchy).removeprefix('cgroup ')}"
    yield f"agent: {_agent(situation)}"
    yield f"policy: {_policy(situation)}"


def _agent(situation: Situation) -> str:
    if not situation.agent_runs:
        return "not running: tasks stay where they are"
    daemon = situation.daemon
    if daemon is None:
        return "running; what it says of itself cannot be read"
    source = event_source(situation)
    late = "" if source in ("bpf", UNKNOWN) else " (no eBPF: tasks are placed up to a second late)"
    other = f", with the policy {daemon.policy}" if daemon.policy != str(situation.policy) else ""
    refused = f"; the policy as saved last is refused: {daemon.refused}" if daemon.refused else ""
    return f"running, process {daemon.pid}, version {daemon.version}, events from {source}{late}{other}{refused}"


def _policy(situation: Situation) -> str:
    if situation.in_force is None:
        first = next(problem for problem in situation.problems if problem.severity is Severity.ERROR)
        return f"{situation.policy} is refused ({counted(situation.problems)}): {first.message}"
    policy = situation.in_force.policy
    warnings = [problem for problem in situation.problems if problem.severity is Severity.WARNING]
    warned = f"; {counted(warnings)}: see resctrl-agent check" if warnings else ""
    return f"{situation.policy}: {len(policy.classes)} classes, {len(policy.rules)} rules{warned}"


def _table(situation: Situation) -> list[str]:
    resources = tuple(dict.fromkeys(resource for group in situation.groups for resource in group.schemata))
    cpus = ("CPUS",) if _names_cpus(situation) else ()
    rows = [
        (
            group.class_name or _whose(group),
            (group.group or "/") if group.mode else "none yet",
            str(group.threads),
            str(len(group.workloads)) if group.class_name else "-",
            *(format_cpu_list(group.cpus) or "none" for _ in cpus),
            *(_amounts(situation, group, resource) for resource in resources),
        )
        for group in situation.groups
    ]
    return table(("CLASS", "GROUP", "THREADS", "WORKLOADS", *cpus, *resources), rows)


def _names_cpus(situation: Situation) -> bool:
    classes = situation.in_force.policy.classes.values() if situation.in_force else ()
    return any(spec.cpus for spec in classes)


def _amounts(situation: Situation, group: GroupStatus, resource: str) -> str:
    return values_text(situation.machine, resource, group.schemata.get(resource, {})) or "-"


def _whose(group: GroupStatus) -> str:
    if not group.group:
        return "(no class)"
    return "(ours)" if group.ours else "(not ours)"


def _label(group: GroupStatus) -> str:
    return group.class_name or (f"{group.group} {_whose(group)}" if group.group else ROOT_GROUP)


def _workloads(situation: Situation, at_most: int | None) -> Iterator[str]:
    for group in situation.groups:
        if group.workloads:
            yield ""
            yield f"{group.class_name}:"
            for workload in group.workloads[:at_most]:
                yield f"  {_workload(situation, workload)}"
        left = len(group.workloads) - at_most if at_most is not None else 0
        if left > 0:
            yield f"  and {left} more: status --workloads"


def _workload(situation: Situation, workload: Workload) -> str:
    rules = situation.in_force.policy.rules if situation.in_force else ()
    rule = next((rule for rule in rules if rule.label == workload.rule), None)
    name = workload_name(workload.name, rule) if rule else workload.name
    by = "" if workload.name == workload.rule else f" ({workload.rule})"
    return f"{name}  {threads_text(workload.threads)}{by}"


def _state(situation: Situation) -> Iterator[str]:
    for problem in situation.unjudged:
        yield f"{problem.message}: see resctrl-agent check"
    if situation.survey is not None:
        yield from _misplaced(situation.survey.misplaced)
    for contended in situation.daemon.contended if situation.daemon else ():
        yield (
            f"contended: {threads_text(int(str(contended['threads'])))} of {contended['workload']}, which somebody "
            f"keeps moving to {group_name(str(contended['other_group']))}"
        )
    if situation.plan is not None:
        changes = sentences(situation.plan.preparation, situation.machine)
        yield "differs from the policy:" if changes else "differs from the policy: nothing"
        yield from (f"  {change}" for change in changes)
        yield from (f"  cannot be put right: {obstacle}" for obstacle in situation.plan.obstacles)
    yield f"CLOSIDs: {_held(situation.closids)}"
    yield f"RMIDs: {_held(situation.rmids)}" if situation.rmids.total else "RMIDs: this machine has none"


def _misplaced(threads: Sequence[Misplaced]) -> Iterator[str]:
    yield f"misplaced: {threads_text(len(threads))}" if threads else "misplaced: none"
    for thread in threads[:FEW]:
        where, wanted = group_name(thread.actual), group_name(thread.group)
        yield f"  thread {thread.tid} of {thread.path} is in {where}, should be in {wanted}"
    if len(threads) > FEW:
        yield f"  and {len(threads) - FEW} more"


def _held(holdings: Holdings) -> str:
    names = f" ({', '.join(holdings.foreign)})" if holdings.foreign else ""
    return (
        f"{holdings.free} of {holdings.total} free; 1 the root group's, {len(holdings.ours)} ours, "
        f"{len(holdings.foreign)} others'{names}"
    )
