"""Which snapshots are kept. Their making is what tests/kernel is run on."""

import os
from pathlib import Path

import pytest

from tests.kernel.lab import cache as places
from tests.kernel.lab import locks, snapshot


@pytest.fixture(autouse=True)
def two_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "KEPT", 2)


def kept() -> set[str]:
    return {entry.name for entry in places.snapshots().iterdir() if entry.is_dir()}


def snapshot_used_at(name: str, time_s: int) -> Path:
    directory = places.snapshots() / name
    directory.mkdir()
    (directory / snapshot.MEMORY).write_bytes(b"memory")
    os.utime(directory, (time_s, time_s))
    return directory


def test_those_used_last_are_kept() -> None:
    for name, time_s in (("oldest", 1), ("newest", 3), ("older", 2)):
        snapshot_used_at(name, time_s)
    snapshot._drop_oldest()
    assert kept() == {"newest", "older"}


def test_one_that_is_being_restored_is_kept() -> None:
    for name, time_s in (("oldest", 1), ("newest", 3), ("older", 2)):
        snapshot_used_at(name, time_s)
    with locks.shared(places.snapshots() / "oldest.lock"):
        snapshot._drop_oldest()
    assert kept() == {"oldest", "newest", "older"}


def test_what_a_killed_process_left_goes() -> None:
    snapshot_used_at("killed.new", 5)
    snapshot._drop_oldest()
    assert kept() == set()


def test_one_that_is_being_made_stays() -> None:
    snapshot_used_at("being-made.new", 5)
    with locks.exclusive(places.snapshots() / "being-made.lock"):
        snapshot._drop_oldest()
    assert kept() == {"being-made.new"}
