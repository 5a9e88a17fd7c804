"""``status`` shows the machine as it is, daemon or not, policy or not."""

import os
from collections.abc import Iterator

import pytest

from agent.resctrl.filesystem import Resctrl
from agent.service.run_state import write_run_state
from tests.emulated.command_line import THREADS, CommandLine, command_line, run_state, threads
from tests.emulated.running_agent import running_agent

pytestmark = [pytest.mark.root, pytest.mark.bpf]

POLICY = """\
version: 1
classes:
  latency: {l3: 30-100%}
  batch: {l3: 0-30%, mb: 20%}
rules:
  - {class: latency, when: {cgroup: "@/latency"}}
  - {class: batch, when: {cgroup: "@/batch/*"}, name: jobs}
"""


@pytest.fixture
def agent(emulated, capsys, tmp_path, monkeypatch) -> Iterator[CommandLine]:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    with command_line(capsys, emulated(), tmp_path) as commands:
        commands.write(POLICY)
        yield commands


def test_classes_have_their_schemata_threads_and_workloads(agent):
    agent.idle("batch/one")
    agent.idle("batch/two")
    agent("apply")
    status = agent.json("status")
    assert status["classes"] == [
        {
            "name": "latency",
            "group": "latency",
            "exists": True,
            "mode": "shareable",
            "schemata": {"MB": {"0": "100", "1": "100"}, "L3": {"0": "7f0", "1": "7f0"}},
            "threads": 0,
            "workloads": 0,
        },
        {
            "name": "batch",
            "group": "batch",
            "exists": True,
            "mode": "shareable",
            "schemata": {"MB": {"0": "20", "1": "20"}, "L3": {"0": "f", "1": "f"}},
            "threads": 2 * THREADS,
            "workloads": 2,
        },
    ]
    assert [(each["name"], each["class"], each["rule"], each["threads"]) for each in status["workloads"]] == [
        (agent.tree.cgroup(f"batch/{name}"), "batch", "jobs", THREADS) for name in ("one", "two")
    ]
    assert (status["misplaced"], status["drift"], status["emulated"]) == (0, [], True)


def test_a_class_that_was_never_applied_has_no_group_yet(agent):
    pid = agent.idle("batch/one")
    status = agent.json("status")
    assert [(each["exists"], each["schemata"], each["threads"]) for each in status["classes"]] == [(False, {}, 0)] * 2
    assert status["misplaced"] == THREADS
    assert [change["action"] for change in status["drift"]][:2] == ["create-group"] * 2
    assert threads(pid) <= agent.tasks("")


def test_closids_and_rmids_are_counted_by_owner(agent):
    """Field reports 16 and 17: what is free is counted, and holders are named."""
    agent("apply")
    (agent.resctrl / "foreign").mkdir()
    (agent.resctrl / "foreign/mon_groups/a").mkdir()
    (agent.resctrl / "batch/mon_groups/b").mkdir()
    (agent.resctrl / "mon_groups/c").mkdir()
    status = agent.json("status")
    assert status["closids"] == {
        "total": 8,
        "root": 1,
        "ours": 2,
        "foreign": 1,
        "free": 4,
        "foreign_groups": ["foreign"],
    }
    monitoring = ["batch/mon_groups/b", "foreign/mon_groups/a", "mon_groups/c"]
    assert status["rmids"] == {
        "total": 160,
        "root": 1,
        "ours": 2,
        "foreign": 4,
        "free": 153,
        "foreign_groups": ["foreign", *monitoring],
    }
    assert "CLOSIDs: 4 of 8 free; 1 the root group's, 2 ours, 1 others' (foreign)\n" in agent("status").out


def test_what_somebody_changed_is_drift(agent):
    agent("apply")
    (agent.resctrl / "batch/schemata").write_text("L3:1=ff\n")
    expected = {"group": "batch", "resource": "L3", "domain": 1, "from": "ff", "to": "f", "action": "write-schemata"}
    assert agent.json("status")["drift"] == [expected]
    assert "differs from the policy:\n  write L3 domain 1 of group batch: ff → f\n" in agent("status").out


