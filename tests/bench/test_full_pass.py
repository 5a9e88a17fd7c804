"""What a look over ten thousand threads costs that are all where they belong."""

import signal
import time
from pathlib import Path
from statistics import median

import pytest

from tests.bench.placers import GROUP, NEVER, policy
from tests.bench.report import json_line, table
from tests.bench.stage import build, cgroups, emulated, workers
from tests.emulated.running_agent import running_agent
from tests.emulated.witness import Witness

pytestmark = [pytest.mark.root, pytest.mark.bpf]

PROCESSES = 100
THREADS = 100
"""In each process, which has a cgroup of its own."""

PASSES = 5
MOST_S = 1.0

LOOKED = "Looked at every task"


def test_a_pass_over_ten_thousand_threads_in_place_takes_less_than_a_second_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        cgroups() as tree,
        emulated() as resctrl,
        workers(build("workers", tmp_path), PROCESSES, THREADS) as pids,
    ):
        for pid in pids:
            tree.make(f"claimed/{pid}")
            tree.attach(f"claimed/{pid}", pid)
        with running_agent(tmp_path, resctrl, policy(tree.cgroup("claimed")), *NEVER) as agent:
            before = len(agent.log(LOOKED))
            with Witness(agent.process.pid) as witness:
                for n in range(PASSES):
                    agent.process.send_signal(signal.SIGHUP)
                    agent.wait_for(LOOKED, before + n + 1)
            passes = agent.log(LOOKED)[-PASSES:]
            placed = len(agent.tasks(GROUP))
            emulator_s = reading_s(resctrl / GROUP / "tasks")
    took_s = [record["seconds"] for record in passes]
    with capsys.disabled():
        print(f"\nseconds that a pass over {passes[-1]['threads']} threads takes, {placed} of them in the group")
        print(
            table(
                ["n", "median", "longest", "of it the emulator's list", "writes"],
                [[PASSES, median(took_s), max(took_s), emulator_s, len(witness.placed_ns)]],
            )
        )
        print(json_line("full-pass", threads=placed, median_s=median(took_s), writes=len(witness.placed_ns)))
    assert placed >= PROCESSES * THREADS
    assert witness.placed_ns == {}
    assert median(took_s) < MOST_S


def reading_s(file: Path) -> float:
    began = time.monotonic()
    file.read_bytes()
    return time.monotonic() - began
