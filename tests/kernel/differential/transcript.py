"""Runs programs of random operations on a resctrl mount and prints what each operation came to, a line of JSON each.

    python3 -m tests.kernel.differential.transcript MOUNT STEPS SEED...

A line is ``{"seed", "step", "operation", "result", "status"}``, after every few operations also with ``"changed"``:
what became of the tree since it was looked at last, as the description of each path that is new or other, null for
each that is gone.
"""

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tests.kernel.differential.facts import Facts, read_facts
from tests.kernel.differential.operations import Operation, Program
from tests.kernel.differential.performer import Performer
from tests.kernel.differential.processes import Processes

_STEPS_BETWEEN_LOOKS = 6
"""To look at the whole tree takes twenty times as long as an operation does."""

_LARGEST_THRESHOLDS = (16 << 20, 512 << 10)
"""Of the lab's guests, Intel and AMD."""


class Recorder:
    """Operations on one mount and what they come to."""

    def __init__(self, mount: Path, processes: Processes) -> None:
        self._mount = mount
        self._performer = Performer(mount, processes)
        self._tree: dict[str, str] = {}
        self._steps = 0

    def record(self, operation: Operation) -> dict[str, object]:
        """Perform it."""
        result = self._performer.perform(operation.name, operation.arguments)
        status = self._performer.status()
        recorded: dict[str, object] = {"operation": str(operation), "result": result, "status": status}
        if self._steps % _STEPS_BETWEEN_LOOKS == 0:
            recorded["changed"] = self._changes()
        self._steps += 1
        return recorded

    def close(self) -> None:
        """Close what was opened."""
        self._performer.close()

    def _changes(self) -> dict[str, str | None]:
        before, self._tree = self._tree, self._performer.tree()
        changed: dict[str, str | None] = {path: new for path, new in self._tree.items() if before.get(path) != new}
        return changed | dict.fromkeys(before.keys() - self._tree.keys())


def main(mount: Path, steps: int, seeds: list[int]) -> None:
    """Each seed's program on the mount with the root group alone."""
    facts = read_facts(mount)
    print(json.dumps({"operation": "facts", "result": repr(facts)}), flush=True)
    for seed in seeds:
        _tidy(mount)
        for step, recorded in enumerate(_run(mount, facts, seed, steps)):
            print(json.dumps({"seed": seed, "step": step, **recorded}), flush=True)


def _run(mount: Path, facts: Facts, seed: int, steps: int) -> Iterator[dict[str, object]]:
    processes = Processes()
    recorder = Recorder(mount, processes)
    try:
        yield recorder.record(Operation("write", ("mode", "shareable\n", 0)))
        yield from map(recorder.record, islice(Program(seed, facts), steps))
    finally:
        recorder.close()
        processes.end_all()


def _tidy(mount: Path) -> None:
    """Remove all groups, let everything be as it was for most purposes, and RMIDs rest as briefly as can be."""
    for place in (mount / "mon_groups", mount):
        for entry in place.iterdir() if place.is_dir() else ():
            if entry.is_dir() and entry.name not in {"info", "mon_data", "mon_groups"}:
                entry.rmdir()
    for threshold in _LARGEST_THRESHOLDS:
        try:
            (mount / "info/L3_MON/max_threshold_occupancy").write_text(f"{threshold}\n")
        except OSError:
            continue
        break


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [int(seed) for seed in sys.argv[3:]])
