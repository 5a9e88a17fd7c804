"""Moving threads, with files of /proc and /dev that refuse a write as the kernel's ``tasks`` does."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.resctrl.status import LastCommandStatus
from agent.resctrl.tasks import TIDS_PER_WRITE, Tasks, takes_lists

MachineTree = Callable[[str], Path]


@pytest.fixture
def root(machine_tree: MachineTree) -> Path:
    return machine_tree("mba-only")


OpenTasks = Callable[..., Tasks]


@pytest.fixture
def open_tasks(root: Path) -> Iterator[OpenTasks]:
    """Any file as a group's ``tasks``, of a kernel that takes lists or does not."""
    directory = os.open(root, os.O_RDONLY)
    status = LastCommandStatus(directory)
    opened = []

    def open_as_tasks(path: Path | str, *, lists: bool) -> Tasks:
        opened.append(Tasks("batch", os.open(path, os.O_WRONLY), status, lambda: lists))
        return opened[-1]

    yield open_as_tasks
    for tasks in opened:
        tasks.close()
    status.close()
    os.close(directory)


@pytest.fixture
def file_of_a_dead_process() -> Iterator[int]:
    """Open for writing; a write is ESRCH."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        file = os.open(f"/proc/{process.pid}/comm", os.O_WRONLY)
        process.kill()
        process.wait()
        yield file
        os.close(file)


def test_one_thread_is_one_number(root: Path, open_tasks: OpenTasks) -> None:
    result = open_tasks(root / "tasks", lists=True).move([4194304])
    assert (result.moved, result.dead, dict(result.failed)) == ((4194304,), (), {})
    assert (root / "tasks").read_text() == "4194304"


def test_several_threads_are_one_list_where_the_kernel_takes_lists(root: Path, open_tasks: OpenTasks) -> None:
    assert open_tasks(root / "tasks", lists=True).move([1, 22, 333]).moved == (1, 22, 333)
    assert (root / "tasks").read_text() == "1,22,333"


def test_no_write_is_longer_than_the_kernel_takes() -> None:
    assert len(",".join(["4194304"] * TIDS_PER_WRITE)) <= 4096


def test_a_list_of_any_length_is_moved(root: Path, open_tasks: OpenTasks) -> None:
    tids = range(4_190_000, 4_190_000 + 3 * TIDS_PER_WRITE + 1)
    assert open_tasks(root / "tasks", lists=True).move(tids).moved == tuple(tids)
    written = (root / "tasks").read_text()
    assert sum(written.count(str(tid)) for tid in tids) == len(tids)


def test_several_threads_are_several_writes_elsewhere(root: Path, open_tasks: OpenTasks) -> None:
    assert open_tasks(root / "tasks", lists=False).move([1, 22, 333]).moved == (1, 22, 333)
    assert (root / "tasks").read_text() == "122333"


def test_a_thread_that_is_gone_is_no_failure(open_tasks: OpenTasks, file_of_a_dead_process: int) -> None:
    """Field report 26, telegraf#14272."""
    tasks = open_tasks("/dev/null", lists=False)
    os.dup2(file_of_a_dead_process, tasks._file)
    assert tasks.move([5]).dead == (5,)
    assert tasks.move([5, 6]).dead == (5, 6)
    assert not tasks.move([5]).failed


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("tids", [[7], [7, 8, 9]])
def test_each_refusal_carries_the_kernels_reason(
    *, root: Path, open_tasks: OpenTasks, lists: bool, tids: list[int]
) -> None:
    (root / "info/last_cmd_status").write_text("Pseudo-locking in progress\n")
    result = open_tasks("/dev/full", lists=lists).move(tids)
    assert result.moved == ()
    assert dict(result.failed) == dict.fromkeys(tids, "No space left on device: Pseudo-locking in progress")


def test_the_threads_before_the_one_that_failed_are_moved(root: Path, open_tasks: OpenTasks) -> None:
    (root / "info/last_cmd_status").write_text("No task 8\nError while processing task 8\n")
    result = open_tasks("/dev/full", lists=True).move([6, 7, 8, 9])
    assert result.moved == (6, 7)
    assert sorted(result.failed) == [8, 9]


def test_asks_the_kernel_whether_it_takes_lists(file_of_a_dead_process: int) -> None:
    """Such threads are not found where lists are understood; elsewhere the text is no number."""
    assert takes_lists(file_of_a_dead_process)
    with Path("/proc/self/oom_score_adj").open("wb", buffering=0) as takes_one_number:
        assert not takes_lists(takes_one_number.fileno())


def test_any_other_answer_is_an_error() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="No space"):
        takes_lists(full.fileno())
