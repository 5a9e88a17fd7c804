"""Real-time priority while events are handled, and not while everything is looked at."""

import subprocess
import sys

SCRIPT = """
import os, sys
from agent.service.urgency import Urgency

def policy():
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK

urgency = Urgency()
urgency.take()
print(policy() == os.SCHED_RR)
if sys.argv[1] == "unprivileged":
    os.setresuid(65534, 65534, 65534)
with urgency.set_aside():
    print(policy() == os.SCHED_OTHER)
print(policy() == os.SCHED_RR)
"""


def run(privileges: str, *under: str) -> list[str]:
    command = [*under, sys.executable, "-c", SCRIPT, privileges]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_events_are_urgent_and_full_passes_are_not():
    assert run("privileged") == ["True", "True", "True"]


def test_setting_it_aside_takes_no_privilege_as_in_the_service_that_has_only_a_limit():
    """The unit has LimitRTPRIO=1 and no CAP_SYS_NICE, which giving up reset-on-fork would take."""
    assert run("unprivileged")[:2] == ["True", "True"]


def test_where_it_is_not_granted_nothing_fails():
    assert run("privileged", "setpriv", "--bounding-set=-sys_nice") == ["False", "True", "False"]
