"""Cgroups seen through inotify, as the agent sees them where eBPF cannot be used."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events.event import EventKind
from agent.events.scan import CgroupScan
from agent.tasks.hierarchy import current_hierarchy

pytestmark = pytest.mark.root


@pytest.fixture
def scan() -> Iterator[CgroupScan]:
    scan = CgroupScan(current_hierarchy(Path("/proc")).mount)
    yield scan
    scan.close()


def test_real_cgroups_that_come_and_go_are_told_as_the_kernel_tells_them(scan: CgroupScan):
    path = f"/events-scan-{os.getpid()}"
    directory = Path(f"{current_hierarchy(Path('/proc')).mount}{path}")
    (directory / "below").mkdir(parents=True)
    inodes = {path: directory.stat().st_ino, f"{path}/below": (directory / "below").stat().st_ino}
    made = [event for event in scan.read() if event.path in inodes]
    (directory / "below").rmdir()
    directory.rmdir()
    removed = [event for event in scan.read() if event.path in inodes]
    assert [(event.kind, event.path, event.cgroup_id) for event in made + removed] == [
        (EventKind.CGROUP_MADE, path, inodes[path]),
        (EventKind.CGROUP_MADE, f"{path}/below", inodes[f"{path}/below"]),
        (EventKind.CGROUP_REMOVED, f"{path}/below", inodes[f"{path}/below"]),
        (EventKind.CGROUP_REMOVED, path, inodes[path]),
    ]
    assert scan.lost() == 0
