"""The tasks files: moving threads, listing them, and what new threads inherit (§§ 8, 14)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.resctrl_mount import WRITE_AS, Processes, Resctrl, errno_of, free_pid, run_as, wait_until

KTHREADD = 2


@pytest.fixture
def group(resctrl: Resctrl) -> str:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    return resctrl.mkdir("g")


@pytest.fixture
def monitoring(resctrl: Resctrl, group: str) -> str:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    return resctrl.mkdir(f"{group}/mon_groups/m")


# Moving


@pytest.mark.parametrize("form", ["{0}", "{0}\n", " {0} ", "\t{0}\n\n", "+{0}", "0x{0:x}\n", "0{0:o}\n", "{0}\0junk"])
def test_a_thread_is_moved_by_its_id(resctrl: Resctrl, group: str, processes: Processes, form: str) -> None:
    pid = processes.sleeper()
    resctrl.write("g/tasks", form.format(pid))
    assert resctrl.tasks("g") == {pid}
    assert pid not in resctrl.tasks()


def test_the_id_of_a_leader_moves_the_leader_alone(resctrl: Resctrl, group: str, processes: Processes) -> None:
    """Field report 22: intel-cmt-cat#85, only the first thread moved."""
    leader, *others = processes.threads(4)
    resctrl.write("g/tasks", str(leader))
    assert resctrl.tasks("g") == {leader}
    resctrl.write("g/tasks", str(others[1]))
    assert resctrl.tasks("g") == {leader, others[1]}


def test_0_is_the_calling_thread(resctrl: Resctrl, group: str, processes: Processes) -> None:
    writer = processes.start(
        f"""
import sys, threading
def write():
    open({str(resctrl.path / "g/tasks")!r}, "w").write("0\\n")
    print(threading.get_native_id(), flush=True)
    sys.stdin.read()
threading.Thread(target=write).start()
"""
    )
    thread = int(processes.line(writer))
    assert resctrl.tasks("g") == {thread}


def test_already_being_there_is_fine(resctrl: Resctrl, group: str, processes: Processes) -> None:
    pid = processes.sleeper()
    for _ in range(2):
        resctrl.write("g/tasks", str(pid))
    assert resctrl.tasks("g") == {pid}


def test_kernel_threads_are_taken(resctrl: Resctrl, group: str) -> None:
    resctrl.write("g/tasks", str(KTHREADD))
    assert KTHREADD in resctrl.tasks("g")
    resctrl.write("tasks", str(KTHREADD))


def test_zombies_are_taken_and_listed_until_they_are_reaped(resctrl: Resctrl, group: str, processes: Processes) -> None:
    parent = processes.start(
        """
import os, sys
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(child, flush=True)
sys.stdin.readline()
os.waitpid(child, 0)
print(flush=True)
sys.stdin.read()
"""
    )
    zombie = int(processes.line(parent))
    resctrl.write("g/tasks", str(zombie))
    assert resctrl.tasks("g") == {zombie}
    processes.say(parent)
    processes.line(parent)
    assert errno_of(lambda: resctrl.write("g/tasks", str(zombie))) == "ESRCH"
    assert resctrl.tasks("g") == set()


def test_a_thread_that_ends_leaves_the_list(resctrl: Resctrl, group: str, processes: Processes) -> None:
    process = processes.start()
    resctrl.write("g/tasks", str(process.pid))
    process.communicate()
    assert resctrl.tasks("g") == set()


def test_into_another_control_group_one_write_is_enough(
    resctrl: Resctrl, monitoring: str, processes: Processes
) -> None:
    pid = processes.sleeper()
    resctrl.mkdir("h")
    for place in ("g/tasks", f"{monitoring}/tasks", "h/tasks"):
        resctrl.write(place, str(pid))
    assert resctrl.tasks("h") == {pid}
    assert resctrl.tasks(monitoring) == resctrl.tasks("g") == set()


def test_into_a_monitoring_group_it_takes_two(resctrl: Resctrl, monitoring: str, processes: Processes) -> None:
    pid = processes.sleeper()
    code, status = resctrl.refusal(f"{monitoring}/tasks", str(pid))
    text = "Can't move task to different control group\n"
    text += f"Error while processing task {pid}\n" if resctrl.takes_lists else ""
    assert (code, status) == ("EINVAL", text)
    resctrl.write("g/tasks", str(pid))
    resctrl.write(f"{monitoring}/tasks", str(pid))
    assert resctrl.tasks(monitoring) == resctrl.tasks("g") == {pid}


def test_a_control_groups_list_has_its_monitoring_groups_members_too(
    resctrl: Resctrl, monitoring: str, processes: Processes
) -> None:
    first, second = processes.sleeper(), processes.sleeper()
    for pid in (first, second):
        resctrl.write("g/tasks", str(pid))
    resctrl.write(f"{monitoring}/tasks", str(first))
    assert resctrl.tasks("g") == {first, second}
    assert resctrl.tasks(monitoring) == {first}


