"""Plans: what they list, and that the kernel would take every step."""

from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.policy.model import Mode
from agent.reconcile.actions import CreateGroup, MoveTasks, RemoveGroup, SetCpus, SetMode, WriteSchemata
from agent.reconcile.desired import Desired, DesiredGroup
from agent.reconcile.plan import Observed, make_plan
from agent.resctrl.filesystem import Group
from tests.unit.reconcile.conftest import machine

HERE = machine("intel-12way")
DOMAINS = (0, 1)
FULL = 0xFFF


def wanted(name, mask, *, mode=Mode.SHAREABLE, mb=100, cpus=None, adopt=False):
    schemata = {"MB": dict.fromkeys(DOMAINS, mb), "L3": dict.fromkeys(DOMAINS, mask)}
    return DesiredGroup(name, name or "system", schemata, mode, cpus, adopt)


def found(name, mask=FULL, *, mode="shareable", mb=100, cpus=frozenset()):
    schemata = {"MB": dict.fromkeys(DOMAINS, mb), "L3": dict.fromkeys(DOMAINS, mask)}
    return Group(name, 1, schemata, mode, frozenset(cpus), ())


def desired(*groups):
    return Desired({group.name: group for group in groups}, ())


def observed(*groups, owned=(), granted=None):
    return Observed({g.name: g for g in (*groups,)}, frozenset(owned), granted or {})


def plan(want, have, moves=None):
    return make_plan(want, have, HERE, moves or {})


def test_an_untouched_machine_needs_everything():
    actions = plan(desired(wanted("batch", 0xF, mb=20)), observed(found("")), {"batch": 12, "": 0}).actions
    assert [action.as_json() for action in actions] == [
        {"action": "create-group", "group": "batch"},
        *(
            {"action": "write-schemata", "group": "batch", "resource": "MB", "domain": d, "from": "100", "to": "20"}
            for d in DOMAINS
        ),
        *(
            {"action": "write-schemata", "group": "batch", "resource": "L3", "domain": d, "from": "fff", "to": "f"}
            for d in DOMAINS
        ),
        {"action": "move-tasks", "group": "batch", "count": 12},
    ]


def test_a_machine_that_is_as_it_should_be_needs_nothing():
    have = observed(found(""), found("batch", 0xF, mb=20), owned=["batch"])
    assert plan(desired(wanted("batch", 0xF, mb=20)), have).actions == ()


def test_a_value_that_hardware_made_of_another_is_in_force_as_in_intel_cmt_cat_30():
    have = observed(found(""), found("batch", 0xF, mb=90), owned=["batch"], granted={("batch", "MB", 0): (70, 90)})
    (action,) = plan(desired(wanted("batch", 0xF, mb=70)), have).actions
    assert action == WriteSchemata("batch", "MB", 1, 90, 70)


def test_a_group_of_somebody_else_is_not_touched():
    have = observed(found(""), found("theirs", 0x1), found("old", 0x1), owned=["old"])
    assert plan(desired(), have).actions == (RemoveGroup("old"),)


def test_a_group_that_the_agent_did_not_create_stands_in_the_way():
    (obstacle,) = plan(desired(wanted("batch", 0xF)), observed(found(""), found("batch"))).obstacles
    assert 'group "batch" exists and the agent did not create it' in obstacle.message


def test_a_group_may_be_adopted_if_the_policy_says_so():
    adopting = plan(desired(wanted("batch", 0xF, adopt=True)), observed(found(""), found("batch")))
    assert adopting.obstacles == ()
    assert CreateGroup("batch") not in adopting.actions


def test_holders_of_closids_are_named_when_there_are_too_few_as_in_collectd_3764():
    theirs = [found(f"g{n:02}") for n in range(14)]
    (obstacle,) = plan(desired(wanted("a", 0xF), wanted("b", 0xF)), observed(found(""), *theirs)).obstacles
    assert obstacle.closid_holders == tuple(g.name for g in theirs)
    assert "g00, g01" in obstacle.message


def test_stale_groups_live_until_tasks_have_moved_where_there_is_room():
    actions = plan(desired(wanted("new", FULL)), observed(found(""), found("old"), owned=["old"]), {"new": 3}).actions
    assert actions == (CreateGroup("new"), MoveTasks("new", 3), RemoveGroup("old"))


def test_stale_groups_go_first_where_their_closids_are_needed():
    old = [found(f"o{n:02}") for n in range(15)]
    actions = plan(desired(wanted("new", FULL)), observed(found(""), *old, owned=[g.name for g in old])).actions
    assert actions[:2] == (RemoveGroup("o00"), CreateGroup("new"))
    assert actions[2:] == tuple(RemoveGroup(g.name) for g in old[1:])


def test_ways_are_given_up_before_they_are_taken():
    have = observed(found("", FULL), found("a", 0x00F), found("b", 0x0F0), owned=["a", "b"])
    groups = [a.group for a in plan(desired(wanted("a", 0x0FF), wanted("b", 0x0C0)), have).actions]
    assert groups == ["b", "b", "a", "a"]


def test_cpus_are_given_back_when_the_policy_no_longer_names_them():
    have = observed(found(""), found("a", 0xF, cpus={2, 3}), owned=["a"])
    assert plan(desired(wanted("a", 0xF)), have).actions == (SetCpus("a", frozenset({2, 3}), frozenset()),)


