"""What a workload uses is counted for as long as it is there, whatever class it is in."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.emulated.cgroup_tree import V2_MOUNTS, Tree, own_tree
from tests.emulated.forking_threads import FORKING_THREADS
from tests.emulated.running_agent import Agent, running_agent, start_agent, until

pytestmark = [pytest.mark.root, pytest.mark.bpf]

V2_MOUNT = next(mount for mount in V2_MOUNTS if (mount / "cgroup.procs").exists())

IDLE = """
import threading
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""


def policy(tree: Tree, *, web: str = "batch", monitor: str = "workload") -> str:
    return f"""
version: 1
classes:
  batch: {{l3: 0-30%, monitor: {monitor}}}
  latency: {{l3: 30-80%, monitor: {monitor}}}
  system: {{default: true}}
rules:
  - {{class: {web}, when: {{cgroup: {tree.cgroup("web")}}}}}
  - {{class: batch, when: {{cgroup: {tree.cgroup("jobs")}/*}}}}
"""


@pytest.fixture
def tree() -> Iterator[Tree]:
    with own_tree(V2_MOUNT) as own:
        yield own


@pytest.fixture
def resctrl(emulated: Callable[..., Path]) -> Path:
    return emulated()


@pytest.fixture
def agent(tmp_path: Path, resctrl: Path, tree: Tree) -> Iterator[Agent]:
    with running_agent(tmp_path, resctrl, policy(tree), "--cgroup", str(V2_MOUNT)) as running:
        yield running


Start = Callable[[], Agent]


@pytest.fixture
def one_time(tmp_path: Path, resctrl: Path, tree: Tree) -> Iterator[Start]:
    """Starts an agent whose end is the test's business; one that a failed test leaves is killed."""
    started: list[Agent] = []

    def start_one() -> Agent:
        agent = start_agent(tmp_path, resctrl, policy(tree), "--cgroup", str(V2_MOUNT))
        started.append(agent)
        agent.wait_for("started")
        return agent

    yield start_one
    for agent in started:
        agent.kill()


def groups(agent: Agent, control: str = "batch") -> set[str]:
    return {path.name for path in (agent.resctrl / control / "mon_groups").iterdir()}


def start(tree: Tree, name: str, program: str = IDLE, *arguments: str) -> int:
    tree.make(name)
    pid = tree.start(program, *arguments).pid
    tree.attach(name, pid)
    return pid


def all_in(agent: Agent, tree: Tree, name: str, group: str) -> bool:
    threads = tree.threads(name)
    return bool(threads) and threads <= agent.tasks(group)


def test_a_workload_gets_a_monitoring_group_of_its_name_with_all_its_threads(agent: Agent, tree: Tree) -> None:
    start(tree, "web")
    until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all threads are measured")
    assert all_in(agent, tree, "web", "batch")


def test_what_is_below_a_workload_is_measured_with_it(agent: Agent, tree: Tree) -> None:
    start(tree, "web")
    start(tree, "web/sidecar")
    for name in ("web", "web/sidecar"):
        until(lambda name=name: all_in(agent, tree, name, "batch/mon_groups/web"), f"{name} is measured")
    assert groups(agent) == {"web"}


def test_a_thread_that_comes_later_joins_in_and_others_stay(agent: Agent, tree: Tree) -> None:
    start(tree, "web")
    until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all threads are measured")
    first = agent.tasks("batch/mon_groups/web")
    later = start(tree, "web")
    until(lambda: later in agent.tasks("batch/mon_groups/web"), "the newcomer is measured")
    assert first <= agent.tasks("batch/mon_groups/web")


def test_the_group_goes_with_the_workload(agent: Agent, tree: Tree) -> None:
    start(tree, "jobs/one")
    start(tree, "jobs/two")
    until(lambda: groups(agent) == {"one", "two"}, "both are measured")
    tree.children[0].kill()
    tree.children[0].wait()
    until(lambda: not tree.threads("jobs/one"), "it has left")
    tree.directory("jobs/one").rmdir()
    until(lambda: groups(agent) == {"two"}, "its group is gone")


def test_workloads_of_one_name_are_told_apart(agent: Agent, tree: Tree) -> None:
    start(tree, "web")
    start(tree, "jobs/web")
    until(lambda: len(groups(agent)) == 2, "both are measured")
    assert any(name.startswith("web~") for name in groups(agent))


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.2"])
def test_500_threads_that_fork_change_class_together_and_none_is_left_behind(
    emulated: Callable[..., Path], tmp_path: Path, tree: Tree, kernel: str
) -> None:
    """Field report koordinator_2011 and others ask for it; by rename where the kernel can, else one by one."""
    with running_agent(tmp_path, emulated(kernel=kernel), policy(tree), "--cgroup", str(V2_MOUNT)) as agent:
        start(tree, "web", FORKING_THREADS, "500", "10", "0.01")
        until(lambda: len(tree.threads("web")) >= 500, "all threads have started")
        until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all are measured")
        group = (agent.resctrl / "batch/mon_groups/web").stat().st_ino
        agent.follow(policy(tree, web="latency"))
        assert groups(agent) == set()
        until(lambda: not agent.tasks("batch"), "children that were born meanwhile are placed")
        until(lambda: all_in(agent, tree, "web", "latency/mon_groups/web"), "all are measured in the new class")
        carried = [line for line in agent.log("placed") if line.get("cause") == "group_moved"]
        if kernel == "6.1":
            assert not carried
        else:
            assert (agent.resctrl / "latency/mon_groups/web").stat().st_ino == group
            (line,) = carried
            assert line["workload"] == tree.cgroup("web")
            assert (line["class"], line["group"]) == ("latency", "latency")
            assert line["threads"] >= 500
        agent.follow(policy(tree))
        until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "and back again")
        until(lambda: not agent.tasks("latency"), "children that were born meanwhile are placed")


