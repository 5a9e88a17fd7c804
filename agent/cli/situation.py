"""What ``status`` shows, as values, and how they are read from the machine. Changes nothing."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.cli.problems import quoting
from agent.policy import load
from agent.policy.problem import PolicyRefusedError, Problem
from agent.reconcile.apply import observe
from agent.reconcile.node import Node
from agent.reconcile.ownership import Ledger
from agent.reconcile.plan import Observed, Plan, make_plan
from agent.reconcile.survey import Belonging, Survey, Workload, survey
from agent.resctrl.filesystem import Group, Resctrl
from agent.resctrl.machine import Machine
from agent.resctrl.monitoring_group import MonitoringGroup
from agent.resctrl.schemata import Schemata
from agent.service.permissions import unjudged_rules
from agent.service.places import Places
from agent.service.reconciler import InForce, bring_to, managed_groups
from agent.service.run_state import RunState, read_run_state
from agent.tasks.hierarchy import Hierarchy


@dataclass(frozen=True, slots=True)
class Holdings:
    """Who holds CLOSIDs, or RMIDs: the root group always one, where the machine has any."""

    total: int
    ours: tuple[str, ...]
    """Groups that the agent created or adopted."""
    foreign: tuple[str, ...]
    """Groups of anybody else; a monitoring group by its path, ``batch/mon_groups/probe``."""

    @property
    def free(self) -> int:
        """Those that nobody holds. RMIDs in limbo, which no file shows, are among them."""
        return max(0, self.total - 1 - len(self.ours) - len(self.foreign))


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A control group, or a class that has none yet."""

    group: str
    class_name: str | None
    """None: no class's."""
    ours: bool
    """Created or adopted by the agent. The root group is nobody's."""
    schemata: Schemata
    """In force; empty where the group does not exist."""
    mode: str | None
    """None: the group does not exist."""
    cpus: frozenset[int]
    """Whose tasks of the root group use this group's share; empty where the group does not exist."""
    threads: int
    workloads: tuple[Workload, ...]
    """The largest first."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A machine and its policy at one moment."""

    mount: Path
    emulated: bool
    hierarchy: Hierarchy
    """Whose cgroups are followed."""
    machine: Machine
    policy: Path
    in_force: InForce | None
    """None: the policy is missing or refused."""
    problems: tuple[Problem, ...]
    """Why, or what it was warned of."""
    unjudged: tuple[Problem, ...]
    """Of those, the rules that the running agent may not judge."""
    groups: tuple[GroupStatus, ...]
    """Classes in the policy's order, then other groups by name, the root group among them."""
    survey: Survey | None
    """None without a policy: then no task is anybody's business."""
    plan: Plan | None
    """What differs, tasks left out; None without a policy."""
    closids: Holdings
    rmids: Holdings
    agent_runs: bool
    daemon: RunState | None
    """What the running agent says of itself; None where none runs, or its words cannot be read."""


def read_situation(places: Places, node: Node, ledger: Ledger) -> Situation:
    """Raises ResctrlError and MachineError where groups cannot be read; a policy that is refused is part of it."""
    in_force, problems = _in_force(places, node, ledger)
    daemon = running_daemon(places, node.resctrl)
    unjudged = _unjudged(places, in_force, daemon)
    observed = observe(node.resctrl, ledger)
    ours = _ours(in_force, observed)
    measured = ledger.monitoring(node.resctrl)
    found = _survey(node, in_force, observed, {workload: group for group, workload in measured.items()})
    agent_runs = node.resctrl.claimed_by_other()
    return Situation(
        mount=node.resctrl.root,
        emulated=node.resctrl.emulated,
        hierarchy=node.hierarchy,
        machine=node.machine,
        policy=places.policy,
        in_force=in_force,
        problems=(*problems, *unjudged),
        unjudged=unjudged,
        groups=tuple(_groups(node, in_force, observed, found, ours)),
        survey=found,
        plan=make_plan(in_force.desired, observed, node.machine, {}) if in_force else None,
        closids=_closids(node.machine, observed, ours),
        rmids=_rmids(node.machine, observed, ours | {group.path for group in measured}),
        agent_runs=agent_runs,
        daemon=daemon,
    )


