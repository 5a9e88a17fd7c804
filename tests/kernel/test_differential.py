"""The emulator does what the kernel does: programs of random operations, the same on both, come to the same.

Each operation's result, last_cmd_status after it, and what it changed in the whole tree are compared. With other seeds
than the one that is always run, the environment's DIFFERENTIAL_SEEDS has them (as ``4 5 6``); DIFFERENTIAL_STEPS is how
many operations each program has.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.contract.mounting import emulated_mounting
from tests.kernel.differential.comparison import Step, first_difference, read_transcript
from tests.kernel.in_guests import asked_for, at_once
from tests.kernel.lab.guest import CHECKOUT, Guest
from tests.kernel.lab.hardware import Hardware, hardware
from tests.kernel.twins import FEW_IDS, KERNELS, twin

_ALL = tuple(KERNELS)
_FROM_6_7 = ("debian-13", "debian-sid")

_CASES: tuple[tuple[Hardware, tuple[str, ...]], ...] = (
    (hardware("intel"), _ALL),
    (hardware("amd"), _ALL),
    (hardware("amd-abmc"), ("debian-sid",)),
    (hardware("intel-cdp"), ("debian-12", "debian-sid")),
    (hardware("mbps"), ("debian-12", "debian-sid")),
    (hardware("monitor-only"), ("debian-12", "debian-sid")),
    (hardware("sparse"), _FROM_6_7),
    (hardware("l2"), ("debian-13",)),
    (replace(hardware("none"), name="mba-only", mba=True, mount_options=""), ("debian-13",)),
    (FEW_IDS, ("debian-12", "debian-sid")),
    (replace(FEW_IDS, name="few-ids-debug", mount_options="debug"), ("debian-13",)),
    (replace(FEW_IDS, name="few-ids-cdp", mount_options="cdp,cdpl2"), ("debian-13",)),
)
PAIRS = [(distribution, each.name) for each, distributions in _CASES for distribution in distributions]

MACHINES = {each.name: each for each, _ in _CASES}

IN_SAMPLE = {("debian-12", "few-ids")}

_TIMEOUT_S = 600

Runs = Mapping[tuple[str, str], "Future[str | None]"]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    """The first difference, or None, of each pair that is asked for."""
    with at_once(asked_for(request, "pair"), _compare) as running:
        yield running


@pytest.mark.parametrize(
    "pair",
    [pytest.param(pair, marks=pytest.mark.sample if pair in IN_SAMPLE else ()) for pair in PAIRS],
    ids=["-".join(pair) for pair in PAIRS],
)
def test_the_same_operations_come_to_the_same(pair: tuple[str, str], runs: Runs) -> None:
    difference = runs[pair].result()
    if difference:
        pytest.fail(f"{pair[1]}, kernel of {pair[0]}:\n{difference}", pytrace=False)


def _compare(pair: tuple[str, str]) -> str | None:
    distribution, machine = pair[0], MACHINES[pair[1]]
    programs = [os.environ.get("DIFFERENTIAL_STEPS", "100"), *os.environ.get("DIFFERENTIAL_SEEDS", "1").split()]
    with ThreadPoolExecutor(1) as aside:
        emulated = aside.submit(_on_emulator, distribution, machine, programs)
        real = _on_kernel(distribution, machine, programs)
        return first_difference(emulated.result(), real)


def _on_kernel(distribution: str, machine: Hardware, programs: list[str]) -> list[Step]:
    command = " ".join(
        ("cd /mnt/project && PYTHONDONTWRITEBYTECODE=1", *_transcript("python3", "/sys/fs/resctrl", programs))
    )
    finished = Guest(distribution, machine).run(command, timeout_s=_TIMEOUT_S)
    assert finished.status == 0, finished.stderr
    return read_transcript(finished.stdout)


def _on_emulator(distribution: str, machine: Hardware, programs: list[str]) -> list[Step]:
    with emulated_mounting(twin(machine), KERNELS[distribution]) as mounting:
        return read_transcript(_printed(_transcript(sys.executable, str(mounting.path), programs)))


def _transcript(python: str, mount: str, programs: list[str]) -> tuple[str, ...]:
    return (python, "-m", "tests.kernel.differential.transcript", mount, *programs)


def _printed(command: tuple[str, ...]) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
