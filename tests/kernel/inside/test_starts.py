"""Two hundred services and containers, started some at a time: each of their threads ends in the group of its class."""

import platform
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.inside.containers import Cgroup, Containers, containers
from tests.kernel.inside.guest_agent import GuestAgent
from tests.kernel.inside.programs import began_in
from tests.kernel.inside.systemd import Units, unit_files, units
from tests.kernel.inside.whereabouts import await_placed, processes_in

POLICY = """\
version: 1
classes:
  batch: {l3: 0-30%, mb: 20%}
  latency: {l3: 30-100%}
  system: {default: true}
rules:
  - {class: latency, when: {unit: ["serving*.service", "serving*.scope"]}}
  - {class: batch, when: {kubernetes: {qos: besteffort}}}
"""

TRANSIENT_SERVICES, INSTANCES, SCOPES = 40, 40, 20
OF_EACH_RUNTIME_AND_DRIVER = 25

THREADS, CHILDREN = 2, 1
ALL_THREADS = THREADS * (1 + CHILDREN)

AT_ONCE = 4

CAUSES = ("attached", "cloned_into", "cgroup_made", "fork_raced")


@dataclass(frozen=True, slots=True)
class Start:
    """Something that was started, and where it is."""

    kind: str
    group: str
    cgroup: str


@pytest.fixture
def system(worker: Path) -> Iterator[Units]:
    command = f"{worker} {THREADS} {CHILDREN}"
    with unit_files({"serving@.service": f"[Service]\nExecStart={command}\n"}), units() as made:
        yield made


@pytest.fixture
def started(tmp_path: Path, worker: Path) -> Iterator[Containers]:
    with containers(tmp_path / "containers", worker) as made:
        yield made


def test_none_of_two_hundred_starts_is_misplaced(
    agent: GuestAgent, system: Units, started: Containers, worker: Path, table: Callable[..., None]
) -> None:
    starts = [*start_services(system, worker), *start_containers(started)]
    assert len(starts) == 200
    await_placed(agent, {group: placed_in(group, starts) for group in ("batch", "latency")})
    await_end_of_log(agent, system, worker)
    causes = first_causes(agent, starts)
    rows = [row(kind, [start for start in starts if start.kind == kind], causes) for kind in kinds(starts)]
    table(f"200 starts on kernel {platform.release()}", rows)
    status = agent.status()
    assert status["misplaced"] == 0
    assert {each["name"]: each["workloads"] for each in status["classes"]}["batch"] == 4 * OF_EACH_RUNTIME_AND_DRIVER
    assert not any(causes[start] == "attached" for start in starts if start.kind == "crun, cgroupfs")


def start_services(system: Units, worker: Path) -> Iterable[Start]:
    arguments = (worker, str(THREADS), str(CHILDREN))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        transient = [f"serving-{number}.service" for number in range(TRANSIENT_SERVICES)]
        list(pool.map(lambda unit: system.run(unit, *arguments), transient))
        scopes = [f"serving-{number}.scope" for number in range(SCOPES)]
        list(pool.map(lambda unit: system.run_scope(unit, *arguments, "daemon").wait(), scopes))
    instances = [f"serving@{number}.service" for number in range(INSTANCES)]
    system.start(*instances)
    yield from (Start("systemd-run, service", "latency", f"/system.slice/{unit}") for unit in transient)
    yield from (Start("systemd-run, scope", "latency", f"/system.slice/{unit}") for unit in scopes)
    in_slice = "/system.slice/system-serving.slice"
    yield from (Start("systemctl, instance", "latency", f"{in_slice}/{unit}") for unit in instances)


def start_containers(started: Containers) -> list[Start]:
    arguments = (str(THREADS), str(CHILDREN))
    kinds = [
        (runtime, driver, by_driver)
        for runtime in ("runc", "crun")
        for driver, by_driver in (("cgroupfs", Cgroup.by_cgroupfs), ("systemd", Cgroup.by_systemd))
    ]

    def start(kind: tuple[str, str, Callable[[str, str], Cgroup]]) -> Start:
        runtime, driver, by_driver = kind
        name = uuid.uuid4().hex * 2
        cgroup = by_driver(str(uuid.uuid4()), name)
        started.start(runtime, name, cgroup, *arguments)
        return Start(f"{runtime}, {driver}", "batch", cgroup.path)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(start, kinds * OF_EACH_RUNTIME_AND_DRIVER))


def placed_in(group: str, starts: Iterable[Start]) -> dict[str, int]:
    return {start.cgroup: ALL_THREADS for start in starts if start.group == group}


def await_end_of_log(agent: GuestAgent, system: Units, worker: Path) -> None:
    """Until the log tells of one more start: then it has told of all before."""
    system.run("serving-last.service", worker, "1", "0")
    placed = {"/system.slice/serving-last.service"}
    count = len(agent.log("placed"))
    while placed - {record["cgroup"] for record in agent.log("placed")}:
        count = len(agent.wait_for("placed", count + 1))


def first_causes(agent: GuestAgent, starts: Iterable[Start]) -> dict[Start, str]:
    """The event that first led to a thread of the start being moved; "inherited" where none had to be."""
    causes: dict[str, str] = {}
    for record in agent.log("placed"):
        causes.setdefault(record["cgroup"], record.get("cause", "looked over again"))

    def of(start: Start) -> str:
        nested = [cause for cgroup, cause in causes.items() if f"{cgroup}/".startswith(f"{start.cgroup}/")]
        return nested[0] if nested else "inherited"

    return {start: of(start) for start in starts}


def row(kind: str, starts: list[Start], causes: dict[Start, str]) -> dict[str, object]:
    counted = Counter(causes[start] for start in starts)
    in_time = sum(began_in(min(processes_in(start.cgroup))) == start.group for start in starts)
    others = sum(count for cause, count in counted.items() if cause not in {*CAUSES, "inherited"})
    return {
        "kind": kind,
        "starts": len(starts),
        **{cause: counted[cause] for cause in (*CAUSES, "inherited")},
        "other": others,
        "in its group as it began": in_time,
    }


def kinds(starts: Iterable[Start]) -> list[str]:
    return list(dict.fromkeys(start.kind for start in starts))
