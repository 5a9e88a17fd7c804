"""One policy in force on one machine: the part that ``apply`` and the daemon share."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from agent.policy.model import Policy
from agent.policy.problem import PolicyRefusedError
from agent.policy.render import as_text
from agent.reconcile.actions import CreateMonitoring, MonitoringAction, MoveMonitoring
from agent.reconcile.apply import Applied, ApplyError, clean_up, observe, prepare
from agent.reconcile.contention import Contended, Contention, contended
from agent.reconcile.desired import Desired, resolve
from agent.reconcile.node import Node
from agent.reconcile.ownership import Ledger
from agent.reconcile.placement import Outcome, Placement
from agent.reconcile.plan import ROOT, Observed, Plan, make_plan
from agent.reconcile.presence import machine_now, together
from agent.reconcile.rules import RuleBook
from agent.reconcile.survey import Belonging, Misplaced, Survey, survey, survey_steps
from agent.reconcile.workload_groups import Done, WorkloadGroups, wanted_monitoring
from agent.resctrl.errors import GroupGoneError
from agent.resctrl.machine import Machine
from agent.resctrl.monitoring_group import MonitoringGroup
from agent.resctrl.resources import Domains
from agent.service.permissions import unjudged_rules
from agent.tasks.cgroups import walk
from agent.tasks.process import start_time


@dataclass(frozen=True, slots=True)
class InForce:
    """A policy, what it means on this machine, and its rules ready to be asked."""

    policy: Policy
    desired: Desired
    rules: RuleBook
    machine: Machine
    """As it was seen last: cache domains and CPUs come and go."""
    known: Domains
    """Every domain that there was since the policy was brought to the machine."""


def bring_to(node: Node, ledger: Ledger, policy: Policy, known: Domains = MappingProxyType({})) -> InForce:
    """What a policy means here. Raises PolicyRefusedError when it asks for what this machine cannot do.

    Domains that are ``known`` may be named though they are not there at the moment.
    """
    observed = observe(node.resctrl, ledger)
    rules = RuleBook(policy, can_monitor=node.machine.monitoring is not None)
    in_force = _meaning(policy, rules, machine_now(node.machine, observed.groups), observed, known)
    if in_force.desired.errors:
        raise PolicyRefusedError(in_force.desired.problems)
    return in_force


def _meaning(policy: Policy, rules: RuleBook, machine: Machine, observed: Observed, known: Domains) -> InForce:
    known = together(known, machine.domains)
    return InForce(policy, resolve(policy, machine, observed.before_us(ROOT), known), rules, machine, known)


def managed_groups(desired: Desired, observed: Observed) -> frozenset[str]:
    """Groups whose members are the agent's to move: those of the classes and those that it created."""
    return (frozenset(desired.groups) | observed.owned) - {""}


def draw_plan(node: Node, ledger: Ledger, in_force: InForce) -> Plan:
    """Everything that differs between policy and machine, tasks included. Changes nothing."""
    observed = observe(node.resctrl, ledger)
    groups = WorkloadGroups(node.resctrl, ledger)
    belonging = Belonging(in_force.rules, managed_groups(in_force.desired, observed), groups.by_workload)
    found = survey(node, belonging)
    monitoring = _plan_monitoring(node, groups, in_force.rules, found.names())
    moves = _moves(node, found, groups.by_workload, monitoring)
    return make_plan(in_force.desired, observed, node.machine, moves, monitoring)


def _plan_monitoring(
    node: Node, groups: WorkloadGroups, rules: RuleBook, seen: Iterable[str]
) -> tuple[MonitoringAction, ...]:
    return groups.plan(wanted_monitoring(rules, node.hierarchy.mount, {*groups.by_workload, *seen}))


def _moves(
    node: Node, found: Survey, groups: Mapping[str, MonitoringGroup], actions: Iterable[MonitoringAction]
) -> Counter[str]:
    """Group → threads that have to be moved one by one, once ``actions`` are done."""
    carried: set[int] = set()
    later = dict(groups)
    for action in actions:
        match action:
            case MoveMonitoring(group, to, workload):
                later[workload] = to
                with suppress(GroupGoneError):
                    carried.update(node.resctrl.tasks(group.path))
            case CreateMonitoring(group, workload):
                later[workload] = group
    moves = Counter(thread.group for thread in found.misplaced if thread.tid not in carried)
    loose = (thread.target for thread in found.unmonitored)
    return moves + Counter(later[target.workload].path for target in loose if target and target.workload in later)


@dataclass(slots=True)
class PassReport:
    """What a full pass found and did."""

    survey: Survey = field(default_factory=Survey)
    outcomes: list[Outcome] = field(default_factory=list)


