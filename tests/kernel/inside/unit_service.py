"""The installed agent as systemd runs it: what an administrator does with ``systemctl``, and what the journal has."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.emulated.running_agent import until
from tests.kernel.inside.systemd import unit_files
from tests.kernel.inside.whereabouts import DEADLINE_S, group_of, threads_in

AGENT = "resctrl-agent.service"
MOUNT = "sys-fs-resctrl.mount"

COMMAND = Path("/usr/bin/resctrl-agent")
POLICY = Path("/etc/resctrl-agent/policy.yaml")
RESCTRL = Path("/sys/fs/resctrl")
STATE = Path("/var/lib/resctrl-agent")
RECORD = Path("/run/record-of-the-unit")
"""What is worth keeping of a run; the host prints it."""

FEW_CLASSES = """\
version: 1
classes:
  latency: {l3: 30-100%}
  batch: {l3: 0-30%, mb: 40%}
rules:
  - {class: batch, when: {unit: "job-*.service"}, name: jobs}
  - {class: latency, when: {unit: "web-*.service"}}
"""


def systemctl(*arguments: str, status: int = 0) -> str:
    """What it prints, errors too; it must end with ``status``."""
    return called("systemctl", *arguments, status=status)


def called(*command: str, status: int = 0) -> str:
    """What a command prints, errors too; it must end with ``status``."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == status, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}"
    return done.stdout


def property_of(unit: str, name: str) -> str:
    """A property of a unit as ``systemctl show`` has it."""
    return systemctl("show", f"--property={name}", "--value", unit).strip()


def main_pid() -> int:
    """The agent's process; 0: it does not run."""
    return int(property_of(AGENT, "MainPID"))


def agent_json(*arguments: str) -> dict[str, Any]:
    """What a command of the installed agent shows as JSON."""
    shown: dict[str, Any] = json.loads(called(str(COMMAND), *arguments, "--output", "json"))
    return shown


def entries(*matches: str) -> list[dict[str, Any]]:
    """The journal's entries that match (``-u UNIT``, ``FIELD=value``), oldest first, with all their fields."""
    lines = called("journalctl", "--quiet", "--output=json", "--all", "--no-pager", *matches).splitlines()
    return [json.loads(line) for line in lines]


def await_entry(*matches: str, count: int = 1) -> dict[str, Any]:
    """The newest entry that matches, once there are ``count`` of them."""

    def found() -> list[dict[str, Any]]:
        all_of_them = entries(*matches)
        return all_of_them if len(all_of_them) >= count else []

    newest: dict[str, Any] = until(found, f"{count} entries of {' '.join(matches)} in the journal", DEADLINE_S)[-1]
    return newest


def save_policy(text: str) -> None:
    """Replaces the policy by a rename, as careful editors do."""
    fresh = POLICY.with_name("policy.new")
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.rename(POLICY)


def start_job(name: str, *properties: str) -> int:
    """Starts a service that only sleeps; returns its process."""
    options = (f"--property={each}" for each in properties)
    called("systemd-run", "--quiet", f"--unit={name}", *options, "/usr/bin/sleep", "infinity")
    return int(property_of(f"{name}.service", "MainPID"))


def await_group(pid: int, group: str) -> None:
    """Waits until a process is in its group."""
    until(lambda: group_of(pid) == group, f"{pid} is in {group}; it is in {group_of(pid)}", DEADLINE_S)


def schemata(group: str) -> dict[str, str]:
    """Resource → domains with their values, blanks left out."""
    lines = (RESCTRL / group / "schemata").read_text().replace(" ", "").splitlines()
    return dict(line.split(":", 1) for line in lines)


def misplaced_jobs() -> dict[int, str | None]:
    """Threads of ``job-*`` services that are not in ``batch``, and of ``web-*`` services not in ``latency``."""
    wrong = {}
    for directory in Path("/sys/fs/cgroup/system.slice").iterdir():
        wanted = {"job": "batch", "web": "latency"}.get(directory.name.split("-")[0])
        if wanted:
            threads = threads_in(f"/system.slice/{directory.name}")
            wrong.update({tid: group for tid in threads if (group := group_of(tid)) not in {wanted, None}})
    return wrong


@contextmanager
def drop_in(unit: str, text: str) -> Iterator[None]:
    """What ``systemctl edit --runtime`` does, until the end."""
    with unit_files({f"{unit}.d/test.conf": text}):
        yield


@contextmanager
def patient_unit() -> Iterator[None]:
    """The unit as it is installed, but with the time that a busy guest's start takes; its policy is FEW_CLASSES."""
    unmount()
    save_policy(FEW_CLASSES)
    with unit_files({f"{AGENT}.d/patience.conf": "[Service]\nTimeoutStartSec=5min\n"}):
        yield


@contextmanager
def running_unit() -> Iterator[None]:
    """The same, started with nothing mounted before, and stopped at the end."""
    with patient_unit():
        systemctl("start", AGENT)
        yield
        systemctl("stop", AGENT)


def unmount() -> None:
    """What the laboratory mounted."""
    if os.path.ismount(RESCTRL):
        called("umount", str(RESCTRL))


def keep(title: str, text: str) -> None:
    """Puts something on record."""
    with RECORD.open("a") as record:
        record.write(f"--- {title}\n{text.rstrip()}\n")


def fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Those of an entry's fields that its sender gave; the journal's own begin with an underscore."""
    return {name: value for name, value in entry.items() if not name.startswith("_")}
