"""An agent that may not read which program others run: rules on ``exe`` rest, which is said; all others hold."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.emulated.cgroup_tree import V2_MOUNTS, Tree, own_tree
from tests.emulated.running_agent import Agent, running_agent, until
from tests.emulated.test_placement import IDLE_THREADS, in_group

pytestmark = [pytest.mark.root, pytest.mark.bpf]

WITHOUT_PTRACE = ("setpriv", "--bounding-set=-sys_ptrace")

DROP_IN = "CapabilityBoundingSet=CAP_SYS_PTRACE"


@pytest.fixture
def tree() -> Iterator[Tree]:
    with own_tree(next(mount for mount in V2_MOUNTS if (mount / "cgroup.procs").exists())) as made:
        made.make("batch")
        yield made


def policy(tree: Tree) -> str:
    """This interpreter is known by its path to the first rule, by that of another to the second."""
    return (
        "version: 1\nclasses: {batch: {}, latency: {}, render: {}}\nrules:\n"
        f"  - {{class: render, when: {{cgroup: {tree.cgroup('batch')}, exe: {os.path.realpath(sys.executable)}}}}}\n"
        f"  - {{class: latency, when: {{cgroup: {tree.cgroup('batch')}, not: {{exe: /bin/true}}}}}}\n"
        f"  - {{class: batch, when: {{cgroup: {tree.cgroup('batch')}, user: root}}}}\n"
    )


def place_one(tree: Tree, agent: Agent, group: str) -> None:
    child = tree.start(IDLE_THREADS)
    tree.attach("batch", child.pid)
    until(in_group(agent, group, tree, "batch"), f"all threads are in {group}")


def start(directory: Path, resctrl: Path, tree: Tree, under: tuple[str, ...]) -> AbstractContextManager[Agent]:
    return running_agent(directory, resctrl, policy(tree), "--cgroup", str(tree.mount), under=under)


def test_rules_on_exe_match_nothing_and_the_log_status_and_check_say_what_to_add(tmp_path, emulated, tree):
    with start(tmp_path, emulated(), tree, WITHOUT_PTRACE) as agent:
        place_one(tree, agent, "batch")
        warned = [record["event"] for record in agent.log() if record["level"] == "warning"]
        status, check = agent.command("status"), agent.command("check")
        as_json = json.loads(agent.command("status", "--output", "json").stdout)
    told = [text for text in warned if DROP_IN in text]
    assert [text.split(": ")[0] for text in told] == ["policy.yaml:4:5", "policy.yaml:5:5"]
    assert "rule 1: matches no process, because the agent lacks CAP_SYS_PTRACE" in status.stdout
    assert check.returncode == 0
    assert check.stderr.count(DROP_IN) == 2
    assert check.stderr.count(": warning: ") == 2
    assert [each["line"] for each in as_json["policy"]["problems"] if DROP_IN in each["hint"]] == [4, 5]


def test_with_the_permission_they_hold_and_nothing_is_said(tmp_path, emulated, tree):
    with start(tmp_path, emulated(), tree, ()) as agent:
        place_one(tree, agent, "render")
        status, check = agent.command("status"), agent.command("check")
    assert "CAP_SYS_PTRACE" not in agent.log_file.read_text()
    assert "CAP_SYS_PTRACE" not in status.stdout + check.stderr


def test_before_the_agent_runs_check_tells_what_such_rules_will_need(tmp_path, emulated, tree):
    with start(tmp_path, emulated(), tree, ()) as agent:
        pass
    check = agent.command("check")
    assert check.returncode == 0
    assert check.stderr.count(": note: ") == check.stderr.count(DROP_IN) == 2