@dataclass(slots=True)
class Reconciler:
    """Keeps a machine as one policy says."""

    node: Node
    ledger: Ledger
    in_force: InForce
    placement: Placement
    contention: Contention
    workload_groups: WorkloadGroups
    contended: tuple[Contended, ...] = ()
    """What the last full pass left to somebody else."""

    @classmethod
    def start(cls, node: Node, ledger: Ledger, in_force: InForce) -> tuple["Reconciler", Plan, Applied]:
        """Puts groups and schemata in force; the caller holds the lock and goes on with a full pass and ``finish``.

        Raises PlanObstructedError, ApplyError; then the machine is as it was.
        """
        ledger.settle(node.resctrl)
        observed = observe(node.resctrl, ledger)
        plan = make_plan(in_force.desired, observed, in_force.machine, {})
        applied = prepare(plan, node.resctrl, ledger)
        groups = WorkloadGroups(node.resctrl, ledger)
        managed = managed_groups(in_force.desired, observed)
        placement = Placement(node, Belonging(in_force.rules, managed, groups.by_workload))
        contention = Contention(lambda tid: start_time(node.proc, tid), placement.managed)
        unjudged = map(as_text, unjudged_rules(in_force.policy, node.proc))
        told = replace(applied, notes=(*applied.notes, *unjudged))
        return cls(node, ledger, in_force, placement, contention, groups), plan, told

    def correct(self) -> tuple[Plan, Applied]:
        """Puts groups and schemata right again where they differ; the caller holds the lock.

        Takes in first that cache domains or CPUs came or went: ``in_force`` is another one then.
        """
        self.workload_groups.look()
        while True:
            observed = observe(self.node.resctrl, self.ledger)
            self._follow_machine(observed)
            plan = make_plan(self.in_force.desired, observed, self.in_force.machine, {})
            try:
                return plan, prepare(plan, self.node.resctrl, self.ledger)
            except ApplyError:
                # A domain that went offline in between is refused like one that never was. Then look again.
                if not self._follow_machine(observe(self.node.resctrl, self.ledger)):
                    raise

    @property
    def watches_workloads(self) -> bool:
        """Whether workloads have monitoring groups, or still had some under the policy before."""
        return self.in_force.rules.monitors or bool(self.workload_groups.by_workload)

    def plan_monitoring(self, seen: Iterable[str]) -> tuple[MonitoringAction, ...]:
        """What ``monitor`` would do. Raises ResctrlError."""
        return _plan_monitoring(self.node, self.workload_groups, self.in_force.rules, seen)

    def monitor(self, seen: Iterable[str], done: list[Done]) -> Iterator[None]:
        """Monitoring groups for the workloads ``seen`` and those that have one, as their classes say now.

        The caller holds the lock. What moves brings its threads along; what is new is to be filled (``fill_made``).
        Adds to ``done``, and yields after each. Raises ResctrlError where the groups cannot be read, StateError.
        """
        for each in self.workload_groups.carry_out(self.plan_monitoring(seen)):
            self.placement.forget(each.action.group.path)
            done.append(each)
            yield

    def finish(self, plan: Plan) -> None:
        """Removes what no class needs any more, once tasks are where they belong; the caller holds the lock."""
        clean_up(plan, self.node.resctrl, self.ledger)
        self.workload_groups.look()
        self.placement.managed -= {removal.group for removal in plan.cleanup}
        self.contention.managed = self.placement.managed

    def look(self, report: PassReport) -> Iterator[None]:
        """The first half of a full pass: looks over every task, yielding now and then. Raises ResctrlError."""
        yield from survey_steps(self.node, self._belonging(), report.survey)

    def put_right(self, report: PassReport) -> Iterator[None]:
        """The second half: places what is in the wrong control group, yielding now and then.

        Raises ResctrlError for what is not about one thread (a group that is gone above all).
        """
        place, leave = self.contention.judge(report.survey.misplaced)
        self.contended = contended(leave)
        self.placement.leave = {thread.tid: thread.group for thread in leave}
        for path in dict.fromkeys(thread.path for thread in place):
            outcome = self.placement.place(path)
            report.outcomes.append(outcome)
            self.contention.placed(t for t in place if t.path == path and t.tid not in outcome.failures)
            yield

    def fill(self, unmonitored: Iterable[Misplaced], report: Callable[[Outcome], None]) -> Iterator[None]:
        """Puts what is in its control group into its workload's monitoring group, yielding now and then."""
        for path in dict.fromkeys(thread.path for thread in unmonitored):
            report(self.placement.place(path))
            yield

    def fill_made(self, done: Iterable[Done], report: Callable[[Outcome], None]) -> Iterator[None]:
        """Puts the threads of workloads into the monitoring groups that were made for them just now."""
        made = [each.action.workload for each in done if each.made]
        for name in (name for name in made if name.startswith("/")):
            for cgroup in walk(self.node.hierarchy.mount, name):
                report(self.placement.place(cgroup.path))
                yield
        if any(not name.startswith("/") for name in made):  # rules on programs, whose processes may be anywhere
            found = Survey()
            yield from survey_steps(self.node, self._belonging(), found)
            yield from self.fill(found.unmonitored, report)

    def _belonging(self) -> Belonging:
        return Belonging(self.in_force.rules, self.placement.managed, self.workload_groups.by_workload)

    def _follow_machine(self, observed: Observed) -> bool:
        """Whether domains or CPUs came or went; ``in_force`` is another one then."""
        former, machine = self.in_force, machine_now(self.node.machine, observed.groups)
        if machine == former.machine:
            return False
        self.in_force = _meaning(former.policy, former.rules, machine, observed, former.known)
        return True

    def close(self) -> None:
        """Lets go of the groups' files."""
        self.placement.close()
