"""Whatever happens to cgroups and to who is in them, threads are where the rules want them."""

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulated.cgroup_tree import Tree, own_tree
from tests.emulated.running_agent import until
from tests.kernel.inside.guest_agent import GuestAgent
from tests.kernel.inside.programs import compiled
from tests.kernel.inside.whereabouts import CGROUPS, DEADLINE_S, await_placed, group_of, threads_in

POLICY = """\
version: 1
classes:
  batch: {l3: 0-30%, mb: 20%}
  latency: {l3: 30-100%}
  system: {default: true}
rules:
  - {class: latency, when: {cgroup: [/agent-test-*/latency, "/agent-test-*/batch/apart", /agent-test-*/*/serving]}}
  - {class: batch, when: {cgroup: [/agent-test-*/batch, /agent-test-*/*/crunching]}}
"""

THREADS, CHILDREN = 3, 2
ALL_THREADS = THREADS * (1 + CHILDREN)

STORMS = 10
LEFT_OF_A_STORM = 9 * 2


@pytest.fixture
def tree() -> Iterator[Tree]:
    with own_tree(CGROUPS) as made:
        yield made


class Workers:
    """Processes of a worker, all in one cgroup of the test's."""

    def __init__(self, tree: Tree, worker: Path, *arguments: int) -> None:
        self._tree = tree
        self.process = subprocess.Popen([worker, *map(str, arguments)], start_new_session=True)
        tree.children.append(self.process)
        family = arguments[0] * (1 + arguments[1])
        until(lambda: len(self.threads()) == family, "the worker has all its threads", DEADLINE_S)

    def processes(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def threads(self) -> set[int]:
        return {int(task.name) for pid in self.processes() for task in Path(f"/proc/{pid}/task").iterdir()}

    def enter(self, cgroup: str) -> None:
        for pid in self.processes():
            self._tree.attach(cgroup, pid)

    def leave(self) -> None:
        for pid in self.processes():
            self._tree.leave(pid)


@pytest.fixture
def workers(tree: Tree, worker: Path) -> Workers:
    return Workers(tree, worker, THREADS, CHILDREN)


def test_threads_deep_below_a_matching_cgroup_are_placed(agent: GuestAgent, tree: Tree, workers: Workers) -> None:
    tree.make("batch/pod/kata/machine")
    workers.enter("batch/pod/kata/machine")
    await_placed(agent, {"batch": {tree.cgroup("batch"): ALL_THREADS}, "latency": {}})


def test_a_deeper_cgroup_with_a_rule_of_its_own_is_another_class_s(
    agent: GuestAgent, tree: Tree, workers: Workers
) -> None:
    for name in ("batch/apart/below", "batch/beside"):
        tree.make(name)
    first, *others = workers.processes()
    tree.attach("batch/apart/below", first)
    for pid in others:
        tree.attach("batch/beside", pid)
    expected = {"latency": {tree.cgroup("batch/apart"): THREADS}}
    await_placed(agent, {**expected, "batch": {tree.cgroup("batch/beside"): ALL_THREADS - THREADS}})


def test_processes_go_from_class_to_class_and_back_to_the_root_group(
    agent: GuestAgent, tree: Tree, workers: Workers
) -> None:
    for name in ("batch", "latency", "elsewhere"):
        tree.make(name)
    workers.enter("batch")
    await_placed(agent, {"batch": {tree.cgroup("batch"): ALL_THREADS}, "latency": {}})
    workers.enter("latency")
    await_placed(agent, {"latency": {tree.cgroup("latency"): ALL_THREADS}, "batch": {}})
    workers.enter("elsewhere")
    await_placed(agent, {"": {tree.cgroup("elsewhere"): ALL_THREADS}, "batch": {}, "latency": {}})
    workers.enter("batch")
    await_placed(agent, {"batch": {tree.cgroup("batch"): ALL_THREADS}, "latency": {}})
    workers.leave()
    await_placed(agent, {"batch": {}, "latency": {}})
    assert {group_of(tid) for tid in workers.threads()} == {""}


def test_single_threads_in_threaded_cgroups_are_placed_one_by_one(
    agent: GuestAgent, tree: Tree, workers: Workers
) -> None:
    for name in ("top", "top/crunching", "top/serving", "top/else"):
        tree.make(name)
    for name in ("top/crunching", "top/serving", "top/else"):
        (tree.directory(name) / "cgroup.type").write_text("threaded")
    pid = workers.process.pid
    tree.attach("top", pid)
    leader, one, other = sorted({int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()})
    tree.attach_thread("top/crunching", one)
    await_placed(agent, {"batch": {tree.cgroup("top/crunching"): 1}, "latency": {}})
    tree.attach_thread("top/serving", other)
    await_placed(agent, {"batch": {tree.cgroup("top/crunching"): 1}, "latency": {tree.cgroup("top/serving"): 1}})
    tree.attach_thread("top/serving", one)
    tree.attach_thread("top/serving", leader)
    await_placed(agent, {"batch": {}, "latency": {tree.cgroup("top/serving"): 3}})
    tree.attach_thread("top/else", leader)
    await_placed(agent, {"": {tree.cgroup("top/else"): 1}, "latency": {tree.cgroup("top/serving"): 2}})
    tree.attach("top/crunching", pid)
    await_placed(agent, {"batch": {tree.cgroup("top/crunching"): 3}, "latency": {}})


@pytest.fixture(scope="module")
def clone_storm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("clone_storm", tmp_path_factory.mktemp("clone_storm"))


def test_what_is_born_in_a_cgroup_is_placed_though_its_creator_is_in_another_class(
    agent: GuestAgent, tree: Tree, clone_storm: Path
) -> None:
    for name in ("latency", "batch/births"):
        tree.make(name)
    # The creator starts where it belongs to a class already, so that whatever it creates begins in that.
    command = ["sh", "-c", 'echo $$ > "$1/cgroup.procs"; read go; exec "$2" "$3" "$4"', "sh"]
    arguments = [tree.directory("latency"), clone_storm, tree.directory("batch/births"), str(STORMS)]
    creator = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, start_new_session=True)
    tree.children.append(creator)
    until(lambda: group_of(creator.pid) == "latency", "the creator is in latency", DEADLINE_S)
    assert creator.stdin is not None
    creator.stdin.write(b"go\n")
    creator.stdin.close()
    await_placed(
        agent,
        {
            "batch": {tree.cgroup("batch/births"): STORMS * LEFT_OF_A_STORM},
            "latency": {tree.cgroup("latency"): 1},
        },
    )
    placed = until(lambda: placed_in(agent, tree.cgroup("batch/births")), "the log tells of it", DEADLINE_S)
    assert "cloned_into" in {record.get("cause") for record in placed}
    assert "attached" not in {record.get("cause") for record in placed}