def test_threads_out_of_place_are_counted(agent):
    pid = agent.idle("batch/one")
    agent("apply")
    (agent.resctrl / "latency/tasks").write_text(str(pid))
    assert agent.json("status")["misplaced"] == 1
    path = agent.tree.cgroup("batch/one")
    expected = {"tid": pid, "cgroup": path, "group": "batch", "actual_group": "latency"}
    assert agent.json("status")["misplaced_threads"] == [expected]
    line = f"  thread {pid} of {path} is in group latency, should be in group batch\n"
    assert f"misplaced: 1 thread\n{line}" in agent("status").out


def test_few_of_many_threads_out_of_place_are_named(agent):
    for number in range(5):
        agent.idle(f"batch/{number}")
    status = agent.json("status")
    assert (status["misplaced"], len(status["misplaced_threads"])) == (5 * THREADS, 20)
    assert {each["actual_group"] for each in status["misplaced_threads"]} == {""}
    shown = agent("status").out
    assert shown.count(" is in the root group, should be in group batch\n") == 5
    assert "  and 20 more\n" in shown


@pytest.mark.parametrize(
    ("name", "shown"), [(", name: jobs", "  jobs  5 threads"), ("", "  rule 1 (user 0, not comm no-such)  5 threads")]
)
def test_the_workload_of_a_rule_on_the_program_is_named_once(agent, name, shown):
    when = f'{{cgroup: "{agent.tree.cgroup("one")}", user: 0, not: {{comm: no-such}}}}'
    agent.write(f"version: 1\nclasses: {{batch: {{l3: 50%}}}}\nrules: [{{class: batch, when: {when}{name}}}]\n")
    agent.idle("one")
    assert shown in agent("status").out.splitlines()


def test_the_hierarchy_that_is_followed_is_said(agent):
    assert f"cgroups: v2 at {agent.tree.mount}\n" in agent("status").out
    assert agent.json("status")["cgroups"] == {"version": 2, "controllers": [], "mount": str(agent.tree.mount)}


@pytest.mark.parametrize("l3", [None, "130%", "0xfff"])
def test_without_a_policy_in_force_groups_are_shown_as_they_are(agent, l3):
    agent.idle("batch/one")
    agent("apply")
    agent.policy.unlink()
    if l3 is not None:
        agent.write(f"version: 1\nclasses: {{batch: {{l3: {l3}}}}}\n")
    status = agent.json("status")
    assert (status["classes"], status["misplaced"], status["drift"]) == ([], None, None)
    assert not status["policy"]["ok"]
    assert status["policy"]["problems"][0]["severity"] == "error"
    assert [(each["group"], each["ours"]) for each in status["other_groups"]] == [
        ("", False),
        ("batch", True),
        ("latency", True),
    ]
    assert [each["threads"] for each in status["other_groups"]][1:] == [THREADS, 0]
    assert " is refused (1 error): " in agent("status").out


def test_the_text_shows_mount_agent_policy_classes_and_ways(agent):
    agent.idle("batch/one")
    agent("apply")
    lines = agent("status").out.splitlines()
    assert lines[0] == f"resctrl at {agent.resctrl}, EMULATED: nothing is really limited"
    assert lines[3] == "agent: not running: tasks stay where they are"
    assert lines[4] == f"policy: {agent.policy}: 2 classes, 2 rules"
    assert "batch       batch          5          1  0–1: 20   0–1: f" in lines
    assert "  batch           ··· ···· ████  f" in lines
    assert "misplaced: none" in lines
    assert "differs from the policy: nothing" in lines


