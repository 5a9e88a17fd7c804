"""What was put right, said: what CPUs that came or went did to groups apart from what somebody did."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import structlog

from agent.policy.problem import Problem, Severity
from agent.policy.render import as_text
from agent.reconcile.actions import Action, SetCpus, SetMode, WriteSchemata
from agent.reconcile.presence import follows_from_hotplug, told
from agent.resctrl.cpulist import format_cpu_list
from agent.resctrl.machine import Machine
from agent.resctrl.schemata import value_text
from agent.service.reconciler import InForce

log = structlog.get_logger()


def say_problems(problems: Iterable[Problem]) -> None:
    """What a policy that is in force is to be warned of, or told."""
    for problem in problems:
        log.info(as_text(problem)) if problem.severity is Severity.NOTE else log.warning(as_text(problem))


def say_machine(before: InForce, now: InForce) -> None:
    """Cache domains and CPUs that came or went, and what that means for the policy."""
    for sentence, which in told(before.machine, now.machine).items():
        log.info(sentence, which=which)
    say_problems(problem for problem in now.desired.problems if problem not in before.desired.problems)


def say_drift(actions: Iterable[Action]) -> None:
    """What somebody changed."""
    for group, changes in _by_group(actions):
        log.warning("drift corrected", group=group, changes=changes)


def say_drift_after_hotplug(actions: Sequence[Action], machine: Machine) -> None:
    """The same after CPUs came or went, which is why most of it was needed."""
    for group, changes in _by_group(action for action in actions if follows_from_hotplug(action, machine)):
        log.warning("hotplug corrected", group=group, changes=changes)
    say_drift(action for action in actions if not follows_from_hotplug(action, machine))


def _by_group(actions: Iterable[Action]) -> list[tuple[str, str]]:
    ordered = sorted(actions, key=lambda action: action.group)
    return [(group, "; ".join(map(_brief, own))) for group, own in groupby(ordered, key=lambda action: action.group)]


def _brief(action: Action) -> str:
    """``L3:0 7ff → f``; the group is said beside it."""
    match action:
        case WriteSchemata(resource=resource, domain=domain, before=before, after=after):
            was = "unknown" if before is None else value_text(resource, before)
            return f"{resource}:{domain} {was} → {value_text(resource, after)}"
        case SetCpus(before=was_on, after=on):
            return f"cpus {format_cpu_list(was_on) or 'none'} → {format_cpu_list(on) or 'none'}"
        case SetMode(before=was_mode, after=mode):
            return f"{was_mode} → {mode}"
        case _:
            return str(action.as_json()["action"])
