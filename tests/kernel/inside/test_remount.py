"""resctrl that is unmounted under the running agent, and mounted again: all that was in force is in force again.

A plain ``umount`` is refused while the agent has files of the mount open, so these are ``umount --lazy``: the kernel
resets groups and limits when the agent has let go, and only then takes another mount.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.resctrl.schemata import parse
from tests.emulated.running_agent import environment, until
from tests.kernel.inside.cpus import offline
from tests.kernel.inside.guest_agent import NO_AUDIT, RESCTRL, GuestAgent, guest_agent
from tests.kernel.inside.systemd import Units, units
from tests.kernel.inside.whereabouts import DEADLINE_S, await_placed

POLICY = """\
version: 1
resctrl: {bandwidth_capacity: 10GB/s}
classes:
  batch: {l3: {default: "0x3", 1: "0xc"}, mb: 20%}
rules:
  - {class: batch, when: {unit: crunching.service}}
"""

THREADS, CHILDREN = 3, 2
PLACED = {"batch": {"/system.slice/crunching.service": THREADS * (1 + CHILDREN)}}

MASKS = {0: 0x3, 1: 0xC}
USUAL = {"MB": {0: 20, 1: 20}, "L3": MASKS}

GONE = "resctrl is gone, waiting for it to be mounted again"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestAgent]:
    with guest_agent(tmp_path_factory.mktemp("agent"), POLICY, *NO_AUDIT, errors=frozenset({GONE})) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def crunching(worker: Path) -> Iterator[Units]:
    with units() as system:
        system.run("crunching.service", worker, str(THREADS), str(CHILDREN))
        yield system


def mount(*options: str) -> bool:
    asked = [f"-o{','.join(options)}"] if options else []
    return subprocess.run(["mount", "-t", "resctrl", *asked, "resctrl", RESCTRL], check=False).returncode == 0


def unmount(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["umount", *options, RESCTRL], capture_output=True, text=True, check=False)


def remount(*options: str) -> None:
    """As soon as the kernel takes it: when the agent has let go."""
    assert unmount("--lazy").returncode == 0
    until(lambda: mount(*options), "it is mounted again", DEADLINE_S)


def limits(group: str) -> dict[str, dict[int, int]]:
    return {resource: dict(values) for resource, values in parse((RESCTRL / group / "schemata").read_text()).items()}


def await_in_force(agent: GuestAgent, wanted: dict[str, dict[int, int]]) -> None:
    until(lambda: (RESCTRL / "batch").is_dir() and limits("batch") == wanted, f"limits {wanted}", DEADLINE_S)
    await_placed(agent, PLACED)


def test_a_group_of_the_same_name_on_a_new_mount_is_somebody_elses(tmp_path: Path) -> None:
    """What was remembered of the mount before must not claim it, though inodes begin anew with a mount."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nclasses: {theirs: {l3: 1 ways}}\nrules: []\n")
    places = ["--policy", str(policy), "--resctrl", str(RESCTRL), "--state", str(tmp_path / "state")]

    def command(name: str) -> "subprocess.CompletedProcess[str]":
        line = [sys.executable, "-m", "agent", name, *places]
        return subprocess.run(line, capture_output=True, text=True, check=False, env=environment(tmp_path))

    assert command("apply").returncode == 0
    inode = (RESCTRL / "theirs").stat().st_ino
    assert unmount().returncode == 0
    assert mount()
    (RESCTRL / "theirs").mkdir()
    try:
        assert (RESCTRL / "theirs").stat().st_ino == inode
        refused = command("apply")
        assert refused.returncode == 1
        assert 'group "theirs" exists and the agent did not create it' in refused.stderr
        assert command("release").returncode == 0
        assert (RESCTRL / "theirs").is_dir()
    finally:
        (RESCTRL / "theirs").rmdir()


def test_a_plain_unmount_is_refused_and_changes_nothing(agent: GuestAgent) -> None:
    await_in_force(agent, USUAL)
    refused = unmount()
    assert refused.returncode != 0
    assert "busy" in refused.stderr
    await_in_force(agent, USUAL)
    assert not agent.log(GONE)


def test_all_is_in_force_again_on_a_new_mount(agent: GuestAgent) -> None:
    remount()
    await_in_force(agent, USUAL)


@pytest.mark.parametrize("command", ["status", "plan", "apply", "explain"])
def test_while_it_is_unmounted_commands_say_so_and_what_to_do(agent: GuestAgent, command: str) -> None:
    said_before = len(agent.log(GONE))
    assert unmount("--lazy").returncode == 0
    try:
        agent.wait_for(GONE, said_before + 1)
        ran = agent.command(command, *([str(os.getpid())] if command == "explain" else []))
        assert ran.returncode == 1
        assert ran.stdout == ""
        (line,) = ran.stderr.splitlines()
        assert "/sys/fs/resctrl is no mount of resctrl: mount it (systemctl start sys-fs-resctrl.mount" in line
    finally:
        until(mount, "it is mounted again", DEADLINE_S)
    await_in_force(agent, USUAL)
    assert len(agent.log(GONE)) == said_before + 1


def test_a_mount_that_separates_code_and_data_gets_the_policy_in_its_own_terms(agent: GuestAgent) -> None:
    remount("cdp")
    await_in_force(agent, {"MB": {0: 20, 1: 20}, "L3DATA": MASKS, "L3CODE": MASKS})
    remount()
    await_in_force(agent, USUAL)


def test_a_mount_that_counts_in_mbps_gets_the_policy_in_its_own_terms(agent: GuestAgent) -> None:
    """20 % of 10 GB/s are 1907.3 MiB/s, rounded up."""
    remount("mba_MBps")
    await_in_force(agent, {"MB": {0: 1908, 1: 1908}, "L3": MASKS})
    remount()
    await_in_force(agent, USUAL)


def test_a_domain_that_is_offline_meanwhile_gets_its_limits_when_it_is_back(agent: GuestAgent) -> None:
    with offline(2, 3):
        remount()
        await_in_force(agent, {"MB": {0: 20}, "L3": {0: 0x3}})
    await_in_force(agent, USUAL)
