"""Per cents and rates become the machine's steps, rounded up, and the difference is said."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.resctrl.allocation import CapacityNeededError, percent_step, rate_step, unlimited
from agent.resctrl.machine import BandwidthResource, BandwidthUnit

GB = 10**9


def steps_of(minimum: int, granularity: int) -> BandwidthResource:
    return BandwidthResource("MB", (0, 1), BandwidthUnit.PERCENT, minimum, granularity, 100, 8, "max")


INTEL = steps_of(10, 10)
AMD = BandwidthResource("MB", (0, 1), BandwidthUnit.EIGHTH_GBPS, 0, 1, 2048, 16, None)
MBPS = BandwidthResource("MB", (0, 1), BandwidthUnit.MBPS, 1, 1, 2**32 - 1, 8, "max")


@pytest.mark.parametrize(
    ("machine", "percent", "capacity", "value", "note"),
    [
        (INTEL, 40, None, 40, None),
        (INTEL, 35, None, 40, "asked 35 %, the machine's steps are 10 %: 40 %"),
        (INTEL, 5, None, 10, "asked 5 %, the machine's least is 10 %: 10 %"),
        (INTEL, 100, None, 100, None),
        (INTEL, Fraction("33.3"), None, 40, "asked 33.3 %, the machine's steps are 10 %: 40 %"),
        (INTEL, 40, 160 * GB, 40, None),
        (steps_of(30, 30), 70, None, 90, "asked 70 %, the machine's steps are 30 %: 90 %"),
        (steps_of(30, 30), 95, None, 100, "asked 95 %, the machine's steps are 30 %: 100 %"),
        (AMD, 20, 160 * GB, 256, None),
        (AMD, 1, 1 * GB, 1, "asked 1 %, the machine's least is 125 MB/s: 125 MB/s"),
        (AMD, 33, 100 * GB, 264, None),
        (AMD, 33, 101 * GB, 267, "asked 33 %, the machine's steps are 125 MB/s: 33.375 GB/s"),
        (AMD, 100, 300 * GB, 2048, "asked 100 %, the most there is: 256 GB/s"),
        (MBPS, 50, 2 << 30, 1024, None),
        (MBPS, 10, 160 * GB, 15259, "asked 10 %, the machine's steps are 1 MiB/s: 15259 MiB/s"),
    ],
)
def test_a_percentage_becomes_the_next_step(
    *, machine: BandwidthResource, percent: int, capacity: int | None, value: int, note: str | None
) -> None:
    """Field reports 9 and 10: intel-cmt-cat#69, #115 asked 70 and got 90; koordinator#216, #1162 wrote it to AMD."""
    result = percent_step(machine, Fraction(percent), capacity)
    assert (result.value, result.note) == (value, note)


@pytest.mark.parametrize(
    ("machine", "rate", "capacity", "value", "note"),
    [
        (AMD, 8 * GB, None, 64, None),
        (AMD, 500_000_000, None, 4, None),
        (AMD, 1_000_000, None, 1, "asked 1 MB/s, the machine's least is 125 MB/s: 125 MB/s"),
        (AMD, 8_100_000_000, None, 65, "asked 8.1 GB/s, the machine's steps are 125 MB/s: 8.125 GB/s"),
        (AMD, 300 * GB, None, 2048, "asked 300 GB/s, the most there is: 256 GB/s"),
        (INTEL, 8 * GB, 160 * GB, 10, "asked 8 GB/s, the machine's least is 10 %: 10 %"),
        (INTEL, 40 * GB, 160 * GB, 30, "asked 40 GB/s, the machine's steps are 10 %: 30 %"),
        (INTEL, 80 * GB, 160 * GB, 50, None),
        (INTEL, 200 * GB, 160 * GB, 100, "asked 200 GB/s, the most there is: 100 %"),
        (MBPS, 1 << 30, None, 1024, None),
        (MBPS, 8 * GB, None, 7630, "asked 8 GB/s, the machine's steps are 1 MiB/s: 7630 MiB/s"),
    ],
)
def test_a_rate_becomes_the_next_step(
    *, machine: BandwidthResource, rate: int, capacity: int | None, value: int, note: str | None
) -> None:
    result = rate_step(machine, rate, capacity)
    assert (result.value, result.note) == (value, note)


@pytest.mark.parametrize(
    ("machine", "unit"),
    [pytest.param(AMD, "1/8 GB/s", id="field report 10"), pytest.param(MBPS, "MiB/s", id="field report 11")],
)
def test_a_percentage_is_never_written_as_it_is_where_the_machine_counts_bytes(
    machine: BandwidthResource, unit: str
) -> None:
    with pytest.raises(CapacityNeededError, match=f"40 % of MB: this machine counts in {unit}.*bandwidth_capacity"):
        percent_step(machine, Fraction(40), None)


def test_a_rate_needs_the_capacity_where_the_machine_counts_in_per_cent() -> None:
    with pytest.raises(CapacityNeededError, match=r"8 GB/s of MB: this machine counts in per cent.*bandwidth_capacity"):
        rate_step(INTEL, 8 * GB, None)


@pytest.mark.parametrize(("machine", "value"), [(INTEL, 100), (AMD, 2048), (MBPS, 4294967295)])
def test_no_limit_is_the_maximum(machine: BandwidthResource, value: int) -> None:
    assert unlimited(machine) == value


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_percentages_are_above_0_and_at_most_100(percent: int) -> None:
    with pytest.raises(ValueError, match="per cent"):
        percent_step(INTEL, Fraction(percent), None)


def test_rates_are_above_0() -> None:
    with pytest.raises(ValueError, match="above 0"):
        rate_step(AMD, 0, None)


machines = st.sampled_from([INTEL, AMD, MBPS]) | st.builds(steps_of, st.integers(1, 40), st.sampled_from([1, 5, 10]))
percents = st.fractions(0, 100, max_denominator=100).filter(bool)
rates = st.integers(1, 10**12)


@given(machines, percents, percents, rates)
def test_more_per_cent_never_gives_less(machine: BandwidthResource, a: Fraction, b: Fraction, capacity: int) -> None:
    less, more = (percent_step(machine, p, capacity).value for p in sorted((a, b)))
    assert machine.min_bandwidth <= less <= more <= machine.maximum


@given(machines, rates, rates, rates)
def test_a_higher_rate_never_gives_less(machine: BandwidthResource, a: int, b: int, capacity: int) -> None:
    less, more = (rate_step(machine, rate, capacity).value for rate in sorted((a, b)))
    assert machine.min_bandwidth <= less <= more <= machine.maximum


@given(machines, percents, rates)
def test_the_kernel_rounds_no_further(machine: BandwidthResource, percent: Fraction, capacity: int) -> None:
    """A step that is not a multiple of the granularity would read back as something else."""
    value = percent_step(machine, percent, capacity).value
    assert value % machine.granularity == 0 or value == machine.maximum


@given(st.sampled_from([AMD, MBPS]), rates)
def test_nobody_gets_less_than_the_rate_asked(machine: BandwidthResource, rate: int) -> None:
    worth = {BandwidthUnit.EIGHTH_GBPS: GB // 8, BandwidthUnit.MBPS: 1 << 20}[machine.unit]
    value = rate_step(machine, rate, None).value
    assert value * worth >= rate or value == machine.maximum
    assert (value - 1) * worth < rate
