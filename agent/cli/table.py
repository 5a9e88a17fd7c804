"""Columns of text. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from agent.cli.amounts import amount_text
from agent.reconcile.desired import ranges
from agent.resctrl.machine import Machine
from agent.resctrl.schemata import Schemata, value_text


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Left-aligned columns as wide as their widest cell, numbers right-aligned; two blanks in between."""
    body = [tuple(row) for row in rows]
    columns = list(zip(header, *body, strict=True))
    numeric = [all(cell.isdigit() or cell == "-" for cell in column[1:]) for column in columns]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(
            f"{cell:>{width}}" if right else f"{cell:{width}}"
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in (tuple(header), *body)
    ]


def values_text(machine: Machine, resource: str, values: Mapping[int, int]) -> str:
    """``0–1: 7ff; 2: ff``: domains of the same value together."""
    domains: dict[int, list[int]] = {}
    for domain in sorted(values):
        domains.setdefault(values[domain], []).append(domain)
    return "; ".join(f"{ranges(tuple(ids))}: {amount_text(machine, resource, value)}" for value, ids in domains.items())


def schemata_as_json(schemata: Schemata) -> dict[str, dict[str, str]]:
    """Values as the kernel prints them, by resource and domain."""
    return {
        resource: {str(domain): value_text(resource, value) for domain, value in sorted(values.items())}
        for resource, values in schemata.items()
    }
