from pathlib import Path

import pytest

from agent.cli.machine_text import described, mount_line, one_line
from agent.resctrl.machine import read_machine
from tests.unit.cli.conftest import MACHINES


def test_a_machine_in_one_line():
    assert one_line(read_machine(MACHINES / "xeon-11way")) == (
        "L3 of 11 ways in 2 domains, MB in per cent; 8 CLOSIDs, 176 RMIDs"
    )


def test_a_machine_at_length():
    assert described(read_machine(MACHINES / "xeon-11way")) == [
        "RESOURCE  DOMAINS  CLOSIDS  CAN BE GIVEN",
        "L3        0–1           16  11 ways of 1.25 MiB (mask 7ff), at least 1, 600 shared with other hardware",
        "MB        0–1            8  per cent, 10 to 100 in steps of 10, throttle mode max",
        "control groups: the root group and 7 more",
        "monitoring: 176 RMIDs; llc_occupancy, mbm_total_bytes, mbm_local_bytes",
    ]


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("mba-mbps", "MiB/s, any number"),
        ("cdp", "code and data apart"),
        ("epyc-sparse-ids", "0–7, 16–23"),
        ("epyc-sparse-ids", "masks may have holes"),
        ("epyc-sparse-ids", "1/8 GB/s, 1 to 2048 in steps of 1"),
        ("monitor-only", "nothing can be divided here"),
        ("monitor-only", "control groups: the root group alone"),
        ("l2-only", "monitoring: none"),
        ("haswell-2bits", "at least 2"),
    ],
)
def test_what_is_special_is_said(machine, words):
    assert words in "\n".join(described(read_machine(MACHINES / machine)))


def test_an_emulated_mount_cannot_be_taken_for_a_real_one():
    assert "EMULATED" in mount_line(Path("/mnt"), emulated=True)
    assert mount_line(Path("/sys/fs/resctrl"), emulated=False) == "resctrl at /sys/fs/resctrl"
