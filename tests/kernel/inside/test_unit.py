"""The unit as it is installed: it starts when it should, with what it needs and no more, follows, and leaves."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.emulated.running_agent import until
from tests.kernel.inside.unit_service import (
    AGENT,
    FEW_CLASSES,
    MOUNT,
    RESCTRL,
    agent_json,
    await_entry,
    await_group,
    called,
    drop_in,
    entries,
    keep,
    main_pid,
    misplaced_jobs,
    patient_unit,
    property_of,
    save_policy,
    schemata,
    start_job,
    systemctl,
)
from tests.kernel.inside.whereabouts import DEADLINE_S, group_of

CAP_PERFMON, CAP_BPF = 38, 39
READS_STDIN = ["0", "0x0"]
"""The number that read(2) has on x86-64, and its descriptor, as /proc/PID/syscall shows them."""

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

EARLY = [f"job-early-{number}" for number in range(5)]


@pytest.fixture(scope="module", autouse=True)
def enabled() -> Iterator[dict[str, str | None]]:
    """The unit, enabled while tasks run that it is to place; in which group each was when that returned."""
    with patient_unit():
        assert property_of(AGENT, "UnitFileState") == "disabled"
        pids = {name: start_job(name) for name in EARLY}
        systemctl("enable", "--now", AGENT)
        yield {name: group_of(pid) for name, pid in pids.items()}
        systemctl("stop", AGENT)


def test_systemd_finds_no_fault_with_the_units() -> None:
    assert called("systemd-analyze", "verify", AGENT, MOUNT) == ""


def test_when_the_start_returns_tasks_that_were_there_are_in_place(enabled: dict[str, str | None]) -> None:
    assert enabled == dict.fromkeys(EARLY, "batch")


def test_the_mount_unit_has_mounted_resctrl() -> None:
    assert property_of(MOUNT, "ActiveState") == "active"
    (mounted,) = (line for line in Path("/proc/mounts").read_text().splitlines() if " resctrl " in line)
    assert {"nosuid", "nodev", "noexec"} <= set(mounted.split()[3].split(","))


def test_what_starts_from_then_on_is_caught_by_its_event() -> None:
    await_group(start_job("job-late"), "batch")
    placed = await_entry("-u", AGENT, "RESCTRL_WORKLOAD=/system.slice/job-late.service")
    assert placed["RESCTRL_CAUSE"] in {"attached", "cgroup_made", "cloned_into"}
    assert agent_json("status")["misplaced"] == 0


def test_nothing_is_wanting_by_its_own_account() -> None:
    assert [entry["MESSAGE"] for entry in entries("-u", AGENT, *(f"PRIORITY={number}" for number in range(5)))] == []


def test_at_boot_it_starts_after_the_mount() -> None:
    assert AGENT in property_of("multi-user.target", "Wants").split()
    assert MOUNT in property_of(AGENT, "After").split()
    assert MOUNT in property_of(AGENT, "Wants").split()
    assert AGENT in systemctl("list-dependencies", "--plain", "--no-pager", "multi-user.target")


def test_events_come_by_ebpf_under_the_distribution_s_own_restrictions() -> None:
    assert PARANOID.read_text() == "3\n"
    assert agent_json("status")["event_source"] == "bpf"
    keep("kernel.perf_event_paranoid", PARANOID.read_text())


def test_it_has_two_capabilities_and_cannot_get_more() -> None:
    facts = dict(line.split(":\t", 1) for line in Path(f"/proc/{main_pid()}/status").read_text().splitlines())
    two = f"{1 << CAP_PERFMON | 1 << CAP_BPF:016x}"
    assert {facts[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {two}
    assert {facts[name] for name in ("CapInh", "CapAmb")} == {f"{0:016x}"}
    assert facts["NoNewPrivs"] == "1"
    assert facts["Seccomp"] == "2"


def test_it_is_well_shut_in_by_systemd_s_account() -> None:
    last = called("systemd-analyze", "security", "--no-pager", AGENT).splitlines()[-1]
    keep("systemd-analyze security", last)
    exposure = re.search(r"(\d+\.\d) OK", last)
    assert exposure, last
    assert float(exposure[1]) <= 2.0


def test_nobody_unmounts_resctrl_behind_its_back() -> None:
    """In a network of its own (PrivateNetwork=) it would have kept a mount that nobody else sees any more."""
    refused = subprocess.run(["umount", RESCTRL], capture_output=True, text=True, check=False)
    assert "busy" in refused.stderr


def test_it_goes_before_others_except_while_it_looks_at_everything() -> None:
    pid = main_pid()
    until(lambda: os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR, "it waits for events")

    def looks_at_everything() -> bool:
        os.kill(pid, signal.SIGHUP)
        return any(os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER for _ in range(1000))

    until(looks_at_everything, "a full pass as ordinary work", DEADLINE_S)
    until(lambda: os.sched_getscheduler(pid) == os.SCHED_RR | os.SCHED_RESET_ON_FORK, "it waits for events again")


def test_a_reload_returns_when_the_policy_is_in_force_however_late_the_agent_hears_of_it() -> None:
    pid = main_pid()
    os.kill(pid, signal.SIGSTOP)
    save_policy(FEW_CLASSES.replace("mb: 40%", "mb: 70%"))
    with subprocess.Popen(["systemctl", "reload", AGENT]) as reload:
        until(lambda: reload.poll() is not None or waits_for_the_agent(), "systemd has done its part", DEADLINE_S)
        assert reload.poll() is None
        os.kill(pid, signal.SIGCONT)
        assert reload.wait(DEADLINE_S) == 0
    assert schemata("batch")["MB"] == "0=70;1=70"
    assert property_of(AGENT, "ActiveState") == "active"


def waits_for_the_agent() -> bool:
    """Whether the unit's ExecReload has got as far as its last step, reading from the pipe."""
    control = property_of(AGENT, "ControlPID")
    with suppress(OSError):  # there is none, or it has ended
        return Path(f"/proc/{control}/syscall").read_text().split()[:2] == READS_STDIN
    return False


