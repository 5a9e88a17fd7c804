"""What others made stays theirs, and what the agent does does not depend on who came first."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.emulated.cgroup_tree import V2_MOUNTS, Tree, own_tree
from tests.emulated.emulated_resctrl import emulator_at
from tests.emulated.running_agent import DEADLINE_S, Agent, running_agent, start_agent, until
from tests.emulated.test_placement import IDLE_THREADS, in_group, policy

pytestmark = [pytest.mark.root, pytest.mark.bpf]

V2_MOUNT = next(mount for mount in V2_MOUNTS if (mount / "cgroup.procs").exists())


@pytest.fixture
def tree() -> Iterator[Tree]:
    with own_tree(V2_MOUNT) as made:
        yield made


@pytest.fixture
def start(tmp_path: Path, emulated: Callable[..., Path], tree: Tree) -> Callable[..., object]:
    resctrl = emulated("xeon-2s")
    return lambda text, *options: running_agent(tmp_path, resctrl, text, "--cgroup", str(V2_MOUNT), *options)


def groups(resctrl: Path) -> set[str]:
    return {path.name for path in resctrl.iterdir() if (path / "schemata").exists()}


def state(agent: Agent) -> dict[str, object]:
    """Every group's schemata and threads."""
    names = ["", *sorted(groups(agent.resctrl))]
    return {
        name: ((agent.resctrl / name / "schemata").read_text(), agent.tasks(name) if name else None) for name in names
    }


def test_groups_of_others_survive_start_reload_and_release_as_they_did_not_under_containerd(tree, start):
    with start(policy(tree)) as agent:
        for name in ("theirs", "pqos-1"):
            (agent.resctrl / name).mkdir()
        (agent.resctrl / "theirs/schemata").write_text("L3:0=3;1=3\n")
        (agent.resctrl / "theirs/mon_groups/m").mkdir()
        agent.follow(policy(tree).replace("20%", "30%"))
        status = json.loads(agent.command("status", "--output", "json").stdout)
        assert status["closids"]["foreign"] == 2
        assert status["closids"]["foreign_groups"] == ["pqos-1", "theirs"]
    released = agent.command("release")
    assert released.returncode == 0, released.stderr
    assert groups(agent.resctrl) == {"theirs", "pqos-1"}
    assert "L3:0=003;1=003" in (agent.resctrl / "theirs/schemata").read_text()
    assert (agent.resctrl / "theirs/mon_groups/m").is_dir()


def test_holders_of_every_closid_are_named_at_the_start_as_in_intel_cmt_cat_248(tmp_path, emulated, tree):
    resctrl = emulated("xeon-2s")
    for number in range(7):  # the root group and these hold the eight that bandwidth allocation has
        (resctrl / f"COS{number + 1}").mkdir()
    agent = start_agent(tmp_path, resctrl, policy(tree), "--cgroup", str(V2_MOUNT))
    assert agent.process.wait(DEADLINE_S) == 1
    assert "COS1, COS2, COS3" in agent.log_file.read_text()
    assert agent.log("closids exhausted")
    assert groups(resctrl) == {f"COS{number + 1}" for number in range(7)}


def test_an_update_moves_every_process_and_leaves_no_group_behind_as_in_runc_4827(tree, start):
    tree.make("batch")
    children = [tree.start(IDLE_THREADS) for _ in range(3)]
    for child in children:
        tree.attach("batch", child.pid)
    with start(policy(tree)) as agent:
        until(in_group(agent, "batch", tree, "batch"), "all are in batch")
        agent.follow(policy(tree).replace("batch: {l3", "other: {l3").replace("class: batch", "class: other"))
        assert tree.threads("batch") <= agent.tasks("other")
        until(lambda: groups(agent.resctrl) == {"latency", "other"}, "the class that left has no group any more")


def test_apply_does_what_it_says_or_fails_as_in_youki_3680(tmp_path, emulated, tree, start):
    with start(policy(tree)) as agent:
        pass
    agent.write_policy(policy(tree).replace("20%", "50%"))
    assert agent.command("plan", "--exit-code").returncode == 3
    assert agent.command("apply").returncode == 0
    assert "MB:0= 50" in (agent.resctrl / "batch/schemata").read_text()
    assert agent.command("plan", "--exit-code").returncode == 0
    (agent.resctrl / "extra").mkdir()
    agent.write_policy(policy(tree).replace("latency: {l3: 30-100%}", "latency: {}\n  extra: {mb: 50%}"))
    failed = agent.command("apply")
    assert failed.returncode == 1
    assert 'group "extra" exists and the agent did not create it' in failed.stderr


