"""The agent told that a CPU came online. The emulator has no hotplug, so what it does to groups is written by hand."""

import os
from pathlib import Path

import pytest

from tests.emulated.running_agent import running_agent, until

CPU = Path("/sys/devices/system/cpu/cpu0/uevent")

POLICY = """\
version: 1
classes:
  batch: {l3: 4 ways, mb: 20%, cpus: 1}
rules: []
"""

pytestmark = [
    pytest.mark.bpf,
    pytest.mark.skipif(not os.access(CPU, os.W_OK), reason="/sys is read-only"),
]


def test_limits_that_a_domain_came_back_without_are_put_right_at_once_and_nobody_is_blamed(tmp_path, emulated):
    with running_agent(tmp_path, emulated("xeon-2s"), POLICY, "--audit-interval", "3600") as agent:
        batch = agent.resctrl / "batch"
        before = (batch / "schemata").read_text()
        (batch / "schemata").write_text("MB:1=100\nL3:1=7ff\n")
        (batch / "cpus_list").write_text("\n")
        CPU.write_text("online\n")
        until(lambda: (batch / "schemata").read_text() == before, "limits are in force again")
        (said,) = agent.wait_for("hotplug corrected")
        assert said["group"] == "batch"
        assert said["changes"] == "MB:1 100 → 20; L3:1 7ff → f; cpus none → 1"
        assert (batch / "cpus_list").read_text() == "1\n"
        assert not agent.log("drift corrected")


def test_what_somebody_changes_meanwhile_is_told_apart(tmp_path, emulated):
    with running_agent(tmp_path, emulated("xeon-2s"), POLICY, "--audit-interval", "3600") as agent:
        (agent.resctrl / "batch/schemata").write_text("MB:1=100\nL3:1=1\n")
        CPU.write_text("online\n")
        (by_somebody,) = agent.wait_for("drift corrected")
        assert by_somebody["changes"] == "L3:1 1 → f"
        assert [record["changes"] for record in agent.log("hotplug corrected")] == ["MB:1 100 → 20"]
