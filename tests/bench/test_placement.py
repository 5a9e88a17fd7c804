"""How long a task is in its cgroup before all its threads are in their group, beside a bare loop in C."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from tests.bench.latency import Stopwatch
from tests.bench.placers import GROUP, Placer, agent, agent_on_files, baseline, plain_group
from tests.bench.report import json_line, percentile, table
from tests.bench.stage import build, busy_cores, cgroups, emulated, jobs, workers
from tests.emulated.cgroup_tree import Tree

pytestmark = [pytest.mark.root, pytest.mark.bpf]

ROUNDS = 5
MOVES = 30
"""In each round, of each kind."""

WARM_UP = 20
"""Moves that are not counted: a process is slower at first, whatever it is written in."""

GAP_S = 0.01
"""Between spaced moves: far more than placing one takes."""

MOST_RATIO = 2.0
MOST_P99_US = 10_000.0
BUSY_MOVES = 200

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of moves."""

    threads: int
    gap_s: float
    moves: int

    def __str__(self) -> str:
        return f"{'spaced' if self.gap_s else 'storm'}, {self.threads} thread{'s' if self.threads > 1 else ''}"


KINDS = tuple(Kind(threads, gap_s, MOVES) for gap_s in (GAP_S, 0.0) for threads in (1, 8, 64))


@dataclass(frozen=True, slots=True)
class Rivals:
    """The agent and the loop in C, writing to the same place."""

    target: str
    agent: Placer
    loop: Placer


@dataclass(frozen=True, slots=True)
class Arena:
    """Where they meet."""

    tree: Tree
    worker: Path
    rivals: tuple[Rivals, ...]

    def round(self, placer: Placer, kinds: Sequence[Kind], busy: int = 0) -> dict[Kind, list[float]]:
        """One side's latencies, in microseconds, of each kind of moves."""
        found = {}
        with placer() as pid, Stopwatch(pid, self.tree) as stopwatch:
            with workers(self.worker, WARM_UP, 1) as pids:
                stopwatch.latencies_us(jobs(pids), "claimed", 0)
            for kind in kinds:
                with workers(self.worker, kind.moves, kind.threads) as pids, busy_cores(busy):
                    found[kind] = stopwatch.latencies_us(jobs(pids), "claimed", kind.gap_s)
        return found


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    place = tmp_path_factory.mktemp("placement")
    loop, worker = build("baseline", place), build("workers", place)
    with cgroups() as tree, emulated() as resctrl:
        claimed = tree.cgroup("claimed")
        plain = plain_group(place / "plain")
        yield Arena(
            tree,
            worker,
            (
                Rivals(
                    "emulator",
                    lambda: agent(place, resctrl, claimed),
                    lambda: baseline(loop, resctrl / GROUP / "tasks", claimed),
                ),
                Rivals(
                    "plain file",
                    lambda: agent_on_files(place, place / "plain", claimed),
                    lambda: baseline(loop, plain, claimed),
                ),
            ),
        )


def test_placing_takes_at_most_twice_as_long_as_a_bare_loop_in_c(
    arena: Arena, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[list[object]] = []
    ratios = {}
    for pair in arena.rivals:
        rounds = [(arena.round(pair.agent, KINDS), arena.round(pair.loop, KINDS)) for _ in range(ROUNDS)]
        for kind in KINDS:
            ratio = median(median(agents[kind]) / median(loops[kind]) for agents, loops in rounds)
            ratios[f"{pair.target}, {kind}"] = ratio
            rows.append(
                [pair.target, kind, "agent", *summary([us for agents, _ in rounds for us in agents[kind]]), ratio]
            )
            rows.append([pair.target, kind, "C", *summary([us for _, loops in rounds for us in loops[kind]]), ""])
    with capsys.disabled():
        print("\nmicroseconds from the kernel's event to the return of the last write")
        print(table(["written to", "moves", "by", "n", "p50", "p90", "p99", "ratio of medians"], rows))
        print(json_line("placement", ratios=ratios))
    assert max(ratio for what, ratio in ratios.items() if what.startswith("emulator")) <= MOST_RATIO


def test_of_a_hundred_placements_ninety_nine_take_less_than_ten_milliseconds_with_all_cores_busy(
    arena: Arena, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = Kind(1, GAP_S, BUSY_MOVES)
    cores = os.cpu_count() or 1
    us = {
        (pair.target, who): arena.round(placer, [kind], busy=cores)[kind]
        for pair in arena.rivals
        for who, placer in (("agent", pair.agent), ("C", pair.loop))
    }
    p99 = {f"{target}, {who}": percentile(values, 99) for (target, who), values in us.items()}
    with capsys.disabled():
        print(f"\nthe same, {kind}, with {cores} busy cores")
        print(table(["written to", "by", "n", "p50", "p90", "p99"], [[*what, *summary(us[what])] for what in us]))
        print(json_line("placement-busy", p99_us=p99))
    assert max(value for what, value in p99.items() if what.endswith("agent")) < MOST_P99_US


def summary(values: list[float]) -> list[int]:
    return [len(values), *(round(percentile(values, percent)) for percent in PERCENTILES)]
