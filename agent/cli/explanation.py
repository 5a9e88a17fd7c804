"""Why a task or a cgroup belongs where it does, as text and as JSON. Pure, but for the names of users."""

import pwd
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agent.cli.changes import group_name, threads_text
from agent.cli.names import workload_name
from agent.reconcile.rules import Target, Trial
from agent.reconcile.survey import Misplaced, Workload
from agent.tasks.names import Pod, identify
from agent.tasks.process import Program

LISTED = 10
"""Threads, or cgroups, out of place that are named."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say."""

    cgroup: str
    trials: tuple[Trial, ...]
    target: Target | None
    """None: no rule matches."""
    default_class: str | None
    """The class of the root group, if the policy has one."""

    @property
    def group(self) -> str:
        """The control group where it belongs."""
        return self.target.group if self.target else ""

    def as_json(self) -> dict[str, object]:
        """Keys that tasks and cgroups have in common."""
        return {
            "cgroup": self.cgroup,
            "workload": self.target.workload if self.target else None,
            "rule": self.target.rule.label if self.target else None,
            "class": self.target.class_name if self.target else self.default_class,
            "group": self.group,
        }

    def rules_as_json(self) -> list[dict[str, object]]:
        """Each rule that was tried."""
        return [
            {
                "rule": trial.rule.label,
                "class": trial.rule.class_name,
                "position": str(trial.rule.position),
                "matched": trial.matched,
                "reasons": list(trial.reasons),
            }
            for trial in self.trials
        ]

    def as_text(self) -> Iterator[str]:
        """The rules in order, and the outcome."""
        yield "rules"
        for trial in self.trials:
            verdict = "matches" if trial.matched else f"no, {'; '.join(trial.reasons)}"
            yield f"  {trial.rule.label} ({trial.rule.position}, class {trial.rule.class_name}): {verdict}"
        if self.target:
            workload = workload_name(self.target.workload, self.target.rule)
            yield f"class {self.target.class_name}, workload {workload}"
        elif self.default_class:
            yield f"no rule matches: class {self.default_class}, the default"
        else:
            yield "no rule matches"


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """One thread, the group it belongs in, and the one it is in."""

    tid: int
    group: str
    actual: str
    in_place: bool
    given_up: bool
    """Somebody keeps taking it away, and the running agent leaves it there."""

    def as_json(self) -> dict[str, object]:
        """As ``explain --output json`` lists it."""
        return {
            "tid": self.tid,
            "group": self.group,
            "actual_group": self.actual,
            "in_place": self.in_place,
            "contended": self.given_up,
        }


@dataclass(frozen=True, slots=True)
class TaskExplanation:
    """A process with all its threads, or one of its threads."""

    tid: int
    pid: int
    program: Program
    judgement: Judgement
    threads: tuple[ThreadPlace, ...]

    @property
    def in_place(self) -> bool:
        """Whether all are."""
        return all(thread.in_place for thread in self.threads)

    def as_json(self) -> dict[str, object]:
        """``facts`` are what rules can ask for."""
        program = self.program
        facts = {
            **_names_as_json(self.judgement.cgroup),
            "exe": program.exe,
            "comm": program.comm,
            "uid": program.uid,
            "user": _user(program.uid),
            "kernel_thread": program.is_kernel_thread,
        }
        return {
            "pid": self.pid,
            "tid": self.tid,
            **self.judgement.as_json(),
            "actual_group": next((thread.actual for thread in self.threads if thread.tid == self.tid), ""),
            "in_place": self.in_place,
            "rules": self.judgement.rules_as_json(),
            "facts": facts,
            "threads": [thread.as_json() for thread in self.threads],
        }

    def as_text(self) -> Iterator[str]:
        """Facts, rules, place."""
        program = self.program
        what = "kernel thread" if program.is_kernel_thread else "process"
        yield f"{what} {self.pid}" if self.tid == self.pid else f"thread {self.tid} of {what} {self.pid}"
        user = _user(program.uid)
        yield from _facts_text(
            {
                **_names_as_text(self.judgement.cgroup),
                "exe": program.exe or "none that can be read",
                "comm": program.comm,
                "user": f"{program.uid} ({user})" if user else str(program.uid),
            }
        )
        yield from self.judgement.as_text()
        yield f"belongs in {group_name(self.judgement.group)}"
        yield from _places_text(self.threads)