def test_nothing_waits_for_the_audit_as_in_koordinator_1798(tree, start):
    with start(policy(tree), "--audit-interval", "3600") as agent:
        tree.make("batch/pod")
        child = tree.start(IDLE_THREADS)
        tree.attach("batch/pod", child.pid)
        until(in_group(agent, "batch", tree, "batch/pod"), "placed by the event alone")


def test_the_end_does_not_depend_on_what_started_first_as_in_tuned_367(tree, start):
    for name in ("batch", "latency"):
        tree.make(name)
    early = tree.start(IDLE_THREADS)
    tree.attach("batch", early.pid)
    with start(policy(tree)) as agent:
        late = tree.start(IDLE_THREADS)
        tree.attach("latency", late.pid)
        until(in_group(agent, "batch", tree, "batch"), "early is placed")
        until(in_group(agent, "latency", tree, "latency"), "late is placed")
        before = state(agent)
    with start(policy(tree)) as agent:
        assert state(agent) == before


def test_plan_is_a_dry_run_as_wished_for_in_earlyoom_154(tmp_path, emulated, tree, start):
    tree.make("batch")
    child = tree.start(IDLE_THREADS)
    tree.attach("batch", child.pid)
    with start(policy(tree).replace("class: batch", "class: latency")) as agent:
        pass
    before = state(agent)
    agent.write_policy(policy(tree).replace("20%", "70%"))
    changes = json.loads(agent.command("plan", "--output", "json").stdout)["changes"]
    assert {"action": "move-tasks", "group": "batch", "count": 4} in changes
    assert {
        "action": "write-schemata",
        "group": "batch",
        "resource": "MB",
        "domain": 0,
        "from": "20",
        "to": "70",
    } in changes
    assert state(agent) == before


def test_a_rule_that_cannot_match_is_never_skipped_silently_as_in_libcgroup_510(tree, start):
    below = tree.cgroup("batch/below")
    text = policy(tree) + (
        f"  - {{class: latency, when: {{cgroup: {below}}}, name: shadowed}}\n"
        f"  - {{class: latency, when: {{user: no-such-user}}, name: nobody}}\n"
    )
    with start(text) as agent:
        check = agent.command("check")
        warned = [record for record in agent.log() if record["level"] == "warning"]
    assert check.returncode == 0
    assert 'rule "shadowed" can never match: ' in check.stderr
    assert 'this machine has no user "no-such-user"' in check.stderr
    assert any('rule "shadowed" can never match: ' in record["event"] for record in warned)
    assert any(record.get("user") == "no-such-user" for record in warned)


def test_nothing_wakes_an_idle_agent_as_in_ananicy_58_and_73(tree, start):
    """Other activity on this machine may, so that one quiet window is looked for."""
    tree.make("batch")
    child = tree.start(IDLE_THREADS)
    tree.attach("batch", child.pid)
    with start(policy(tree), "--audit-interval", "3600") as agent:
        until(in_group(agent, "batch", tree, "batch"), "the agent is done")
        window = QuietWindow(agent.process.pid)
        until(lambda: window.lasted_s() >= 2.0, "2 s in which no thread of the agent ran", deadline_s=30.0)


class QuietWindow:
    """For how long no thread of a process has been woken."""

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._before: list[str] = []
        self._since = time.monotonic()

    def lasted_s(self) -> float:
        now = [
            line
            for status in sorted(self._tasks.glob("*/status"))
            for line in status.read_text().splitlines()
            if line.startswith(("Pid:", "voluntary_ctxt_switches:"))
        ]
        if now != self._before:
            self._before, self._since = now, time.monotonic()
        return time.monotonic() - self._since


def test_drift_is_put_right_and_told_of(tree, start):
    with start(policy(tree), "--audit-interval", "0.2") as agent:
        (agent.resctrl / "batch/schemata").write_text("L3:0=7ff\n")
        (record,) = agent.wait_for("drift corrected")
        assert record["group"] == "batch"
        assert "L3:0=00f;1=00f" in (agent.resctrl / "batch/schemata").read_text()
        (agent.resctrl / "batch").rmdir()
        until(lambda: "batch" in groups(agent.resctrl), "the group is made again")
        tree.make("batch")
        child = tree.start(IDLE_THREADS)
        tree.attach("batch", child.pid)
        until(in_group(agent, "batch", tree, "batch"), "and works")