def placed_in(agent: GuestAgent, cgroup: str) -> list[dict[str, object]]:
    return [record for record in agent.log("placed") if record["cgroup"] == cgroup]


def test_a_kernel_thread_that_shows_up_in_a_matching_cgroup_is_placed(agent: GuestAgent, tree: Tree) -> None:
    tree.make("batch")
    tid = move_a_kernel_thread(tree, "batch")
    try:
        await_placed(agent, {"batch": {tree.cgroup("batch"): 1}})
    finally:
        tree.leave(tid)
    until(lambda: group_of(tid) == "", "the kernel thread is in the root group", DEADLINE_S)


def move_a_kernel_thread(tree: Tree, name: str) -> int:
    """One that the kernel lets be moved; those bound to a CPU it does not."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (entry / "comm").read_text() in {"khungtaskd\n", "oom_reaper\n", "kcompactd0\n"}:
            try:
                tree.attach(name, int(entry.name))
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
            else:
                return int(entry.name)
    pytest.skip("this kernel lets none of its threads be moved")


def test_threads_of_a_cgroup_that_was_made_and_filled_while_the_agent_slept_are_placed(
    agent: GuestAgent, tree: Tree, workers: Workers
) -> None:
    agent.process.send_signal(19)
    try:
        tree.make("batch/late")
        workers.enter("batch/late")
    finally:
        agent.process.send_signal(18)
    await_placed(agent, {"batch": {tree.cgroup("batch/late"): ALL_THREADS}})
    assert threads_in(tree.cgroup("batch/late")) == workers.threads()
