"""The emulator does what the kernel does: the contract tests, run on both, each test with the same outcome."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.kernel.contract_runs import Comparison, compare
from tests.kernel.flavours import FLAVOURS
from tests.kernel.lab import slots

PAIRS = [(distribution, flavour.name) for flavour in FLAVOURS.values() for distribution in flavour.distributions]

IN_SAMPLE = {("debian-12", "intel"), ("debian-13", "intel-cdp"), ("debian-13", "amd")}
"""Kinds of hardware that have the least in common; no kernel that is another one tomorrow."""

Result = Callable[[tuple[str, str]], Comparison]


@pytest.fixture(scope="module")
def result(request: pytest.FixtureRequest) -> Iterator[Result]:
    """All that is asked for, as many at once as there may be guests."""
    wanted = [
        item.callspec.params["pair"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_emulator_and_kernel_keep_the_same_contract
    ]
    with ThreadPoolExecutor(slots.count()) as pool:
        running: dict[tuple[str, str], Future[Comparison]] = {
            (distribution, flavour): pool.submit(compare, distribution, FLAVOURS[flavour])
            for distribution, flavour in wanted
        }
        yield lambda pair: running[pair].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    "pair",
    [pytest.param(pair, marks=pytest.mark.sample if pair in IN_SAMPLE else ()) for pair in PAIRS],
    ids=["-".join(pair) for pair in PAIRS],
)
def test_emulator_and_kernel_keep_the_same_contract(
    pair: tuple[str, str], result: Result, contract_table: list[Comparison]
) -> None:
    found = result(pair)
    contract_table.append(found)
    if found.differences:
        sides = (("on the kernel", found.kernel), ("on the emulator", found.emulator))
        printed = [f"==== {where}:\n{run.output}" for where, run in sides]
        pytest.fail("\n".join([*found.differences, *printed]), pytrace=False)
