"""Where eBPF cannot be used the agent says so, and places by looking every second."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.emulated.cgroup_tree import V1_MOUNT, V2_MOUNTS, Tree, own_tree
from tests.emulated.running_agent import Agent, running_agent, until
from tests.emulated.test_placement import IDLE_THREADS, in_group, policy

pytestmark = [pytest.mark.root]

WITHOUT_BPF = ("setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin")
"""CAP_SYS_ADMIN would stand for both of the others."""

MOUNTS = [mount for mount in (V1_MOUNT, *V2_MOUNTS) if (mount / "cgroup.procs").exists()]


@pytest.fixture(params=MOUNTS, ids=str)
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    with own_tree(request.param) as made:
        yield made


@pytest.fixture
def agent(tmp_path: Path, emulated: Callable[..., Path], tree: Tree) -> Iterator[Agent]:
    options = ("--cgroup", str(tree.mount))
    with running_agent(tmp_path, emulated("xeon-2s"), policy(tree), *options, under=WITHOUT_BPF) as running:
        yield running


def test_it_is_said_once_and_loudly(agent):
    (record,) = agent.log("event source fallback")
    assert record["level"] == "warning"
    assert record["cause"] == "permission"
    assert "CAP_BPF" in record["reason"]
    status = json.loads(agent.command("status", "--output", "json").stdout)
    assert status["event_source"] == "scan"
    assert "scan" in agent.command("status").stdout


def test_threads_are_placed_all_the_same(agent, tree):
    tree.make("batch/nested")
    child = tree.start(IDLE_THREADS)
    tree.attach("batch/nested", child.pid)
    until(in_group(agent, "batch", tree, "batch/nested"), "all threads are in batch")
    tree.leave(child.pid)
    until(lambda: child.pid not in agent.tasks("batch"), "the process has left batch")
