"""The hierarchies of this machine, as seen from outside and inside of namespaces."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.tasks.hierarchy import NoHierarchyError, current_hierarchy, in_initial_pid_namespace
from agent.tasks.process import cgroup_of

pytestmark = pytest.mark.root

PROC = Path("/proc")
PACKAGE = Path(__file__).parents[2]

# Run by a shell in a cgroup and cgroup namespace of its own, with what such a container sees at /sys/fs/cgroup
# and the host's tree at $1.
CONTAINER = """
set -e
echo $$ > "$2/cgroup.procs"
exec unshare --mount --cgroup --propagation private sh -ec '
    mount -t tmpfs none /mnt && mkdir /mnt/host && mount --bind "$1" /mnt/host
    mount -t cgroup2 none /sys/fs/cgroup
    exec "$2" -c "$3"' sh "$1" "$3" "$4"
"""


def test_the_hierarchy_followed_is_one_that_holds_this_process():
    hierarchy = current_hierarchy(PROC)
    assert hierarchy.mount.is_dir()
    assert (hierarchy.mount / hierarchy.threads_file).exists()
    assert cgroup_of(PROC, os.getpid(), hierarchy) is not None


def test_a_directory_that_is_no_cgroup_mount_is_refused(tmp_path):
    with pytest.raises(NoHierarchyError, match="mounted"):
        current_hierarchy(PROC, tmp_path)


def test_a_pid_namespace_is_noticed():
    code = "from agent.tasks.hierarchy import *; print(in_initial_pid_namespace(Path('/proc')))"
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    inside = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=True)
    assert inside.stdout == "False\n"
    assert in_initial_pid_namespace(PROC)


@pytest.fixture
def own_cgroup():
    mounts = [line.split(" ") for line in (PROC / "self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]
    if not mounts:
        pytest.skip("no cgroup v2 is mounted here")
    directory = Path(mounts[0][4]) / f"resctrl-agent-namespace-{os.getpid()}"
    directory.mkdir()
    yield directory
    directory.rmdir()


def in_container(own_cgroup: Path, code: str) -> str:
    imports = (
        "import os; from pathlib import Path; from agent.tasks.hierarchy import *; from agent.tasks.process import *\n"
    )
    arguments = [str(own_cgroup.parent), str(own_cgroup), sys.executable, imports + code]
    command = ["sh", "-c", CONTAINER, "sh", *arguments]
    return subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=True).stdout


def test_a_container_that_sees_only_its_own_cgroups_is_told_so(own_cgroup):
    code = """
try:
    print(current_hierarchy(Path("/proc")))
except NoHierarchyError as error:
    print(error)
"""
    assert "shows only this container's part" in in_container(own_cgroup, code)


def test_a_container_finds_the_hosts_tasks_in_the_hosts_tree(own_cgroup):
    code = """
host = current_hierarchy(Path("/proc"), Path("/mnt/host"))
print(host.root_path, cgroup_of(Path("/proc"), 1, host), cgroup_of(Path("/proc"), os.getpid(), host))
"""
    init = cgroup_of(PROC, 1, current_hierarchy(PROC, own_cgroup.parent))
    assert in_container(own_cgroup, code) == f"/.. {init} None\n"
