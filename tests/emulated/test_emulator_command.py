"""The command ``emulate``: mounting, ending, and what it says when it cannot."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.bpf

COMMAND = (sys.executable, "-m", "agent", "emulate")


class Emulator(subprocess.Popen[str]):
    """One that is told to end when its block does."""

    def __init__(self, *arguments: str | Path) -> None:
        super().__init__([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True)
        self.said = self.next_line()

    def __exit__(self, *exception: object) -> None:
        self.terminate()
        super().__exit__(*exception)

    def next_line(self) -> str:
        assert self.stdout is not None
        return self.stdout.readline()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "resctrl"
    yield place
    if is_mounted(place):
        subprocess.run(["umount", "--lazy", place], check=True)


def is_mounted(place: Path) -> bool:
    return any(line.split()[4] == str(place) for line in Path("/proc/self/mountinfo").read_text().splitlines())


def failure(*arguments: str | Path, before: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit status and stderr of an emulator that does not start."""
    ended = subprocess.run([*before, *COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr


@contextmanager
def failing_with(code: int) -> Iterator[None]:
    with pytest.raises(OSError) as failed:  # noqa: PT011 - the errno says which
        yield
    assert failed.value.errno == code


def test_it_says_when_the_mount_answers_and_what_it_is(place: Path) -> None:
    with Emulator(place, "--machine", "epyc-2s", "--kernel", "7.2") as emulator:
        assert emulator.said == f"emulated resctrl (epyc-2s, Linux 7.2 rules) at {place}\n"
        assert emulator.next_line() == f"in another terminal: resctrl-agent --resctrl {place} --policy FILE plan\n"
        assert "L3:0=ffff;" in (place / "schemata").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unmounts_it_although_files_are_open(place: Path, number: signal.Signals) -> None:
    with Emulator(place) as emulator:
        descriptor = os.open(place / "schemata", os.O_RDONLY)
        emulator.send_signal(number)
        assert emulator.wait() == 0
        assert not is_mounted(place)
        with failing_with(errno.ENOTCONN):
            os.read(descriptor, 1)
        with failing_with(errno.ENOTCONN):
            os.close(descriptor)


def test_so_does_unmounting(place: Path) -> None:
    with Emulator(place) as emulator:
        subprocess.run(["umount", place], check=True)
        assert emulator.wait() == 0


def test_mountinfo_tells_it_from_the_kernels(place: Path) -> None:
    with Emulator(place):
        (line,) = (line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line)
        assert line.split(" - ")[1].startswith("fuse.resctrl resctrl-emulator rw")


def test_what_a_killed_one_left_is_cleared_up(place: Path) -> None:
    with Emulator(place) as killed:
        killed.kill()
        killed.wait()
    with failing_with(errno.ENOTCONN):
        place.stat()
    with Emulator(place) as emulator:
        assert emulator.said == f"{place}: unmounted what an emulator had left behind that was killed\n"
        assert emulator.next_line().startswith("emulated resctrl")
        assert (place / "mode").read_text() == "shareable\n"


def test_a_second_one_at_the_same_place_is_refused(place: Path) -> None:
    expected = f"{place}: a resctrl filesystem is mounted here already; unmount it, or name another place"
    with Emulator(place):
        assert failure(place) == (1, f"resctrl-agent: error: {expected}\n")


def test_two_at_different_places_do_not_meet(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with Emulator(place), Emulator(other):
        (place / "g").mkdir()
        assert not (other / "g").exists()
        (place / "g/tasks").write_text(str(os.getpid()))
        assert str(os.getpid()) in (other / "tasks").read_text().split()


def test_mount_options_choose_what_the_machine_can(place: Path) -> None:
    with Emulator(place, "--mount-option", "cdp", "--mount-option", "debug"):
        assert {"L3CODE", "L3DATA"} <= {entry.name for entry in (place / "info").iterdir()}
        assert (place / "ctrl_hw_id").read_text() == (place / "mon_hw_id").read_text() == "0\n"


def test_one_that_it_cannot_is_named_with_those_that_it_can(place: Path) -> None:
    """Field report 12: intel-cmt-cat#183, "invalid mount option"."""
    expected = "mount option mba_MBps: Linux 6.12 does not take it on epyc-2s; possible: cdp, debug"
    found = failure(place, "--machine", "epyc-2s", "--mount-option", "mba_MBps")
    assert found == (1, f"resctrl-agent: error: {expected}\n")


def test_an_unknown_machine_is_wrong_usage(place: Path) -> None:
    status, said = failure(place, "--machine", "abacus")
    assert status == 2
    assert "xeon-2s" in said


def test_a_directory_that_something_is_in_is_not_mounted_over(tmp_path: Path) -> None:
    """It would hide that from every program: emulate /etc, say."""
    for name in "abcde":
        (tmp_path / name).touch()
    expected = (
        f"{tmp_path}: not empty: there is a, b, c and 2 more, which the mount would hide; "
        "name an empty directory, or a new one"
    )
    assert failure(tmp_path) == (1, f"resctrl-agent: error: {expected}\n")
    assert not is_mounted(tmp_path)
    assert (tmp_path / "a").exists()


def test_an_empty_directory_is(tmp_path: Path, place: Path) -> None:
    place.mkdir()
    with Emulator(place) as emulator:
        assert emulator.said.startswith("emulated resctrl")


def test_a_place_that_is_no_directory_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    expected = f"{file}: this is a file; name an empty directory, or a new one"
    assert failure(file) == (1, f"resctrl-agent: error: {expected}\n")


def test_without_permission_for_ebpf_it_says_what_is_needed(place: Path) -> None:
    status, said = failure(place, before=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    assert status == 1
    assert said.startswith("resctrl-agent: error: eBPF is needed to follow which group new threads inherit: ")
    assert "CAP_BPF" in said
    assert not is_mounted(place)


def test_in_a_pid_namespace_it_refuses_and_says_why(place: Path) -> None:
    status, said = failure(place, before=("unshare", "--pid", "--fork", "--mount-proc"))
    assert status == 1
    assert "not the initial pid namespace" in said


def test_a_write_costs_little(emulated: Callable[..., Path]) -> None:
    """It is in the agent's placement path. The limit is far above the 20 µs it takes, and below what would matter."""
    place = emulated()
    (place / "g").mkdir()
    descriptor = os.open(place / "g/tasks", os.O_WRONLY)
    pid = str(os.getpid()).encode()
    taken = []
    for _ in range(500):
        began = time.perf_counter()
        os.write(descriptor, pid)
        taken.append(time.perf_counter() - began)
    os.close(descriptor)
    assert sorted(taken)[len(taken) // 2] < 0.001
