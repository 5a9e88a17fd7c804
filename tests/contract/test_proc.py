"""What /proc says about the group of a thread (§§ 2, 14)."""

from pathlib import Path

import pytest

from tests.contract.resctrl_mount import Processes, Resctrl, run_as


@pytest.fixture(autouse=True)
def told(resctrl: Resctrl) -> None:
    resctrl.need_real("/proc is the kernel's own")


def groups_of(tid: int) -> str:
    return Path(f"/proc/{tid}/cpu_resctrl_groups").read_text()


def test_a_thread_in_the_root_group(resctrl: Resctrl, processes: Processes) -> None:
    assert groups_of(processes.sleeper()) == "res:/\nmon:\n"


def test_a_thread_in_a_control_group_and_in_a_monitoring_group(resctrl: Resctrl, processes: Processes) -> None:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    pid = processes.sleeper()
    resctrl.mkdir("g")
    resctrl.write("g/tasks", str(pid))
    assert groups_of(pid) == "res:g\nmon:\n"
    if resctrl.monitors:
        resctrl.mkdir("g/mon_groups/m")
        resctrl.write("g/mon_groups/m/tasks", str(pid))
        assert groups_of(pid) == "res:g\nmon:m\n"


def test_a_thread_in_a_monitoring_group_of_the_root(resctrl: Resctrl, processes: Processes) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    pid = processes.sleeper()
    resctrl.mkdir("mon_groups/m")
    resctrl.write("mon_groups/m/tasks", str(pid))
    assert groups_of(pid) == "res:/\nmon:m\n"


def test_each_thread_of_a_process_has_its_own(resctrl: Resctrl, processes: Processes) -> None:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    leader, other = processes.threads(2)
    resctrl.mkdir("g")
    resctrl.write("g/tasks", str(other))
    told = [Path(f"/proc/{leader}/task/{tid}/cpu_resctrl_groups").read_text() for tid in (leader, other)]
    assert told == ["res:/\nmon:\n", "res:g\nmon:\n"]


def test_anyone_may_read_it(resctrl: Resctrl, processes: Processes) -> None:
    pid = processes.sleeper()
    program = "import sys; print(open(sys.argv[1]).read(), end='')"
    assert run_as(1000, program, f"/proc/{pid}/cpu_resctrl_groups") == groups_of(pid)


def test_it_cannot_be_written(resctrl: Resctrl, processes: Processes) -> None:
    pid = processes.sleeper()
    assert Path(f"/proc/{pid}/cpu_resctrl_groups").stat().st_mode & 0o222 == 0
