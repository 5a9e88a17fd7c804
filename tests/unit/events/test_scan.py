"""CgroupScan on plain directories, which inotify shows as it shows cgroups."""

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events.event import Event, EventKind
from agent.events.scan import CgroupScan


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "cgroup"
    (root / "system.slice" / "a.service").mkdir(parents=True)
    return root


@pytest.fixture
def scan(root: Path) -> Iterator[CgroupScan]:
    scan = CgroupScan(root)
    yield scan
    scan.close()


def told(events: list[Event]) -> list[tuple[EventKind, str]]:
    return [(event.kind, event.path) for event in events]


def made(*paths: str) -> list[tuple[EventKind, str]]:
    return [(EventKind.CGROUP_MADE, path) for path in paths]


def removed(*paths: str) -> list[tuple[EventKind, str]]:
    return [(EventKind.CGROUP_REMOVED, path) for path in paths]


def test_what_was_there_before_is_no_event_and_nothing_wakes(scan: CgroupScan):
    assert scan.read() == []
    assert select.select([scan], [], [], 0) == ([], [], [])


def test_a_new_cgroup_is_told_with_its_path_and_inode(scan: CgroupScan, root: Path):
    directory = root / "system.slice" / "b.service"
    directory.mkdir()
    assert select.select([scan], [], [], 0)[0]
    (event,) = scan.read()
    assert event[:1] + event[2:] == (
        EventKind.CGROUP_MADE,
        directory.stat().st_ino,
        0,
        "/system.slice/b.service",
    )


def test_a_tree_that_was_made_before_it_could_be_watched_is_told_once(scan: CgroupScan, root: Path):
    (root / "kubepods" / "besteffort" / "pod1").mkdir(parents=True)
    assert told(scan.read()) == made("/kubepods", "/kubepods/besteffort", "/kubepods/besteffort/pod1")
    (root / "kubepods" / "besteffort" / "pod1" / "c1").mkdir()
    assert told(scan.read()) == made("/kubepods/besteffort/pod1/c1")
    assert scan.read() == []


def test_a_cgroup_made_below_a_new_one_after_its_watch_is_told_once(scan: CgroupScan, root: Path):
    (root / "a").mkdir()
    assert told(scan.read()) == made("/a")
    (root / "a" / "b").mkdir()
    (root / "a" / "b" / "c").mkdir()
    assert told(scan.read()) == made("/a/b", "/a/b/c")


def test_removed_cgroups_are_told_from_the_bottom_up(scan: CgroupScan, root: Path):
    shutil.rmtree(root / "system.slice")
    assert told(scan.read()) == removed("/system.slice/a.service", "/system.slice")


def test_one_that_came_and_went_unseen_is_no_event(scan: CgroupScan, root: Path):
    (root / "a").mkdir()
    (root / "a").rmdir()
    assert scan.read() == []
    assert scan.lost() == 0


def test_one_made_again_is_told_with_its_new_inode(scan: CgroupScan, root: Path):
    directory = root / "system.slice" / "a.service"
    old = directory.stat().st_ino
    directory.rename(root / "a.kept")
    directory.mkdir()
    events = scan.read()
    assert told(events)[-1:] == made("/system.slice/a.service")
    assert events[-1].cgroup_id == directory.stat().st_ino != old


def test_a_renamed_cgroup_is_told_by_its_new_path_and_so_are_those_below(scan: CgroupScan, root: Path):
    (root / "system.slice").rename(root / "renamed.slice")
    (root / "renamed.slice" / "a.service" / "below").mkdir()
    assert told(scan.read()) == [
        (EventKind.CGROUP_RENAMED, "/renamed.slice"),
        *made("/renamed.slice/a.service/below"),
    ]


def test_files_are_no_events(scan: CgroupScan, root: Path):
    (root / "cgroup.procs").write_text("1\n")
    assert scan.read() == []


def test_an_overflowed_queue_counts_as_loss_and_the_tree_is_looked_at_anew(scan: CgroupScan, root: Path):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    busy = root / "busy"
    for _ in range(limit // 2 + 1):
        busy.mkdir()
        busy.rmdir()
    (root / "late").mkdir()
    (root / "late" / "below").mkdir()
    (root / "system.slice" / "a.service").rmdir()
    assert sorted(told(scan.read())) == sorted(made("/late", "/late/below") + removed("/system.slice/a.service"))
    assert scan.lost() == 1
    (root / "late" / "below" / "more").mkdir()
    assert told(scan.read()) == made("/late/below/more")


def test_very_deep_trees_are_followed(scan: CgroupScan, root: Path):
    names = ["d"] * (sys.getrecursionlimit() + 100)
    subprocess.run(["mkdir", "-p", "/".join(names)], cwd=root, check=True)
    assert scan.read()[-1].path == "/" + "/".join(names)
    subprocess.run(["rm", "-r", "d"], cwd=root, check=True)


def test_a_directory_that_cannot_be_watched_counts_as_lost(
    scan: CgroupScan, root: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(self, path, mask):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("agent.events.scan.INotify.add_watch", refuse)
    (root / "a").mkdir()
    assert told(scan.read()) == made("/a")
    assert scan.lost() == 1


def test_a_root_that_does_not_exist_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        CgroupScan(tmp_path / "missing")


def test_a_root_that_is_no_directory_is_an_error(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        CgroupScan(tmp_path / "file")
