"""However the policy file changes, the machine follows, or keeps what it has and says why."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.emulated.running_agent import Agent, running_agent, until

pytestmark = [pytest.mark.root, pytest.mark.bpf]


def policy(bandwidth: int) -> str:
    return f"""\
version: 1
classes:
  batch: {{l3: 0-30%, mb: {bandwidth}%}}
rules:
  - {{class: batch, when: {{cgroup: /no-such-cgroup}}}}
"""


BROKEN = policy(20).replace("20%", "200%")


@pytest.fixture
def agent(tmp_path: Path, emulated: Callable[..., Path]) -> Iterator[Agent]:
    with running_agent(tmp_path, emulated("xeon-2s"), policy(10)) as running:
        yield running


def bandwidth(agent: Agent) -> int:
    lines = (agent.resctrl / "batch/schemata").read_text().splitlines()
    return int(next(line for line in lines if "MB:" in line).split("0=")[1].split(";")[0])


def follows(agent: Agent, wanted: int) -> None:
    until(lambda: bandwidth(agent) == wanted, f"bandwidth is {wanted} %")


def keeps(agent: Agent, wanted: int, refusals: int = 1) -> str:
    """The policy is refused and what was in force still is; returns what was said."""
    said: str = agent.wait_for("policy refused", refusals)[-1]["problems"]
    assert bandwidth(agent) == wanted
    return said


def test_a_save_in_place_is_followed(agent):
    agent.policy.write_text(policy(30))
    follows(agent, 30)


def test_a_save_by_rename_is_followed(agent):
    agent.write_policy(policy(40))
    follows(agent, 40)


def test_an_editor_that_leaves_a_backup_is_followed(agent):
    agent.policy.rename(agent.policy.with_name("policy.yaml~"))
    agent.policy.write_text(policy(50))
    follows(agent, 50)


def test_a_symlink_that_is_swapped_as_kubernetes_does_it_is_followed(tmp_path, emulated):
    volume = tmp_path / "volume"
    for version, percent in (("..1", 20), ("..2", 60)):
        (volume / version).mkdir(parents=True)
        (volume / version / "policy.yaml").write_text(policy(percent))
    (volume / "..data").symlink_to("..1")
    (volume / "policy.yaml").symlink_to("..data/policy.yaml")
    with running_agent(tmp_path, emulated("xeon-2s"), policy(10), "--policy", str(volume / "policy.yaml")) as agent:
        assert bandwidth(agent) == 20
        (volume / "..new").symlink_to("..2")
        (volume / "..new").rename(volume / "..data")
        follows(agent, 60)
        shutil.rmtree(volume / "..1")
        (volume / "..2" / "policy.yaml").write_text(policy(70))
        follows(agent, 70)


def test_a_policy_that_is_removed_stays_in_force_and_is_followed_when_it_is_put_back_as_in_auto_cpufreq_489(agent):
    agent.policy.unlink()
    assert "policy.yaml" in keeps(agent, 10)
    agent.policy.write_text(policy(80))
    follows(agent, 80)


def test_a_broken_policy_changes_nothing_and_is_told_of_once_as_in_opensnitch_1602(agent):
    agent.write_policy(BROKEN)
    said = keeps(agent, 10)
    assert said.startswith('policy.yaml:3:26: error: class "batch": mb "200%" is more than 100 %')
    assert said.splitlines()[-1].index("^") == said.splitlines()[-2].index("200%")
    status = json.loads(agent.command("status", "--output", "json").stdout)
    assert status["daemon"]["policy_ok"] is False
    assert len(agent.log("policy accepted")) == 1, "that of the start"
    agent.write_policy(policy(90))
    follows(agent, 90)
    assert len(agent.log("policy refused")) == 1


def test_nothing_is_applied_from_a_file_that_is_half_written(agent):
    whole = policy(30) + "  - {class: batch, when: {cgroup: /other}}\n"
    half = len(policy(30))
    with agent.policy.open("w") as file:
        file.write(whole[:half])  # a valid policy, as it happens
        file.flush()
        (agent.policy.parent / "policy.d").mkdir()
        (agent.policy.parent / "policy.d" / "noise.txt").write_text("something else happens in the directory")
        agent.policy.chmod(0o640)
        assert len(agent.log("policy accepted")) == 1
        file.write(whole[half:])
    _, accepted = agent.wait_for("policy accepted", 2)
    assert accepted["rules"] == 2
    follows(agent, 30)


def test_drop_ins_come_and_go(agent):
    drop_ins = agent.policy.parent / "policy.d"
    drop_ins.mkdir()
    (drop_ins / "10-more.yaml").write_text("classes: {more: {mb: 70%}}\n")
    until((agent.resctrl / "more").exists, "the class of the drop-in has a group")
    (drop_ins / "10-more.yaml").unlink()
    until(lambda: not (agent.resctrl / "more").exists(), "the class has gone with its file")


def test_a_policy_that_others_may_write_is_refused_until_that_is_mended(agent):
    agent.policy.write_text(policy(20))
    follows(agent, 20)
    agent.policy.chmod(0o666)
    keeps(agent, 20)
    agent.policy.write_text(policy(30))
    agent.policy.chmod(0o644)
    follows(agent, 30)


def test_a_policy_that_this_machine_cannot_keep_is_refused(agent):
    classes = "".join(f"  c{n}: {{}}\n" for n in range(16))
    agent.write_policy(policy(20).replace("rules:", f"{classes}rules:"))
    assert "one too many" in keeps(agent, 10)
    assert not (agent.resctrl / "c0").exists()


def test_reloads_leave_no_descriptors_behind_as_in_tuned_724(agent):
    def descriptors() -> int:
        return len(list(Path(f"/proc/{agent.process.pid}/fd").iterdir()))

    agent.follow(policy(20))
    before = descriptors()
    for percent in (30, 40, 50, 60, 70):
        agent.follow(policy(percent))
    assert descriptors() <= before