def test_writing_to_the_control_group_takes_a_task_out_of_its_monitoring_group(
    resctrl: Resctrl, monitoring: str, processes: Processes
) -> None:
    pid = processes.sleeper()
    for place in ("g/tasks", f"{monitoring}/tasks", "g/tasks"):
        resctrl.write(place, str(pid))
    assert (resctrl.tasks("g"), resctrl.tasks(monitoring)) == ({pid}, set())


def test_the_roots_monitoring_groups_take_what_is_in_the_root(resctrl: Resctrl, processes: Processes) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    pid = processes.sleeper()
    resctrl.mkdir("mon_groups/m")
    resctrl.write("mon_groups/m/tasks", str(pid))
    assert resctrl.tasks("mon_groups/m") == {pid}
    assert (pid in resctrl.tasks()) == resctrl.allocates


def test_the_root_lists_every_other_thread_of_the_machine(resctrl: Resctrl, group: str, processes: Processes) -> None:
    leader, *others = processes.threads(3)
    moved = processes.sleeper()
    resctrl.write("g/tasks", str(moved))
    root = resctrl.tasks()
    assert {leader, *others, KTHREADD, 1} <= root
    assert moved not in root


def test_they_are_listed_in_the_order_in_which_they_were_created(
    resctrl: Resctrl, group: str, processes: Processes
) -> None:
    """Not in that of their ids."""
    resctrl.need_real("the order of the kernel's own list")
    first = processes.sleeper()
    second = processes.sleeper_with_id_below(first)
    for pid in (second, first):
        resctrl.write("g/tasks", str(pid))
    assert second < first
    assert resctrl.read("g/tasks") == f"{first}\n{second}\n"


# Refusals


def refused(resctrl: Resctrl, text: str, code: str, status: str, *, old_status: str | None = None) -> None:
    """``old_status`` is what kernels without lists say; None: they leave the status as it was."""
    stale = resctrl.make_stale()
    expected = status if resctrl.takes_lists else stale if old_status is None else old_status
    assert resctrl.refusal("tasks", text) == (code, expected)


@pytest.mark.parametrize("token", ["abc", "1e3", "99999999999", "4294967296", "1 2", "--1", "0x"])
def test_what_is_no_number_is_a_parsing_error(resctrl: Resctrl, token: str) -> None:
    refused(resctrl, f"{token}\n", "EINVAL", f"Task list parsing error pid {token}\n")


def test_two_lines_are_no_number(resctrl: Resctrl) -> None:
    refused(resctrl, "1\n2\n", "EINVAL", "Task list parsing error pid 1\n2\n")


def test_negative_ids_are_invalid(resctrl: Resctrl) -> None:
    refused(resctrl, "-1\n", "EINVAL", "Invalid pid -1\n")


def test_an_id_that_nobody_has_is_no_task(resctrl: Resctrl) -> None:
    """Field report 26: telegraf#14272, a process that vanished."""
    pid = free_pid()
    status = f"No task {pid}\n"
    refused(resctrl, str(pid), "ESRCH", status + f"Error while processing task {pid}\n", old_status=status)


def test_writing_nothing_at_all_is_a_command_too(resctrl: Resctrl) -> None:
    resctrl.need_real("FUSE does not pass on a write of nothing")
    stale = resctrl.make_stale()
    if resctrl.takes_lists:
        resctrl.write("tasks", "")
        assert resctrl.status == "ok\n"
    else:
        assert resctrl.refusal("tasks", "") == ("EINVAL", stale)


def test_a_line_without_anything_moves_nothing(resctrl: Resctrl) -> None:
    if resctrl.takes_lists:
        resctrl.write("tasks", "\n")
    else:
        assert errno_of(lambda: resctrl.write("tasks", "\n")) == "EINVAL"


def test_others_may_move_their_own_threads_and_no_others(resctrl: Resctrl, group: str, processes: Processes) -> None:
    file = resctrl.path / "g/tasks"
    file.chmod(0o666)
    own, foreign = processes.sleeper(uid=1000), processes.sleeper(uid=1001)
    assert run_as(1000, WRITE_AS, str(file), str(own)) == "OK\n"
    assert run_as(1000, WRITE_AS, str(file), str(foreign)) == "EPERM\n"
    status = f"No permission to move task {foreign}\n"
    assert resctrl.status == status + (f"Error while processing task {foreign}\n" if resctrl.takes_lists else "")
    assert run_as(1000, WRITE_AS, str(file), "0") == "OK\n"
    assert resctrl.tasks("g") == {own}