def test_a_group_that_is_removed_is_made_again_when_it_is_needed(tree, start):
    tree.make("batch")
    with start(policy(tree), "--audit-interval", "3600") as agent:
        first = tree.start(IDLE_THREADS)
        tree.attach("batch", first.pid)
        until(in_group(agent, "batch", tree, "batch"), "the first is placed")
        (agent.resctrl / "batch").rmdir()
        second = tree.start(IDLE_THREADS)
        tree.attach("batch", second.pid)
        until(lambda: tree.threads("batch") <= agent.tasks("batch"), "both are placed")


def test_placing_does_not_wait_for_a_lock_that_somebody_holds(tree, start):

    tree.make("batch")
    with start(policy(tree)) as agent:
        root = os.open(agent.resctrl, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(root, fcntl.LOCK_EX)
        agent.write_policy(policy(tree).replace("20%", "60%"))
        child = tree.start(IDLE_THREADS)
        tree.attach("batch", child.pid)
        until(in_group(agent, "batch", tree, "batch"), "placed while the lock is held", 3.0)
        assert "MB:0= 20" in (agent.resctrl / "batch/schemata").read_text()
        os.close(root)
        until(lambda: "MB:0= 60" in (agent.resctrl / "batch/schemata").read_text(), "the policy follows")


def test_threads_leave_though_another_class_has_left_the_policy(tree, start):
    for name in ("batch", "latency"):
        tree.make(name)
    child = tree.start(IDLE_THREADS)
    with start(policy(tree)) as agent:
        tree.attach("batch", child.pid)
        until(in_group(agent, "batch", tree, "batch"), "in batch")
        lines = policy(tree).splitlines(keepends=True)
        agent.follow("".join(line for line in lines if "latency" not in line))
        until(lambda: groups(agent.resctrl) == {"batch"}, "the other group has gone")
        tree.leave(child.pid)
        until(lambda: child.pid in agent.tasks(""), "the process is in the root group")
        assert not agent.log("partial")


def test_what_the_agent_gave_back_is_none_of_its_business_any_more(tree, start):
    with start(policy(tree).replace("default: true", "default: true, l3: 50-100%"), "--audit-interval", "0.2") as agent:
        assert "L3:0=7c0" in (agent.resctrl / "schemata").read_text()
        agent.follow("".join(line for line in policy(tree).splitlines(keepends=True) if "system" not in line))
        until(lambda: "L3:0=7ff" in (agent.resctrl / "schemata").read_text(), "the root group has everything again")
        (agent.resctrl / "schemata").write_text("L3:0=ff\n")
        (agent.resctrl / "batch/schemata").write_text("L3:0=1\n")
        agent.wait_for("drift corrected")
        assert "L3:0=0ff" in (agent.resctrl / "schemata").read_text()


def test_losing_the_state_directory_costs_nothing_but_the_right_to_remove(tmp_path, tree, start):
    tree.make("batch")
    with start(policy(tree)):
        pass
    shutil.rmtree(tmp_path / "state")
    with start(policy(tree)) as agent:
        child = tree.start(IDLE_THREADS)
        tree.attach("batch", child.pid)
        until(in_group(agent, "batch", tree, "batch"), "in batch")
    assert agent.command("release").returncode == 0
    assert {"batch", "latency"} <= groups(agent.resctrl)


def test_a_remount_puts_the_last_good_policy_in_force_though_the_file_is_broken(tmp_path, tree):
    place = tmp_path / "resctrl"
    with ExitStack() as first:
        first.enter_context(emulator_at(place, "xeon-2s", "6.12"))
        agent = start_agent(tmp_path, place, policy(tree), "--cgroup", str(V2_MOUNT))
        agent.wait_for("started")
        agent.write_policy(policy(tree).replace("20%", "200%"))
        agent.wait_for("policy refused")
    try:
        agent.wait_for("resctrl is gone, waiting for it to be mounted again")
        with emulator_at(place, "xeon-2s", "6.12"):
            until(lambda: groups(place) == {"batch", "latency"}, "the classes have their groups again")
            until(lambda: "MB:0= 20" in (place / "batch/schemata").read_text(), "and their limits")
            agent.write_policy(policy(tree).replace("20%", "40%"))
            until(lambda: "MB:0= 40" in (place / "batch/schemata").read_text(), "the mended file is followed")
    finally:
        agent.stop()
