"""Numbers as people read them, and in one line of JSON as programs do."""

import json
from collections.abc import Sequence
from statistics import quantiles
from typing import Any


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which so many per cent (1 to 99) of ``values`` (at least two) lie."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as what is in them; numbers to the right."""
    texts = [list(heads), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    numeric = [all(isinstance(row[n], int | float) for row in rows) for n in range(len(heads))]
    lines = (
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in texts
    )
    return "\n".join(lines)


def json_line(benchmark: str, **numbers: Any) -> str:
    """One line."""
    return json.dumps({"benchmark": benchmark, **numbers})


def _text(cell: object) -> str:
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
