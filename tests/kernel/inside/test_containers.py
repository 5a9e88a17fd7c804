"""Containers of runc and crun are placed, whoever makes their cgroups, and whatever is executed in them later."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.inside.containers import PROGRAM, RUNTIMES, Cgroup, Containers, containers
from tests.kernel.inside.guest_agent import GuestAgent
from tests.kernel.inside.programs import began_in
from tests.kernel.inside.whereabouts import await_placed, cgroup_of

POLICY = """\
version: 1
classes:
  batch: {l3: 0-30%, mb: 20%}
  latency: {l3: 30-100%}
  system: {default: true}
rules:
  - {class: batch, when: {kubernetes: {qos: besteffort}}}
  - {class: latency, when: {cgroup: /services}}
"""

THREADS, CHILDREN = 3, 2
ALL_THREADS = THREADS * (1 + CHILDREN)
ARGUMENTS = (str(THREADS), str(CHILDREN))

DRIVERS = {"cgroupfs": Cgroup.by_cgroupfs, "systemd": Cgroup.by_systemd}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, worker: Path) -> Iterator[Containers]:
    with containers(tmp_path_factory.mktemp("containers"), worker) as prepared:
        yield prepared


@pytest.fixture
def started(made: Containers) -> Iterator[Containers]:
    yield made
    made.remove_all()


@pytest.fixture
def name() -> str:
    """An id as containerd makes them."""
    return uuid.uuid4().hex * 2


@pytest.fixture
def pod() -> str:
    return str(uuid.uuid4())


@pytest.fixture(params=DRIVERS)
def cgroup(request: pytest.FixtureRequest, pod: str, name: str) -> Cgroup:
    """Under each driver in turn."""
    return DRIVERS[request.param](pod, name)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_thread_of_a_pod_s_container_is_placed_and_so_is_what_is_executed_in_it(
    agent: GuestAgent, started: Containers, runtime: str, cgroup: Cgroup, name: str
) -> None:
    pid = started.start(runtime, name, cgroup, *ARGUMENTS)
    await_placed(agent, {"batch": {cgroup.path: ALL_THREADS}, "latency": {}})
    assert cgroup_of(pid).startswith(cgroup.path)
    assert began_in(pid) in {"", "batch"}
    started.execute(runtime, name, PROGRAM, *ARGUMENTS)
    await_placed(agent, {"batch": {cgroup.path: 2 * ALL_THREADS}, "latency": {}})


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_container_below_a_cgroup_that_a_rule_names_is_placed(
    agent: GuestAgent, started: Containers, runtime: str, name: str
) -> None:
    path = f"/services/front/{name}"
    started.start(runtime, name, Cgroup(path, path), *ARGUMENTS)
    await_placed(agent, {"latency": {path: ALL_THREADS}, "batch": {}})


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_container_that_no_rule_names_stays_in_the_root_group(
    agent: GuestAgent, started: Containers, runtime: str, name: str
) -> None:
    path = f"/elsewhere/{name}"
    started.start(runtime, name, Cgroup(path, path), *ARGUMENTS)
    await_placed(agent, {"": {path: ALL_THREADS}, "latency": {}, "batch": {}})


def test_a_second_container_of_a_pod_joins_the_first(agent: GuestAgent, started: Containers, pod: str) -> None:
    cgroups = [Cgroup.by_systemd(pod, uuid.uuid4().hex * 2) for _ in RUNTIMES]
    for runtime, cgroup in zip(RUNTIMES, cgroups, strict=True):
        started.start(runtime, cgroup.configured.rpartition(":")[2], cgroup, *ARGUMENTS)
    await_placed(agent, {"batch": {cgroup.path: ALL_THREADS for cgroup in cgroups}, "latency": {}})


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_container_started_anew_under_its_old_name_is_placed_again(
    agent: GuestAgent, started: Containers, runtime: str, pod: str, name: str
) -> None:
    cgroup = Cgroup.by_cgroupfs(pod, name)
    started.start(runtime, name, cgroup, *ARGUMENTS)
    await_placed(agent, {"batch": {cgroup.path: ALL_THREADS}})
    started.remove_all()
    await_placed(agent, {"batch": {}})
    started.start(runtime, name, cgroup, *ARGUMENTS)
    await_placed(agent, {"batch": {cgroup.path: ALL_THREADS}})


def test_nothing_is_misplaced_by_the_agent_s_own_account(
    agent: GuestAgent, started: Containers, pod: str, name: str
) -> None:
    cgroup = Cgroup.by_systemd(pod, name)
    started.start("crun", name, cgroup, *ARGUMENTS)
    await_placed(agent, {"batch": {cgroup.path: ALL_THREADS}})
    status = agent.status()
    assert status["misplaced"] == 0
    assert {each["name"]: each["threads"] for each in status["classes"]}["batch"] == ALL_THREADS
