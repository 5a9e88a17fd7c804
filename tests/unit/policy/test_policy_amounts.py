from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.policy.amounts import (
    MAX_DOMAIN,
    AmountError,
    bandwidth_amount,
    cache_amount,
    id_list,
    partition_amount,
    rate,
)
from agent.policy.model import (
    EVERY_WAY,
    BandwidthPercent,
    BandwidthRate,
    CacheAmount,
    Unlimited,
    WayCount,
    WayMask,
    WayRange,
)

amountish = st.text(alphabet="0123456789abfxX.%-, GMKTiB/spways_max\u0663", max_size=24) | st.text(max_size=40)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("30%", WayRange(Fraction(0), Fraction(30))),
        ("100%", EVERY_WAY),
        ("max", EVERY_WAY),
        ("12.5%", WayRange(Fraction(0), Fraction(25, 2))),
        ("30 %", WayRange(Fraction(0), Fraction(30))),
        ("20-60%", WayRange(Fraction(20), Fraction(60))),
        ("20%-60%", WayRange(Fraction(20), Fraction(60))),
        ("20 - 60 %", WayRange(Fraction(20), Fraction(60))),
        ("0-0.5%", WayRange(Fraction(0), Fraction(1, 2))),
        ("4 ways", WayCount(4)),
        ("1 way", WayCount(1)),
        ("32ways", WayCount(32)),
        ("0x7f0", WayMask(0x7F0)),
        ("0XF", WayMask(0xF)),
        ("0x0000000f", WayMask(0xF)),
        ("0xffffffff", WayMask(0xFFFFFFFF)),
    ],
)
def test_an_amount_of_cache_is_read(text: str, amount: CacheAmount):
    assert cache_amount(text) == amount


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("130%", "is more than 100 %", None),
        ("20-130%", "is more than 100 %", None),
        ("0%", "is nothing at all", None),
        ("60-20%", "ends where it starts or before", '"20-60%"'),
        ("20-20%", "ends where it starts or before", None),
        ("30", "has no unit", '"30%" or "30 ways"; a mask is written 0x30'),
        ("010", "has no unit", '"010%" or "010 ways"; a mask is written 0x010'),
        ("7f0", "is not an amount of cache", "a mask is written 0x7f0"),
        ("0x", "is not an amount of cache", '"0x7f0"'),
        ("0xg", "is not an amount of cache", '"0x7f0"'),
        ("0x0", "is a mask without ways", None),
        ("0x100000000", "is a mask of more than 32 ways", None),
        ("0 ways", "is nothing at all", None),
        ("33 ways", "is more than 32 ways", None),
        ("-5%", "is not an amount of cache", None),
        ("Max", "is not an amount of cache", '"max"'),
        ("8GB/s", "is not an amount of cache", None),
        ("", "is not an amount of cache", None),
        ("\u0663%", "is not an amount of cache", None),
        ("9" * 5000 + "%", "is not an amount of cache", None),
    ],
)
def test_what_is_no_amount_of_cache_is_said_to_be_none(text: str, message: str, hint: str | None):
    with pytest.raises(AmountError) as caught:
        cache_amount(text)
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize(("text", "amount"), [("60%", WayRange(Fraction(0), Fraction(60))), ("4 ways", WayCount(4))])
def test_a_partition_has_a_size(text: str, amount: CacheAmount):
    assert partition_amount(text) == amount