def test_a_reload_with_a_mistake_returns_and_says_so_and_the_policy_before_stays() -> None:
    save_policy(FEW_CLASSES.replace("mb: 40%", "mb: 140%"))
    systemctl("reload", AGENT)
    assert schemata("batch")["MB"] == "0=70;1=70"
    status = systemctl("status", "--no-pager", "--full", AGENT)
    keep("systemctl status, the policy refused", status)
    assert "events from bpf; the policy file is refused: policy.yaml:4:26: error: " in status
    refused = await_entry("-u", AGENT, "PRIORITY=3")
    assert "policy.yaml:4:26: error: " in refused["MESSAGE"]
    await_group(start_job("job-under-the-old-policy"), "batch")
    save_policy(FEW_CLASSES)
    systemctl("reload", AGENT)
    assert schemata("batch")["MB"] == "0=40;1=40"
    assert "refused" not in property_of(AGENT, "StatusText")


def test_nobody_is_left_waiting_for_a_reload() -> None:
    for _ in range(5):
        systemctl("reload", AGENT)
    assert [path.name for path in Path("/run/resctrl-agent").iterdir()] == ["sys-fs-resctrl.json"]


def test_the_status_says_what_is_in_force() -> None:
    status = systemctl("status", "--no-pager", "--full", AGENT)
    keep("systemctl status", status)
    assert "Active: active (running)" in status
    assert 'Status: "2 classes, 2 rules, events from bpf"' in status


def test_restarting_the_mount_ends_with_everything_in_force_again() -> None:
    before = main_pid()
    systemctl("restart", MOUNT)
    until(lambda: main_pid() not in {0, before}, "the agent is started again", DEADLINE_S)
    until(lambda: property_of(AGENT, "ActiveState") == "active", "the agent is ready", DEADLINE_S)
    assert schemata("batch")["MB"] == "0=40;1=40"
    assert misplaced_jobs() == {}


def test_a_mount_option_is_given_by_a_drop_in() -> None:
    with drop_in(MOUNT, "[Mount]\nOptions=nosuid,nodev,noexec,cdp\n"):
        before = main_pid()
        systemctl("restart", MOUNT)
        until(lambda: main_pid() not in {0, before}, "the agent is started again", DEADLINE_S)
        until(lambda: property_of(AGENT, "ActiveState") == "active", "the agent is ready", DEADLINE_S)
        assert set(schemata("batch")) == {"MB", "L3CODE", "L3DATA"}
        assert misplaced_jobs() == {}


def test_stopping_leaves_groups_limits_and_tasks_as_they_are() -> None:
    groups = {path.name for path in RESCTRL.iterdir() if (path / "tasks").exists()}
    before = {name: ((RESCTRL / name / "schemata").read_text(), members(name)) for name in ("batch", "latency")}
    systemctl("stop", AGENT)
    assert property_of(AGENT, "Result") == "success"
    assert os.path.ismount(RESCTRL)
    assert {path.name for path in RESCTRL.iterdir() if (path / "tasks").exists()} == groups >= {"batch", "latency"}
    assert {name: ((RESCTRL / name / "schemata").read_text(), members(name)) for name in before} == before
    assert entries("-u", AGENT, "RESCTRL_REASON=SIGTERM")


def members(group: str) -> set[str]:
    return set((RESCTRL / group / "tasks").read_text().split())
