"""Where threads are: in which cgroup and in which resctrl group, as the kernel says it, without asking the agent."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.emulated.running_agent import Agent

CGROUPS = Path("/sys/fs/cgroup")

DEADLINE_S = 180.0
"""A guest is up to fifty times slower than hardware, and slower still on a busy host: only what never happens takes
so long."""

Expected = Mapping[str, Mapping[str, int]]
"""Group → cgroup → how many threads are in it and below it."""


def threads_in(cgroup: str) -> set[int]:
    """The threads in a cgroup and in all cgroups below it; none where it is gone."""
    found: set[int] = set()
    for directory, _, _ in os.walk(CGROUPS / cgroup.lstrip("/")):
        with suppress(OSError):  # it was removed meanwhile
            found.update(int(tid) for tid in (Path(directory) / "cgroup.threads").read_text().split())
    return found


def processes_in(cgroup: str) -> set[int]:
    """The processes of which there are threads in a cgroup or below it."""
    found: set[int] = set()
    for directory, _, _ in os.walk(CGROUPS / cgroup.lstrip("/")):
        with suppress(OSError):  # as above; or its threads are of processes further up
            found.update(int(pid) for pid in (Path(directory) / "cgroup.procs").read_text().split())
    return found


def group_of(tid: int) -> str | None:
    """The control group of a thread, "" for the root group; None when the thread is gone."""
    try:
        first_line = Path(f"/proc/{tid}/cpu_resctrl_groups").read_text().splitlines()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return first_line.removeprefix("res:").lstrip("/")


def cgroup_of(pid: int) -> str:
    """The cgroup of a process."""
    return Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::")


def differences(agent: Agent, expected: Expected) -> list[str]:
    """What is not as expected: too few or too many threads, one in another group, or one that has no business there."""
    wrong = []
    for group, cgroups in expected.items():
        all_threads: set[int] = set()
        for cgroup, count in cgroups.items():
            threads = threads_in(cgroup)
            if len(threads) != count:
                wrong.append(f"{cgroup} has {len(threads)} threads, not {count}")
            elsewhere = {tid: actual for tid in threads if (actual := group_of(tid)) not in {group, None}}
            if elsewhere:
                wrong.append(f'{cgroup} belongs in "{group}"; elsewhere are {elsewhere}')
            all_threads |= threads
        strangers = agent.tasks(group) - all_threads if group else set()
        if strangers:
            wrong.append(f'in "{group}" are strangers: {[_named(tid) for tid in strangers]}')
    return wrong


def await_placed(agent: Agent, expected: Expected) -> None:
    """Waits until each group holds as many threads of its cgroups as expected, all there are, and no others."""
    end = time.monotonic() + DEADLINE_S
    while wrong := differences(agent, expected):
        if time.monotonic() > end:
            raise AssertionError("\n".join([*wrong, "the agent's log ends:", *_end_of_log(agent)]))
        time.sleep(0.02)


def _named(tid: int) -> str:
    with suppress(OSError):
        return f"{tid} {Path(f'/proc/{tid}/comm').read_text().strip()} in {cgroup_of(tid)}"
    return f"{tid}, gone"


def _end_of_log(agent: Agent) -> list[str]:
    return agent.log_file.read_text().splitlines()[-40:]
