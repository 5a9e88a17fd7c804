"""What ``check --machine`` gives on each named machine: the masks and values worked out by hand.

A range's first way is ceil(ways × start) and the way after its last ceil(ways × end): on 11 ways 20–60 % is ways
3 to 6. Bandwidth is in steps of 10 % on Intel, eighths of 10⁹ bytes a second on AMD, MiB/s under mba_MBps.
"""

import json

import pytest

from agent.emulator.machines import MACHINES

POLICY = """\
version: 1
resctrl: {bandwidth_capacity: 100GB/s}
classes:
  x: {l3: 20-60%, l2: 3 ways, mb: 25%, optional: [l3, l2, mb]}
  y: {l3: 1%, l2: 90-100%, mb: 10GB/s, optional: [l3, l2, mb]}
  z: {l3: max, optional: [l3]}
"""

TWO, EPYC, FOUR = (0, 1), (*range(8), *range(16, 24)), (0, 1, 2, 3)

EXPECTED = {
    "xeon-2s": {"L3": (TWO, "78", "1", "7ff"), "MB": (TWO, "30", "10", "100")},
    "xeon-icelake-2s": {"L3": (TWO, "f8", "1", "fff"), "MB": (TWO, "30", "10", "100")},
    "epyc-2s": {"L3": (EPYC, "3f0", "1", "ffff"), "MB": (EPYC, "200", "80", "2048")},
    "epyc-abmc": {"L3": (EPYC, "3f0", "1", "ffff"), "MB": (EPYC, "200", "80", "2048")},
    "l2-only": {"L2": (FOUR, "7", "80", "ff")},
    "mba-mbps": {"L3": (TWO, "78", "1", "7ff"), "MB": (TWO, "23842", "9537", "4294967295")},
    "cdp": {
        "L3CODE": (TWO, "78", "1", "7ff"),
        "L3DATA": (TWO, "78", "1", "7ff"),
        "MB": (TWO, "30", "10", "100"),
    },
    "snc2": {"L3": (TWO, "f8", "1", "fff"), "MB": (TWO, "30", "10", "100")},
    "mba-only": {"MB": (TWO, "30", "10", "100")},
}


def test_every_machine_that_can_divide_anything_is_worked_out():
    assert EXPECTED.keys() == MACHINES.keys() - {"monitor-only"}


@pytest.mark.parametrize("machine", EXPECTED)
def test_a_named_machine_gets_exactly_what_the_rules_give(command, policy, machine):
    ran = command("check", "--policy", policy(POLICY), "--machine", machine, "--output", "json")
    found = json.loads(ran.out)
    assert (ran.status, found["ok"]) == (0, True)
    for position, name in enumerate("xyz"):
        wanted = {
            resource: {str(domain): values[position] for domain in domains}
            for resource, (domains, *values) in EXPECTED[machine].items()
        }
        assert found["resolved"][name] == wanted
