"""A plan → the machine, all of it or, as far as the kernel allows, none of it.

Each step that is done leaves behind how to undo it. When a later one fails, the steps are undone in reverse, and the
error says what failed and whether everything could be put back. Removing stale groups comes last in a plan and is not
undone: nothing that is wanted depends on it. A group that had to be removed early, to free its CLOSID, is created
anew with the same schemata.

What was written is read back: hardware may make something else of an amount than the predicted step, and then the
agent says so once and does not take it for drift.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby

from agent.reconcile.actions import CreateGroup, GroupAction, RemoveGroup, SetCpus, SetMode, WriteSchemata
from agent.reconcile.ownership import Granted, Ledger, StateError
from agent.reconcile.plan import Observed, Obstacle, Plan
from agent.resctrl.errors import GroupGoneError, MachineError, ResctrlError
from agent.resctrl.filesystem import Resctrl
from agent.resctrl.schemata import Schemata, value_text

LOCK_WAIT_S = 5.0
"""How long another program may hold the lock on resctrl before applying gives up."""


class PlanObstructedError(Exception):
    """The plan cannot be carried out on this machine as it is; ``obstacles`` says why. Nothing was done."""

    def __init__(self, obstacles: Iterable[Obstacle]) -> None:
        self.obstacles = tuple(obstacles)
        super().__init__("; ".join(map(str, self.obstacles)))


class ApplyError(Exception):
    """A step failed. ``left_over`` lists what could not be put back; empty when the machine is as it was."""

    def __init__(self, cause: Exception, left_over: Iterable[str]) -> None:
        self.cause = cause
        self.left_over = tuple(left_over)
        state = (
            "what was done before it is undone"
            if not self.left_over
            else "could not undo: " + "; ".join(self.left_over)
        )
        super().__init__(f"{cause} ({state})")


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying did."""

    actions: int
    notes: tuple[str, ...]
    """Sentences on what is not as was asked: ``asked 70 %, got 90 %``, where hardware made something else of it."""


def observe(resctrl: Resctrl, ledger: Ledger) -> Observed:
    """The groups as they are; those that vanish while being read are left out."""
    groups = {group.name: group for group in resctrl.read_groups()}
    return Observed(groups, ledger.owned(resctrl), dict(ledger.granted), dict(ledger.found))


def prepare(plan: Plan, resctrl: Resctrl, ledger: Ledger) -> Applied:
    """Carries out the plan's preparation; the caller holds resctrl's lock, moves the tasks and cleans up.

    Raises PlanObstructedError before anything is touched, ApplyError when a step failed, LockTimeoutError.
    """
    if plan.obstacles:
        raise PlanObstructedError(plan.obstacles)
    steps = _Steps(resctrl, ledger)
    try:
        for _, run in groupby(plan.preparation, key=_step_key):
            steps.take(list(run))
    except (ResctrlError, StateError, MachineError) as error:
        raise ApplyError(error, steps.undo()) from error
    return Applied(len(plan.preparation), tuple(steps.notes))


def clean_up(plan: Plan, resctrl: Resctrl, ledger: Ledger) -> None:
    """Removes the stale groups, after the tasks have been moved to where they belong now. Raises ResctrlError."""
    for removal in plan.cleanup:
        remove_owned(removal.group, resctrl, ledger)
    ledger.forget_found(plan.given_back)


def remove_owned(name: str, resctrl: Resctrl, ledger: Ledger) -> None:
    """Removes a group of ours and forgets it; that it is gone already is fine. Raises ResctrlError."""
    with suppress(GroupGoneError):
        resctrl.remove(name)
    ledger.removed(name)


def restore(resctrl: Resctrl, ledger: Ledger) -> tuple[WriteSchemata, ...]:
    """Puts back what groups had that the agent did not create; the caller holds the lock. Raises ResctrlError.

    A group that somebody has removed meanwhile, or made anew without a resource, is passed over.
    """
    writes = []
    for name in sorted({group for group, _, _ in ledger.found}):
        with suppress(GroupGoneError):
            current = resctrl.read_group(name).schemata
            own = [
                WriteSchemata(name, resource, domain, current[resource][domain], value)
                for (group, resource, domain), value in ledger.found.items()
                if group == name and current.get(resource, {}).get(domain, value) != value
            ]
            resctrl.write_schemata(name, _values(own))
            writes += own
    ledger.forget_found({group for group, _, _ in ledger.found})
    return tuple(writes)


