from pathlib import Path

import pytest

from agent.tasks.hierarchy import Hierarchy, NoHierarchyError, find_hierarchy

V2_MOUNTS = """\
24 30 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
25 30 0:23 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
32 25 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
33 25 0:29 / /sys/fs/pstore rw,nosuid,nodev,noexec,relatime shared:10 - pstore pstore rw
"""
V2_IDS = "0::/system.slice/resctrl-agent.service\n"

HYBRID_MOUNTS = """\
31 25 0:27 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,size=4096k,nr_inodes=1024,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:29 / /sys/fs/cgroup/systemd rw,nosuid,nodev,noexec,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd
37 31 0:33 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime shared:16 - cgroup cgroup rw,memory
38 31 0:34 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid,nodev,noexec,relatime shared:17 - cgroup cgroup rw,cpu,cpuacct
"""
HYBRID_IDS = "12:memory:/a\n5:cpu,cpuacct:/a\n1:name=systemd:/a\n0::/a\n"

# CentOS 7: systemd's hierarchy carries a release agent, net_cls comes with net_prio, and there is no v2.
V1_MOUNTS = """\
25 18 0:21 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:8 - tmpfs tmpfs ro,mode=755
26 25 0:22 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,xattr,release_agent=/a,name=systemd
28 25 0:24 / /sys/fs/cgroup/net_cls,net_prio rw,nosuid shared:10 - cgroup cgroup rw,net_prio,net_cls
29 25 0:25 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 - cgroup cgroup rw,cpuacct,cpu
"""
V1_IDS = "4:cpuacct,cpu:/\n3:net_prio,net_cls:/\n1:name=systemd:/\n"

# Alpine with OpenRC: no systemd anywhere.
OPENRC_MOUNTS = """\
40 39 0:30 / /sys/fs/cgroup/openrc rw,nosuid - cgroup openrc rw,release_agent=/lib/rc/sh/agent.sh,name=openrc
41 39 0:31 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 none rw,nsdelegate
42 39 0:32 / /sys/fs/cgroup/cpuset rw,nosuid - cgroup cpuset rw,cpuset
43 39 0:33 / /sys/fs/cgroup/pids rw,nosuid - cgroup pids rw,pids
"""
OPENRC_IDS = "3:pids:/\n2:cpuset:/\n1:name=openrc:/\n0::/\n"

NET_CLS_ONLY = "28 25 0:24 / /sys/fs/cgroup/net_cls rw - cgroup cgroup rw,net_cls\n"
V2_ELSEWHERE = "32 25 0:28 / /mnt/cgroup2 rw - cgroup2 none rw\n"


def place(mounts: str, ids: str, requested: str | None = None) -> tuple[int, int, str]:
    hierarchy = find_hierarchy(mounts, ids, Path(requested) if requested else None)
    return hierarchy.version, hierarchy.id, str(hierarchy.mount)


@pytest.mark.parametrize(
    ("mounts", "ids", "expected"),
    [
        pytest.param(V2_MOUNTS, V2_IDS, (2, 0, "/sys/fs/cgroup"), id="v2-alone"),
        pytest.param(HYBRID_MOUNTS, HYBRID_IDS, (1, 1, "/sys/fs/cgroup/systemd"), id="hybrid-follows-systemd"),
        pytest.param(V1_MOUNTS, V1_IDS, (1, 1, "/sys/fs/cgroup/systemd"), id="v1-follows-systemd"),
        pytest.param(OPENRC_MOUNTS, OPENRC_IDS, (1, 3, "/sys/fs/cgroup/pids"), id="no-systemd-follows-kubelet"),
        pytest.param(V2_ELSEWHERE, V2_IDS, (2, 0, "/mnt/cgroup2"), id="v2-elsewhere"),
        pytest.param(
            NET_CLS_ONLY + V2_ELSEWHERE, "1:net_cls:/\n0::/\n", (2, 0, "/mnt/cgroup2"), id="v2-over-unused-v1"
        ),
        pytest.param(
            V2_MOUNTS + HYBRID_MOUNTS.replace("/sys/fs/cgroup", "/mnt"),
            HYBRID_IDS,
            (2, 0, "/sys/fs/cgroup"),
            id="v2-at-the-usual-root-wins",
        ),
    ],
)
def test_the_hierarchy_that_systemd_or_the_kubelet_uses_is_followed(mounts, ids, expected):
    assert place(mounts, ids) == expected


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ("/sys/fs/cgroup/memory", (1, 12, "/sys/fs/cgroup/memory")),
        ("/sys/fs/cgroup/cpu,cpuacct", (1, 5, "/sys/fs/cgroup/cpu,cpuacct")),
        ("/sys/fs/cgroup/unified/", (2, 0, "/sys/fs/cgroup/unified")),
        ("/sys/fs/cgroup", (1, 1, "/sys/fs/cgroup/systemd")),
    ],
)
def test_any_mount_or_the_directory_above_some_can_be_asked_for(requested, expected):
    assert place(HYBRID_MOUNTS, HYBRID_IDS, requested) == expected


