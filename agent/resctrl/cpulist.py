"""Lists of CPUs as ``cpus_list`` prints and takes them: ``0-3,8``, and a blank line for none."""

from collections.abc import Iterable, Iterator


def parse_cpu_list(text: str) -> frozenset[int]:
    """Raises ValueError on what no kernel prints."""
    return frozenset(cpu for part in text.strip().split(",") if part for cpu in _parse_range(part))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Ascending, with ranges for neighbours; "" for none. No newline."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _ranges(cpus))


def _parse_range(part: str) -> range:
    first, dash, last = part.partition("-")
    return range(int(first), int(last if dash else first) + 1)


def _ranges(cpus: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for cpu in sorted(cpus):
        if first is not None and last is not None and cpu != last + 1:
            yield first, last
            first = cpu
        first, last = cpu if first is None else first, cpu
    if first is not None and last is not None:
        yield first, last