@pytest.mark.parametrize("text", ["20-60%", "0xf0"])
def test_a_partition_has_no_place(text: str):
    with pytest.raises(AmountError, match="says where a partition lies"):
        partition_amount(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("40%", BandwidthPercent(Fraction(40))),
        ("0.5%", BandwidthPercent(Fraction(1, 2))),
        ("max", Unlimited()),
        ("8GB/s", BandwidthRate(8_000_000_000)),
        ("8 GB/s", BandwidthRate(8_000_000_000)),
        ("1.5GB/s", BandwidthRate(1_500_000_000)),
        ("500MB/s", BandwidthRate(500_000_000)),
        ("64KB/s", BandwidthRate(64_000)),
        ("1TB/s", BandwidthRate(10**12)),
        ("2GiB/s", BandwidthRate(2 * 2**30)),
        ("512MiB/s", BandwidthRate(512 * 2**20)),
        ("0.0001KB/s", BandwidthRate(1)),
    ],
)
def test_an_amount_of_bandwidth_is_read(text: str, amount: object):
    assert bandwidth_amount(text) == amount


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("140%", "is more than 100 %", None),
        ("0%", "is nothing at all", None),
        ("0GB/s", "is nothing at all", "leave the key out"),
        ("20", "has no unit", '"40%"'),
        ("8GB", "is not an amount of bandwidth", 'write "8GB/s"'),
        ("8gb/s", "is not an amount of bandwidth", 'write "8GB/s"'),
        ("8Gb/s", "is not an amount of bandwidth", 'write "8GB/s"'),
        ("800MBps", "is not an amount of bandwidth", 'write "800MB/s"'),
        ("2gib/s", "is not an amount of bandwidth", 'write "2GiB/s"'),
        ("20-60%", "is not an amount of bandwidth", None),
        ("0xf", "is not an amount of bandwidth", None),
        ("fast", "is not an amount of bandwidth", '"max"'),
    ],
)
def test_what_is_no_amount_of_bandwidth_is_said_to_be_none(text: str, message: str, hint: str | None):
    with pytest.raises(AmountError) as caught:
        bandwidth_amount(text)
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["40%", "max", "160", "fast"])
def test_a_capacity_is_a_rate_and_nothing_else(text: str):
    with pytest.raises(AmountError):
        rate(text)


@pytest.mark.parametrize(
    ("text", "ids"),
    [("3", (3,)), ("0-3", (0, 1, 2, 3)), ("2-3,8", (2, 3, 8)), ("8,2-3", (2, 3, 8)), ("5-5", (5,)), ("010", (10,))],
)
def test_a_list_of_ids_is_read_as_the_kernel_writes_it(text: str, ids: tuple[int, ...]):
    assert id_list(text, 100) == ids


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a list of numbers"),
        ("a", "is not a list of numbers"),
        ("1,", "is not a list of numbers"),
        ("1 2", "is not a list of numbers"),
        ("-1", "is not a list of numbers"),
        ("0x1", "is not a list of numbers"),
        ("0-7:2/4", "is not a list of numbers"),
        ("3-1", "ends before it starts"),
        ("99-101", "goes beyond 100"),
        ("1,0-3", "names a number twice"),
    ],
)
def test_what_is_no_list_of_ids_is_said_to_be_none(text: str, message: str):
    with pytest.raises(AmountError, match=message):
        id_list(text, 100)


@pytest.mark.parametrize("text", ["0-2000000000", ",".join(f"{n * 8000}-{n * 8000 + 7999}" for n in range(1000))])
def test_a_slip_of_a_digit_does_not_fill_the_memory(text: str):
    with pytest.raises(AmountError, match="names more than 8192 numbers"):
        id_list(text, MAX_DOMAIN)


@given(amountish)
@example("1-2-3%")
def test_any_text_is_an_amount_in_bounds_or_an_error(text: str):
    try:
        amount = cache_amount(text)
    except AmountError:
        return
    match amount:
        case WayRange(start, end):
            assert 0 <= start < end <= 100
        case WayCount(ways):
            assert 1 <= ways <= 32
        case WayMask(bits):
            assert 0 < bits < 2**32


@given(amountish)
def test_any_text_is_a_bandwidth_in_bounds_or_an_error(text: str):
    try:
        amount = bandwidth_amount(text)
    except AmountError:
        return
    match amount:
        case BandwidthPercent(percent):
            assert 0 < percent <= 100
        case BandwidthRate(bytes_per_second):
            assert bytes_per_second >= 1


@given(st.sets(st.integers(0, 100), min_size=1))
def test_ids_that_are_written_out_come_back(ids: set[int]):
    assert id_list(",".join(map(str, ids)), 100) == tuple(sorted(ids))
