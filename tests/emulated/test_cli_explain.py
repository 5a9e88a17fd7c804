"""``explain`` says which rule decides, why the others do not, and where the threads are."""

import os
from collections.abc import Iterator

import pytest

from agent.resctrl.filesystem import Resctrl
from agent.service.run_state import write_run_state
from tests.emulated.command_line import THREADS, CommandLine, command_line, run_state, threads

pytestmark = [pytest.mark.root, pytest.mark.bpf]

POLICY = """\
version: 1
classes:
  latency: {l3: 30-100%}
  batch: {l3: 0-30%}
  tools: {l3: 0-50%}
rules:
  - {class: latency, when: {unit: mysqld.service}}
  - {class: latency, when: {kubernetes: {qos: guaranteed}}}
  - {class: tools, when: {comm: "no-such-*", cgroup: "@/batch"}, name: tools}
  - {class: batch, when: {cgroup: "@/batch"}, name: jobs}
  - {class: tools, when: {comm: anything}}
"""


@pytest.fixture
def agent(emulated, capsys, tmp_path, monkeypatch) -> Iterator[CommandLine]:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    with command_line(capsys, emulated(), tmp_path) as commands:
        commands.write(POLICY)
        yield commands


def test_a_task_is_explained_by_the_rule_that_matches_and_those_before_it(agent):
    pid = agent.idle("batch")
    path = agent.tree.cgroup("batch")
    explained = agent.json("explain", pid)
    assert {key: explained[key] for key in ("pid", "cgroup", "workload", "rule", "class", "group")} == {
        "pid": pid,
        "cgroup": path,
        "workload": path,
        "rule": "jobs",
        "class": "batch",
        "group": "batch",
    }
    assert [(rule["rule"], rule["class"], rule["matched"]) for rule in explained["rules"]] == [
        ("rule 1", "latency", False),
        ("rule 2", "latency", False),
        ("tools", "tools", False),
        ("jobs", "batch", True),
    ]
    reasons = [rule["reasons"] for rule in explained["rules"]]
    assert reasons == [
        [f"unit is not mysqld.service (units of {path}: none)"],
        [f"cgroup {path} is not in a pod"],
        [f"comm is {explained['facts']['comm']}, not no-such-*"],
        [],
    ]
    assert explained["facts"]["uid"] == os.geteuid()
    assert explained["facts"]["exe"]


def test_a_process_is_in_place_when_all_its_threads_are(agent):
    pid = agent.idle("batch")
    before = agent.json("explain", pid)
    assert (before["actual_group"], before["in_place"]) == ("", False)
    agent("apply")
    after = agent.json("explain", pid)
    assert (after["actual_group"], after["in_place"], len(after["threads"])) == ("batch", True, THREADS)
    assert f"in place: all {THREADS} threads are in group batch\n" in agent("explain", pid).out


def test_a_thread_out_of_place_is_named(agent):
    pid = agent.idle("batch")
    agent("apply")
    stray = max(threads(pid))
    (agent.resctrl / "latency/tasks").write_text(str(stray))
    assert not agent.json("explain", pid)["in_place"]
    shown = agent("explain", pid).out
    assert f"in place: {THREADS - 1} of {THREADS} threads are in group batch\n" in shown
    assert f"OUT OF PLACE: 1 of {THREADS} threads are in group latency: {stray}\n" in shown


def test_any_thread_can_be_asked_about(agent):
    pid = agent.idle("batch")
    stray = max(threads(pid))
    agent("apply")
    (agent.resctrl / "latency/tasks").write_text(str(stray))
    explained = agent.json("explain", stray)
    assert (explained["pid"], explained["tid"], explained["actual_group"]) == (pid, stray, "latency")
    assert [thread["tid"] for thread in explained["threads"]] == [stray]


def test_a_task_that_no_rule_matches_belongs_in_the_root_group(agent):
    explained = agent.json("explain", agent.idle("other"))
    assert [explained[key] for key in ("rule", "class", "workload", "group", "in_place")] == [
        None,
        None,
        None,
        "",
        True,
    ]
    assert len(explained["rules"]) == 5


def test_a_task_that_no_rule_matches_is_of_the_default_class_if_there_is_one(agent):
    agent.write(POLICY.replace("rules:", "  system: {default: true}\nrules:"))
    assert agent.json("explain", agent.idle("other"))["class"] == "system"


def test_a_task_that_no_rule_matches_may_stay_in_a_foreign_group_but_not_in_a_classs(agent):
    pid = agent.idle("other")
    agent("apply")
    (agent.resctrl / "foreign").mkdir()
    for group, in_place in (("foreign", True), ("batch", False)):
        (agent.resctrl / group / "tasks").write_text(str(pid))
        explained = agent.json("explain", pid)
        assert (explained["actual_group"], explained["in_place"]) == (group, in_place)


def test_a_cgroup_is_explained_with_counts_of_the_threads_in_it_and_below(agent):
    agent.idle("batch")
    agent.idle("batch/below")
    agent("apply")
    agent.idle("batch/late")
    explained = agent.json("explain", agent.tree.cgroup("batch"))
    assert (explained["rule"], explained["group"], explained["actual_group"]) == ("jobs", "batch", "batch")
    assert explained["threads"] == {"total": 3 * THREADS, "in_place": 2 * THREADS, "misplaced": THREADS, "contended": 0}
    late = agent.tree.cgroup("batch/late")
    shown = agent("explain", agent.tree.cgroup("batch")).out
    assert f"  {THREADS} threads of {late} in the root group, should be in group batch\n" in shown


