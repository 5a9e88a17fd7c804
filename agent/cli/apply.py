"""``apply``: one full pass, as the daemon makes it, then exit.

While a daemon looks after the mount this refuses: with the same policy there is nothing left to do, and another
policy would be in force only until the daemon's next look.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.cli.arguments import COMMANDS, PROGRAM, Commands
from agent.cli.changes import sentences
from agent.cli.errors import CommandError
from agent.cli.output import complain, tell, tell_json
from agent.cli.places import open_machine, places_of
from agent.cli.problems import tell_warnings
from agent.cli.statuses import FAILED
from agent.policy import load
from agent.reconcile.actions import Action, MoveTasks
from agent.reconcile.apply import LOCK_WAIT_S
from agent.reconcile.node import Node
from agent.reconcile.ownership import Ledger
from agent.reconcile.placement import Outcome
from agent.reconcile.workload_groups import Done
from agent.resctrl.errors import AlreadyRunningError
from agent.resctrl.machine import Machine
from agent.resctrl.mount import MountPoint
from agent.service.places import mount_if_needed
from agent.service.reconciler import InForce, PassReport, Reconciler, bring_to


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "apply",
        help=COMMANDS["apply"],
        description="Makes groups, writes schemata and places tasks as the policy says, once. Mounts resctrl where it "
        "is not mounted.",
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """1 where threads could not be placed; raises CommandError while a daemon looks after the mount."""
    places = places_of(arguments)
    loaded = load(places.policy, insecure=places.insecure_policy)
    mounted = mount_if_needed(places, loaded.policy.mount)
    node, ledger = open_machine(places)
    with node.resctrl:
        _claim(node)
        in_force = bring_to(node, ledger, loaded.policy)
        tell_warnings((*loaded.warnings, *in_force.desired.problems), places)
        done = _apply(node, ledger, in_force)
    if arguments.output == "json":
        tell_json(_as_json(done, mounted))
    else:
        tell(_as_text(done, mounted, node.machine))
    return _tell_unplaced(done.outcomes)


@dataclass(frozen=True, slots=True)
class _Done:
    changes: tuple[Action, ...]
    notes: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    moved: int
    """Threads that were found out of place."""


def _claim(node: Node) -> None:
    try:
        node.resctrl.try_claim()
    except AlreadyRunningError as error:
        raise CommandError(f"{error}, or save the policy that it keeps: it follows at once") from error


def _apply(node: Node, ledger: Ledger, in_force: InForce) -> _Done:
    """Placing needs no lock, and others who wait for it should not wait for that."""
    with node.resctrl.lock(LOCK_WAIT_S):
        reconciler, plan, applied = Reconciler.start(node, ledger, in_force)
        monitoring: list[Done] = []
        _exhaust(reconciler.monitor((), monitoring))
    report = PassReport()
    _exhaust(reconciler.look(report))
    _exhaust(reconciler.put_right(report))
    if reconciler.plan_monitoring(report.survey.names()):
        with node.resctrl.lock(LOCK_WAIT_S):
            _exhaust(reconciler.monitor(report.survey.names(), monitoring))
    _exhaust(reconciler.fill(report.survey.unmonitored, report.outcomes.append))
    _exhaust(reconciler.fill_made(monitoring, report.outcomes.append))
    reconciler.close()
    if plan.cleanup:
        with node.resctrl.lock(LOCK_WAIT_S):
            reconciler.finish(plan)
    moves = report.survey.moves()
    tasks = (MoveTasks(group, count) for group, count in sorted(moves.items()))
    groups = [done.action for done in monitoring if done.failure is None]
    notes = [*applied.notes, *(f"not monitored: {done.failure}" for done in monitoring if done.failure)]
    changes = (*plan.preparation, *groups, *tasks, *plan.cleanup)
    return _Done(changes, tuple(notes), tuple(report.outcomes), moves.total())


def _exhaust(steps: Iterator[None]) -> None:
    """Takes all of them: nobody waits in between."""
    for _ in steps:
        pass


def _as_json(done: _Done, mounted: MountPoint | None) -> dict[str, object]:
    return {
        "changes": [action.as_json() for action in done.changes],
        "moved": done.moved,
        "notes": list(done.notes),
        "mounted": str(mounted.path) if mounted else None,
    }


def _as_text(done: _Done, mounted: MountPoint | None, machine: Machine) -> list[str]:
    first = [f"mount resctrl at {mounted.path}"] if mounted else []
    lines = [*first, *sentences(done.changes, machine)]
    return [*lines, *(f"note: {note}" for note in done.notes)] if lines else ["nothing to do"]


def _tell_unplaced(outcomes: Iterable[Outcome]) -> int:
    status = 0
    for outcome in outcomes:
        if not outcome.complete:
            reasons = sorted(set(outcome.failures.values())) or ["it creates threads faster than they can be placed"]
            reason = f"cgroup {outcome.path}: not all threads could be placed: {'; '.join(reasons)}"
            complain(f"{PROGRAM}: error: {reason}")
            status = FAILED
    return status
