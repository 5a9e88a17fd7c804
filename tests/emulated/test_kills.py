"""The agent may die at any moment, and the next one finds the machine as it is and puts right what is not."""

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.emulated.cgroup_tree import V2_MOUNTS, Tree, own_tree
from tests.emulated.running_agent import Agent, running_agent, start_agent, until

pytestmark = [pytest.mark.root, pytest.mark.bpf]

KILLS = 100

V2_MOUNT = next(mount for mount in V2_MOUNTS if (mount / "cgroup.procs").exists())

MANY_CHILDREN = """
import os, threading
for _ in range(40):
    if os.fork() == 0:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        threading.Event().wait()
print("ready", flush=True)
threading.Event().wait()
"""


@pytest.fixture
def tree() -> Iterator[Tree]:
    with own_tree(V2_MOUNT) as made:
        yield made


def policy(tree: Tree, number: int) -> str:
    """Each differs from the one before in groups, schemata, an exclusive mode and who belongs where."""
    names = [f"c{(number + n) % 7}" for n in range(4)]
    classes = "".join(
        f"  {name}: {{l3: {10 * n}-{10 * n + 30}%, mb: {20 + 10 * n}%}}\n" for n, name in enumerate(names)
    )
    return f"""\
version: 1
classes:
{classes}  alone: {{l3: 0x{1 << 8:x}, mode: {"exclusive" if number % 2 else "shareable"}}}
  system: {{default: true, l3: 0xff}}
rules:
  - {{class: {names[0]}, when: {{cgroup: {tree.cgroup("a")}}}}}
  - {{class: {names[3]}, when: {{cgroup: {tree.cgroup("b")}}}}}
"""


def test_a_hundred_kills_lose_nothing(tmp_path: Path, emulated: Callable[..., Path], tree: Tree) -> None:
    resctrl = emulated("xeon-icelake-2s", "7.2")
    (resctrl / "theirs").mkdir()
    (resctrl / "theirs" / "schemata").write_text("L3:0=ff;1=ff\n")
    for name in ("a", "b"):
        tree.make(name)
    children = [tree.start(MANY_CHILDREN) for _ in range(2)]
    chance = random.Random(4)  # noqa: S311 - not for secrets
    options = ("--cgroup", str(V2_MOUNT))
    for number in range(KILLS):
        agent = start_agent(tmp_path, resctrl, policy(tree, number), *options)
        for child in children:
            for pid in family(child.pid):
                tree.attach(chance.choice("ab"), pid)
        interrupted_after(agent, chance.uniform(0.0, 1.2))
    with running_agent(tmp_path, resctrl, policy(tree, KILLS), *options) as agent:
        assert agent.command("plan", "--exit-code").returncode == 0
        status = json.loads(agent.command("status", "--output", "json").stdout)
        assert status["misplaced"] == 0
        assert status["closids"]["foreign"] == 1
        assert (resctrl / "theirs").exists()
        assert sorted(path.name for path in resctrl.iterdir() if (path / "schemata").exists()) == sorted(
            ["theirs", "alone", *(f"c{(KILLS + n) % 7}" for n in range(4))]
        )


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def interrupted_after(agent: Agent, seconds: float) -> None:
    """Killed at a moment that has nothing to do with what it is doing."""
    try:
        agent.process.wait(seconds)
    except subprocess.TimeoutExpired:
        agent.kill()
        return
    raise AssertionError(f"the agent ended by itself:\n{agent.log_file.read_text()}")


def test_a_second_agent_is_refused(tmp_path: Path, emulated: Callable[..., Path], tree: Tree) -> None:
    resctrl = emulated("xeon-2s")
    with running_agent(tmp_path, resctrl, policy(tree, 0), "--cgroup", str(V2_MOUNT)) as agent:
        second = agent.command("run")
        assert second.returncode == 1
        assert str(agent.process.pid) in second.stderr
    third = start_agent(tmp_path, resctrl, policy(tree, 0), "--cgroup", str(V2_MOUNT))
    until(lambda: third.log("started"), "after the first one has gone another may start")
    third.stop()
