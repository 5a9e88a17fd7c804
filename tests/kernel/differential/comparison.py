"""Two transcripts of the same programs, and where they part."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

_STEPS_BEFORE = 6
_MOST_PATHS = 6


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a transcript; transcript.py says what each part is."""

    operation: str
    result: str
    seed: int = 0
    step: int = 0
    status: str = ""
    changed: dict[str, str | None] | None = None

    def __str__(self) -> str:
        return f"{self.seed}/{self.step}: {self.operation} -> {self.result}"


def read_transcript(text: str) -> list[Step]:
    """What transcript.py printed."""
    return [Step(**json.loads(line)) for line in text.splitlines()]


def first_difference(emulator: list[Step], kernel: list[Step]) -> str | None:
    """The first step that differs, with the few before it; None when there is none.

    Only the first: what comes after it may have to differ.
    """
    for position, (emulated, real) in enumerate(zip_longest(emulator, kernel)):
        if emulated != real:
            before = kernel[max(0, position - _STEPS_BEFORE) : position]
            return "\n".join([*map(str, before), *_described(emulated, real)])
    return None


def _described(emulated: Step | None, real: Step | None) -> Iterator[str]:
    if emulated is None or real is None:
        yield f"only {'the kernel' if real else 'the emulator'} came to: {real or emulated}"
        return
    yield f"{real.seed}/{real.step}: {real.operation}"
    if emulated.operation != real.operation:
        yield from _both("operation", emulated.operation, real.operation)
    if emulated.result != real.result:
        yield from _both("result", emulated.result, real.result)
    if emulated.status != real.status:
        yield from _both("status", repr(emulated.status), repr(real.status))
    yield from _changes(emulated.changed or {}, real.changed or {})


def _changes(emulated: dict[str, str | None], real: dict[str, str | None]) -> Iterator[str]:
    def said(changes: dict[str, str | None], path: str) -> str:
        return changes.get(path, "as before") or "gone"

    paths = [path for path in sorted({*emulated, *real}) if said(emulated, path) != said(real, path)]
    for path in paths[:_MOST_PATHS]:
        yield from _both(path, said(emulated, path), said(real, path))
    if len(paths) > _MOST_PATHS:
        yield f"  and {len(paths) - _MOST_PATHS} more paths"


def _both(what: str, emulated: str, real: str) -> tuple[str, str, str]:
    return f"  {what}", f"    emulator: {emulated}", f"    kernel:   {real}"
