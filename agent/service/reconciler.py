"""One policy in force on one machine: the part that ``apply`` and the daemon share."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.policy.model import Policy
from agent.policy.problem import PolicyRefusedError
from agent.reconcile.apply import Applied, clean_up, observe, prepare
from agent.reconcile.contention import Contended, Contention, contended
from agent.reconcile.desired import Desired, resolve
from agent.reconcile.node import Node
from agent.reconcile.ownership import Ledger
from agent.reconcile.placement import Outcome, Placement
from agent.reconcile.plan import ROOT, Observed, Plan, make_plan
from agent.reconcile.rules import RuleBook
from agent.reconcile.survey import Survey, survey, survey_steps
from agent.tasks.process import start_time


@dataclass(frozen=True, slots=True)
class InForce:
    """A policy, what it means on this machine, and its rules ready to be asked."""

    policy: Policy
    desired: Desired
    rules: RuleBook


def bring_to(node: Node, ledger: Ledger, policy: Policy) -> InForce:
    """What a policy means here. Raises PolicyRefusedError when it asks for what this machine cannot do."""
    desired = resolve(policy, node.machine, observe(node.resctrl, ledger).before_us(ROOT))
    if desired.errors:
        raise PolicyRefusedError(desired.problems)
    return InForce(policy, desired, RuleBook(policy))


def managed_groups(desired: Desired, observed: Observed) -> frozenset[str]:
    """Groups whose members are the agent's to move: those of the classes and those that it created."""
    return (frozenset(desired.groups) | observed.owned) - {""}


def draw_plan(node: Node, ledger: Ledger, in_force: InForce) -> Plan:
    """Everything that differs between policy and machine, tasks included. Changes nothing."""
    observed = observe(node.resctrl, ledger)
    found = survey(node, in_force.rules, managed_groups(in_force.desired, observed))
    return make_plan(in_force.desired, observed, node.machine, found.moves())


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
    contended: tuple[Contended, ...] = ()
    """What the last full pass left to somebody else."""

    @classmethod
    def start(cls, node: Node, ledger: Ledger, in_force: InForce) -> tuple["Reconciler", Plan, Applied]:
        """Puts groups and schemata in force; the caller holds the lock and goes on with ``full_pass`` and ``finish``.

        Raises PlanObstructedError, ApplyError; then the machine is as it was.
        """
        ledger.settle(node.resctrl)
        observed = observe(node.resctrl, ledger)
        plan = make_plan(in_force.desired, observed, node.machine, {})
        applied = prepare(plan, node.resctrl, ledger)
        placement = Placement(node, in_force.rules, managed_groups(in_force.desired, observed))
        contention = Contention(lambda tid: start_time(node.proc, tid), placement.managed)
        return cls(node, ledger, in_force, placement, contention), plan, applied

    def correct(self) -> tuple[Plan, Applied]:
        """Puts groups and schemata right again where they differ; the caller holds the lock."""
        plan = make_plan(self.in_force.desired, observe(self.node.resctrl, self.ledger), self.node.machine, {})
        return plan, prepare(plan, self.node.resctrl, self.ledger)

    def finish(self, plan: Plan) -> None:
        """Removes what no class needs any more, once tasks are where they belong; the caller holds the lock."""
        clean_up(plan, self.node.resctrl, self.ledger)
        self.placement.managed -= {removal.group for removal in plan.cleanup}
        self.contention.managed = self.placement.managed

    def full_pass(self, report: PassReport) -> Iterator[None]:
        """Looks over every task and places what is out of place, yielding now and then.

        Raises ResctrlError for what is not about one thread (a group that is gone above all).
        """
        yield from survey_steps(self.node, self.in_force.rules, self.placement.managed, report.survey)
        place, leave = self.contention.judge(report.survey.misplaced)
        self.contended = contended(leave)
        self.placement.leave = {thread.tid: thread.group for thread in leave}
        for path in dict.fromkeys(thread.path for thread in place):
            outcome = self.placement.place(path)
            report.outcomes.append(outcome)
            self.contention.placed(t for t in place if t.path == path and t.tid not in outcome.failures)
            yield

    def close(self) -> None:
        """Lets go of the groups' files."""
        self.placement.close()
