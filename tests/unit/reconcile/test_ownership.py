"""What the agent remembers of a mount, and what becomes of it when the memory is damaged."""

import errno
import json
from pathlib import Path

import pytest

from agent.reconcile.ownership import Ledger, StateError
from agent.resctrl.errors import GroupGoneError
from agent.resctrl.monitoring_group import MonitoringGroup

ROOT = Path("/sys/fs/resctrl")


class Groups:
    """Control groups by name, with their inodes."""

    def __init__(self, **inodes: int) -> None:
        self.inodes = inodes

    def groups(self) -> list[str]:
        return sorted(self.inodes)

    def group_inode(self, name: str) -> int:
        if name not in self.inodes:
            raise GroupGoneError(name, "reading it", errno.ENOENT)
        return self.inodes[name]


def reopened(ledger: Ledger, boot: str = "boot") -> Ledger:
    return Ledger.open(ledger.path.parent, ROOT, boot)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "state", ROOT, "boot")


def test_a_group_that_the_agent_created_is_its_own_after_a_restart(ledger):
    ledger.intend("batch")
    ledger.created("batch", 7)
    assert reopened(ledger).owned(Groups(batch=7, foreign=8)) == {"batch"}


def test_a_kill_between_intent_and_record_loses_nothing(ledger):
    ledger.intend("batch")
    assert reopened(ledger).owned(Groups(batch=7)) == {"batch"}


def test_a_group_made_anew_by_somebody_else_is_not_ours(ledger):
    ledger.intend("batch")
    ledger.created("batch", 7)
    assert reopened(ledger).owned(Groups(batch=9)) == frozenset()


def test_nothing_is_ours_after_a_boot(ledger):
    ledger.intend("batch")
    ledger.created("batch", 7)
    ledger.note_found("", {"L3": {0: 0x7FF}})
    after = reopened(ledger, "another boot")
    assert (after.owned(Groups(batch=7)), after.found) == (frozenset(), {})


def test_what_was_found_first_in_a_group_of_others_is_kept(ledger):
    ledger.note_found("", {"L3": {0: 0x7FF}})
    ledger.note_found("", {"L3": {0: 0xF, 1: 0x3F}, "MB": {0: 100}})
    found = {("", "L3", 0): 0x7FF, ("", "L3", 1): 0x3F, ("", "MB", 0): 100}
    assert ledger.found == reopened(ledger).found == found


def test_of_a_group_of_its_own_nothing_is_kept(ledger):
    ledger.intend("batch")
    ledger.created("batch", 7)
    ledger.note_found("batch", {"L3": {0: 0x7FF}})
    assert ledger.found == {}


def test_what_was_put_back_is_forgotten(ledger):
    ledger.note_found("", {"L3": {0: 0x7FF}})
    ledger.forget_found({""})
    assert reopened(ledger).found == {}


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"boot_id": "boot", "groups": 3}', "\0\0", "nonsense"])
def test_a_damaged_memory_is_an_empty_one(ledger, content):
    ledger.path.parent.mkdir()
    ledger.path.write_text(content)
    assert reopened(ledger).owned(Groups(batch=7)) == frozenset()


def test_nothing_is_written_until_there_is_something_to_remember(ledger):
    ledger.forget_found({""})
    ledger.grant({}, frozenset())
    assert not ledger.path.exists()


def test_the_file_is_json_for_one_mount(ledger):
    ledger.intend("batch")
    assert ledger.path.name == "sys-fs-resctrl.json"
    assert json.loads(ledger.path.read_text())["groups"] == {"batch": None}


def test_a_state_directory_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "state").write_text("a file in its place")
    ledger = Ledger.open(tmp_path / "state", ROOT, "boot")
    with pytest.raises(StateError, match="cannot remember which groups are the agent's"):
        ledger.intend("batch")


