"""Cache domains and CPUs that come and go under a policy in force."""

from dataclasses import replace

import pytest

from agent.policy.problem import Severity
from agent.reconcile.actions import CreateGroup, SetCpus, SetMode, WriteSchemata
from agent.reconcile.desired import resolve
from agent.reconcile.plan import Observed, make_plan
from agent.reconcile.presence import follows_from_hotplug, machine_now, together, told
from agent.resctrl.filesystem import Group
from tests.unit.reconcile.conftest import machine

FULL = 0xFFF
WHOLE = replace(machine("intel-12way"), cpus=frozenset(range(4)))
"""Two domains, of two CPUs each."""


def group(name="", domains=(0, 1), cpus=range(4), mask=FULL, mode="shareable"):
    schemata = {"MB": dict.fromkeys(domains, 100), "L3": dict.fromkeys(domains, mask)}
    return Group(name, 1, schemata, mode, frozenset(cpus), ())


def groups(*several):
    return {each.name: each for each in several}


HALF = machine_now(WHOLE, groups(group(domains=(0,), cpus=(0, 1))))
"""After the CPUs of domain 1 went offline."""


def resolved(policy, text, here, known=WHOLE.domains):
    return resolve(policy(text), here, group().schemata, known)


def messages(desired, severity):
    return [p.message for p in desired.problems if p.severity is severity]


def test_a_machine_is_what_the_root_group_lists_and_what_cpus_any_group_has():
    assert machine_now(WHOLE, groups(group(cpus=(0, 1)), group("batch", cpus=(2, 3)))) == WHOLE
    assert HALF.domains == {"L3": {0}, "MB": {0}}
    assert HALF.cpus == {0, 1}


def test_under_cdp_a_cache_has_the_domains_of_both_its_lines():
    here = machine("cdp")
    schemata = {"MB": {0: 100}, "L3DATA": {0: 1}, "L3CODE": {0: 1}}
    found = machine_now(here, {"": Group("", 1, schemata, "shareable", frozenset(), ())})
    assert found.domains["L3"] == {0}


def test_what_a_machine_can_do_does_not_change_with_what_groups_are_given():
    absolute = machine("amd")
    limited = {"MB": dict.fromkeys(absolute.domains["MB"], 8), "L3": dict.fromkeys(absolute.domains["L3"], 1)}
    now = machine_now(absolute, {"": Group("", 1, limited, "shareable", absolute.cpus, ())})
    assert now == absolute


def test_what_came_and_went_is_told_in_words():
    assert told(WHOLE, WHOLE) == {}
    assert told(WHOLE, HALF) == {"Cache domains went offline": "L3 1, MB 1", "CPUs went offline": "2–3"}
    assert told(HALF, WHOLE) == {
        "Cache domains came online, without limits in any group": "L3 1, MB 1",
        "CPUs came online": "2–3",
    }


def test_domains_once_known_stay_known():
    assert together(WHOLE.domains, HALF.domains) == WHOLE.domains
    assert together(HALF.domains, WHOLE.domains) == WHOLE.domains
    assert together({}, HALF.domains) == HALF.domains


BY_ID = "classes: {batch: {l3: {0: '0x1', 1: '0x3'}, mb: {default: 20%, 1: 30%}}}"


def test_a_domain_that_is_offline_keeps_nothing_from_the_others(policy):
    desired = resolved(policy, BY_ID, HALF)
    assert desired.groups["batch"].schemata == {"L3": {0: 1}, "MB": {0: 20}}
    assert messages(desired, Severity.ERROR) == []
    assert messages(desired, Severity.WARNING) == [
        'class "batch": L3 has no domain 1 at the moment',
        'class "batch": MB has no domain 1 at the moment',
    ]


def test_a_domain_that_is_back_gets_what_the_policy_says(policy):
    desired = resolved(policy, BY_ID, machine_now(HALF, groups(group())))
    assert desired.groups["batch"].schemata == {"L3": {0: 1, 1: 3}, "MB": {0: 20, 1: 30}}
    assert desired.problems == ()


def test_a_domain_that_was_never_there_is_a_mistake_also_while_another_is_offline(policy):
    desired = resolved(policy, "classes: {batch: {l3: {0: '0x1', 1: '0x3', 7: '0x3'}}}", HALF)
    assert messages(desired, Severity.ERROR) == ['class "batch": L3 has no domain 7']


def test_a_new_policy_that_names_an_offline_domain_is_mistaken(policy):
    assert resolved(policy, BY_ID, HALF, {}).errors


CPUS = "classes: {batch: {cpus: 1-3}}"


def test_cpus_that_are_offline_are_warned_of(policy):
    assert messages(resolved(policy, CPUS, WHOLE), Severity.WARNING) == []
    desired = resolved(policy, CPUS, HALF)
    assert messages(desired, Severity.WARNING) == ['class "batch": not online at the moment: CPU 2–3']
    assert desired.groups["batch"].cpus == {1, 2, 3}


@pytest.mark.parametrize(
    ("here", "root", "batch", "changes"),
    [
        (WHOLE, (0,), (1, 2, 3), []),
        (HALF, (0,), (1,), []),
        (HALF, (0, 1), (), [SetCpus("batch", frozenset(), frozenset({1}))]),
        (WHOLE, (0, 2, 3), (1,), [SetCpus("batch", frozenset({1}), frozenset({1, 2, 3}))]),
    ],
)
def test_a_class_has_those_of_its_cpus_that_are_online(policy, here, root, batch, changes):
    domains = tuple(sorted(here.domains["L3"]))
    have = groups(group(domains=domains, cpus=root), group("batch", domains=domains, cpus=batch))
    plan = make_plan(resolved(policy, CPUS, here), Observed(have, frozenset({"batch"})), here, {})
    assert list(plan.preparation) == changes


def test_an_exclusive_class_lets_go_for_a_domain_that_is_back(policy):
    text = "classes: {alone: {l3: '0x1', mode: exclusive}, system: {default: true, l3: '0xffe'}}"
    have = groups(reset(group(mask=0xFFE)), reset(group("alone", mask=1, cpus=(), mode="exclusive")))
    plan = make_plan(resolved(policy, text, WHOLE), Observed(have, frozenset({"alone"})), WHOLE, {})
    assert plan.obstacles == ()
    assert list(plan.preparation) == [
        SetMode("alone", "exclusive", "shareable"),
        WriteSchemata("alone", "L3", 1, FULL, 1),
        WriteSchemata("", "L3", 1, FULL, 0xFFE),
        SetMode("alone", "shareable", "exclusive"),
    ]
    assert all(follows_from_hotplug(action, WHOLE) for action in plan.preparation)


def reset(before):
    """The group after domain 1 went and came back."""
    schemata = {"MB": {**before.schemata["MB"], 1: 100}, "L3": {**before.schemata["L3"], 1: FULL}}
    return replace(before, schemata=schemata)


@pytest.mark.parametrize(
    ("action", "follows"),
    [
        (WriteSchemata("batch", "L3", 1, FULL, 1), True),
        (WriteSchemata("batch", "MB", 1, 100, 20), True),
        (SetCpus("batch", frozenset(), frozenset({3})), True),
        (WriteSchemata("batch", "L3", 1, 0xF, 1), False),
        (WriteSchemata("batch", "MB", 1, 50, 20), False),
        (CreateGroup("batch"), False),
    ],
)
def test_what_somebody_did_is_told_from_what_hotplug_did(action, follows):
    assert follows_from_hotplug(action, WHOLE) is follows