def test_it_is_the_uid_that_counts_and_no_capability(resctrl: Resctrl, group: str, processes: Processes) -> None:
    file = resctrl.path / "g/tasks"
    file.chmod(0o666)
    foreign = processes.sleeper(uid=1001)
    answers = []
    powers = "+sys_ptrace,+sys_nice,+dac_override"
    as_user = ("--reuid=1000", f"--inh-caps={powers}", f"--ambient-caps={powers}")
    for privileges in (as_user, ("--bounding-set=-all",)):
        writer = [sys.executable, "-S", "-c", WRITE_AS, str(file), str(foreign)]
        said = subprocess.run(["setpriv", *privileges, *writer], stdout=subprocess.PIPE, text=True, check=True).stdout
        answers.append(said.strip())
    assert answers == ["EPERM", "OK"]


def test_it_is_the_real_and_the_saved_uid_that_count(resctrl: Resctrl, group: str, processes: Processes) -> None:
    file = resctrl.path / "g/tasks"
    file.chmod(0o666)
    ids = {}
    for name, (real, effective, saved) in {
        "real": (1000, 0, 0),
        "effective": (0, 1000, 0),
        "saved": (0, 0, 1000),
    }.items():
        process = processes.start(
            f"import os, sys; os.setresuid({real}, {effective}, {saved}); print(flush=True); sys.stdin.read()"
        )
        processes.line(process)
        ids[name] = process.pid
    answers = {name: run_as(1000, WRITE_AS, str(file), str(pid)).strip() for name, pid in ids.items()}
    assert answers == {"real": "OK", "effective": "EPERM", "saved": "OK"}


# Lists


@pytest.fixture
def lists(resctrl: Resctrl, group: str) -> None:
    if not resctrl.takes_lists:
        pytest.skip("no lists")


@pytest.mark.parametrize("form", ["{},{}", "{},{}\n", "{},{},\n", " {} , {} \n", "{},\n,{}"])
def test_a_list_moves_all_that_it_names(resctrl: Resctrl, lists: None, processes: Processes, form: str) -> None:
    pids = [processes.sleeper(), processes.sleeper()]
    resctrl.write("g/tasks", form.format(*pids))
    assert resctrl.tasks("g") == (set(pids[:1]) if ",\n," in form else set(pids))


@pytest.mark.parametrize("form", ["{},,{}", "{},x,{}", "{},-1,{}", "{},{free},{}"])
def test_it_stops_at_the_first_failure_and_keeps_what_was_moved(
    resctrl: Resctrl, lists: None, processes: Processes, form: str
) -> None:
    pids = [processes.sleeper(), processes.sleeper()]
    free = free_pid()
    code, status = resctrl.refusal("g/tasks", form.format(*pids, free=free))
    expected = {
        "{},,{}": ("EINVAL", "Task list parsing error pid \n"),
        "{},x,{}": ("EINVAL", "Task list parsing error pid x\n"),
        "{},-1,{}": ("EINVAL", "Invalid pid -1\n"),
        "{},{free},{}": ("ESRCH", f"No task {free}\nError while processing task {free}\n"),
    }
    assert (code, status) == expected[form]
    assert resctrl.tasks("g") == {pids[0]}


def test_a_list_of_4096_bytes_is_moved_in_one_write(resctrl: Resctrl, lists: None, processes: Processes) -> None:
    pid = processes.sleeper()
    text = (f"{pid}," * 4096)[:4096].rpartition(",")[0].encode().ljust(4096, b" ")
    resctrl.write("g/tasks", text)
    assert resctrl.tasks("g") == {pid}


def test_before_6_7_a_list_is_refused_before_anything_happens(
    resctrl: Resctrl, group: str, processes: Processes
) -> None:
    if resctrl.takes_lists:
        pytest.skip("lists are taken")
    stale = resctrl.make_stale()
    pid = processes.sleeper()
    assert resctrl.refusal("g/tasks", f"{pid},{pid}\n") == ("EINVAL", stale)
    assert resctrl.tasks("g") == set()


# Inheritance


def test_a_child_is_where_its_parent_is(resctrl: Resctrl, group: str, processes: Processes) -> None:
    parent = processes.start(FORKS)
    resctrl.write("g/tasks", str(parent.pid))
    processes.say(parent)
    child = int(processes.line(parent))
    assert resctrl.tasks("g") == {parent.pid, child}


def test_and_in_the_same_monitoring_group(resctrl: Resctrl, monitoring: str, processes: Processes) -> None:
    parent = processes.start(FORKS)
    resctrl.write("g/tasks", str(parent.pid))
    resctrl.write(f"{monitoring}/tasks", str(parent.pid))
    processes.say(parent)
    child = int(processes.line(parent))
    assert resctrl.tasks(monitoring) == {parent.pid, child}