def test_cpus_have_a_column_where_a_class_names_some(agent):
    agent.write(POLICY.replace("mb: 20%", "mb: 20%, cpus: 1"))
    agent("apply")
    rows = [line.split() for line in agent("status").out.splitlines()]
    assert ["CLASS", "GROUP", "THREADS", "WORKLOADS", "CPUS", "MB", "L3"] in rows
    assert ["batch", "batch", "0", "0", "1", "0–1:", "20", "0–1:", "f"] in rows


def test_few_workloads_are_listed_unless_all_are_asked_for(agent):
    for number in range(7):
        agent.idle(f"batch/{number}")
    few, every = agent("status").out, agent("status", "--workloads").out
    assert "  and 2 more: status --workloads\n" in few
    assert [sum("(jobs)" in line for line in shown.splitlines()) for shown in (few, every)] == [5, 7]


def test_without_an_agent_there_is_no_source_of_events(agent):
    write_run_state(agent.place / "run", agent.resctrl, run_state(pid=os.getpid()))
    status = agent.json("status")
    assert (status["event_source"], status["daemon"], status["contended"]) == ("none", None, [])


def test_an_agent_says_of_itself_what_nobody_else_knows(agent):
    contended = {"workload": "/w", "class_name": "batch", "other_group": "theirs", "threads": 3}
    by_root = {**contended, "other_group": ""}
    write_run_state(agent.place / "run", agent.resctrl, run_state(os.getpid(), contended, by_root))
    with Resctrl.open(agent.resctrl) as daemon:
        daemon.try_claim()
        status = agent.json("status")
        shown = agent("status").out
    assert (status["event_source"], status["daemon"]["pid"]) == ("scan", os.getpid())
    assert status["contended"] == [contended, by_root]
    assert "events from scan (no eBPF: tasks are placed up to a second late)" in shown
    assert "contended: 3 threads of /w, which somebody keeps moving to group theirs\n" in shown
    assert "contended: 3 threads of /w, which somebody keeps moving to the root group\n" in shown


def test_what_a_dead_agent_wrote_is_not_its_successors(agent):
    write_run_state(agent.place / "run", agent.resctrl, run_state(pid=4194304))
    with Resctrl.open(agent.resctrl) as daemon:
        daemon.try_claim()
        status = agent.json("status")
    assert (status["event_source"], status["daemon"]) == ("unknown", None)


def test_the_running_agent_is_seen_by_all_commands(agent):
    policy = POLICY.replace("@", agent.tree.path)
    with running_agent(agent.place, agent.resctrl, policy, "--cgroup", str(agent.tree.mount)) as daemon:
        status = agent.json("status")
        assert (status["event_source"], status["daemon"]["pid"]) == ("bpf", daemon.process.pid)
        assert agent.json("plan")["changes"] == []
        for command in ("apply", "release", "run"):
            ran = agent(command)
            assert ran.status == 1
            assert f"process {daemon.process.pid} " in ran.err
        agent.tree.make("batch/one")
        assert agent.json("explain", agent.tree.cgroup("batch/one"))["group"] == "batch"
    assert agent.json("status")["event_source"] == "none"


def test_a_machine_of_many_domains_is_shown_in_few_lines(emulated, capsys, tmp_path):
    """Field report 1: ids 0–7 and 16–23."""
    with command_line(capsys, emulated("epyc-2s"), tmp_path) as agent:
        agent.write("version: 1\nclasses: {a: {l3: 0-50%}}\nrules: [{class: a, when: {cgroup: /a}}]\n")
        agent("apply")
        assert list(agent.json("status")["classes"][0]["schemata"]["L3"]) == [*map(str, (*range(8), *range(16, 24)))]
        assert "0–7, 16–23: ff\n" in agent("status").out
        assert len(agent("status").out.splitlines()) < 30


def test_a_machine_that_only_monitors_has_a_status(emulated, capsys, tmp_path):
    """Field report 15."""
    with command_line(capsys, emulated("monitor-only"), tmp_path) as agent:
        agent.write("version: 1\n")
        assert agent.json("status")["closids"]["total"] == 1
        assert agent("status").status == 0
