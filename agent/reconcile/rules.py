"""Which rule wins, and why the others did not. Pure.

A rule has two halves. What it asks of the cgroup (``cgroup``, ``unit``, ``kubernetes``) is answered once for each
cgroup; what it asks of the program (``exe``, ``comm``, ``user``) once for each process. So a cgroup's verdict is
the first rule that asks only of the cgroup and holds, preceded by those rules that hold as far as the cgroup goes and
still have a question for each process. Most cgroups have no such candidates, and all their threads go one way.
"""

import pwd
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from agent.policy.model import Conditions, KubernetesConditions, Monitor, Policy, Rule
from agent.reconcile.globs import name_pattern, path_pattern, prefixes
from agent.tasks.names import Names, identify
from agent.tasks.process import Program

NEGATED = "what it says under `not` holds"
EXE_HIDDEN = "exe may not be read, which takes CAP_SYS_PTRACE"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a task belongs: the rule that said so, its class and control group ("" is the root group)."""

    rule: Rule
    class_name: str
    group: str
    workload: str
    """The cgroup that the rule matched; for a rule on the program, the rule's label."""
    monitored: bool = False
    """Whether the class counts each of its workloads apart."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule that holds for a cgroup and still asks something of each process in it."""

    target: Target
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say of one cgroup: candidates are asked first, in order; then ``otherwise`` (None: no rule)."""

    candidates: tuple[Candidate, ...]
    otherwise: Target | None


@dataclass(frozen=True, slots=True)
class Trial:
    """One rule tried on one task; ``reasons`` says which conditions did not hold, and is empty where all did."""

    rule: Rule
    reasons: tuple[str, ...]

    @property
    def matched(self) -> bool:
        """Whether every condition held."""
        return not self.reasons


def uid_by_name(user: str) -> int | None:
    """The uid of a user name or of a number written out; None when the machine knows no such user."""
    if user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


class RuleBook:
    """A policy's rules, ready to be asked. Remembers its verdict on each cgroup until told to forget it."""

    def __init__(
        self, policy: Policy, uid_of: Callable[[str], int | None] = uid_by_name, *, can_monitor: bool = True
    ) -> None:
        """``can_monitor``: whether the machine can count what a workload uses."""
        self._monitored = frozenset(
            spec.name for spec in policy.classes.values() if can_monitor and spec.monitor is Monitor.WORKLOAD
        )
        self._rules = policy.rules
        self._classes = policy.classes
        self._uids = {user: uid_of(user) for rule in policy.rules for user in _users(rule.when)}
        self._verdicts: dict[str, Verdict] = {}
        self.judges_programs = policy.judges_programs

    @property
    def uids(self) -> Mapping[str, int | None]:
        """The users that rules name, as this machine knew them when the rules were made ready."""
        return self._uids

    @property
    def unknown_users(self) -> tuple[str, ...]:
        """User names in rules that this machine does not know; such a condition never holds."""
        return tuple(sorted(user for user, uid in self._uids.items() if uid is None))

    def unknown_users_of(self, rule: Rule) -> tuple[str, ...]:
        """Of those, the ones that this rule asks for."""
        return tuple(user for user in _users(rule.when) if self._uids[user] is None)

    def judge_cgroup(self, path: str) -> Verdict:
        """The rules' verdict on a cgroup, ``/`` for the hierarchy's root."""
        verdict = self._verdicts.get(path)
        if verdict is None:
            verdict = self._verdicts[path] = self._judge_cgroup(path)
        return verdict

    def forget(self, path: str) -> None:
        """Drop the verdict on a cgroup that is gone."""
        self._verdicts.pop(path, None)

    def forget_all(self) -> None:
        """Drop every verdict, when it is not known which cgroups are gone."""
        self._verdicts.clear()

    @property
    def monitors(self) -> bool:
        """Whether some class counts its workloads apart."""
        return bool(self._monitored)

    def target_of(self, workload: str) -> Target | None:
        """Where a workload's tasks belong, by the cgroup or the rule that it is; None where it is none any more."""
        if workload.startswith("/"):
            target = self.judge_cgroup(workload).otherwise
            return target if target is not None and target.workload == workload else None
        named = (rule for rule in self._rules if rule.label == workload and rule.when.of_program)
        return next((self._target(rule, workload) for rule in named), None)

    def judge(self, verdict: Verdict, program: Program) -> Target | None:
        """Where a process of that cgroup belongs; None when no rule matches."""
        for candidate in verdict.candidates:
            if not self._reasons(candidate.conditions, program):
                return candidate.target
        return verdict.otherwise

    def explain(self, path: str, program: Program) -> tuple[Trial, ...]:
        """Every rule up to and including the one that matches, with the conditions that did not hold."""
        return self._tried(path, lambda conditions: self._reasons(conditions, program))

    def explain_cgroup(self, path: str) -> tuple[Trial, ...]:
        """The same for a cgroup by itself: rules that ask something of each process do not match it."""
        return self._tried(path, _asked_of_each)

    def _tried(self, path: str, program_reasons: Callable[[Conditions], list[str]]) -> tuple[Trial, ...]:
        trials = []
        names = identify(path)
        for rule in self._rules:
            _, reasons = _cgroup_reasons(rule.when, path, names)
            conditions = _left_to_ask(rule.when, path, names)
            reasons += [NEGATED] if conditions is None else program_reasons(conditions)
            trials.append(Trial(rule, tuple(reasons)))
            if not reasons:
                break
        return tuple(trials)

    def _judge_cgroup(self, path: str) -> Verdict:
        names = identify(path)
        candidates: list[Candidate] = []
        for rule in self._rules:
            workload, reasons = _cgroup_reasons(rule.when, path, names)
            if reasons:
                continue
            conditions = _left_to_ask(rule.when, path, names)
            if conditions is None:
                continue
            target = self._target(rule, rule.label if conditions.of_program else workload)
            if not conditions.of_program:
                return Verdict(tuple(candidates), target)
            candidates.append(Candidate(target, conditions))
        return Verdict(tuple(candidates), None)

    def _target(self, rule: Rule, workload: str) -> Target:
        spec = self._classes[rule.class_name]
        return Target(rule, spec.name, spec.group, workload, spec.name in self._monitored)

    def _reasons(self, when: Conditions, program: Program) -> list[str]:
        """What is not known neither holds nor, under ``not``, fails to hold."""
        if when.of_exe and program.exe_hidden:
            return [EXE_HIDDEN]
        return self._program_reasons(when, program)

    def _program_reasons(self, when: Conditions, program: Program) -> list[str]:
        reasons = []
        if when.exe and not (program.exe and _any(path_pattern, when.exe, program.exe)):
            reasons.append(f"exe is {program.exe or 'unreadable'}, not {_or(when.exe)}")
        if when.comm and not _any(name_pattern, when.comm, program.comm):
            reasons.append(f"comm is {program.comm}, not {_or(when.comm)}")
        if when.user and program.uid not in {self._uids[user] for user in when.user}:
            unknown = [user for user in when.user if self._uids[user] is None]
            known = f" (no such user here: {', '.join(unknown)})" if unknown else ""
            reasons.append(f"user is {program.uid}, not {_or(when.user)}{known}")
        if when.negated and not self._program_reasons(when.negated, program):
            reasons.append(NEGATED)
        return reasons


