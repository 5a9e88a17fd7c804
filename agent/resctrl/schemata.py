"""The schemata file: what each resource's domains allow, parsed from what any kernel prints.

Kernels differ only in padding: names are right-aligned to a common width (``    L3:`` where CDP could be
switched on), bandwidths are padded with blanks and masks with zeros up to 6.14. All of it reads the same here.
"""

from collections.abc import Iterator, Mapping

Schemata = Mapping[str, Mapping[int, int]]
"""Resource, by the kernel's name → domain id → capacity bitmask, or bandwidth in the machine's steps."""

CACHE_NAMES = ("L2", "L2DATA", "L2CODE", "L3", "L3DATA", "L3CODE")
BANDWIDTH_NAMES = ("SMBA", "MB")
NAMES = BANDWIDTH_NAMES + CACHE_NAMES
"""Every resource understood here, in the order in which kernels print them."""

UNINITIALIZED = "uninitialized"
"""What stands in place of the values while a group is in pseudo-locksetup mode."""


class SchemataError(ValueError):
    """A line that no kernel prints."""


def parse(text: str) -> Schemata:
    """The values of every resource in ``NAMES``; a resource that reads ``uninitialized`` has no values.

    Lines of other resources are left out, see ``unknown_lines``. Raises SchemataError, which quotes the line.
    """
    schemata: dict[str, Mapping[int, int]] = {}
    for name, values, line in _lines(text):
        if name not in NAMES:
            continue
        if name in schemata:
            raise SchemataError(f'schemata line "{line}": {name} was already given')
        schemata[name] = _parse_values(name, values, line)
    return schemata


def unknown_lines(text: str) -> tuple[str, ...]:
    """The lines, without padding, whose resource a newer kernel may know but this module does not."""
    return tuple(line for name, _, line in _lines(text) if name not in NAMES)


def format_line(resource: str, values: Mapping[int, int]) -> str:
    """One line as every kernel takes it, ``L3:0=7ff;1=7ff``: ids ascending, no padding, no newline."""
    return f"{resource}:" + ";".join(f"{i}={value_text(resource, values[i])}" for i in sorted(values))


def is_cache(resource: str) -> bool:
    """Whether the values of this resource are capacity bitmasks rather than bandwidths."""
    return resource in CACHE_NAMES


def value_text(resource: str, value: int) -> str:
    """A mask in hexadecimal without ``0x``, a bandwidth in decimal."""
    return f"{value:x}" if is_cache(resource) else str(value)


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, values and the whole line, each stripped of padding."""
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        name, colon, values = line.partition(":")
        if not colon or not name.strip():
            raise SchemataError(f'schemata line "{line}" is not "RESOURCE:ID=VALUE;…"')
        yield name.strip(), values.strip(), line


def _parse_values(name: str, text: str, line: str) -> Mapping[int, int]:
    if text == UNINITIALIZED:
        return {}
    values: dict[int, int] = {}
    for assignment in text.removesuffix(";").split(";"):
        domain, value = _parse_assignment(name, assignment, line)
        if domain in values:
            raise SchemataError(f'schemata line "{line}": domain {domain} is given twice')
        values[domain] = value
    return values


def _parse_assignment(name: str, assignment: str, line: str) -> tuple[int, int]:
    domain, _, value = assignment.partition("=")
    try:
        return _number(domain, 10), _number(value, 16 if is_cache(name) else 10)
    except ValueError:
        raise SchemataError(f'schemata line "{line}": "{assignment.strip()}" is not ID=VALUE') from None


def _number(text: str, base: int) -> int:
    """``int`` would also take signs, underscores and digits of other scripts, which no kernel prints."""
    digits = text.strip().lower()
    if not digits or not set(digits) <= set("0123456789abcdef"[:base]):
        raise ValueError(text)
    return int(digits, base)
