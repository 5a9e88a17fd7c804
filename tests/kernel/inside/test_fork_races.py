"""A child that is born while its creator is moved has the group that the creator had, and is placed all the same."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
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

PROCESSES, THREADS, KEPT = 3, 2, 8
RACES = 5
MOVES_AT_ONCE = 10
LONGEST_S = 150.0


@pytest.fixture
def tree() -> Iterator[Tree]:
    with own_tree(CGROUPS) as made:
        yield made


@pytest.fixture
def forkers(tree: Tree, tmp_path: Path) -> list[subprocess.Popen[bytes]]:
    program = compiled("forkers", tmp_path)
    tree.children += [subprocess.Popen([program, str(THREADS)], start_new_session=True) for _ in range(PROCESSES)]
    return tree.children


def test_forks_that_race_with_their_creator_s_move_are_told_of_and_nothing_is_left_misplaced(
    agent: GuestAgent, tree: Tree, forkers: list[subprocess.Popen[bytes]], table: Callable[..., None]
) -> None:
    for name in ("batch", "latency"):
        tree.make(name)
    moves = 0
    end = time.monotonic() + LONGEST_S
    while len(races := [record for record in agent.log("placed") if record.get("cause") == "fork_raced"]) < RACES:
        assert time.monotonic() < end, f"{len(races)} forks raced in {moves} moves"
        for _ in range(MOVES_AT_ONCE):
            move_all(tree, forkers, "latency" if moves % 2 else "batch")
            moves += 1
    for process in forkers:
        process.send_signal(signal.SIGUSR1)
    children = PROCESSES * THREADS * KEPT
    everything = PROCESSES * THREADS + children
    until(lambda: len(threads_of_both(tree)) == everything, "the last child is born", DEADLINE_S)
    await_placed(agent, {group: {tree.cgroup(group): len(threads_in(tree.cgroup(group)))} for group in GROUPS})
    status = agent.status()
    assert status["misplaced"] == 0
    table(
        "forks that raced with a move",
        [{"moves of a process": moves * PROCESSES, "children placed for a race": sum(r["threads"] for r in races)}],
    )


GROUPS = ("batch", "latency")


def move_all(tree: Tree, forkers: list[subprocess.Popen[bytes]], name: str) -> None:
    """Every forking process to a cgroup; returns when all their own threads are in its group."""
    for process in forkers:
        tree.attach(name, process.pid)
    own = [int(task.name) for process in forkers for task in Path(f"/proc/{process.pid}/task").iterdir()]
    until(lambda: {group_of(tid) for tid in own} == {name}, f"all that fork are in {name}", DEADLINE_S)


def threads_of_both(tree: Tree) -> set[int]:
    return {tid for group in GROUPS for tid in threads_in(tree.cgroup(group))}
