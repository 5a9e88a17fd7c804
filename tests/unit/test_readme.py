"""What README.md promises is so."""

import re
from pathlib import Path

from agent.cli.arguments import COMMANDS
from agent.emulator.machines import MACHINES
from agent.policy import load
from agent.reconcile.desired import resolve
from agent.reconcile.rules import RuleBook
from agent.resctrl.machine import read_machine
from agent.resctrl.schemata import parse

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text()


def policy_in_readme() -> str:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    return text


def test_the_policy_has_no_mistake_and_fits_a_usual_machine(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_in_readme())
    loaded = load(policy)
    machine = CHECKOUT / "tests/machines/xeon-11way"
    desired = resolve(loaded.policy, read_machine(machine), parse((machine / "schemata").read_text()))
    assert [*loaded.warnings, *desired.errors] == []


def test_the_table_of_commands_has_all_that_there_are() -> None:
    assert set(re.findall(r"^\| `([a-z]+)[ `]", README, re.MULTILINE)) == set(COMMANDS)


def test_the_emulated_machines_that_are_named_exist() -> None:
    named = re.search(r"an emulated machine: (.*), …", README)
    assert named
    assert set(re.findall("`(.*?)`", named[1])) <= set(MACHINES)


def test_where_two_rules_match_the_first_wins_however_deep_their_cgroups_are(tmp_path: Path) -> None:
    narrow, wide = "{class: b, when: {cgroup: /backup.slice/urgent}}", "{class: a, when: {cgroup: /backup.slice}}"
    for rules, winner in (((narrow, wide), "b"), ((wide, narrow), "a")):
        policy = tmp_path / "policy.yaml"
        policy.write_text(f"version: 1\nclasses: {{a: {{}}, b: {{}}}}\nrules: [{', '.join(rules)}]\n")
        verdict = RuleBook(load(policy).policy).judge_cgroup("/backup.slice/urgent/job")
        assert verdict.otherwise
        assert verdict.otherwise.class_name == winner


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`| {4})make ([a-z]+)", README)) <= targets


def test_every_link_leads_somewhere() -> None:
    missing = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not (CHECKOUT / link).exists()]
    assert missing == []