def test_an_exclusive_class_that_meets_somebody_elses_group_is_an_obstacle():
    want = desired(wanted("", 0xFF0), wanted("a", 0xF, mode=Mode.EXCLUSIVE))
    (obstacle,) = plan(want, observed(found("", 0xFF0), found("theirs", 0x3))).obstacles
    assert 'class "a" is to be exclusive and meets group "theirs"' in obstacle.message


@pytest.mark.parametrize("mode", ["exclusive", "pseudo-locked"])
def test_ways_that_somebody_else_has_for_himself_are_an_obstacle(mode):
    (obstacle,) = plan(desired(wanted("a", 0xF)), observed(found("", 0xFF0), found("theirs", 0x3, mode=mode))).obstacles
    assert mode in obstacle.message


# The kernel's rules, small: enough to know whether it would take a step.


@dataclass
class Kernel:
    masks: dict[str, int]
    modes: dict[str, str]

    def take(self, action):
        match action:
            case CreateGroup(name):
                assert name not in self.masks
                assert len(self.masks) < HERE.num_closids, "out of CLOSIDs"
                self.masks[name], self.modes[name] = self.default_mask(), "shareable"
            case RemoveGroup(name):
                del self.masks[name], self.modes[name]
            case WriteSchemata(name, "L3", 0, before, after):
                assert before == self.masks[name], "the plan shows what is there"
                for other, mask in self.masks.items():
                    apart = "exclusive" in (self.modes[name], self.modes[other])
                    assert other == name or not apart or not mask & after, f"{name} overlaps with {other}"
                self.masks[name] = after
            case SetMode(name, before, after):
                assert before == self.modes[name]
                if after == "exclusive":
                    met = [other for other, mask in self.masks.items() if other != name and mask & self.masks[name]]
                    assert not met, f"{name} meets {met}"
                self.modes[name] = after

    def default_mask(self):
        free = FULL
        for other, mask in self.masks.items():
            if self.modes[other] == "exclusive":
                free &= ~mask
        assert free, "no space"
        return free & ~(free + (free & -free))


def mask_strategy():
    return st.tuples(st.integers(0, 11), st.integers(1, 12)).map(lambda r: ((1 << r[1]) - 1) << r[0] & FULL)


@st.composite
def states(draw, names):
    """Masks and modes that can be in force together: name → (mask, exclusive?)."""
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names)))
    masks = {"": draw(mask_strategy())} | {name: draw(mask_strategy()) for name in chosen}
    return {
        name: (
            mask,
            name != "" and draw(st.booleans()) and all(not mask & other for key, other in masks.items() if key != name),
        )
        for name, mask in masks.items()
    }


@settings(max_examples=600)
@given(states("abcdefgh"), states("abcdefgh"), st.sets(st.sampled_from("xyz")), st.integers(0, 7))
def test_the_kernel_would_take_every_step_and_ends_as_the_policy_says(before, after, theirs, crowd):
    foreign = dict.fromkeys(theirs, FULL) | {f"f{n}": 1 << n for n in range(crowd)}
    assume(not any(mask & m for m, alone in before.values() if alone for mask in foreign.values()))
    have = observed(
        *(found(name, mask, mode="exclusive" if alone else "shareable") for name, (mask, alone) in before.items()),
        *(found(name, mask) for name, mask in foreign.items()),
        owned=[name for name in before if name],
    )
    want = desired(
        *(wanted(n, mask, mode=Mode.EXCLUSIVE if alone else Mode.SHAREABLE) for n, (mask, alone) in after.items())
    )
    made = plan(want, have)
    if made.obstacles:
        meets = any(mask & m for m, alone in after.values() if alone for mask in foreign.values())
        assert meets or len(after) + len(foreign) > HERE.num_closids
        return
    kernel = Kernel(
        {name: g.schemata["L3"][0] for name, g in have.groups.items()},
        {name: g.mode for name, g in have.groups.items()},
    )
    for action in made.actions:
        kernel.take(action)
    assert kernel.masks == {name: mask for name, (mask, _) in after.items()} | foreign
    assert {name: kernel.modes[name] == "exclusive" for name in after} == {
        name: alone for name, (_, alone) in after.items()
    }


def test_the_root_group_gets_back_what_it_had_when_its_class_leaves_the_policy():
    have = observed(found("", 0xF0), found("a", 0xF), owned=["a"])
    changed = {("", "L3", d): FULL for d in DOMAINS} | {("", "MB", d): 100 for d in DOMAINS}
    before_us = Observed(have.groups, have.owned, {}, changed)
    assert plan(desired(wanted("a", 0xF)), before_us).actions == tuple(
        WriteSchemata("", "L3", domain, 0xF0, FULL) for domain in DOMAINS
    )
    assert plan(desired(wanted("", 0xF0), wanted("a", 0xF)), before_us).actions == ()


def test_a_group_that_is_as_its_class_wants_it_is_used_whoever_made_it():
    have = observed(found(""), found("batch", 0xF, mb=20))
    assert plan(desired(wanted("batch", 0xF, mb=20)), have).obstacles == ()
    assert len(plan(desired(wanted("batch", 0xF, mb=30)), have).obstacles) == 1


def test_an_exclusive_class_keeps_its_mode_where_hardware_made_something_else_of_its_mask():
    want = desired(wanted("", 0xFF0), wanted("a", 0x3, mode=Mode.EXCLUSIVE))
    granted = {("a", "L3", d): (0x3, 0x7) for d in DOMAINS}
    have = observed(found("", 0xFF0), found("a", 0x7, mode="exclusive"), owned=["a"], granted=granted)
    assert plan(want, have).actions == ()
