"""``check``: what is wrong with the policy, and what a machine makes of it. Changes nothing."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, replace

from agent.cli.arguments import COMMANDS, Commands
from agent.cli.changes import ROOT_GROUP
from agent.cli.described import Described, machine_here, machine_named
from agent.cli.maps import tell_map
from agent.cli.output import complain, remark, tell, tell_json
from agent.cli.places import places_of
from agent.cli.problems import counted, quoting, tell_problems
from agent.cli.situation import running_daemon
from agent.cli.statuses import POLICY_REFUSED
from agent.cli.table import schemata_as_json, table, values_text
from agent.policy import Loaded, load
from agent.policy.model import Policy
from agent.policy.problem import PolicyRefusedError, Problem, Severity
from agent.policy.render import as_json
from agent.reconcile.desired import Desired, DesiredGroup, resolve
from agent.reconcile.rules import RuleBook
from agent.resctrl.cpulist import format_cpu_list
from agent.resctrl.filesystem import Resctrl
from agent.resctrl.machine import Machine
from agent.service.permissions import rules_to_be_permitted, unjudged_rules
from agent.service.places import Places, mounted_resctrl

NO_MACHINE = (
    "note: resctrl is not mounted here, so only the policy itself was checked; to compare it with this machine mount "
    "resctrl (systemctl start sys-fs-resctrl.mount), or name another machine with --machine"
)


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "check",
        help=COMMANDS["check"],
        description="Reads the policy and says every mistake; with a machine, this one or --machine, also what that "
        "cannot do and what will be rounded.",
    )
    parser.add_argument(
        "--machine", metavar="DIR|NAME", help="a saved description (machine save), or the name of an emulated machine"
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """0 where the policy can be put in force, 78 where it is refused."""
    places = places_of(arguments)
    named = arguments.machine
    findings = _check(places, lambda: machine_named(named)) if named else _check_here(places)
    if arguments.output == "json":
        tell_json(_as_json(findings))
    else:
        _tell(findings, places)
    return 0 if findings.ok else POLICY_REFUSED


@dataclass(frozen=True, slots=True)
class _Findings:
    problems: tuple[Problem, ...]
    loaded: Loaded | None = None
    """None where the policy is refused whatever the machine."""
    described: Described | None = None
    desired: Desired | None = None
    """What would be written; None where there is no machine to write it to."""

    @property
    def ok(self) -> bool:
        return all(problem.severity is not Severity.ERROR for problem in self.problems)


def _check_here(places: Places) -> _Findings:
    """Users are looked up too, and what the agent may read: a machine that is only described has neither."""
    findings = _check(places, lambda: machine_here(places))
    if findings.loaded is None or findings.described is None:
        return findings
    policy = findings.loaded.policy
    found_here = quoting((*_unknown_users(policy), *_not_permitted(policy, places)), places)
    return replace(findings, problems=(*findings.problems, *found_here))


def _check(places: Places, find_machine: Callable[[], Described | None]) -> _Findings:
    """A mistake of the policy's own is said whether or not there is a machine to compare it with."""
    try:
        loaded = load(places.policy, insecure=places.insecure_policy)
    except PolicyRefusedError as refused:
        return _Findings(refused.problems)
    described = find_machine()
    if described is None:
        return _Findings(loaded.warnings, loaded)
    desired = resolve(loaded.policy, described.machine, described.root)
    problems = (*loaded.warnings, *quoting(desired.problems, places))
    return _Findings(problems, loaded, described, desired)


def _unknown_users(policy: Policy) -> Iterator[Problem]:
    rules = RuleBook(policy)
    for rule in policy.rules:
        for user in rules.unknown_users_of(rule):
            message = f'{rule.label}: this machine has no user "{user}"'
            yield Problem(Severity.WARNING, message, rule.position, "that condition does not hold for anybody")


def _not_permitted(policy: Policy, places: Places) -> tuple[Problem, ...]:
    """The rights of the agent count, not those of whoever checks."""
    with Resctrl.open(mounted_resctrl(places).path) as resctrl:
        daemon = running_daemon(places, resctrl)
    return unjudged_rules(policy, places.proc, daemon.pid) if daemon else rules_to_be_permitted(policy)


def _as_json(findings: _Findings) -> Mapping[str, object]:
    resolved = None
    if findings.desired is not None and findings.ok:
        groups = findings.desired.groups.values()
        resolved = {group.class_name: schemata_as_json(group.schemata) for group in groups}
    return {"ok": findings.ok, "problems": [as_json(p) for p in findings.problems], "resolved": resolved}


def _tell(findings: _Findings, places: Places) -> None:
    tell_problems(findings.problems)
    name = places.policy.name
    if findings.loaded is None or not findings.ok:
        complain(f"{name}: refused: {counted(findings.problems)}")
        return
    policy = findings.loaded.policy
    rules = _number(policy.rules, "rule", "rules")
    tell([f"{name}: fine: {_number(policy.classes, 'class', 'classes')}, {rules}"])
    if findings.described is None or findings.desired is None:
        remark(NO_MACHINE)
    else:
        _tell_table(findings.desired, findings.described.machine)
        _tell_map(findings.desired, findings.described)


def _tell_table(desired: Desired, machine: Machine) -> None:
    groups = desired.groups.values()
    resources = tuple(dict.fromkeys(resource for group in groups for resource in group.schemata))
    cpus = ("CPUS",) if any(group.cpus is not None for group in groups) else ()
    rows = [
        (
            group.class_name,
            *(_cpus(group) for _ in cpus),
            *(values_text(machine, resource, group.schemata[resource]) for resource in resources),
        )
        for group in groups
    ]
    if cpus or resources:
        tell(["", *table(("CLASS", *cpus, *resources), rows)])


def _cpus(group: DesiredGroup) -> str:
    return "-" if group.cpus is None else format_cpu_list(group.cpus) or "none"


def _tell_map(desired: Desired, described: Described) -> None:
    groups = {group.class_name: group.schemata for group in desired.groups.values()}
    if "" in desired.groups:
        tell_map(described.machine, groups, None)
    else:
        tell_map(described.machine, {**groups, ROOT_GROUP: described.root}, ROOT_GROUP)


def _number(things: Sized, one: str, many: str) -> str:
    return f"{len(things)} {one if len(things) == 1 else many}"