def _step_key(action: GroupAction) -> tuple[str, str] | GroupAction:
    """Values of one group go into one write, so that the kernel checks them together."""
    return ("schemata", action.group) if isinstance(action, WriteSchemata) else action


@dataclass(slots=True)
class _Steps:
    resctrl: Resctrl
    ledger: Ledger
    notes: list[str] = field(default_factory=list)
    _undo: list[tuple[str, Callable[[], None]]] = field(default_factory=list)

    def take(self, actions: Sequence[GroupAction]) -> None:
        """One step: a single action, or the schemata values of one group."""
        match actions[0]:
            case CreateGroup(name):
                self._create(name)
            case RemoveGroup(name):
                self._remove_early(name)
            case SetMode() as change:
                self._set_mode(change)
            case SetCpus() as change:
                self._set_cpus(change)
            case _:
                self._write(actions[0].group, [a for a in actions if isinstance(a, WriteSchemata)])

    def undo(self) -> list[str]:
        """Puts back what was done, last first; returns what could not be put back."""
        left_over = []
        for what, undo in reversed(self._undo):
            try:
                undo()
            except GroupGoneError:
                continue  # somebody removed it: nothing is left to put back
            except (ResctrlError, StateError, MachineError) as error:
                left_over.append(f"{what}: {error}")
        self._undo.clear()
        return left_over

    def _create(self, name: str) -> None:
        self.ledger.intend(name)
        try:
            self.resctrl.create(name)
        except ResctrlError:
            self.ledger.removed(name)
            raise
        self._will_undo(f"group {name}", lambda: remove_owned(name, self.resctrl, self.ledger))
        self.ledger.created(name, self.resctrl.group_inode(name))

    def _remove_early(self, name: str) -> None:
        before = self.resctrl.read_group(name)

        def recreate() -> None:
            self._create(name)
            self.resctrl.write_schemata(name, before.schemata)
            self.resctrl.write_mode(name, before.mode)
            self.resctrl.write_cpus(name, before.cpus)

        remove_owned(name, self.resctrl, self.ledger)
        self._will_undo(f"group {name}", recreate)

    def _set_mode(self, change: SetMode) -> None:
        self._will_undo(f"mode of {change.group}", lambda: self.resctrl.write_mode(change.group, change.before))
        self.resctrl.write_mode(change.group, change.after)

    def _set_cpus(self, change: SetCpus) -> None:
        self._will_undo(f"cpus of {change.group}", lambda: self.resctrl.write_cpus(change.group, change.before))
        self.resctrl.write_cpus(change.group, change.after)

    def _write(self, name: str, writes: Sequence[WriteSchemata]) -> None:
        before = self.resctrl.read_group(name).schemata
        asked = _values(writes)
        former = {res: {d: before[res][d] for d in values if d in before.get(res, {})} for res, values in asked.items()}
        self.ledger.note_found(name, former)
        self._will_undo(f"schemata of {name}", lambda: self.resctrl.write_schemata(name, former))
        self.resctrl.write_schemata(name, asked)
        self._read_back(name, asked)

    def _read_back(self, name: str, asked: Schemata) -> None:
        got = self.resctrl.read_group(name).schemata
        differences: Granted = {}
        for resource, values in asked.items():
            for domain, wanted in values.items():
                actual = got.get(resource, {}).get(domain, wanted)
                if actual != wanted:
                    differences[name, resource, domain] = (wanted, actual)
                    texts = value_text(resource, wanted), value_text(resource, actual)
                    self.notes.append(f'group "{name}": {resource} domain {domain}: asked {texts[0]}, got {texts[1]}')
        self.ledger.grant(differences, frozenset((name, r, d) for r, values in asked.items() for d in values))

    def _will_undo(self, what: str, undo: Callable[[], None]) -> None:
        self._undo.append((what, undo))


def _values(writes: Iterable[WriteSchemata]) -> dict[str, dict[int, int]]:
    values: dict[str, dict[int, int]] = {}
    for write in writes:
        values.setdefault(write.resource, {})[write.domain] = write.after
    return values
