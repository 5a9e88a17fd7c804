"""``explain``: the facts, the rules that were tried and why they did not match, and where the task is."""

from argparse import Namespace
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent.cli.arguments import COMMANDS, Commands
from agent.cli.errors import CommandError, UsageError
from agent.cli.explanation import CgroupExplanation, Judgement, TaskExplanation, ThreadPlace
from agent.cli.output import tell, tell_json
from agent.cli.places import open_machine, places_of
from agent.cli.situation import running_daemon
from agent.policy import load
from agent.policy.model import Policy
from agent.reconcile.node import Node
from agent.reconcile.ownership import Ledger
from agent.reconcile.rules import RuleBook, Target
from agent.reconcile.survey import Belonging, out_of_place, survey
from agent.service.run_state import RunState
from agent.tasks.cgroups import cgroup_id, read_threads, walk
from agent.tasks.names import identify
from agent.tasks.process import Program, cgroup_of, process_of, read_program, threads_of


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "explain",
        help=COMMANDS["explain"],
        description="Says which rule a task or a cgroup falls under, why the rules before it do not match, and which "
        "group it is in.",
    )
    parser.add_argument(
        "subjects",
        nargs="+",
        metavar="PID|CGROUP|UNIT",
        help="the id of a process or thread; the path of a cgroup, with or without the place where it is mounted; or "
        "the name of a systemd unit",
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Raises CommandError, once the others are explained, where there is no such task, cgroup or unit."""
    places = places_of(arguments)
    for subject in arguments.subjects:
        _check_form(subject)
    policy = load(places.policy, insecure=places.insecure_policy).policy
    node, ledger = open_machine(places)
    with node.resctrl:
        given_up = _given_up(running_daemon(places, node.resctrl))
        judge = _Judge(node, policy, RuleBook(policy), _managed(node, policy, ledger), given_up)
        explained, missing = _explained(judge, arguments.subjects)
    if arguments.output == "json":
        _tell_json(explained)
    else:
        _tell_text(explained)
    if missing:
        raise CommandError("; ".join(missing))
    return 0


Explanation: TypeAlias = TaskExplanation | CgroupExplanation


@dataclass(frozen=True, slots=True)
class _Judge:
    node: Node
    policy: Policy
    rules: RuleBook
    managed: frozenset[str]
    given_up: frozenset[tuple[str, str, str]]
    """(workload, class, the group that it is left in) of what the running agent has ceased to put back."""

    def explain(self, subject: str) -> list[Explanation]:
        """Raises CommandError where there is no such thing."""
        if subject.isdecimal():
            return [self.task(int(subject))]
        if subject.startswith("/"):
            return [self.cgroup(_path(subject, self.node))]
        return [self.cgroup(path) for path in _paths_of_unit(subject, self.node)]

    def task(self, tid: int) -> TaskExplanation:
        """A process with all its threads, or one thread of it."""
        proc = self.node.proc
        pid = process_of(proc, tid)
        program = read_program(proc, pid) if pid is not None else None
        path = cgroup_of(proc, tid, self.node.hierarchy)
        if pid is None or program is None or path is None:
            raise CommandError(f"there is no task {tid}, or no longer")
        threads = self._threads(threads_of(proc, pid) if pid == tid else [tid], program)
        target = self.rules.judge(self.rules.judge_cgroup(path), program)
        judgement = Judgement(path, self.rules.explain(path, program), target, self._default_class())
        return TaskExplanation(tid, pid, program, judgement, tuple(threads))

    def cgroup(self, path: str) -> CgroupExplanation:
        """A cgroup, with the threads in it and below it."""
        trials = self.rules.explain_cgroup(path)
        judgement = Judgement(path, trials, self.rules.judge_cgroup(path).otherwise, self._default_class())
        hierarchy = self.node.hierarchy
        placed = self.node.membership()
        own = read_threads(hierarchy.mount, path, hierarchy.threads_file) or []
        groups = Counter(placed.get(tid, "") for tid in own)
        found = survey(self.node, Belonging(self.rules, self.managed), below=path)
        left = sum(self._is_given_up(each.target, each.path, each.actual) for each in found.misplaced)
        workloads = tuple(found.workloads.values())
        return CgroupExplanation(judgement, groups, found.threads, workloads, tuple(found.misplaced), left)

    def _threads(self, tids: list[int], program: Program) -> list[ThreadPlace]:
        """Threads of one process may be in several cgroups. Those that have ended meanwhile are left out."""
        placed = self.node.membership()
        places = []
        for tid in tids:
            path = cgroup_of(self.node.proc, tid, self.node.hierarchy)
            if path is not None:
                target = self.rules.judge(self.rules.judge_cgroup(path), program)
                actual = placed.get(tid, "")
                in_place = not out_of_place(target, actual, self.managed)
                given_up = not in_place and self._is_given_up(target, path, actual)
                places.append(ThreadPlace(tid, target.group if target else "", actual, in_place, given_up))
        return places

    def _is_given_up(self, target: Target | None, path: str, actual: str) -> bool:
        workload = target.workload if target else path
        return (workload, target.class_name if target else "", actual) in self.given_up

    def _default_class(self) -> str | None:
        default = self.policy.default_class
        return default.name if default else None


def _managed(node: Node, policy: Policy, ledger: Ledger) -> frozenset[str]:
    """As ``managed_groups``, also for a policy that this machine cannot carry out."""
    return (frozenset(spec.group for spec in policy.classes.values()) | ledger.owned(node.resctrl)) - {""}


def _given_up(daemon: RunState | None) -> frozenset[tuple[str, str, str]]:
    contended = daemon.contended if daemon else ()
    return frozenset((str(c["workload"]), str(c["class_name"]), str(c["other_group"])) for c in contended)


def _explained(judge: _Judge, subjects: list[str]) -> tuple[list[Explanation], list[str]]:
    """What could be explained, and what is not there: a process of several may have ended meanwhile."""
    explained: list[Explanation] = []
    missing: list[str] = []
    for subject in subjects:
        try:
            explained += judge.explain(subject)
        except CommandError as error:
            missing.append(str(error))
    return explained, missing


def _tell_json(explained: list[Explanation]) -> None:
    if len(explained) == 1:
        tell_json(explained[0].as_json())
    elif explained:
        tell_json({"explained": [each.as_json() for each in explained]})


def _tell_text(explained: list[Explanation]) -> None:
    for number, each in enumerate(explained):
        tell([""] if number else [])
        tell(each.as_text())


def _check_form(subject: str) -> None:
    if not (subject.isdecimal() or subject.startswith("/") or _is_unit(subject)):
        raise UsageError(
            f'explain: "{subject}" is neither the id of a task nor the path of a cgroup, which begins with "/", '
            f"nor the name of a unit, such as {subject}.service"
        )


def _is_unit(name: str) -> bool:
    return [unit.name for unit in identify(f"/{name}").units] == [name]


def _paths_of_unit(unit: str, node: Node) -> list[str]:
    """Also units of users, and those in containers: whatever cgroup bears the name."""
    paths = [cgroup.path for cgroup in walk(node.hierarchy.mount) if _bears(cgroup.path, unit)]
    if not paths:
        raise CommandError(f"no cgroup of {node.hierarchy} is {unit}'s: it does not run, or --cgroup names another")
    return sorted(paths)


def _bears(path: str, unit: str) -> bool:
    return path.rpartition("/")[2].removeprefix("_") == unit


def _path(subject: str, node: Node) -> str:
    """Below the hierarchy's mount, whichever way it was written."""
    mount = node.hierarchy.mount
    given = Path(subject)
    path = f"/{given.relative_to(mount)}".removesuffix("/.") or "/" if given.is_relative_to(mount) else str(given)
    if cgroup_id(mount, path) is None:
        raise CommandError(f"there is no cgroup {path} in {node.hierarchy}; --cgroup names another hierarchy")
    return path
