"""What `make run` and `make demo` leave behind: nothing."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.skipif(
        Path("/sys/fs/resctrl").is_dir(), reason="this machine has resctrl of its own, which tests leave alone"
    ),
]


@dataclass
class Run:
    """`make run`, with the agent ready."""

    process: subprocess.Popen[str]
    place: Path
    command: str
    """What it says to enter in another terminal."""

    def left(self) -> list[str]:
        """Mounts and processes of this run that are there now."""
        mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.place) in line]
        return mounts + [command for command in commands() if str(self.place) in command]


@pytest.fixture
def run() -> Iterator[Run]:
    command = [sys.executable, "tests/trial/run.py", "config/policy.yaml"]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        (mounted_at,) = re.findall(r"mounted at (\S+)/resctrl ", read_until(process.stdout, "It is mounted at"))
        said = read_until(process.stdout, "In another terminal: ")
        read_until(process.stderr, '"started"')
        run = Run(process, Path(mounted_at), said.partition(": ")[2])
        yield run
        process.kill()
    wait_until(lambda: run.left() == [])
    shutil.rmtree(run.place, ignore_errors=True)  # what a run that was killed cannot remove


def read_until(lines: Iterable[str] | None, text: str) -> str:
    read = []
    for line in lines or ():
        read.append(line)
        if text in line:
            return line
    return pytest.fail("".join(read))


def commands() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield process.read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended while we looked


def wait_until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def test_make_run_works_on_an_emulated_machine(run: Run) -> None:
    assert any("fuse" in line for line in run.left())


def test_make_run_says_the_whole_line_that_asks_this_agent(run: Run) -> None:
    line = shlex.split(run.command)
    status = subprocess.run(line, cwd="/", capture_output=True, text=True, check=True).stdout
    assert status.startswith(f"resctrl at {run.place}/resctrl, EMULATED")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)]
)
def test_make_run_undoes_everything_when_it_is_interrupted(run: Run, number: signal.Signals, status: int) -> None:
    run.process.send_signal(number)
    assert run.process.wait(20) == status
    named = "SIGINT" if number == signal.SIGINT else "SIGTERM"
    assert f"Stopped by {named}" in read_until(run.process.stderr, '"stopped"')
    assert run.left() == []
    assert not run.place.exists()


def test_nothing_goes_on_where_make_run_is_killed(run: Run) -> None:
    run.process.kill()
    run.process.wait(20)
    assert wait_until(lambda: run.left() == [])


def test_the_demo_comes_to_its_end() -> None:
    demo = subprocess.run(
        [sys.executable, "tests/trial/demo.py"], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "search: all 6 threads are in group demo-latency" in demo.stdout
