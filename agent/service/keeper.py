"""Keeping one machine as its policy file says: what the daemon's worker does, step by step, giving way in between."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType

import structlog

from agent.policy import load
from agent.policy.model import Policy
from agent.policy.problem import PolicyRefusedError, Severity
from agent.policy.render import as_text
from agent.reconcile.actions import CreateGroup, CreateMonitoring, MoveMonitoring
from agent.reconcile.apply import LOCK_WAIT_S, Applied, ApplyError, PlanObstructedError
from agent.reconcile.contention import Contended
from agent.reconcile.node import Node
from agent.reconcile.ownership import Ledger, StateError
from agent.reconcile.plan import Plan
from agent.reconcile.rules import RuleBook
from agent.reconcile.survey import Survey
from agent.reconcile.workload_groups import Done
from agent.resctrl.errors import LockTimeoutError, MachineError, OutOfClosidsError, ResctrlError
from agent.resctrl.resources import Domains
from agent.service.drift import say_drift, say_drift_after_hotplug, say_machine, say_problems
from agent.service.fast_path import FastPath
from agent.service.places import Places, open_node
from agent.service.reconciler import PassReport, Reconciler, bring_to
from agent.service.urgency import Urgency

log = structlog.get_logger()

NOT_NOW = (PlanObstructedError, ApplyError, LockTimeoutError, StateError, ResctrlError, MachineError, OSError)
"""Why a good policy may not be put in force, or kept in force, at this moment. OSError: procfs, cgroupfs, the disk."""

STOP = object()


class Keeper:
    """The machine, the policy in force on it, and the one that was refused last, if it was."""

    def __init__(
        self, places: Places, fast_path: FastPath, urgency: Urgency, watch_execs: Callable[[bool], None]
    ) -> None:
        """``watch_execs`` switches events of programs on and off, as the policy needs them."""
        self._places = places
        self._fast_path = fast_path
        self._urgency = urgency
        self._watch_execs = watch_execs
        self._node: Node | None = None
        self._ledger: Ledger | None = None
        self._reconciler: Reconciler | None = None
        self._policy: Policy | None = None
        """The one that was in force last, also while resctrl is not mounted."""
        self._contended: frozenset[Contended] = frozenset()
        self._taken: set[tuple[str, str]] = set()
        self._without: dict[str, str] = {}
        """Workload → why it has no monitoring group though its class says so."""
        self._known: Domains = {}
        """The domains that policy may name, though some were offline when resctrl was unmounted."""
        self._cpus_changed = False
        self._settled = False
        """Whether every task has been looked at since the policy was put in force."""
        self.sees_tasks = True
        """Whether tasks that enter a cgroup are seen at once, so that what a pass finds is out of the ordinary."""
        self.refused: str | None = None
        """Why the policy file, as it was read last, is not in force."""
        self.pass_s: float | None = None
        """What the last full pass took, in seconds."""

    @property
    def contended(self) -> frozenset[Contended]:
        """What is left to somebody else."""
        return self._contended

    @property
    def unmonitored(self) -> bool:
        """Whether some workload has no monitoring group though its class says so: for want of RMIDs, as a rule."""
        return bool(self._without)

    @property
    def node(self) -> Node | None:
        """The machine; None while resctrl is not mounted."""
        return self._node

    def open(self) -> Node:
        """Finds resctrl, claims it, remembers what is ours. Raises as ``open_node`` does, and AlreadyRunningError."""
        node = open_node(self._places)
        # After a remount it is looked for at the same place, not wherever else there is another.
        self._places = replace(self._places, resctrl=node.resctrl.root)
        try:
            node.resctrl.try_claim()
            self._ledger = Ledger.open(self._places.state, node.resctrl.root)
        except BaseException:
            node.resctrl.close()
            raise
        self._node = node
        if node.resctrl.emulated:
            log.warning("This resctrl is emulated: nothing is really limited", path=str(node.resctrl.root))
        return node

    def close(self) -> None:
        """Lets go of resctrl; everything stays in force."""
        self._fast_path.rest()
        if self._reconciler is not None:
            self._known = self._reconciler.in_force.known
            self._reconciler.close()
            self._reconciler = None
        if self._node is not None:
            self._node.resctrl.close()
            self._node = None

    def counts(self) -> dict[str, int]:
        """How many classes and rules are in force."""
        policy = self._reconciler.in_force.policy if self._reconciler else None
        return {"classes": len(policy.classes) if policy else 0, "rules": len(policy.rules) if policy else 0}

    def load(self) -> Policy:
        """Reads the policy file; warnings go to the log. Raises PolicyRefusedError."""
        loaded = load(self._places.policy, insecure=self._places.insecure_policy)
        for warning in loaded.warnings:
            log.warning(as_text(warning))
        return loaded.policy

    async def reload(self) -> None:
        """Follows the policy file. A policy that is refused, or cannot be put in force, leaves the one before.

        Raises one of NOT_NOW when trying again may help.
        """
        plan = None
        try:
            policy = await asyncio.to_thread(self.load)  # one of a mebibyte takes a while
            if self._is_in_force(policy):
                await self.correct()
            else:
                plan = await self.put_in_force(policy)
        except PolicyRefusedError as error:
            self._refuse("\n".join(as_text(p) for p in error.problems if p.severity is Severity.ERROR))
            return
        except NOT_NOW as error:
            self._refuse(str(error))
            raise
        self.refused = None
        try:
            await self.move_tasks(plan)
        finally:
            self.say_accepted()

    async def put_in_force(self, policy: Policy, known: Domains = MappingProxyType({})) -> Plan:
        """Groups, schemata and rules; ``move_tasks`` with the plan that is returned is to follow.

        Domains that are ``known`` may be named though they are offline.
        Raises PolicyRefusedError or one of NOT_NOW; then the policy before stays in force.
        """
        node, ledger = self._opened()
        in_force = bring_to(node, ledger, policy, known)
        say_problems(in_force.desired.problems)
        for user in in_force.rules.unknown_users:
            log.warning("A rule names a user that this machine does not know", user=user)
        async with _locked(node):
            fresh, plan, applied = Reconciler.start(node, ledger, in_force)
            moved: list[Done] = []
            with contextlib.suppress(ResctrlError, StateError):  # the pass that follows tries again, and says so
                for _ in fresh.monitor((), moved):
                    pass  # without giving way: no event is to be handled by the rules before in between
        self._say_notes(applied)
        former, self._reconciler = self._reconciler, fresh
        self._policy = policy
        self._taken.clear()
        self._cpus_changed = False
        self._settled = False
        self._watch_execs(policy.judges_programs)
        self._fast_path.use(fresh.placement)
        self._say_monitoring(moved)
        if former is not None:
            former.close()
        return plan

    async def move_tasks(self, plan: Plan | None) -> None:
        """Every task to where it belongs, then what ``plan`` no longer needs goes. Raises one of NOT_NOW."""
        await self.run_pass()
        reconciler = self._reconciler
        if reconciler is not None and plan is not None and (plan.cleanup or plan.given_back):
            async with _locked(reconciler.node):
                reconciler.finish(plan)

    async def resume(self) -> None:
        """Puts in force what was in force before resctrl was unmounted. Raises as ``put_in_force`` does."""
        if self._policy is not None:
            await self.move_tasks(await self.put_in_force(self._policy, self._known))

    def say_accepted(self) -> None:
        """The policy file, as it was read last, is in force."""
        log.info("policy accepted", policy=str(self._places.policy), **self.counts())

    async def correct(self) -> None:
        """Puts groups and schemata right where somebody changed them, and says what was. Raises one of NOT_NOW."""
        reconciler = self._reconciler
        if reconciler is None:
            return
        before = reconciler.in_force
        try:
            async with _locked(reconciler.node):
                plan, applied = reconciler.correct()
        finally:
            if reconciler.in_force is not before:
                self._cpus_changed = True
                say_machine(before, reconciler.in_force)
        hotplug, self._cpus_changed = self._cpus_changed, False
        if plan.preparation:
            reconciler.close()  # a group that was made anew has other files
            if hotplug:
                say_drift_after_hotplug(plan.preparation, reconciler.in_force.machine)
            else:
                say_drift(plan.preparation)
            self._say_notes(applied)
        remade = any(isinstance(action, CreateGroup) for action in plan.preparation)
        if plan.cleanup or plan.given_back or remade:
            await self.move_tasks(plan)

    async def run_pass(self) -> None:
        """Looks over every task. Raises one of NOT_NOW."""
        reconciler = self._reconciler
        if reconciler is None:
            return
        began = time.monotonic()
        report = PassReport()
        await self._give_way(reconciler.look(report))
        await self._give_way(reconciler.put_right(report))
        for outcome in report.outcomes:
            self._fast_path.report(outcome)
        self.pass_s = time.monotonic() - began
        self._say_taken(report.survey, reconciler.placement.managed)
        if self._settled and self.sees_tasks:
            self._say_strays(report.survey)
        self._settled = True
        self._say_contended(frozenset(reconciler.contended))
        log.debug(
            "Looked at every task",
            threads=report.survey.threads,
            workloads=len(report.survey.workloads),
            moved=sum(outcome.threads for outcome in report.outcomes),
            seconds=round(self.pass_s, 4),
        )
        if reconciler.watches_workloads:
            await self._monitor(reconciler, report.survey.names())
            await self._give_way(reconciler.fill(report.survey.unmonitored, self._fast_path.report))

    async def monitor(self) -> None:
        """Monitoring groups for workloads that came, none for those that went. Raises one of NOT_NOW."""
        reconciler = self._reconciler
        came = self._fast_path.take_unmonitored() | self._without.keys()
        if reconciler is not None and reconciler.watches_workloads:
            await self._monitor(reconciler, came)

    async def _monitor(self, reconciler: Reconciler, seen: Iterable[str]) -> None:
        """Takes the lock only where there is something to do: placing never waits for it without need."""
        done: list[Done] = []
        if reconciler.plan_monitoring(seen):
            async with _locked(reconciler.node):
                await self._give_way(reconciler.monitor(seen, done))
        self._say_monitoring(done)
        await self._give_way(reconciler.fill_made(done, self._fast_path.report))

    async def _give_way(self, steps: Iterator[None]) -> None:
        """Takes step after step as ordinary work, with events in between."""
        going_on = True
        while going_on:
            with self._urgency.set_aside():
                going_on = next(steps, STOP) is not STOP
            await asyncio.sleep(0)

    @property
    def idle(self) -> bool:
        """Whether resctrl is there and no policy is in force on it."""
        return self._node is not None and self._reconciler is None

    def groups_changed(self) -> None:
        """A group is not what it was: its files are opened anew when they are needed."""
        if self._reconciler is not None:
            self._reconciler.close()

    def cpus_changed(self) -> None:
        """CPUs came or went: what groups have lost by that is nobody's doing."""
        self._cpus_changed = True

    def _opened(self) -> tuple[Node, Ledger]:
        if self._node is None or self._ledger is None:
            raise MachineError("resctrl is not mounted")
        return self._node, self._ledger

    def _is_in_force(self, policy: Policy) -> bool:
        """The same policy, and the users it names are the same too."""
        if self._reconciler is None or policy != self._reconciler.in_force.policy:
            return False
        return RuleBook(policy).uids == self._reconciler.in_force.rules.uids

    def _refuse(self, why: str) -> None:
        if why != self.refused:
            log.error("policy refused", policy=str(self._places.policy), problems=why)
        self.refused = why

    def _say_notes(self, applied: Applied) -> None:
        for note in applied.notes:
            log.warning(note)

    def _say_monitoring(self, done: Iterable[Done]) -> None:
        """Workloads that changed class with their group, one line each; those that got no group, when it is news."""
        without: dict[str, str] = {}
        for each in done:
            if isinstance(each.action, CreateMonitoring) and each.failure is not None:
                without[each.action.workload] = str(each.failure)
            elif each.failure is not None:
                log.warning("Cannot change a monitoring group", workload=each.action.workload, reason=str(each.failure))
            elif isinstance(each.action, MoveMonitoring):
                self._fast_path.report_carried(each.action, each.threads)
            else:
                log.debug("Monitoring groups", **each.action.as_json())
        if without and not self._without:
            workload, reason = next(iter(without.items()))
            log.warning(
                "What some workloads use is not counted apart for now; they are in their class all the same",
                workloads=len(without),
                workload=workload,
                reason=reason,
            )
        self._without = without
        self._fast_path.without_group = frozenset(without)

    def _say_taken(self, survey: Survey, managed: frozenset[str]) -> None:
        """Once for each foreign group and class: rules go before what somebody did by hand."""
        for thread in survey.misplaced:
            if thread.target is None or thread.actual in managed or not thread.actual:
                continue
            key = (thread.actual, thread.target.class_name)
            if key not in self._taken:
                self._taken.add(key)
                log.warning(
                    "Took threads that a rule matches out of a group that is not the agent's",
                    from_group=thread.actual,
                    class_=thread.target.class_name,
                    workload=thread.target.workload,
                )

    def _say_strays(self, survey: Survey) -> None:
        """What a pass found out of place though nothing should have been: taken by somebody, or its event was lost."""
        strays = Counter((m.target.workload, m.target.class_name, m.actual) for m in survey.misplaced if m.target)
        for (workload, class_name, actual), threads in strays.items():
            log.info(
                "Found threads out of place",
                workload=workload,
                class_=class_name,
                were_in=actual or "/",
                threads=threads,
            )

    def _say_contended(self, now: frozenset[Contended]) -> None:
        for left in now:
            if not any(_same_conflict(left, before) for before in self._contended):
                log.warning(
                    "contended",
                    workload=left.workload,
                    class_=left.class_name,
                    other_group=left.other_group,
                    threads=left.threads,
                )
        self._contended = now


def exhausted(error: Exception) -> tuple[str, tuple[str, ...]] | None:
    """For a failure for want of CLOSIDs: what was to be made, and who holds them."""
    if isinstance(error, PlanObstructedError):
        holders = [obstacle.closid_holders for obstacle in error.obstacles if obstacle.closid_holders]
        return ("", holders[0]) if holders else None
    cause = error.cause if isinstance(error, ApplyError) else error
    return (cause.group, ()) if isinstance(cause, OutOfClosidsError) else None


def _same_conflict(one: Contended, other: Contended) -> bool:
    return (one.workload, one.class_name, one.other_group) == (other.workload, other.class_name, other.other_group)


@contextlib.asynccontextmanager
async def _locked(node: Node) -> AsyncIterator[None]:
    """Resctrl's documented lock, waited for in a thread where somebody else has it: placing tasks goes on."""
    lock = node.resctrl.lock(0)
    try:
        lock.__enter__()
    except LockTimeoutError:
        lock = node.resctrl.lock(LOCK_WAIT_S)
        await asyncio.to_thread(lock.__enter__)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)
