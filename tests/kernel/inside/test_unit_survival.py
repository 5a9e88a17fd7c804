"""Whatever happens to the agent, groups stay in force; systemd starts it again where that helps; nothing is lost."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulated.running_agent import until
from tests.kernel.inside.cpus import offline
from tests.kernel.inside.unit_service import (
    AGENT,
    FEW_CLASSES,
    agent_json,
    await_entry,
    await_group,
    called,
    drop_in,
    entries,
    keep,
    main_pid,
    misplaced_jobs,
    property_of,
    running_unit,
    save_policy,
    schemata,
    start_job,
    systemctl,
)
from tests.kernel.inside.whereabouts import DEADLINE_S, group_of

RESTARTS = 3

LOAD = """\
for number in $(seq 1000); do
    sleep 0.5
    systemd-run --quiet --collect --unit=job-load-$number \
        sh -c 'for each in 1 2 3 4; do (sh -c "sleep 1; sleep infinity" &) ; done; sleep infinity'
    systemd-run --quiet --collect --unit=web-load-$number sh -c 'sleep 0.2 & wait'
    [ -e /run/no-more-load ] && exit
done
"""

HIDDEN = "[Service]\nTemporaryFileSystem=/sys/fs\nBindReadOnlyPaths=/sys/fs/cgroup\nReadWritePaths=\n"

NO_AUDIT = "[Service]\nExecStart=\nExecStart=/usr/bin/resctrl-agent run --audit-interval 3600\n"

EXE_RULE = """\
version: 1
classes: {batch: {l3: 0-30%}}
rules:
  - {class: batch, when: {exe: /usr/bin/sleep, user: nobody}, name: sleepers}
"""
EXAMPLES = Path("/usr/share/doc/resctrl-agent/examples")


@pytest.fixture(scope="module", autouse=True)
def unit() -> Iterator[None]:
    with running_unit():
        yield


def await_restart(before: int) -> None:
    until(lambda: main_pid() not in {0, before}, "systemd starts the agent again", DEADLINE_S)
    until(lambda: property_of(AGENT, "ActiveState") == "active", "the agent is ready", DEADLINE_S)


def test_after_a_kill_it_is_started_again_and_nothing_is_lost() -> None:
    placed = start_job("job-before-the-kill")
    await_group(placed, "batch")
    before, limits = main_pid(), schemata("batch")
    systemctl("kill", "--signal=KILL", AGENT)
    until(lambda: main_pid() != before, "the agent is gone", DEADLINE_S)
    assert (group_of(placed), schemata("batch")) == ("batch", limits)
    missed = start_job("job-nobody-saw")
    await_restart(before)
    assert [group_of(pid) for pid in (placed, missed)] == ["batch", "batch"]
    assert misplaced_jobs() == {}


def test_one_that_hangs_is_ended_and_started_again_by_the_watchdog() -> None:
    with drop_in(AGENT, "[Service]\nWatchdogSec=20s\n"):
        systemctl("restart", AGENT)
        before, restarts = main_pid(), int(property_of(AGENT, "NRestarts"))
        os.kill(before, signal.SIGSTOP)
        missed = start_job("job-while-it-hangs")
        until(lambda: main_pid() not in {0, before}, "the watchdog has had it", 4 * DEADLINE_S)
        await_restart(before)
        assert int(property_of(AGENT, "NRestarts")) == restarts + 1
        assert group_of(missed) == "batch"
        assert misplaced_jobs() == {}
        assert any("Watchdog timeout" in entry["MESSAGE"] for entry in entries("UNIT=" + AGENT))
    systemctl("restart", AGENT)


def test_restarts_under_load_misplace_nothing() -> None:
    with subprocess.Popen(["sh", "-c", LOAD]) as load:
        try:
            for _ in range(RESTARTS):
                systemctl("restart", AGENT)
        finally:
            Path("/run/no-more-load").touch()
            load.wait(DEADLINE_S)
    until(lambda: not misplaced_jobs(), f"nothing is misplaced: {misplaced_jobs()}", DEADLINE_S)
    status = agent_json("status")
    assert status["misplaced"] == 0
    keep("restarts under load", f"{RESTARTS} restarts, {jobs_with_threads(status)} workloads, none misplaced")
    assert jobs_with_threads(status) > RESTARTS
    systemctl("stop", "job-load-*", "web-load-*")


def jobs_with_threads(status: dict[str, list[dict[str, str]]]) -> int:
    return sum("-load-" in workload["name"] for workload in status["workloads"])


def test_limits_that_are_lost_with_a_domain_are_put_back_when_its_cpus_return() -> None:
    with drop_in(AGENT, NO_AUDIT):
        systemctl("restart", AGENT)
        with offline(2, 3):
            assert schemata("batch")["MB"] == "0=40"
        until(lambda: schemata("batch")["MB"] == "0=40;1=40", "the limit of domain 1 is back", DEADLINE_S)


def test_a_policy_with_a_mistake_fails_the_start_and_is_not_tried_again() -> None:
    systemctl("stop", AGENT)
    save_policy(FEW_CLASSES.replace("batch: {", "batsch: {"))
    failed = systemctl("start", AGENT, status=1)
    assert "failed" in failed
    assert (property_of(AGENT, "ActiveState"), property_of(AGENT, "ExecMainStatus")) == ("failed", "78")
    status = systemctl("status", "--no-pager", "--full", AGENT, status=3)
    keep("systemctl status, started with a mistake", status)
    assert 'policy.yaml:6:13: error: rule "jobs": there is no class "batch"' in status
    save_policy(FEW_CLASSES)
    systemctl("start", AGENT)


def test_a_machine_without_resctrl_fails_the_start_says_why_and_is_not_tried_again() -> None:
    """Made by hiding it from the service."""
    systemctl("stop", AGENT)
    with drop_in(AGENT, HIDDEN):
        systemctl("start", AGENT, status=1)
        assert (property_of(AGENT, "ActiveState"), property_of(AGENT, "ExecMainStatus")) == ("failed", "69")
        assert property_of(AGENT, "NRestarts") == "0"
        status = systemctl("status", "--no-pager", "--full", AGENT, status=3)
        assert "there is no such directory; this kernel has no resctrl here" in status
    systemctl("start", AGENT)


def test_a_rule_on_exe_is_said_to_match_nothing_until_the_drop_in_that_is_shipped_is_there() -> None:
    sleeper = start_job("sleeper", "User=nobody")
    save_policy(EXE_RULE)
    systemctl("reload", AGENT)
    warning = await_entry("-u", AGENT, "PRIORITY=4")
    keep("a rule on exe without the permission", warning["MESSAGE"])
    assert "policy.yaml:4:5: warning: sleepers: matches no process" in warning["MESSAGE"]
    assert "CapabilityBoundingSet=CAP_SYS_PTRACE" in warning["MESSAGE"]
    assert "sleepers: matches no process" in called("resctrl-agent", "status")
    assert group_of(sleeper) == ""
    with drop_in(AGENT, (EXAMPLES / "rules-on-exe.conf").read_text()):
        systemctl("restart", AGENT)
        assert group_of(sleeper) == "batch"
        assert agent_json("check") == {**agent_json("check"), "ok": True, "problems": []}
