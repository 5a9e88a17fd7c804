"""Pods of a real kubelet, init containers and sidecars included, are in their class's group before they run.

Needs a kubelet with static pods, the cgroupfs driver and an image ``docker.io/local/busybox:1`` of busybox alone.
RESCTRL_AGENT_KUBELET names the directory of its static pods' manifests; without it there is nothing to test here:

    RESCTRL_AGENT_KUBELET=/etc/kubernetes/manifests pytest tests/kubernetes
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.emulated.cgroup_tree import V1_MOUNT, V2_MOUNTS
from tests.emulated.conftest import emulated
from tests.emulated.running_agent import running_agent, until
from tests.emulated.witness import Witness

__all__ = ["emulated"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.bpf,
    pytest.mark.skipif("RESCTRL_AGENT_KUBELET" not in os.environ, reason="no kubelet was named"),
]

POLICY = """\
version: 1
classes:
  batch: {l3: 0-30%, mb: 20%}
  shared: {l3: 30-60%}
  system: {default: true}
rules:
  - {class: batch, when: {kubernetes: {qos: besteffort}}}
  - {class: shared, when: {kubernetes: {qos: burstable}}}
"""

PODS = 20
START_S = 300.0
"""For all pods to run, on a machine that emulates nothing but is busy."""

INIT_PROGRAM = "/bin/../bin/sh"
PROGRAM = "/bin/./sh"
"""The same shell by names that nothing else on the machine uses."""

MOUNT = next(mount for mount in (V2_MOUNTS[0], V1_MOUNT, *V2_MOUNTS) if (mount / "cgroup.procs").exists())


@pytest.fixture
def manifests() -> Iterator[Path]:
    directory = Path(os.environ["RESCTRL_AGENT_KUBELET"])
    yield directory
    for manifest in directory.glob("resctrl-agent-test-*.json"):
        manifest.unlink()
    until(lambda: not pods("besteffort") | pods("burstable"), "the pods have gone", START_S)


def manifest(number: int) -> dict[str, object]:
    resources = {"requests": {"cpu": "10m"}} if number % 4 == 3 else {}

    def container(name: str, program: str, script: str) -> dict[str, object]:
        image = {"image": "docker.io/local/busybox:1", "imagePullPolicy": "Never"}
        return {"name": name, **image, "command": [program, "-c", script], "resources": resources}

    spec = {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "initContainers": [container("init", INIT_PROGRAM, "sleep 0.2 & wait")],
        "containers": [
            container("main", PROGRAM, "sleep 3600 & sleep 3600 & wait"),
            container("sidecar", PROGRAM, "sleep 3600 & wait"),
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"resctrl-agent-test-{number}"}, "spec": spec}


def pods(qos: str) -> set[Path]:
    return set((MOUNT / "kubepods" / qos).glob("pod*"))


def threads(pod: Path) -> set[int]:
    name = "tasks" if (MOUNT / "tasks").exists() else "cgroup.threads"
    found: set[int] = set()
    for directory, _, _ in os.walk(pod):
        found |= {int(tid) for tid in (Path(directory) / name).read_text().split()}
    return found


def test_pods_of_a_kubelet_are_placed_before_their_programs_run_as_koordinator_does_not_for_init_containers(
    tmp_path: Path, emulated: Callable[..., Path], manifests: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resctrl = emulated("xeon-2s")
    with running_agent(tmp_path, resctrl, POLICY) as agent, Witness(agent.process.pid) as witness:
        for number in range(PODS):
            file = manifests / f"resctrl-agent-test-{number}.json"
            file.with_suffix(".new").write_text(json.dumps(manifest(number)))
            file.with_suffix(".new").rename(file)

        def started(program: str) -> int:
            witness.read()
            return sum(exec_.program == program for exec_ in witness.execs)

        until(lambda: started(PROGRAM) == 2 * PODS, "every container has run its program", START_S)
        assert started(INIT_PROGRAM) == PODS
        assert len(pods("besteffort")) + len(pods("burstable")) == PODS

        def misplaced() -> set[int]:
            wanted = [(pod, "batch") for pod in pods("besteffort")] + [(pod, "shared") for pod in pods("burstable")]
            return set().union(*(threads(pod) - agent.tasks(group) for pod, group in wanted))

        until(lambda: not misplaced(), "no thread of a pod is elsewhere")
        total = sum(len(threads(pod)) for pod in pods("besteffort") | pods("burstable"))
    ahead_us = [
        (exec_.time_ns - witness.placed_ns.get(exec_.pid, witness.born_ns[exec_.pid])) / 1000
        for exec_ in witness.execs
        if exec_.program in (PROGRAM, INIT_PROGRAM)
    ]
    with capsys.disabled():
        print(
            f"\n{PODS} pods, {len(ahead_us)} containers ({PODS} of them init containers) in their group before exec by "
            f"at least {min(ahead_us):.0f} µs, median {median(ahead_us):.0f} µs; {total} threads, none misplaced"
        )
    assert min(ahead_us) > 0
