"""The daemon at rest: no wake-up while nothing happens, and memory and descriptors that do not grow."""

import select
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.events.kernel import KernelEvents
from agent.events.mounts import MountWatch
from tests.bench.placers import NEVER, policy
from tests.bench.report import json_line, table
from tests.bench.stage import HIERARCHY, build, cgroups, emulated, workers
from tests.emulated.running_agent import Agent, running_agent

pytestmark = [pytest.mark.root, pytest.mark.bpf]

WINDOW_S = 10
SETTLE_S = 1
"""Before a window, so that what came earlier has been seen to."""

WINDOWS = 12
"""So many are tried until in one of them nobody else on this machine makes an event."""

PLACEMENTS = 1000
AT_ONCE = 100
RELOADS = 50
MOST_RESIDENT_KB = 40 * 1024


def test_nothing_wakes_the_agent_while_nothing_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ananicy#58, #73 (field report 41)"""
    with emulated() as resctrl, running_agent(tmp_path, resctrl, policy("/none"), *NEVER) as agent:
        windows = (switches_while_quiet(agent.process.pid) for _ in range(WINDOWS))
        switches = next((number for number in windows if number is not None), None)
    assert switches is not None, f"in none of {WINDOWS} windows this machine was quiet"
    with capsys.disabled():
        print(f"\ncontext switches of the idle agent in {WINDOW_S} s: {switches}")
        print(json_line("idle", seconds=WINDOW_S, context_switches=switches))
    assert switches == 0


def test_memory_and_descriptors_stay_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TuneD PR#512, #724 (field report 42)"""
    rows = []
    with cgroups() as tree, emulated() as resctrl:
        program = build("workers", tmp_path)
        text = policy(tree.cgroup("claimed"))
        with running_agent(tmp_path, resctrl, text, *NEVER) as agent:
            rows.append(["start", *held(agent.process.pid)])
            for n in range(PLACEMENTS // AT_ONCE):
                with workers(program, AT_ONCE, 1) as pids:
                    for pid in pids:
                        tree.make(f"claimed/{n}-{pid}")
                        tree.attach(f"claimed/{n}-{pid}", pid)
                    agent.wait_for("placed", (n + 1) * AT_ONCE)
            rows.append([f"{PLACEMENTS} placements", *held(agent.process.pid)])
            reload(agent, text)
            rows.append(["1 reload", *held(agent.process.pid)])
            for _ in range(RELOADS - 1):
                reload(agent, text)
            rows.append([f"{RELOADS} reloads", *held(agent.process.pid)])
    with capsys.disabled():
        print("\n" + table(["after", "VmRSS kB", "RssAnon kB", "descriptors"], rows))
        print(json_line("memory", **{str(after): numbers for after, *numbers in rows}))
    assert max(rss for _, rss, _, _ in rows) <= MOST_RESIDENT_KB
    assert rows[-1][3] <= max(descriptors for _, _, _, descriptors in rows[:-1])


def switches_while_quiet(pid: int) -> int | None:
    """Context switches of a process during a window; None if anything happened that has to wake it."""
    with ExitStack() as stack:
        kernel, mounts = KernelEvents.open(HIERARCHY.id), MountWatch(Path("/proc"))
        stack.callback(kernel.close)
        stack.callback(mounts.close)
        time.sleep(SETTLE_S)
        kernel.read()
        mounts.acknowledge()
        before = context_switches(pid)
        time.sleep(WINDOW_S)
        after = context_switches(pid)
        happened, _, _ = select.select([kernel, mounts], [], [], 0)
        return None if happened else after - before


def context_switches(pid: int) -> int:
    """Of all its threads."""
    lines = [
        line for status in Path("/proc", str(pid)).glob("task/*/status") for line in status.read_text().split("\n")
    ]
    return sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches" in line)


def held(pid: int) -> list[int]:
    """Resident memory in kB, all and anonymous, and descriptors."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return [
        *(int(status[name].split()[0]) for name in ("VmRSS", "RssAnon")),
        len(list(Path(f"/proc/{pid}/fd").iterdir())),
    ]


def reload(agent: Agent, text: str) -> None:
    """With one of two policies in turn, so that each is put in force."""
    other = text.replace("0-30%", "0-50%")
    agent.follow(other if agent.policy.read_text() == text else text)
