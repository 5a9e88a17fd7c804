"""CPUs that go offline and come back, and their cache domain with them: what the policy says holds again at once.

The audit is far off, so it is the kernel's event that makes the agent look.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.resctrl.schemata import parse
from tests.emulated.running_agent import until
from tests.kernel.inside.cpus import offline
from tests.kernel.inside.guest_agent import NO_AUDIT, RESCTRL, GuestAgent, guest_agent
from tests.kernel.inside.whereabouts import DEADLINE_S

POLICY = """\
version: 1
classes:
  batch: {l3: {0: "0x3", 1: "0xc"}, mb: {default: 20%, 1: 30%}, cpus: "1,3"}
  alone: {l3: "0xf00", mode: exclusive}
  system: {default: true, l3: "0xff"}
rules: []
"""

L3_AND_MB = {
    "batch": {"MB": {0: 20, 1: 30}, "L3": {0: 0x3, 1: 0xC}},
    "alone": {"MB": {0: 100, 1: 100}, "L3": {0: 0xF00, 1: 0xF00}},
    "": {"MB": {0: 100, 1: 100}, "L3": {0: 0xFF, 1: 0xFF}},
}
"""What the policy says."""

CAME = "Cache domains came online, without limits in any group"
WENT = "Cache domains went offline"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestAgent]:
    directory = tmp_path_factory.mktemp("agent")
    with guest_agent(directory, POLICY, *NO_AUDIT, errors=frozenset({"policy refused"})) as running:
        yield running


def limits(group: str) -> dict[str, dict[int, int]]:
    return {resource: dict(values) for resource, values in parse((RESCTRL / group / "schemata").read_text()).items()}


def of_domain_0(group: str) -> dict[str, dict[int, int]]:
    return {resource: {0: values[0]} for resource, values in L3_AND_MB[group].items()}


def cpus(group: str) -> str:
    return (RESCTRL / group / "cpus_list").read_text().strip()


def mode(group: str) -> str:
    return (RESCTRL / group / "mode").read_text().strip()


def await_in_force() -> None:
    until(lambda: all(limits(group) == wanted for group, wanted in L3_AND_MB.items()), "limits", DEADLINE_S)
    until(lambda: cpus("batch") == "1,3", "batch has its CPUs", DEADLINE_S)
    until(lambda: mode("alone") == "exclusive", "alone is exclusive", DEADLINE_S)


def messages(agent: GuestAgent) -> list[str]:
    return [record["event"] for record in agent.log()]


def test_a_domain_that_comes_back_has_its_limits_again(agent: GuestAgent) -> None:
    await_in_force()
    with offline(2, 3):
        (went,) = agent.wait_for(WENT)
        assert went["which"] == "L3 1, MB 1"
        assert {group: limits(group) for group in L3_AND_MB} == {group: of_domain_0(group) for group in L3_AND_MB}
    await_in_force()
    assert agent.log(CAME)[0]["which"] == "L3 1, MB 1"
    until(lambda: {r["group"] for r in agent.log("hotplug corrected")} == set(L3_AND_MB), "said", DEADLINE_S)
    assert not agent.log("drift corrected")


def test_what_the_policy_says_of_a_domain_that_is_offline_is_warned_of(agent: GuestAgent) -> None:
    said = 'class "batch": L3 has no domain 1 at the moment'
    before = len([m for m in messages(agent) if said in m])
    with offline(2, 3):
        until(lambda: len([m for m in messages(agent) if said in m]) == before + 1, "the warning", DEADLINE_S)
    await_in_force()
    assert not [record for record in agent.log() if record["level"] == "error"]


def test_a_domain_that_goes_and_comes_faster_than_the_agent_looks_has_its_limits_again(agent: GuestAgent) -> None:
    for _ in range(3):
        with offline(2, 3):
            pass
    await_in_force()
    assert not agent.log("drift corrected")


def test_a_cpu_that_comes_back_is_its_classs_again(agent: GuestAgent) -> None:
    with offline(3):
        until(lambda: cpus("batch") == "1", "batch has what is online of its CPUs", DEADLINE_S)
        agent.wait_for("CPUs went offline")
    await_in_force()
    assert not agent.log("drift corrected")


def test_a_reload_while_a_domain_is_offline_changes_nothing_and_loses_nothing(agent: GuestAgent) -> None:
    accepted = len(agent.log("policy accepted"))
    with offline(2, 3):
        until(lambda: limits("batch") == of_domain_0("batch"), "domain 1 is gone", DEADLINE_S)
        agent.write_policy(POLICY)
        agent.wait_for("policy accepted", accepted + 1)
        assert limits("batch") == of_domain_0("batch")
    await_in_force()


def test_a_new_policy_that_names_an_offline_domain_is_refused_until_that_is_back(agent: GuestAgent) -> None:
    another = POLICY.replace('1: "0xc"', '1: "0x8"')
    try:
        with offline(2, 3):
            agent.write_policy(another)
            (refused,) = agent.wait_for("policy refused")
            assert 'class "batch": L3 has no domain 1' in refused["problems"]
            assert limits("batch") == of_domain_0("batch")
        until(lambda: limits("batch")["L3"] == {0: 0x3, 1: 0x8}, "the policy that was refused", DEADLINE_S)
    finally:
        agent.follow(POLICY)
    await_in_force()


def test_what_somebody_did_meanwhile_is_told_apart(agent: GuestAgent) -> None:
    (RESCTRL / "batch/schemata").write_text("L3:0=2\n")
    before = len(agent.log("drift corrected"))
    with offline(2, 3):
        agent.wait_for("drift corrected", before + 1)
    await_in_force()
    assert agent.log("drift corrected")[before]["changes"] == "L3:0 2 → 3"


def test_plan_says_what_is_offline(agent: GuestAgent, tmp_path: Path) -> None:
    with offline(3):
        until(lambda: cpus("batch") == "1", "batch has what is online of its CPUs", DEADLINE_S)
        planned = agent.command("plan", "--output", "json")
        assert json.loads(planned.stdout)["changes"] == []
        assert 'class "batch": not online at the moment: CPU 3' in planned.stderr
    await_in_force()
