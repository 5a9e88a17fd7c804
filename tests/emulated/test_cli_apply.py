"""``plan`` says what ``apply`` does, and ``apply`` does it once."""

import fcntl
import os
from collections.abc import Iterator

import pytest

from agent.resctrl.filesystem import Resctrl
from tests.emulated.command_line import THREADS, CommandLine, command_line, threads

pytestmark = [pytest.mark.root, pytest.mark.bpf]

POLICY = """\
version: 1
classes:
  latency: {l3: 30-100%, mb: max}
  batch: {l3: 0-30%, mb: 20%}
rules:
  - {class: latency, when: {cgroup: "@/latency"}}
  - {class: batch, when: {cgroup: "@/batch"}}
"""


@pytest.fixture
def agent(emulated, capsys, tmp_path, monkeypatch) -> Iterator[CommandLine]:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    with command_line(capsys, emulated(), tmp_path) as commands:
        commands.write(POLICY)
        yield commands


def test_a_plan_lists_every_action_until_it_is_applied_and_then_none(agent):
    agent.idle("batch")
    planned = agent.json("plan")["changes"]
    assert planned == [
        {"action": "create-group", "group": "latency"},
        {"action": "create-group", "group": "batch"},
        *write("latency", "L3", "7ff", "7f0"),
        *write("batch", "MB", "100", "20"),
        *write("batch", "L3", "7ff", "f"),
        {"action": "move-tasks", "group": "batch", "count": THREADS},
    ]
    assert agent.json("apply") == {"changes": planned, "moved": THREADS, "notes": [], "mounted": None}
    assert agent.json("plan")["changes"] == []


def write(group: str, resource: str, before: str, after: str) -> list[dict[str, object]]:
    common = {"action": "write-schemata", "group": group, "resource": resource, "from": before, "to": after}
    return [common | {"domain": domain} for domain in (0, 1)]


def test_status_3_tells_that_something_would_change_if_it_was_asked_for(agent):
    assert agent("plan").status == 0
    assert agent("plan", "--exit-code").status == 3
    assert agent("apply").status == 0
    assert agent("plan", "--exit-code").status == 0


def test_planning_changes_nothing(agent):
    """Field report 43."""
    agent.idle("batch")
    agent("plan")
    assert agent.groups() == set()
    assert not (agent.place / "state").exists()


def test_applying_puts_groups_schemata_and_threads_in_place(agent):
    """Field reports 22, 39: all threads, and those that were there before."""
    pid = agent.idle("batch/below")
    ran = agent("apply")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == (
        "create group latency\n"
        "create group batch\n"
        "write L3 domains 0–1 of group latency: 7ff → 7f0\n"
        "write MB domains 0–1 of group batch: 100 → 20\n"
        "write L3 domains 0–1 of group batch: 7ff → f\n"
        "move 5 threads into group batch\n"
    )
    assert agent.schemata("batch") == "MB:0=20;1=20\nL3:0=f;1=f\n"
    assert threads(pid) <= agent.tasks("batch")


def test_applying_again_writes_nothing(agent):
    """A write to tasks, schemata or mode would have emptied the kernel's status."""
    agent.idle("batch")
    agent("apply")
    remembered = (agent.place / "state").stat().st_mtime_ns
    with pytest.raises(OSError, match="Invalid argument"):
        (agent.resctrl / "schemata").write_text("L3:0=5\n")
    said = (agent.resctrl / "info/last_cmd_status").read_text()
    assert "non-consecutive" in said
    assert agent("apply").out == "nothing to do\n"
    assert (agent.resctrl / "info/last_cmd_status").read_text() == said
    assert (agent.place / "state").stat().st_mtime_ns == remembered


def test_only_a_thread_that_strayed_is_counted(agent):
    pid = agent.idle("batch")
    agent("apply")
    (agent.resctrl / "latency/tasks").write_text(str(max(threads(pid))))
    assert agent("plan").out == "move 1 thread into group batch\n"
    assert agent.json("apply")["moved"] == 1
    assert threads(pid) <= agent.tasks("batch")


def test_a_class_that_left_the_policy_gives_back_tasks_and_group(agent):
    pid = agent.idle("batch")
    agent("apply")
    agent.write(
        POLICY.replace('  - {class: batch, when: {cgroup: "@/batch"}}\n', "").replace(
            "  batch: {l3: 0-30%, mb: 20%}\n", ""
        )
    )
    assert agent("apply").out == f"move {THREADS} threads into the root group\nremove group batch\n"
    assert agent.groups() == {"latency"}
    assert threads(pid) <= agent.tasks("")


def test_groups_of_others_that_hold_the_closids_are_named(agent):
    """Field reports 16 and 17."""
    for number in range(6):
        (agent.resctrl / f"leaked{number}").mkdir()
    for command in ("plan", "apply"):
        ran = agent(command)
        assert ran.status == 1
        assert "resctrl-agent: error: out of CLOSIDs: the machine has 8" in ran.err
        assert "leaked0, leaked1, leaked2, leaked3, leaked4, leaked5" in ran.err
    assert "obstacles" in agent("plan", "--output", "json").json
    assert agent.groups() == {f"leaked{number}" for number in range(6)}


def test_a_group_of_somebody_else_by_a_classs_name_is_left_alone(agent):
    (agent.resctrl / "batch").mkdir()
    ran = agent("apply")
    assert ran.status == 1
    assert 'group "batch" exists and the agent did not create it' in ran.err
    assert agent.groups() == {"batch"}
    assert agent.schemata("batch") == agent.schemata("")


def test_a_refused_policy_changes_nothing(agent):
    agent.write(POLICY.replace("0-30%", "0xfff"))
    for command in ("plan", "apply"):
        ran = agent(command)
        assert (ran.status, ran.out) == (78, "")
        assert 'policy.yaml:4:15: error: class "batch": l3 "0xfff"' in ran.err
        assert "batch: {l3: 0xfff, mb: 20%}\n" in ran.err
    assert agent.groups() == set()


def test_warnings_are_told_and_what_was_rounded_is_not(agent):
    agent.write(POLICY.replace("20%", "25%").replace("rules:", "  idle: {l3: max}\nrules:"))
    assert 'warning: class "idle" has no rule' in agent("plan").err
    assert "note" not in agent("apply").err


def test_while_an_agent_looks_after_the_mount_nothing_is_applied(agent):
    with Resctrl.open(agent.resctrl) as daemon:
        daemon.try_claim()
        ran = agent("apply")
        assert ran.status == 1
        assert f"process {os.getpid()} " in ran.err
        assert "or save the policy that it keeps" in ran.err
        assert agent.groups() == set()
        assert agent("plan").status == 0
    assert agent("apply").status == 0


def test_a_lock_of_somebody_else_is_waited_for_not_for_ever(agent, monkeypatch):
    monkeypatch.setattr("agent.cli.apply.LOCK_WAIT_S", 0.05)
    directory = os.open(agent.resctrl, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    try:
        ran = agent("apply")
    finally:
        os.close(directory)
    assert ran.status == 1
    assert "locked for more than 0.05 s" in ran.err
    assert agent.groups() == set()


def test_threads_are_taken_out_of_a_foreign_group_and_the_group_stays(agent):
    pid = agent.idle("batch")
    (agent.resctrl / "foreign").mkdir()
    for tid in threads(pid):
        (agent.resctrl / "foreign/tasks").write_text(str(tid))
    agent("apply")
    assert threads(pid) <= agent.tasks("batch")
    assert agent.tasks("foreign") == set()
    assert "foreign" in agent.groups()
