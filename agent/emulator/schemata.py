"""The files ``schemata`` and ``size``: printing them, and the checks and effects of writing one."""

import errno
from collections.abc import Callable

from agent.emulator import numbers
from agent.emulator.controls import BandwidthControl, CacheControl, Control, Controls
from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group, Mode
from agent.emulator.mounted import Mount
from agent.emulator.overlap import Part, lowest_run

WHITESPACE = " \t\n\v\f\r\xa0"
"""What the kernel strips from a token: blanks, as Latin 1 has them."""


def schemata_text(controls: Controls, closid: int, *, padded: bool) -> str:
    """The file; ``padded`` as kernels before 6.15 print values."""

    def value(control: Control, number: int) -> str:
        width = controls.value_width if padded else 1
        return f"{number:0{width}x}" if isinstance(control, CacheControl) else f"{number:{width}}"

    return _table(controls, closid, value)


def size_text(controls: Controls, closid: int) -> str:
    """The same table with bytes in place of masks."""

    def value(control: Control, number: int) -> str:
        if isinstance(control, CacheControl):
            number = control.cache.size // control.cache.ways * number.bit_count()
        return str(number)

    return _table(controls, closid, value)


class SchemataWrite:
    """One write: every line is checked before any is put in force, but for what mba_MBps keeps in software."""

    def __init__(self, mount: Mount, group: Group) -> None:
        self._controls = mount.controls
        self._groups = mount.groups
        self._group = group
        self._staged: dict[tuple[str, int], int] = {}

    def apply(self, text: str) -> None:
        """``text`` is without its last newline. Raises RefusedError."""
        for line in text.split("\n"):
            name, colon, values = line.partition(":")
            name = name.strip(WHITESPACE)
            if not colon:
                raise _invalid("Missing ':'\n")
            if not values:
                raise _invalid(f"Missing '{name}' value\n")
            self._stage_line(name, values)
        for (name, domain), value in self._staged.items():
            self._controls.set(name, domain, self._group.closid, value)

    def _stage_line(self, name: str, values: str) -> None:
        control = self._controls.named(name)
        if control is None:
            raise _invalid(f"Unknown or unsupported resource name '{name}'\n")
        while values:
            assignment, _, values = values.partition(";")
            domain, equals, value = assignment.partition("=")
            self._stage(control, _domain(domain, equals, control), value.strip(WHITESPACE))

    def _stage(self, control: Control, domain: int, text: str) -> None:
        if (control.name, domain) in self._staged:
            raise _invalid(f"Duplicate domain {domain}\n")
        if isinstance(control, CacheControl):
            self._staged[control.name, domain] = self._checked_mask(control, domain, text)
        elif control.in_software:
            self._controls.set(control.name, domain, self._group.closid, _mbps(text))
        else:
            self._staged[control.name, domain] = _bandwidth(control, text)

    def _checked_mask(self, control: CacheControl, domain: int, text: str) -> int:
        mask = _mask(control, text)
        part = Part(self._controls, self._groups.controls, control, domain)
        if part.meets_exclusive(mask, self._group.closid):
            raise _invalid("Overlaps with exclusive group\n")
        if self._group.mode is Mode.EXCLUSIVE and part.meets_other(mask, self._group.closid):
            raise _invalid("Overlaps with other group\n")
        return mask


def _table(controls: Controls, closid: int, value: Callable[[Control, int], str]) -> str:
    return "".join(
        f"{control.name:>{controls.name_width}}:"
        + ";".join(f"{d}={value(control, controls.value(control.name, d, closid))}" for d in control.domains)
        + "\n"
        for control in controls.all
    )


def _domain(text: str, equals: str, control: Control) -> int:
    """A domain that exists; the kernel has no word for one that does not."""
    try:
        domain = numbers.unsigned(text if equals else "", 10, 64)
    except (ValueError, OverflowError):
        raise _invalid("Missing '=' or non-numeric domain\n") from None
    if domain not in control.domains:
        raise RefusedError(errno.EINVAL)
    return domain


def _mask(control: CacheControl, text: str) -> int:
    cache = control.cache
    try:
        mask = numbers.unsigned(text, 16, 64)
    except (ValueError, OverflowError):
        raise _invalid(f"Non-hex character in the mask {text}\n") from None
    if mask > cache.full_mask or (mask == 0 and cache.min_cbm_bits > 0):
        raise _invalid("Mask out of range\n")
    run = lowest_run(mask)
    if run != mask and not cache.sparse_masks:
        raise _invalid(f"The mask {mask:x} has non-consecutive 1-bits\n")
    if run.bit_count() < cache.min_cbm_bits:
        raise _invalid(f"Need at least {cache.min_cbm_bits} bits in the mask\n")
    return mask


def _bandwidth(control: BandwidthControl, text: str) -> int:
    bandwidth = control.bandwidth
    value = _mbps(text)
    if not bandwidth.minimum <= value <= bandwidth.maximum:
        raise _invalid(f"MB value {value} out of range [{bandwidth.minimum},{bandwidth.maximum}]\n")
    return -(-value // bandwidth.granularity) * bandwidth.granularity


def _mbps(text: str) -> int:
    try:
        return numbers.unsigned(text, 10, 32)
    except (ValueError, OverflowError):
        raise _invalid(f"Invalid MB value {text}\n") from None


def _invalid(status: str) -> RefusedError:
    return RefusedError(errno.EINVAL, status)