@dataclass(frozen=True, slots=True)
class CgroupExplanation:
    """A cgroup with the threads in it and below it."""

    judgement: Judgement
    groups: Counter[str]
    """Control group → threads in the cgroup itself that are in it."""
    threads: int
    """In it and below it."""
    workloads: tuple[Workload, ...]
    """Whose those threads are, as far as a rule matches them."""
    misplaced: tuple[Misplaced, ...]
    """Of those."""
    given_up: int
    """Of these, threads that somebody keeps taking away."""

    def as_json(self) -> dict[str, object]:
        """``actual_group`` is None where its threads are in several groups, or there are none."""
        return {
            "pid": None,
            **self.judgement.as_json(),
            "actual_group": next(iter(self.groups)) if len(self.groups) == 1 else None,
            "in_place": not self.misplaced,
            "rules": self.judgement.rules_as_json(),
            "facts": _names_as_json(self.judgement.cgroup),
            "threads": {
                "total": self.threads,
                "in_place": self.threads - len(self.misplaced),
                "misplaced": len(self.misplaced),
                "contended": self.given_up,
            },
            "workloads": [
                {"name": each.name, "class": each.class_name, "rule": each.rule, "threads": each.threads}
                for each in self.workloads
            ],
        }

    def as_text(self) -> Iterator[str]:
        """Facts, rules, counts."""
        yield f"cgroup {self.judgement.cgroup}"
        yield from _facts_text(_names_as_text(self.judgement.cgroup))
        yield from self.judgement.as_text()
        yield from self._belonging()
        if not self.threads:
            yield "no threads in it or below it"
            return
        out = f"{len(self.misplaced)} out of place" if self.misplaced else "all in place"
        yield f"{threads_text(self.threads)} in it and below it, {out}"
        counts = Counter((thread.path, thread.group, thread.actual) for thread in self.misplaced)
        for (path, group, actual), count in sorted(counts.items())[:LISTED]:
            yield f"  {threads_text(count)} of {path} in {group_name(actual)}, should be in {group_name(group)}"
        if len(counts) > LISTED:
            yield f"  and in {len(counts) - LISTED} more cgroups"
        if self.given_up:
            yield f"contended: {threads_text(self.given_up)} out of place, which the agent leaves where they are"

    def _belonging(self) -> Iterator[str]:
        """What the cgroup's own name decides, and whatever decides otherwise for threads in it and below it."""
        target = self.judgement.target
        own = (target.workload, target.class_name) if target else None
        others = [each for each in self.workloads if (each.name, each.class_name) != own]
        if not others:
            yield f"belongs in {group_name(self.judgement.group)}"
            return
        yield f"belongs in {group_name(self.judgement.group)}, but for what other rules match in it or below it:"
        for each in others[:LISTED]:
            yield f"  {each.name}: class {each.class_name}, {threads_text(each.threads)}"
        if len(others) > LISTED:
            yield f"  and {len(others) - LISTED} more"


def _places_text(threads: tuple[ThreadPlace, ...]) -> Iterator[str]:
    """``all 12 threads are in group batch``, or which are not in place."""
    right = [thread for thread in threads if thread.in_place]
    if right:
        where = " and ".join(group_name(group) for group in dict.fromkeys(thread.actual for thread in right))
        yield f"in place: {_share(len(right), len(threads))} in {where}"
    astray: dict[str, list[int]] = {}
    for thread in threads:
        if not thread.in_place:
            astray.setdefault(thread.actual, []).append(thread.tid)
    if any(thread.given_up for thread in threads):
        yield "contended: somebody keeps taking threads away, and the agent leaves them where they are"
    for group, tids in astray.items():
        more = f" and {len(tids) - LISTED} more" if len(tids) > LISTED else ""
        which = f": {', '.join(map(str, tids[:LISTED]))}{more}" if len(threads) > 1 else ""
        yield f"OUT OF PLACE: {_share(len(tids), len(threads))} in {group_name(group)}{which}"


def _share(count: int, total: int) -> str:
    if total == 1:
        return "it is"
    every = "all " if count == total else f"{count} of "
    return f"{every}{total} threads are"


def _facts_text(facts: Mapping[str, str]) -> Iterable[str]:
    width = max(map(len, facts))
    return (f"  {name:{width}}  {value}" for name, value in facts.items())


def _names_as_text(path: str) -> dict[str, str]:
    names = identify(path)
    facts = {"cgroup": path}
    if names.units:
        facts["units"] = ", ".join(unit.name for unit in names.units)
    if names.user_units:
        facts["user units"] = ", ".join(unit.name for unit in names.user_units)
    if names.pod:
        facts["pod"] = f"{names.pod.uid}, {names.pod.qos}"
        if names.pod.container_id:
            facts["container"] = names.pod.container_id + (f" ({names.pod.runtime})" if names.pod.runtime else "")
    return facts


def _names_as_json(path: str) -> dict[str, object]:
    names = identify(path)
    return {
        "units": [unit.name for unit in names.units],
        "user_units": [unit.name for unit in names.user_units],
        "pod": _pod_as_json(names.pod) if names.pod else None,
    }


def _pod_as_json(pod: Pod) -> dict[str, object]:
    return {"uid": pod.uid, "qos": pod.qos, "container_id": pod.container_id, "runtime": pod.runtime}


def _user(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
