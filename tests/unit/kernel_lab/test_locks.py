"""Locks between processes: flock sees two descriptors of one process as two."""

import os
import threading
from pathlib import Path

import pytest

from tests.kernel.lab import locks, slots


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_one_who_does_not_wait_is_told_that_it_is_taken(lock: Path) -> None:
    with locks.exclusive(lock):
        assert locks.try_exclusive(lock) is None


def test_it_is_free_again_after_the_block(lock: Path) -> None:
    with locks.exclusive(lock):
        pass
    held = locks.try_exclusive(lock)
    assert held is not None
    os.close(held)


def test_those_who_share_do_not_wait_for_each_other(lock: Path) -> None:
    with locks.shared(lock), locks.shared(lock):
        assert locks.try_exclusive(lock) is None


def test_who_waited_for_a_file_that_was_removed_takes_the_new_one(lock: Path) -> None:
    held = locks.try_exclusive(lock)
    assert held is not None
    taken = threading.Event()

    def wait() -> None:
        with locks.exclusive(lock):
            assert lock.exists()
            taken.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    lock.unlink()
    os.close(held)
    waiting.join(10)
    assert taken.is_set()


def test_as_many_have_a_slot_as_there_are_and_the_next_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "count", lambda: 2)
    third = threading.Event()

    def wait() -> None:
        with slots.slot():
            third.set()

    with slots.slot() as second_to_last:
        with slots.slot() as last:
            assert last != second_to_last
            waiting = threading.Thread(target=wait)
            waiting.start()
            assert not third.is_set()
        waiting.join(10)
        assert third.is_set()
