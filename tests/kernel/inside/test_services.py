"""Whatever way systemd starts a unit, each of its threads ends in the group of its class, and nothing else does."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulated.running_agent import until
from tests.kernel.inside.guest_agent import GuestAgent
from tests.kernel.inside.programs import began_in
from tests.kernel.inside.systemd import Units, unit_files, units
from tests.kernel.inside.whereabouts import CGROUPS, DEADLINE_S, await_placed, processes_in, threads_in

POLICY = """\
version: 1
classes:
  batch: {l3: 0-30%, mb: 20%}
  latency: {l3: 30-100%}
  system: {default: true}
rules:
  - {class: latency, when: {unit: "serving*.service"}}
  - {class: batch, when: {unit: [batch.slice, "batch-*.scope", "crunching*.service"]}}
  - {class: latency, when: {cgroup: "/user.slice/user-0.slice/user@0.service/app.slice/serving.service"}}
"""

THREADS, CHILDREN = 3, 2
ALL_THREADS = THREADS * (1 + CHILDREN)
MANY_THREADS = 200


@pytest.fixture(scope="module")
def command(worker: Path) -> str:
    return f"{worker} {THREADS} {CHILDREN}"


@pytest.fixture(scope="module", autouse=True)
def files(command: str, worker: Path) -> Iterator[None]:
    texts = {
        "serving.service": f"[Service]\nExecStart={command}\n",
        "serving-daemon.service": f"[Service]\nType=forking\nExecStart={command} daemon\n",
        "serving-in-steps.service": (
            f"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStartPre={command} daemon\n"
            f"ExecStart={command} daemon\nExecStart={command} daemon\nExecStart=/bin/true\n"
        ),
        "serving@.service": f"[Service]\nExecStart={command}\n",
        "serving-many.service": f"[Service]\nExecStart={worker} {MANY_THREADS} 1\n",
        "serving-apart.service": f"[Service]\nDelegate=yes\nSlice=batch.slice\nExecStart={command}\n",
        "bystander.service": f"[Service]\nExecStart={command}\n",
        "crunching.service": f"[Service]\nDelegate=yes\nExecStart={command}\n",
        "user@0.service.d/no-login.conf": "[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/0\n",
    }
    with unit_files(texts):
        yield


@pytest.fixture
def system() -> Iterator[Units]:
    with units() as made:
        yield made


def test_a_simple_service_is_placed_and_another_is_left_alone(agent: GuestAgent, system: Units) -> None:
    system.start("serving.service", "bystander.service")
    expected = {"/system.slice/serving.service": ALL_THREADS}
    await_placed(agent, {"latency": expected, "batch": {}, "": {"/system.slice/bystander.service": ALL_THREADS}})


def test_a_daemon_that_forks_is_placed(agent: GuestAgent, system: Units) -> None:
    system.start("serving-daemon.service")
    await_placed(agent, {"latency": {"/system.slice/serving-daemon.service": ALL_THREADS}})


def test_every_command_of_a_oneshot_service_is_placed(agent: GuestAgent, system: Units) -> None:
    system.start("serving-in-steps.service")
    await_placed(agent, {"latency": {"/system.slice/serving-in-steps.service": 3 * ALL_THREADS}})


def test_instances_of_a_template_are_placed(agent: GuestAgent, system: Units) -> None:
    system.start("serving@1.service", "serving@two.service")
    slice_ = "/system.slice/system-serving.slice"
    expected = {f"{slice_}/serving@1.service": ALL_THREADS, f"{slice_}/serving@two.service": ALL_THREADS}
    await_placed(agent, {"latency": expected})


def test_a_service_that_makes_many_threads_at_its_start_is_placed(agent: GuestAgent, system: Units) -> None:
    system.start("serving-many.service")
    await_placed(agent, {"latency": {"/system.slice/serving-many.service": 2 * MANY_THREADS}})


def test_a_transient_service_is_placed(agent: GuestAgent, system: Units, command: str) -> None:
    system.run("serving-now.service", *command.split())
    await_placed(agent, {"latency": {"/system.slice/serving-now.service": ALL_THREADS}, "batch": {}})


def test_a_scope_is_placed_though_the_process_that_becomes_it_was_there_before(
    agent: GuestAgent, system: Units, command: str
) -> None:
    process = system.run_scope("batch-now.scope", *command.split())
    await_placed(agent, {"batch": {"/system.slice/batch-now.scope": ALL_THREADS}, "latency": {}})
    system.stop("batch-now.scope")
    process.wait(DEADLINE_S)


def test_a_service_in_a_slice_below_a_matching_slice_is_placed(agent: GuestAgent, system: Units, command: str) -> None:
    system.run("nested.service", "--slice=batch-night-long.slice", *command.split())
    nested = "/batch.slice/batch-night.slice/batch-night-long.slice/nested.service"
    await_placed(agent, {"batch": {nested: ALL_THREADS}, "latency": {}})


def test_a_service_with_a_class_of_its_own_is_placed_there_though_its_slice_has_another(
    agent: GuestAgent, system: Units, command: str
) -> None:
    system.start("serving-apart.service")
    system.run("beside.service", "--slice=batch.slice", *command.split())
    expected = {"/batch.slice/serving-apart.service": ALL_THREADS}
    await_placed(agent, {"latency": expected, "batch": {"/batch.slice/beside.service": ALL_THREADS}})


def test_properties_set_while_it_runs_move_nothing_out_of_its_group(agent: GuestAgent, system: Units) -> None:
    system.start("serving.service", "bystander.service")
    for setting in ("CPUWeight=50", "AllowedCPUs=0-1", "TasksMax=300", "AllowedCPUs="):
        system.systemctl("set-property", "--runtime", "serving.service", setting)
        expected = {"/system.slice/serving.service": ALL_THREADS}
        await_placed(agent, {"latency": expected, "": {"/system.slice/bystander.service": ALL_THREADS}})
    system.systemctl("revert", "serving.service")


def test_a_process_that_systemd_moves_to_another_unit_follows_that_unit(agent: GuestAgent, system: Units) -> None:
    system.start("serving-apart.service", "crunching.service")
    await_placed(
        agent,
        {
            "latency": {"/batch.slice/serving-apart.service": ALL_THREADS},
            "batch": {"/system.slice/crunching.service": ALL_THREADS},
        },
    )
    moved = min(processes_in("/batch.slice/serving-apart.service") - {system.main_pid("serving-apart.service")})
    (CGROUPS / "system.slice/crunching.service/guests").mkdir()
    attach_process("crunching.service", "/guests", moved)
    await_placed(
        agent,
        {
            "latency": {"/batch.slice/serving-apart.service": ALL_THREADS - THREADS},
            "batch": {"/system.slice/crunching.service": ALL_THREADS + THREADS},
        },
    )
    assert len(threads_in("/system.slice/crunching.service/guests")) == THREADS


def attach_process(unit: str, below: str, pid: int) -> None:
    manager = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
    arguments = ("AttachProcessesToUnit", "ssau", unit, below, "1", str(pid))
    subprocess.run(["busctl", "call", "--quiet", *manager, *arguments], check=True)


def test_a_unit_stopped_and_started_again_is_placed_again(agent: GuestAgent, system: Units) -> None:
    expected = {"latency": {"/system.slice/serving.service": ALL_THREADS}, "batch": {}}
    system.start("serving.service")
    await_placed(agent, expected)
    system.stop("serving.service")
    await_placed(agent, {"latency": {}, "batch": {}})
    system.start("serving.service")
    await_placed(agent, expected)
    before = system.main_pid("serving.service")
    system.systemctl("kill", "--signal=KILL", "serving.service")
    system.systemctl("restart", "serving.service")
    assert system.main_pid("serving.service") != before
    await_placed(agent, expected)


def test_a_unit_of_a_user_s_own_service_manager_is_placed(agent: GuestAgent, system: Units, command: str) -> None:
    Path("/run/user/0").mkdir(parents=True, exist_ok=True)
    system.start("user@0.service")
    users = Units(scope=("--user",), environment={"XDG_RUNTIME_DIR": "/run/user/0"})
    users.run("serving.service", *command.split())
    users.run("other.service", *command.split())
    apps = "/user.slice/user-0.slice/user@0.service/app.slice"
    expected = {"latency": {f"{apps}/serving.service": ALL_THREADS}, "": {f"{apps}/other.service": ALL_THREADS}}
    await_placed(agent, {**expected, "batch": {}})


def test_a_service_s_program_begins_in_some_group_and_ends_in_its_own(agent: GuestAgent, system: Units) -> None:
    """Where it began depends on who was quicker, on this machine; that it is known at all is what is shown."""
    system.start("serving.service")
    await_placed(agent, {"latency": {"/system.slice/serving.service": ALL_THREADS}})
    assert began_in(system.main_pid("serving.service")) in {"", "latency"}


def test_nothing_is_misplaced_by_the_agent_s_own_account(agent: GuestAgent, system: Units, command: str) -> None:
    system.start("serving.service", "serving-daemon.service", "crunching.service")
    expected = ("/system.slice/serving.service", "/system.slice/serving-daemon.service")
    await_placed(
        agent,
        {
            "latency": dict.fromkeys(expected, ALL_THREADS),
            "batch": {"/system.slice/crunching.service": ALL_THREADS},
        },
    )
    status = agent.status()
    assert status["misplaced"] == 0
    assert status["event_source"] == "bpf"
    by_name = {each["name"]: each for each in status["classes"]}
    assert by_name["latency"]["threads"] == 2 * ALL_THREADS
    assert by_name["batch"]["threads"] == ALL_THREADS
    assert until(lambda: os.getpid() in agent.tasks(""), "this test is in the root group")
