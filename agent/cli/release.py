"""``release``: gives back all that the agent owns. Needs no policy, and leaves what others made as it is."""

from argparse import Namespace
from dataclasses import dataclass

from agent.cli.arguments import COMMANDS, PROGRAM, Commands
from agent.cli.changes import group_name, sentences, threads_text
from agent.cli.output import complain, tell, tell_json
from agent.cli.places import open_resctrl, places_of
from agent.cli.statuses import FAILED
from agent.reconcile.actions import WriteSchemata
from agent.reconcile.apply import LOCK_WAIT_S, remove_owned, restore
from agent.reconcile.ownership import Ledger
from agent.reconcile.workload_groups import WorkloadGroups
from agent.resctrl.errors import GroupGoneError
from agent.resctrl.filesystem import Resctrl


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "release",
        help=COMMANDS["release"],
        description="Removes the groups that the agent created, which returns their tasks to the root group, and puts "
        "back what it changed in others. The daemon has to be stopped first.",
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """1 where not all could be removed.

    Raises AlreadyRunningError while a daemon looks after the mount, and what the kernel refuses.
    """
    resctrl, ledger = open_resctrl(places_of(arguments))
    with resctrl:
        resctrl.try_claim()
        with resctrl.lock(LOCK_WAIT_S):
            released = _release(resctrl, ledger)
    if arguments.output == "json":
        tell_json(_as_json(released))
    else:
        tell(_as_text(released))
    for failure in released.failures:
        complain(f"{PROGRAM}: error: {failure}")
    return FAILED if released.failures else 0


@dataclass(frozen=True, slots=True)
class _Released:
    removed: dict[str, int]
    """Group → threads that were in it."""
    restored: tuple[WriteSchemata, ...]
    left: tuple[str, ...]
    """Groups that somebody else made."""
    failures: tuple[str, ...]
    """Why monitoring groups of the agent's could not be removed."""


def _release(resctrl: Resctrl, ledger: Ledger) -> _Released:
    """Groups first: one that is exclusive would be in the way of what is put back."""
    removed = {name: _threads(resctrl, name) for name in sorted(ledger.owned(resctrl))}
    for name in removed:
        remove_owned(name, resctrl, ledger)
    elsewhere = WorkloadGroups(resctrl, ledger)  # below the root group, and groups that somebody else made
    done = list(elsewhere.carry_out(elsewhere.plan({})))
    removed |= {each.action.group.path: 0 for each in done if each.failure is None}
    failures = tuple(str(each.failure) for each in done if each.failure is not None)
    return _Released(removed, restore(resctrl, ledger), tuple(resctrl.groups()), failures)


def _threads(resctrl: Resctrl, name: str) -> int:
    try:
        return len(resctrl.tasks(name))
    except GroupGoneError:
        return 0


def _as_json(released: _Released) -> dict[str, object]:
    return {
        "removed": [{"group": name, "threads": threads} for name, threads in released.removed.items()],
        "restored": [write.as_json() for write in released.restored],
        "left": list(released.left),
    }


def _as_text(released: _Released) -> list[str]:
    lines = [
        f"removed {group_name(name)}: {threads_text(threads)} back in the root group"
        for name, threads in released.removed.items()
    ]
    lines += sentences(released.restored)
    left = [f"left as it is: {group_name(name)}, which the agent did not create" for name in released.left]
    return [*(lines or ["nothing to give back"]), *left]
