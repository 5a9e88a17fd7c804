"""``explain``: the facts, the rules that were tried and why they did not match, and where the task is."""

from argparse import Namespace
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from agent.cli.arguments import COMMANDS, Commands
from agent.cli.errors import CommandError, UsageError
from agent.cli.explanation import CgroupExplanation, Judgement, TaskExplanation, ThreadPlace
from agent.cli.output import tell, tell_json
from agent.cli.places import open_machine, places_of
from agent.policy import load
from agent.policy.model import Policy
from agent.reconcile.node import Node
from agent.reconcile.ownership import Ledger
from agent.reconcile.rules import RuleBook
from agent.reconcile.survey import out_of_place, survey
from agent.tasks.cgroups import cgroup_id, read_threads
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
        "subject",
        metavar="PID|CGROUP",
        help="the id of a process or thread, or the path of a cgroup, with or without the place where it is mounted",
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Raises CommandError where there is no such task or cgroup."""
    places = places_of(arguments)
    tid = _tid(arguments.subject)
    policy = load(places.policy, insecure=places.insecure_policy).policy
    node, ledger = open_machine(places)
    with node.resctrl:
        judge = _Judge(node, policy, RuleBook(policy), _managed(node, policy, ledger))
        explanation = judge.task(tid) if tid is not None else judge.cgroup(_path(arguments.subject, node))
    if arguments.output == "json":
        tell_json(explanation.as_json())
    else:
        tell(explanation.as_text())
    return 0


@dataclass(frozen=True, slots=True)
class _Judge:
    node: Node
    policy: Policy
    rules: RuleBook
    managed: frozenset[str]

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
        found = survey(self.node, self.rules, self.managed, path)
        return CgroupExplanation(judgement, groups, found.threads, tuple(found.misplaced))

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
                places.append(ThreadPlace(tid, target.group if target else "", actual, in_place))
        return places

    def _default_class(self) -> str | None:
        default = self.policy.default_class
        return default.name if default else None


def _managed(node: Node, policy: Policy, ledger: Ledger) -> frozenset[str]:
    """As ``managed_groups``, also for a policy that this machine cannot carry out."""
    return (frozenset(spec.group for spec in policy.classes.values()) | ledger.owned(node.resctrl)) - {""}


def _tid(subject: str) -> int | None:
    if subject.isdecimal():
        return int(subject)
    if subject.startswith("/"):
        return None
    raise UsageError(
        f'explain: "{subject}" is neither the id of a task nor the path of a cgroup, which begins with "/"'
    )


def _path(subject: str, node: Node) -> str:
    """Below the hierarchy's mount, whichever way it was written."""
    mount = node.hierarchy.mount
    given = Path(subject)
    path = f"/{given.relative_to(mount)}".removesuffix("/.") or "/" if given.is_relative_to(mount) else str(given)
    if cgroup_id(mount, path) is None:
        raise CommandError(f"there is no cgroup {path} in {node.hierarchy}; --cgroup names another hierarchy")
    return path
