"""Arithmetic of bandwidth: per cents and rates → the machine's steps. Pure.

Rates are bytes a second, and a GB is 10⁹ bytes, AMD's eighth of a GB/s included. Everything is rounded up to the
next step, as the kernel itself rounds: nobody gets less than was asked.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from agent.resctrl.errors import AllocationError
from agent.resctrl.resources import BandwidthResource, BandwidthUnit

BYTES_OF_STEP = {
    BandwidthUnit.MBPS: Fraction(1 << 20),
    BandwidthUnit.EIGHTH_GBPS: Fraction(10**9, 8),
}


class CapacityNeededError(AllocationError):
    """Per cents and rates convert into each other only where ``bandwidth_capacity`` is known."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """A value the machine takes, and in ``note`` how it differs from what was asked, if it does."""

    value: int
    note: str | None


def percent_step(bandwidth: BandwidthResource, percent: Fraction, capacity: int | None) -> StepResult:
    """So much (0 < percent ≤ 100) of the bandwidth of a domain, whose ``capacity`` is in bytes a second.

    Raises CapacityNeededError where the machine counts bytes and the capacity is None.
    """
    if not 0 < percent <= 100:
        raise ValueError(f"{percent} is not above 0 and at most 100 per cent")
    asked = _percent_text(percent)
    if bandwidth.unit is BandwidthUnit.PERCENT:
        return _step(bandwidth, percent, asked)
    if capacity is None:
        raise CapacityNeededError(
            f"{asked} of {bandwidth.name}: this machine counts in {bandwidth.unit.value}, "
            "so resctrl.bandwidth_capacity must say what the whole is; or ask for a rate like 8GB/s"
        )
    return _step(bandwidth, capacity * percent / 100 / BYTES_OF_STEP[bandwidth.unit], asked)


def rate_step(bandwidth: BandwidthResource, bytes_per_second: int, capacity: int | None) -> StepResult:
    """So many bytes a second (> 0) of a domain, whose ``capacity`` is in the same.

    Raises CapacityNeededError where the machine counts in per cent and the capacity is None.
    """
    if bytes_per_second <= 0:
        raise ValueError(f"{bytes_per_second} bytes a second is not above 0")
    asked = _rate_text(Fraction(bytes_per_second))
    if bandwidth.unit is not BandwidthUnit.PERCENT:
        return _step(bandwidth, bytes_per_second / BYTES_OF_STEP[bandwidth.unit], asked)
    if capacity is None:
        raise CapacityNeededError(
            f"{asked} of {bandwidth.name}: this machine counts in per cent, "
            "so resctrl.bandwidth_capacity must say what the whole is; or ask for a per cent like 20%"
        )
    return _step(bandwidth, Fraction(100 * bytes_per_second, capacity), asked)


def unlimited(bandwidth: BandwidthResource) -> int:
    """The value that limits nothing."""
    return bandwidth.maximum


def step_text(bandwidth: BandwidthResource, value: int) -> str:
    """What a value of the machine's means: ``20 %``, ``1000 MiB/s``, ``10 GB/s``."""
    match bandwidth.unit:
        case BandwidthUnit.PERCENT:
            return _percent_text(Fraction(value))
        case BandwidthUnit.MBPS:
            return f"{value} MiB/s"
        case BandwidthUnit.EIGHTH_GBPS:
            return _rate_text(value * BYTES_OF_STEP[bandwidth.unit])


def _step(bandwidth: BandwidthResource, steps: Fraction, asked: str) -> StepResult:
    """The first value the machine takes that is not below ``steps``, or its maximum."""
    least = max(bandwidth.min_bandwidth, 1)
    rounded = ceil(max(steps, Fraction(least)) / bandwidth.granularity) * bandwidth.granularity
    value = min(rounded, bandwidth.maximum)
    if value == steps:
        return StepResult(value, None)
    got = step_text(bandwidth, value)
    if steps > bandwidth.maximum:
        reason = f"the most there is: {got}"
    elif steps < least:
        reason = f"the machine's least is {step_text(bandwidth, least)}: {got}"
    else:
        reason = f"the machine's steps are {step_text(bandwidth, bandwidth.granularity)}: {got}"
    return StepResult(value, f"asked {asked}, {reason}")


def _percent_text(percent: Fraction) -> str:
    return f"{float(percent):.6g} %"


def _rate_text(rate: Fraction) -> str:
    return f"{float(rate / 10**9):.6g} GB/s" if rate >= 10**9 else f"{float(rate / 10**6):.6g} MB/s"