def test_what_was_the_agents_on_an_earlier_mount_is_not_on_this_one(tmp_path):
    """A new mount gives its groups the inodes that those of the earlier one had."""
    mount = tmp_path / "resctrl"
    (mount / "info").mkdir(parents=True)
    ledger = Ledger.open(tmp_path / "state", mount, "boot")
    ledger.intend("batch")
    ledger.created("batch", 7)
    ledger.note_found("", {"MB": {0: 100}})
    again = Ledger.open(tmp_path / "state", mount, "boot")
    assert again.owned(Groups(batch=7)) == {"batch"}
    (mount / "info").rmdir()
    (mount / "info").mkdir()
    anew = Ledger.open(tmp_path / "state", mount, "boot")
    assert anew.owned(Groups(batch=7)) == set()
    assert not anew.found


def test_what_no_longer_exists_is_forgotten(ledger):
    ledger.intend("came-to-nothing")
    ledger.intend("batch")
    ledger.created("batch", 7)
    ledger.settle(Groups(batch=7))
    assert ledger.owned(Groups(batch=7, **{"came-to-nothing": 9})) == {"batch"}


def test_a_file_that_is_nested_without_end_is_an_empty_ledger(ledger):
    ledger.intend("batch")
    ledger.path.write_text("[" * 100_000)
    assert reopened(ledger).owned(Groups(batch=7)) == set()


def test_two_ledgers_of_one_mount_leave_each_other_alone(tmp_path):
    mount = tmp_path / "resctrl"
    (mount / "info").mkdir(parents=True)
    for state, group in (("one", "a"), ("two", "b")):
        ledger = Ledger.open(tmp_path / state, mount, "boot")
        ledger.intend(group)
        ledger.created(group, 7)
    assert Ledger.open(tmp_path / "one", mount, "boot").owned(Groups(a=7)) == {"a"}
    assert Ledger.open(tmp_path / "two", mount, "boot").owned(Groups(b=7)) == {"b"}


WEB = MonitoringGroup("batch", "web.service")
MOVED = MonitoringGroup("latency", "web.service")


def test_a_workloads_monitoring_group_is_known_after_a_restart(ledger):
    ledger.intend_monitoring(WEB, "/web.service")
    assert reopened(ledger).monitoring(Groups(**{WEB.path: 5})) == {WEB: "/web.service"}, "the intent does"
    assert reopened(ledger).monitoring(Groups()) == {}, "not where it came to nothing"
    ledger.monitoring_created(WEB, 5)
    assert reopened(ledger).monitoring(Groups(**{WEB.path: 5})) == {WEB: "/web.service"}
    assert reopened(ledger).monitoring(Groups(**{WEB.path: 6})) == {}, "somebody made it anew"
    assert reopened(ledger).owned(Groups(batch=1)) == frozenset(), "it says nothing of the control group"


@pytest.mark.parametrize("where", [WEB, MOVED])
def test_a_kill_while_a_monitoring_group_moves_loses_nothing(ledger, where):
    ledger.intend_monitoring(WEB, "/web.service")
    ledger.monitoring_created(WEB, 5)
    ledger.intend_monitoring(MOVED, "/web.service", 5)
    assert reopened(ledger).monitoring(Groups(**{where.path: 5})) == {where: "/web.service"}


def test_with_a_control_group_its_monitoring_groups_are_forgotten(ledger):
    ledger.intend("batch")
    ledger.created("batch", 1)
    ledger.intend_monitoring(WEB, "/web.service")
    ledger.monitoring_created(WEB, 5)
    ledger.removed("batch")
    assert reopened(ledger).monitoring(Groups(**{WEB.path: 5})) == {}


def test_a_memory_from_before_there_were_monitoring_groups_is_read(ledger):
    ledger.intend("batch")
    stored = json.loads(ledger.path.read_text())
    del stored["workloads"]
    ledger.path.write_text(json.dumps(stored))
    assert reopened(ledger).owned(Groups(batch=1)) == {"batch"}
