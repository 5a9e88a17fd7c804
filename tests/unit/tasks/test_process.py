from pathlib import Path

import pytest

from agent.tasks.hierarchy import Hierarchy
from agent.tasks.process import (
    Program,
    cgroup_of,
    has_resctrl_groups,
    may_read_programs,
    process_of,
    read_program,
    resctrl_groups,
    start_time,
    threads_of,
)

V2 = Hierarchy(Path("/sys/fs/cgroup/unified"), 2, 0, (), "/")
MEMORY = Hierarchy(Path("/sys/fs/cgroup/memory"), 1, 12, ("memory",), "/")
PART = Hierarchy(Path("/mnt"), 2, 0, (), "/docker/1")


@pytest.fixture
def proc(tmp_path):
    return tmp_path


def write(proc: Path, path: str, text: str) -> None:
    target = proc / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode("utf-8", "surrogateescape"))


def write_process(proc: Path, pid: int, comm: str = "sh", flags: int = 0x400100, uids: str = "0\t0\t0\t0") -> None:
    stat = f"S 1 1 1 0 -1 {flags} 9 0 0 0 3 4 0 0 20 0 5 0 7777 9 9 18446744073709551615 1"
    write(proc, f"{pid}/stat", f"{pid} ({comm}) {stat}\n")
    escaped = comm.replace("\\", "\\\\").replace("\n", "\\n")
    write(proc, f"{pid}/status", f"Name:\t{escaped}\nUmask:\t0022\nTgid:\t{pid}\nPid:\t{pid}\nUid:\t{uids}\n")


@pytest.mark.parametrize(
    ("text", "hierarchy", "expected"),
    [
        pytest.param("0::/a/b\n", V2, "/a/b", id="v2"),
        pytest.param("0::/\n", V2, "/", id="v2-root"),
        pytest.param("0::/a (deleted)\n", V2, "/a", id="v2-removed"),
        pytest.param("12:memory:/a\n2:cpu:/b\n0::/c\n", MEMORY, "/a", id="v1-of-several"),
        pytest.param("112:x:/a\n12:memory:/b\n", MEMORY, "/b", id="ids-that-end-alike"),
        pytest.param("12:memory:/a (deleted)\n", MEMORY, "/a (deleted)", id="v1-does-not-mark-removed-ones"),
        pytest.param("0::/a:b/c:d\n", V2, "/a:b/c:d", id="colons-in-the-path"),
        pytest.param("0::/caf\udce9\n", V2, "/caf\udce9", id="not-utf-8"),
        pytest.param("0::/docker/1/x\n", PART, "/x", id="part-mounted"),
        pytest.param("0::/elsewhere\n", PART, None, id="outside-of-the-part-mounted"),
        pytest.param("0::/a\n", MEMORY, None, id="hierarchy-unmounted"),
        pytest.param("", V2, None, id="empty"),
    ],
)
def test_a_threads_cgroup_is_that_of_the_hierarchy_followed(proc, text, hierarchy, expected):
    write(proc, "5/cgroup", text)
    assert cgroup_of(proc, 5, hierarchy) == expected


@pytest.mark.parametrize("comm", ["sh", "a b", "a) S (b", "(sd-pam)", "new\nline", ")"])
def test_a_name_with_any_characters_does_not_shift_the_fields(proc, comm):
    write_process(proc, 5, comm=comm)
    program = read_program(proc, 5)
    assert program is not None
    assert (program.comm, program.is_kernel_thread) == (comm, False)
    assert start_time(proc, 5) == 7777
    assert process_of(proc, 5) == 5


def test_the_user_is_the_effective_one(proc):
    write_process(proc, 5, uids="1000\t998\t1000\t1000")
    assert read_program(proc, 5) == Program(exe=None, comm="sh", uid=998, is_kernel_thread=False)


@pytest.mark.parametrize(
    ("effective", "may"),
    [("000001ffffffffff", True), ("0000000000080000", True), ("000000c000000000", False), ("0000000000000000", False)],
)
def test_whether_programs_may_be_read_is_told_by_a_process_s_capabilities(proc, effective, may):
    write(proc, "5/status", f"Name:\tsh\nCapPrm:\t000001ffffffffff\nCapEff:\t{effective}\nCapBnd:\t0000000000080000\n")
    (proc / "self").symlink_to("5")
    assert may_read_programs(proc, 5) is may
    assert may_read_programs(proc) is may
    assert not may_read_programs(proc, 6)


def test_a_kernel_thread_is_told_by_its_flag(proc):
    write_process(proc, 2, comm="kworker/0:1-events_power_efficient", flags=0x208040)
    assert read_program(proc, 2) == Program(None, "kworker/0:1-events_power_efficient", 0, is_kernel_thread=True)


@pytest.mark.parametrize(
    ("link", "exe"),
    [
        ("/usr/bin/ffmpeg", "/usr/bin/ffmpeg"),
        ("/usr/bin/ffmpeg (deleted)", "/usr/bin/ffmpeg"),
        ("/memfd:runc_cloned:/proc/self/exe (deleted)", "/memfd:runc_cloned:/proc/self/exe"),
        ("/opt/x//y", "/opt/x//y"),
    ],
)
def test_the_program_is_known_after_its_file_was_replaced(proc, link, exe):
    write_process(proc, 5)
    (proc / "5/exe").symlink_to(link)
    program = read_program(proc, 5)
    assert program is not None
    assert program.exe == exe


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("res:/\nmon:\n", ("", "")),
        ("res:/\nmon:m\n", ("", "m")),
        ("res:batch\nmon:\n", ("batch", "")),
        ("res:batch\nmon:pod-1\n", ("batch", "pod-1")),
        ("res:a:b\nmon:c:d\n", ("a:b", "c:d")),
        ("res:\nmon:\n", None),
        ("", None),
    ],
)
def test_a_thread_tells_its_resctrl_groups(proc, text, expected):
    write(proc, "5/task/6/cpu_resctrl_groups", text)
    assert resctrl_groups(proc, 5, 6) == expected


def test_whether_the_kernel_tells_resctrl_groups_is_probed(proc):
    assert not has_resctrl_groups(proc)
    write(proc, "self/cpu_resctrl_groups", "res:\nmon:\n")
    assert has_resctrl_groups(proc)


def test_only_numbers_are_threads(proc):
    for name in ("42/task/42", "42/task/43", "42/task/other"):
        (proc / name).mkdir(parents=True)
    assert sorted(threads_of(proc, 42)) == [42, 43]


def test_a_task_that_is_gone_is_absent_everywhere(proc):
    """Field report 26."""
    assert cgroup_of(proc, 5, V2) is None
    assert threads_of(proc, 5) == []
    assert process_of(proc, 5) is None
    assert read_program(proc, 5) is None
    assert start_time(proc, 5) is None
    assert resctrl_groups(proc, 5, 5) is None