def test_what_depends_on_the_program_is_said_of_a_cgroup(agent):
    agent.tree.make("batch")
    rules = agent.json("explain", agent.tree.cgroup("batch"))["rules"]
    assert rules[2]["reasons"] == ["it depends on each process: exe, comm or user are asked for"]


def test_a_cgroup_may_be_named_with_the_place_where_it_is_mounted(agent):
    agent.tree.make("batch")
    assert agent.json("explain", agent.tree.directory("batch"))["cgroup"] == agent.tree.cgroup("batch")
    assert agent.json("explain", agent.tree.mount)["cgroup"] == "/"
    assert agent.json("explain", "/")["cgroup"] == "/"


def test_a_cgroup_of_which_no_rule_speaks_is_explained_by_what_is_below_it(agent):
    agent.idle("batch")
    agent.idle("other")
    explained = agent.json("explain", agent.tree.path)
    path = agent.tree.cgroup("batch")
    assert explained["workloads"] == [{"name": path, "class": "batch", "rule": "jobs", "threads": THREADS}]
    lines = agent("explain", agent.tree.path).out.splitlines()
    at = lines.index("belongs in the root group, but for what other rules match in it or below it:")
    assert lines[at + 1] == f"  {path}: class batch, {THREADS} threads"
    assert lines[at + 2] == f"{2 * THREADS} threads in it and below it, {THREADS} out of place"


def test_a_cgroup_all_of_which_is_one_workload_is_said_to_belong_as_a_whole(agent):
    agent.idle("batch/below")
    assert "\nbelongs in group batch\n" in agent("explain", agent.tree.cgroup("batch")).out


def test_a_unit_is_explained_by_its_cgroups(agent):
    agent.tree.make("one/mysqld.service")
    path = agent.tree.cgroup("one/mysqld.service")
    assert agent.json("explain", "mysqld.service")["cgroup"] == path
    agent.tree.make("two/mysqld.service")
    explained = agent.json("explain", "mysqld.service")["explained"]
    assert [each["cgroup"] for each in explained] == [path, path.replace("one", "two")]


def test_several_are_explained_and_those_that_are_gone_told(agent):
    pid = agent.idle("batch")
    ran = agent("explain", pid, 4194304, agent.tree.cgroup("batch"))
    assert ran.status == 1
    assert ran.out.startswith(f"process {pid}\n")
    assert f"\n\ncgroup {agent.tree.cgroup('batch')}\n" in ran.out
    assert "there is no task 4194304" in ran.err


def test_a_thread_that_the_agent_has_given_up_is_contended(agent):
    pid = agent.idle("batch")
    agent("apply")
    (agent.resctrl / "theirs").mkdir()
    (agent.resctrl / "theirs/tasks").write_text(str(pid))
    path = agent.tree.cgroup("batch")
    contended = {"workload": path, "class_name": "batch", "other_group": "theirs", "threads": 1}
    write_run_state(agent.place / "run", agent.resctrl, run_state(os.getpid(), contended))
    assert not agent.json("explain", pid)["threads"][0]["contended"]
    with Resctrl.open(agent.resctrl) as daemon:
        daemon.try_claim()
        threads = agent.json("explain", pid)["threads"]
        shown = agent("explain", pid).out
        of_cgroup = agent("explain", path).out
    assert [thread["tid"] for thread in threads if thread["contended"]] == [pid]
    assert "contended: somebody keeps taking threads away, and the agent leaves them where they are\n" in shown
    assert "contended: 1 thread out of place, which the agent leaves where they are\n" in of_cgroup


@pytest.mark.parametrize(
    ("subject", "status", "message"),
    [
        ("4194304", 1, "there is no task 4194304"),
        ("/no/such/cgroup", 1, "there is no cgroup /no/such/cgroup in cgroup v2 at "),
        ("no-such.service", 1, "is no-such.service's: it does not run"),
        ("mysqld", 2, '"mysqld" is neither the id of a task nor the path of a cgroup'),
    ],
)
def test_what_is_not_there_is_said(agent, subject, status, message):
    ran = agent("explain", subject)
    assert (ran.status, ran.out) == (status, "")
    assert ran.err.startswith("resctrl-agent: error: ")
    assert message in ran.err


def test_a_policy_that_this_machine_cannot_carry_out_still_explains(agent):
    agent.write(POLICY.replace("0-50%", "0xffff"))
    assert agent.json("explain", agent.idle("batch"))["class"] == "batch"


def test_a_user_that_this_machine_does_not_know_is_the_reason(agent):
    """Field report 39: no rule is skipped silently."""
    agent.write(POLICY.replace("{comm: anything}", "{user: nosuchuser}"))
    rules = agent.json("explain", agent.idle("other"))["rules"]
    assert rules[-1]["reasons"] == [f"user is {os.geteuid()}, not nosuchuser (no such user here: nosuchuser)"]