def running_daemon(places: Places, resctrl: Resctrl) -> RunState | None:
    """What the agent that looks after this mount says of itself; None where none runs, or it cannot be read."""
    if not resctrl.claimed_by_other():
        return None
    state = read_run_state(places.run, resctrl.root)
    # What was written by an agent that is no more is not its successor's.
    return state if state is not None and (places.proc / str(state.pid)).exists() else None


def _in_force(places: Places, node: Node, ledger: Ledger) -> tuple[InForce | None, tuple[Problem, ...]]:
    try:
        loaded = load(places.policy, insecure=places.insecure_policy)
        in_force = bring_to(node, ledger, loaded.policy)
    except PolicyRefusedError as refused:
        return None, quoting(refused.problems, places)
    return in_force, (*loaded.warnings, *in_force.desired.problems)


def _unjudged(places: Places, in_force: InForce | None, daemon: RunState | None) -> tuple[Problem, ...]:
    if in_force is None or daemon is None:
        return ()
    return quoting(unjudged_rules(in_force.policy, places.proc, daemon.pid), places)


def _survey(
    node: Node, in_force: InForce | None, observed: Observed, monitoring: Mapping[str, MonitoringGroup]
) -> Survey | None:
    if in_force is None:
        return None
    return survey(node, Belonging(in_force.rules, managed_groups(in_force.desired, observed), monitoring))


def _ours(in_force: InForce | None, observed: Observed) -> frozenset[str]:
    desired = in_force.desired.groups if in_force else {}
    adopted = {name for name, group in desired.items() if group.adopt and name in observed.groups}
    return (observed.owned | adopted) - {""}


def _groups(
    node: Node, in_force: InForce | None, observed: Observed, found: Survey | None, ours: frozenset[str]
) -> Iterable[GroupStatus]:
    counts = found.members if found else Counter(node.membership().values())
    desired = in_force.desired.groups if in_force else {}
    for name in dict.fromkeys((*desired, *sorted(observed.groups))):
        class_name = desired[name].class_name if name in desired else None
        existing = observed.groups.get(name)
        threads = counts[name] if name else len(node.resctrl.tasks(""))
        yield GroupStatus(
            group=name,
            class_name=class_name,
            ours=name in ours,
            schemata=existing.schemata if existing else {},
            mode=existing.mode if existing else None,
            cpus=existing.cpus if existing else frozenset(),
            threads=threads,
            workloads=_workloads(found, class_name),
        )


def _workloads(found: Survey | None, class_name: str | None) -> tuple[Workload, ...]:
    if found is None:
        return ()
    own = (workload for workload in found.workloads.values() if workload.class_name == class_name)
    return tuple(sorted(own, key=lambda workload: (-workload.threads, workload.name)))


def _closids(machine: Machine, observed: Observed, ours: frozenset[str]) -> Holdings:
    names = sorted(name for name in observed.groups if name)
    return Holdings(machine.num_closids, *_by_owner(names, ours))


def _rmids(machine: Machine, observed: Observed, ours: frozenset[str]) -> Holdings:
    if machine.monitoring is None:
        return Holdings(0, (), ())
    control = sorted(name for name in observed.groups if name)
    monitoring = [path for group in observed.groups.values() for path in _monitoring_paths(group)]
    return Holdings(machine.monitoring.num_rmids, *_by_owner([*control, *sorted(monitoring)], ours))


def _by_owner(names: Iterable[str], ours: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    every = tuple(names)
    return tuple(name for name in every if name in ours), tuple(name for name in every if name not in ours)


def _monitoring_paths(group: Group) -> Iterable[str]:
    prefix = f"{group.name}/" if group.name else ""
    return (f"{prefix}mon_groups/{name}" for name in group.monitoring_groups)
