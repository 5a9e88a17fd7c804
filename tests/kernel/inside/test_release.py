"""``release`` gives back all that the agent owns on the kernel's resctrl, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.inside.guest_agent import RESCTRL, guest_agent, schemata
from tests.kernel.inside.systemd import Units, units
from tests.kernel.inside.whereabouts import await_placed, group_of, threads_in

POLICY = """\
version: 1
classes:
  batch: {l3: 0-25%, mb: 20%}
  latency: {l3: 25-50%}
  system: {default: true, l3: 50-100%}
rules:
  - {class: batch, when: {unit: "crunching*.service"}}
"""

THREADS, CHILDREN = 3, 2
ALL_THREADS = THREADS * (1 + CHILDREN)
CGROUP = "/system.slice/crunching.service"


@pytest.fixture
def system() -> Iterator[Units]:
    with units() as made:
        yield made


@pytest.fixture
def theirs() -> Iterator[Path]:
    group = RESCTRL / "theirs"
    group.mkdir()
    yield group
    group.rmdir()


def test_groups_schemata_and_threads_are_as_they_were(
    tmp_path: Path, theirs: Path, system: Units, worker: Path
) -> None:
    (theirs / "schemata").write_text("L3:0=3\n")
    before = schemata(""), schemata("theirs")
    with guest_agent(tmp_path, POLICY) as agent:  # at the end it is stopped, and `release` is called
        system.run("crunching.service", worker, str(THREADS), str(CHILDREN))
        await_placed(agent, {"batch": {CGROUP: ALL_THREADS}, "latency": {}})
        assert schemata("") != before[0]
    assert [path.name for path in RESCTRL.iterdir() if (path / "schemata").exists()] == ["theirs"]
    assert (schemata(""), schemata("theirs")) == before
    assert len(threads_in(CGROUP)) == ALL_THREADS
    assert {group_of(tid) for tid in threads_in(CGROUP)} == {""}
