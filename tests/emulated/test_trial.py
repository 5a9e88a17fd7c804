"""What `make run` and `make demo` leave behind: nothing."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.skipif(
        Path("/sys/fs/resctrl").is_dir(), reason="this machine has resctrl of its own, which tests leave alone"
    ),
]


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    """`make run`, with the agent ready."""
    command = [sys.executable, "tools/run.py", "config/policy.yaml"]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        log = []
        for line in process.stderr:
            log.append(line)
            if '"started"' in line:
                break
        else:
            pytest.fail("".join(log))
        yield process
        process.kill()
    wait_until(lambda: trials() == [])
    for place in places():  # of a run that was killed
        shutil.rmtree(place)


def places() -> list[Path]:
    """Directories that trials made for themselves."""
    return list(Path("/run").glob("resctrl-agent-trial-*"))


def trials() -> list[str]:
    """Mounts and processes of a trial that are there now."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if "resctrl-agent-trial" in line]
    commands = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(process.read_text().replace("\0", " "))
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended while we looked
    return mounts + [command for command in commands if "resctrl-agent-trial" in command]


def wait_until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def test_make_run_places_on_an_emulated_machine(running: subprocess.Popen[str]) -> None:
    assert any("fuse" in line for line in trials())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_make_run_undoes_everything_when_it_is_interrupted(
    running: subprocess.Popen[str], number: signal.Signals
) -> None:
    running.send_signal(number)
    assert running.wait(20) == 128 + number
    assert trials() == []
    assert places() == []


def test_nothing_goes_on_where_make_run_is_killed(running: subprocess.Popen[str]) -> None:
    running.kill()
    running.wait(20)
    assert wait_until(lambda: trials() == [])


def test_the_demo_comes_to_its_end() -> None:
    demo = subprocess.run(
        [sys.executable, "tools/demo.py"], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "search: all 6 threads are in group demo-latency" in demo.stdout
    assert trials() == []
