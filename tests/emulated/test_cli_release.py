"""``release`` gives back what the agent owns, and nothing else."""

import os
from collections.abc import Iterator

import pytest

from agent.resctrl.filesystem import Resctrl
from tests.emulated.command_line import THREADS, CommandLine, command_line, threads

pytestmark = [pytest.mark.root, pytest.mark.bpf]

POLICY = """\
version: 1
classes:
  batch: {l3: 0-30%}
  system: {default: true, l3: 30-100%, mb: 50%}
rules:
  - {class: batch, when: {cgroup: "@/batch"}}
"""


@pytest.fixture
def agent(emulated, capsys, tmp_path, monkeypatch) -> Iterator[CommandLine]:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    with command_line(capsys, emulated(), tmp_path) as commands:
        commands.write(POLICY)
        yield commands


def test_groups_of_the_agent_go_and_their_tasks_return(agent):
    pid = agent.idle("batch")
    agent("apply")
    assert threads(pid) <= agent.tasks("batch")
    ran = agent("release")
    assert (ran.status, ran.err) == (0, "")
    assert f"removed group batch: {THREADS} threads back in the root group\n" in ran.out
    assert agent.groups() == set()
    assert threads(pid) <= agent.tasks("")


def test_the_root_group_gets_back_what_it_had(agent):
    (agent.resctrl / "schemata").write_text("L3:1=3ff\n")
    before = agent.schemata("")
    agent("apply")
    assert agent.schemata("") == "MB:0=50;1=50\nL3:0=7f0;1=7f0\n"
    agent.write(POLICY.replace("30-100%", "50-100%"))
    agent("apply")
    assert "write L3 domain 1 of the root group: 7c0 → 3ff\n" in agent("release").out
    assert agent.schemata("") == before


def test_a_root_group_that_the_policy_never_changed_is_left_as_somebody_set_it(agent):
    agent.write(POLICY.replace("  system: {default: true, l3: 30-100%, mb: 50%}\n", ""))
    agent("apply")
    (agent.resctrl / "schemata").write_text("L3:0=ff\n")
    agent("release")
    assert agent.schemata("") == "MB:0=100;1=100\nL3:0=ff;1=7ff\n"


def test_groups_of_others_stay_and_are_named(agent):
    """Field reports 18 and 21: our own, only."""
    (agent.resctrl / "foreign").mkdir()
    (agent.resctrl / "foreign/schemata").write_text("L3:0=3\n")
    before = agent.schemata("foreign")
    agent("apply")
    assert "left as it is: group foreign, which the agent did not create\n" in agent("release").out
    assert agent.groups() == {"foreign"}
    assert agent.schemata("foreign") == before


def test_an_adopted_group_stays_and_gets_back_what_it_had(agent):
    (agent.resctrl / "batch").mkdir()
    (agent.resctrl / "batch/schemata").write_text("L3:0=3;1=3\n")
    agent.write(POLICY.replace("batch: {l3: 0-30%}", "batch: {l3: 0-30%, adopt: true}"))
    assert agent("apply").status == 0
    assert "L3:0=f;1=f" in agent.schemata("batch")
    assert agent.json("release")["left"] == ["batch"]
    assert "L3:0=3;1=3" in agent.schemata("batch")


def test_releasing_again_finds_nothing(agent):
    agent("apply")
    agent("release")
    assert agent("release").out == "nothing to give back\n"
    assert agent.json("release") == {"removed": [], "restored": [], "left": []}


def test_no_policy_is_needed(agent):
    agent("apply")
    agent.policy.unlink()
    assert agent("release").status == 0
    assert agent.groups() == set()


def test_without_its_memory_the_agent_removes_nothing(agent):
    agent("apply")
    for file in (agent.place / "state").iterdir():
        file.unlink()
    assert agent.json("release")["left"] == ["batch"]
    assert agent.groups() == {"batch"}


def test_while_an_agent_looks_after_the_mount_nothing_is_released(agent):
    agent("apply")
    with Resctrl.open(agent.resctrl) as daemon:
        daemon.try_claim()
        ran = agent("release")
    assert ran.status == 1
    assert f"process {os.getpid()} " in ran.err
    assert agent.groups() == {"batch"}


def test_what_was_released_can_be_applied_again(agent):
    agent("apply")
    agent("release")
    agent("apply")
    assert agent("plan").out == "nothing to do\n"
    agent("release")
    assert agent.schemata("") == "MB:0=100;1=100\nL3:0=7ff;1=7ff\n"