def test_a_killed_agent_finds_its_groups_again(tmp_path: Path, resctrl: Path, tree: Tree, one_time: Start) -> None:
    agent = one_time()
    start(tree, "web")
    start(tree, "jobs/one")
    until(lambda: groups(agent) == {"web", "one"}, "both are measured")
    until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all threads are measured")
    agent.kill()
    tree.children[1].kill()
    tree.children[1].wait()
    until(lambda: not tree.threads("jobs/one"), "it has left")
    tree.directory("jobs/one").rmdir()
    group = (resctrl / "batch/mon_groups/web").stat().st_ino
    with running_agent(tmp_path, resctrl, policy(tree, web="latency"), "--cgroup", str(V2_MOUNT)) as again:
        assert groups(again) == set(), "the one whose workload is gone is removed"
        assert (resctrl / "latency/mon_groups/web").stat().st_ino == group, "the other one came along"
        assert all_in(again, tree, "web", "latency/mon_groups/web")


def test_measurements_of_others_are_left_alone(agent: Agent, tree: Tree) -> None:
    pid = start(tree, "web")
    until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all threads are measured")
    probe = agent.resctrl / "batch/mon_groups/probe"
    probe.mkdir()
    (probe / "tasks").write_text(str(pid))
    accepted = len(agent.log("policy accepted"))
    agent.process.send_signal(signal.SIGHUP)
    agent.wait_for("policy accepted", accepted + 1)
    assert agent.tasks("batch/mon_groups/probe") == {pid}
    agent.follow(policy(tree, monitor="class"))
    assert groups(agent) == {"probe"}


def test_a_group_that_somebody_removes_is_made_again(agent: Agent, tree: Tree) -> None:
    start(tree, "web")
    until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all threads are measured")
    (agent.resctrl / "batch/mon_groups/web").rmdir()
    agent.process.send_signal(signal.SIGHUP)
    until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all threads are measured again")


def test_without_rmids_a_workload_is_placed_all_the_same(agent: Agent, tree: Tree) -> None:
    taken = []
    while True:
        try:
            (agent.resctrl / f"mon_groups/{len(taken)}").mkdir()
        except OSError:
            break
        taken.append(agent.resctrl / f"mon_groups/{len(taken)}")
    start(tree, "web")
    until(lambda: all_in(agent, tree, "web", "batch"), "it is in its class")
    start(tree, "jobs/one")
    until(lambda: all_in(agent, tree, "jobs/one", "batch"), "it is in its class")
    said = "What some workloads use is not counted apart for now; they are in their class all the same"
    (line,) = agent.wait_for(said)
    assert "RMID" in line["reason"]
    for group in taken:
        group.rmdir()
    until(lambda: groups(agent) == {"web", "one"}, "both are measured")
    until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all threads are measured")
    assert len(agent.log(said)) == 1


def test_one_apply_puts_a_running_workload_into_its_group(resctrl: Path, tree: Tree, one_time: Start) -> None:
    agent = one_time()
    agent.stop()
    agent.command("release")
    start(tree, "web")
    assert agent.command("plan").stdout.splitlines()[-2:] == [
        f"create monitoring group batch/mon_groups/web for {tree.cgroup('web')}",
        "move 4 threads into group batch",
    ]
    assert agent.command("apply").returncode == 0
    assert all_in(agent, tree, "web", "batch/mon_groups/web")
    assert agent.command("plan", "--exit-code").returncode == 0


def test_any_name_of_a_cgroup_will_do(agent: Agent, tree: Tree) -> None:
    """Whoever may make cgroups may call them what they like."""
    start(tree, "jobs/\udcff")
    start(tree, "jobs/after")
    until(lambda: groups(agent) == {"unnamed", "after"}, "both are measured")


def test_plan_and_apply_know_of_them_and_release_gives_them_back(resctrl: Path, tree: Tree, one_time: Start) -> None:
    agent = one_time()
    start(tree, "web")
    until(lambda: all_in(agent, tree, "web", "batch/mon_groups/web"), "all threads are measured")
    agent.stop()
    assert agent.command("plan", "--exit-code").returncode == 0
    agent.write_policy(policy(tree, web="latency"))
    planned = agent.command("plan")
    assert planned.stdout == (
        f"move monitoring group batch/mon_groups/web to latency/mon_groups/web, and {tree.cgroup('web')} with it\n"
    )
    assert agent.command("apply").stdout == planned.stdout
    assert agent.command("plan", "--exit-code").returncode == 0
    assert all_in(agent, tree, "web", "latency/mon_groups/web")
    agent.write_policy(policy(tree, web="system").replace("default: true", "default: true, monitor: workload"))
    assert agent.command("apply").returncode == 0
    assert all_in(agent, tree, "web", "mon_groups/web")
    agent.command("release")
    assert not list((resctrl / "mon_groups").iterdir())
