"""``machine`` describes what is mounted, and saves it so that ``check`` finds the same elsewhere."""

from collections.abc import Iterator

import pytest

from agent.emulator.machines import MACHINES
from tests.emulated.command_line import CommandLine, command_line

pytestmark = [pytest.mark.root, pytest.mark.bpf]

POLICY = """\
version: 1
resctrl: {bandwidth_capacity: 100GB/s}
classes:
  batch: {l3: 0-30%, l2: 0-30%, mb: 20%, optional: [l3, l2, mb]}
rules:
  - {class: batch, when: {cgroup: /batch}}
"""


@pytest.fixture
def agent(emulated, capsys, tmp_path) -> Iterator[CommandLine]:
    with command_line(capsys, emulated(), tmp_path) as commands:
        commands.write(POLICY)
        yield commands


def test_a_machine_is_shown_with_its_mount(agent):
    shown = agent.json("machine")
    assert shown["resources"]["L3"]["cbm_mask"] == "7ff"
    assert shown["resources"]["MB"]["bandwidth_gran"] == 10
    assert shown["monitoring"]["num_rmids"] == 160
    assert (shown["emulated"], shown["mount"]) == (True, str(agent.resctrl))
    assert agent("machine").out.startswith(f"resctrl at {agent.resctrl}, EMULATED")


def test_a_directory_that_is_not_empty_is_not_written_to(agent, tmp_path):
    ran = agent("machine", "save", tmp_path)
    assert ran.status == 1
    assert f"{tmp_path}: is not empty" in ran.err


@pytest.mark.parametrize("machine", MACHINES)
def test_a_saved_machine_resolves_a_policy_like_the_machine_itself(emulated, capsys, tmp_path, machine):
    with command_line(capsys, emulated(machine), tmp_path) as agent:
        agent.write(POLICY)
        assert agent("machine", "save", tmp_path / "saved").status == 0
        here = agent("check", "--output", "json")
        assert agent("check", "--output", "json", "--machine", tmp_path / "saved") == here
        assert agent("check", "--output", "json", "--machine", machine) == here


def test_a_user_that_this_machine_does_not_know_is_warned_of_only_here(agent):
    """Field report 39: no rule is skipped silently."""
    agent.write(POLICY + "  - {class: batch, when: {user: nosuchuser}, name: jobs}\n")
    here = agent("check")
    assert here.status == 0
    assert 'policy.yaml:7:5: warning: jobs: this machine has no user "nosuchuser"' in here.err
    assert "nosuchuser" not in agent("check", "--machine", "xeon-2s").err