def test_a_host_tree_mounted_elsewhere_can_be_asked_for():
    host = HYBRID_MOUNTS.replace("/sys/fs/cgroup", "/host/cgroup").replace("0:28 / ", "0:28 /../.. ")
    assert place(V2_MOUNTS + host, HYBRID_IDS, "/host/cgroup") == (1, 1, "/host/cgroup/systemd")


def test_a_hierarchy_that_neither_systemd_nor_the_kubelet_uses_is_followed_only_when_asked_for():
    with pytest.raises(NoHierarchyError, match=r"\(net_cls\) at /sys/fs/cgroup/net_cls.*--cgroup"):
        place(NET_CLS_ONLY, "1:net_cls:/\n")
    assert place(NET_CLS_ONLY, "1:net_cls:/\n", "/sys/fs/cgroup/net_cls") == (1, 1, "/sys/fs/cgroup/net_cls")


def test_controllers_are_told_from_mount_options():
    hierarchy = find_hierarchy(V1_MOUNTS, V1_IDS, Path("/sys/fs/cgroup/cpu,cpuacct"))
    assert hierarchy.controllers == ("cpuacct", "cpu")
    assert find_hierarchy(V1_MOUNTS, V1_IDS).controllers == ("name=systemd",)


def test_a_mount_point_with_a_space_is_named_as_it_is():
    mounts = V2_ELSEWHERE.replace("/mnt/cgroup2", r"/mnt/my\040cgroups\134x")
    assert place(mounts, V2_IDS)[2] == r"/mnt/my cgroups\x"


def test_a_later_mount_at_the_same_place_hides_the_earlier_one():
    hidden = V2_MOUNTS + "90 32 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    with pytest.raises(NoHierarchyError):
        find_hierarchy(hidden, V2_IDS)


def test_a_request_that_is_no_mount_says_what_is_mounted():
    with pytest.raises(NoHierarchyError, match=r"cgroup v2 at /sys/fs/cgroup; /sys/fs/cgrop is none of them"):
        find_hierarchy(V2_MOUNTS, V2_IDS, Path("/sys/fs/cgrop"))


def test_without_any_cgroup_mount_the_message_says_how_to_make_one():
    with pytest.raises(NoHierarchyError, match="mount -t cgroup2"):
        find_hierarchy("24 30 0:22 / /proc rw - proc proc rw\n", "")


def test_the_file_that_lists_threads_depends_on_the_version():
    assert find_hierarchy(V2_MOUNTS, V2_IDS).threads_file == "cgroup.threads"
    assert find_hierarchy(V1_MOUNTS, V1_IDS).threads_file == "tasks"


@pytest.mark.parametrize(
    ("root_path", "path", "expected"),
    [
        ("/", "/", "/"),
        ("/", "/a/b", "/a/b"),
        ("/", "/../a", None),
        ("/docker/1", "/docker/1", "/"),
        ("/docker/1", "/docker/1/a", "/a"),
        ("/docker/1", "/docker/12", None),
        ("/docker/1", "/", None),
        ("/../..", "/../../system.slice", "/system.slice"),
        ("/../..", "/../../..", None),
        ("/../..", "/../sibling", None),
        ("/../..", "/", None),
        ("/..", "/../..hidden", "/..hidden"),
    ],
)
def test_paths_of_procfs_are_found_below_a_mount_that_shows_a_part(root_path, path, expected):
    assert Hierarchy(Path("/x"), 2, 0, (), root_path).path_in_mount(path) == expected
