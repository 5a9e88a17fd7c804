"""A child that is born while its creator is moved has the group that the creator had, and is placed all the same."""

import subprocess
import time
from collections.abc import Callable
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
  - {class: batch, when: {cgroup: /agent-test-*/batch}}
  - {class: latency, when: {cgroup: /agent-test-*/latency}}
"""

CLASSES = ("batch", "latency")

PROCESSES, THREADS, CHILDREN = 3, 2, 40
FAMILY = THREADS * (1 + CHILDREN)

RACES, ROUNDS = 20, 5
LONGEST_S = 300.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("forkers", tmp_path_factory.mktemp("forkers"))


def test_forks_that_race_with_their_creator_s_move_are_told_of_and_nothing_is_left_misplaced(
    agent: GuestAgent, program: Path, table: Callable[..., None]
) -> None:
    rounds = moves = 0
    end = time.monotonic() + LONGEST_S
    while rounds < ROUNDS or len(races(agent)) < RACES:
        assert time.monotonic() < end, f"{len(races(agent))} races in {moves} moves"
        with own_tree(CGROUPS) as tree:
            moves += move_while_they_fork(tree, start_forkers(tree, program))
            await_placed(agent, {name: {tree.cgroup(name): len(threads_in(tree.cgroup(name)))} for name in CLASSES})
        rounds += 1
    births = rounds * PROCESSES * FAMILY
    table("forks that raced with a move", [{"moves": moves, "births": births, "times told of": len(races(agent))}])


def races(agent: GuestAgent) -> list[dict[str, object]]:
    return [record for record in agent.log("placed") if record.get("cause") == "fork_raced"]


def start_forkers(tree: Tree, program: Path) -> list[subprocess.Popen[bytes]]:
    """In batch, ready to fork."""
    for name in CLASSES:
        tree.make(name)
    for _ in range(PROCESSES):
        command = [program, str(THREADS), str(CHILDREN)]
        forker = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True)
        tree.children.append(forker)
        tree.attach("batch", forker.pid)
    until(lambda: {group_of(forker.pid) for forker in tree.children} == {"batch"}, "all are in batch", DEADLINE_S)
    return tree.children


def move_while_they_fork(tree: Tree, forkers: list[subprocess.Popen[bytes]]) -> int:
    """To and fro between the classes until all children are born; how many times a process was moved."""
    moves = 0
    for forker in forkers:
        assert forker.stdin is not None
        with forker.stdin:
            forker.stdin.write(b"!")
    while sum(len(threads_in(tree.cgroup(name))) for name in CLASSES) < PROCESSES * FAMILY:
        name = CLASSES[(moves // PROCESSES + 1) % 2]
        for forker in forkers:
            tree.attach(name, forker.pid)
            moves += 1
        own = [int(task.name) for forker in forkers for task in Path(f"/proc/{forker.pid}/task").iterdir()]
        until(lambda name=name, own=own: {group_of(tid) for tid in own} == {name}, f"all are in {name}", DEADLINE_S)
    return moves