def _asked_of_each(when: Conditions) -> list[str]:
    return ["it depends on each process: exe, comm or user are asked for"] if when.of_program else []


def _left_to_ask(when: Conditions, path: str, names: Names) -> Conditions | None:
    """The program's half of ``when``, given that the cgroup's half holds; None when ``not`` already rules it out.

    ``not`` fails to hold, and so asks nothing more, as soon as the cgroup lacks something that it names.
    """
    negated = None
    if when.negated is not None:
        _, reasons = _cgroup_reasons(when.negated, path, names)
        inner = _left_to_ask(when.negated, path, names)
        if not reasons and inner is not None:
            if not inner.of_program:
                return None
            negated = inner
    return Conditions(exe=when.exe, comm=when.comm, user=when.user, negated=negated)


def _cgroup_reasons(when: Conditions, path: str, names: Names) -> tuple[str, list[str]]:
    """The workload that the cgroup's half of a rule matches, and which conditions do not hold.

    Where several conditions match ancestors of different depth, the deepest is the workload.
    """
    owners = []
    reasons = []
    if when.cgroup:
        owner = _cgroup_owner(when.cgroup, path)
        owners.append(owner)
        if owner is None:
            reasons.append(f"cgroup {path} is not in {_or(when.cgroup)}")
    if when.unit:
        owner = _unit_owner(when.unit, names)
        owners.append(owner)
        if owner is None:
            within = ", ".join(unit for unit, _ in names.units) or "none"
            reasons.append(f"unit is not {_or(when.unit)} (units of {path}: {within})")
    if when.kubernetes is not None:
        owners.append(names.pod.path if names.pod else None)
        reasons += _pod_reasons(when.kubernetes, path, names)
    return max((owner for owner in owners if owner is not None), key=len, default=path), reasons


def _cgroup_owner(globs: Iterable[str], path: str) -> str | None:
    patterns = [path_pattern(glob) for glob in globs]
    return next((p for p in prefixes(path) if any(pattern.fullmatch(p) for pattern in patterns)), None)


def _unit_owner(globs: Iterable[str], names: Names) -> str | None:
    patterns = [name_pattern(glob) for glob in globs]
    deepest_first = reversed(names.units)
    return next((path for unit, path in deepest_first if any(p.fullmatch(unit) for p in patterns)), None)


def _pod_reasons(when: KubernetesConditions, path: str, names: Names) -> list[str]:
    if names.pod is None:
        return [f"cgroup {path} is not in a pod"]
    reasons = []
    if when.qos and names.pod.qos not in when.qos:
        reasons.append(f"the pod's QoS class is {names.pod.qos}, not {_or(when.qos)}")
    if when.pod_uid and not _any(name_pattern, when.pod_uid, names.pod.uid):
        reasons.append(f"the pod's uid is {names.pod.uid}, not {_or(when.pod_uid)}")
    return reasons


def _any(pattern_of: Callable[[str], re.Pattern[str]], globs: Iterable[str], text: str) -> bool:
    return any(pattern_of(glob).fullmatch(text) for glob in globs)


def _or(values: Iterable[str]) -> str:
    return " or ".join(values)


def _users(when: Conditions) -> tuple[str, ...]:
    return when.user + (_users(when.negated) if when.negated else ())