def test_a_child_stays_when_its_parent_moves(resctrl: Resctrl, group: str, processes: Processes) -> None:
    parent = processes.start(FORKS)
    resctrl.write("g/tasks", str(parent.pid))
    processes.say(parent)
    child = int(processes.line(parent))
    resctrl.write("tasks", str(parent.pid))
    assert resctrl.tasks("g") == {child}


def test_what_counts_is_the_thread_that_creates_not_its_process(
    resctrl: Resctrl, group: str, processes: Processes
) -> None:
    process = processes.start(
        """
import os, sys, threading
end = threading.Event()
def create():
    print(threading.get_native_id(), flush=True)
    sys.stdin.readline()
    thread = threading.Thread(target=end.wait)
    thread.start()
    child = os.fork()
    if child == 0:
        sys.stdin.read()
        os._exit(0)
    print(thread.native_id, child, flush=True)
    sys.stdin.read()
    end.set()
threading.Thread(target=create).start()
"""
    )
    creator = int(processes.line(process))
    resctrl.write("g/tasks", str(creator))
    processes.say(process)
    thread, child = map(int, processes.line(process).split())
    assert resctrl.tasks("g") == {creator, thread, child}
    assert process.pid not in resctrl.tasks("g")


def test_a_thread_that_execs_takes_the_leaders_id_with_its_own_group(
    resctrl: Resctrl, group: str, processes: Processes
) -> None:
    process = processes.start(EXECS_IN_A_THREAD)
    thread = int(processes.line(process))
    resctrl.write("g/tasks", str(thread))
    processes.say(process)
    assert processes.line(process) == "executed\n"
    assert resctrl.tasks("g") == {process.pid}


def test_the_leaders_group_is_not_kept_by_it(resctrl: Resctrl, group: str, processes: Processes) -> None:
    process = processes.start(EXECS_IN_A_THREAD)
    processes.line(process)
    resctrl.write("g/tasks", str(process.pid))
    processes.say(process)
    assert processes.line(process) == "executed\n"
    assert resctrl.tasks("g") == set()
    assert process.pid in resctrl.tasks()


def test_an_exec_by_the_leader_changes_nothing(resctrl: Resctrl, group: str, processes: Processes) -> None:
    process = processes.start(
        "import os, sys; sys.stdin.readline(); "
        "os.execv(sys.executable, [sys.executable, '-S', '-c', 'import sys; print(1, flush=True); sys.stdin.read()'])"
    )
    resctrl.write("g/tasks", str(process.pid))
    processes.say(process)
    processes.line(process)
    assert resctrl.tasks("g") == {process.pid}


def test_a_process_is_caught_with_all_its_children_by_reading_again(
    resctrl: Resctrl, group: str, processes: Processes
) -> None:
    """Field report 22 again: forks that go on while threads are moved."""
    process = processes.start(
        """
import os, threading
def fork():
    while True:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
threads = [threading.Thread(target=fork, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
print(flush=True)
threads[0].join()
"""
    )
    processes.line(process)

    def all_moved() -> bool:
        tids = {int(entry.name) for entry in Path(f"/proc/{process.pid}/task").iterdir()}
        missing = tids - resctrl.tasks("g")
        for tid in missing:
            resctrl.write("g/tasks", str(tid))
        return not missing

    wait_until(all_moved, "every thread is in the group")
    process.kill()
    process.wait()
    wait_until(lambda: resctrl.tasks("g") == set(), "the group is empty")


def test_the_numbers_are_those_of_the_writers_pid_namespace(resctrl: Resctrl, group: str, processes: Processes) -> None:
    inner = processes.start(
        f"""
import ctypes, os, sys
ctypes.CDLL(None).unshare(0x20000000)
child = os.fork()
if child:
    os.waitpid(child, 0)
    sys.exit()
assert os.getpid() == 1
sleeper = os.fork()
if sleeper == 0:
    sys.stdin.read()
    os._exit(0)
tasks = {str(resctrl.path / "g/tasks")!r}
open(tasks, "w").write(str(sleeper))
print(sleeper, open(tasks).read().split(), flush=True)
sys.stdin.read()
"""
    )
    assert processes.line(inner) == "2 ['2']\n"
    (global_id,) = resctrl.tasks("g")
    assert f"NSpid:\t{global_id}\t2\n" in Path(f"/proc/{global_id}/status").read_text()
    os.kill(global_id, 9)


FORKS = """
import os, sys
sys.stdin.readline()
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""

EXECS_IN_A_THREAD = """
import os, sys, threading
def execute():
    print(threading.get_native_id(), flush=True)
    sys.stdin.readline()
    program = "import sys; print('executed', flush=True); sys.stdin.read()"
    os.execv(sys.executable, [sys.executable, "-S", "-c", program])
threading.Thread(target=execute).start()
"""
