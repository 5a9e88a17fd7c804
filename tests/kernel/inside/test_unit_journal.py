"""What ``journalctl`` shows of the unit: fields to select by, and the catalogue's explanations."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.service.messages import MESSAGES
from tests.kernel.inside.unit_service import (
    AGENT,
    await_entry,
    await_group,
    called,
    entries,
    fields,
    keep,
    main_pid,
    running_unit,
    start_job,
    systemctl,
)

JOB = "/system.slice/job-told-of.service"
PLACED = f"MESSAGE_ID={MESSAGES['placed'].id}"
CATALOG = Path("/usr/lib/systemd/catalog/resctrl-agent.catalog")


@pytest.fixture(scope="module", autouse=True)
def unit() -> Iterator[None]:
    with running_unit():
        yield


@pytest.fixture(scope="module")
def pid(unit: None) -> int:
    started = start_job("job-told-of")
    await_group(started, "batch")
    return started


def test_a_placed_workload_is_one_entry_with_these_fields_and_no_others(pid: int) -> None:
    entry = await_entry("-u", AGENT, PLACED, f"RESCTRL_WORKLOAD={JOB}")
    told = fields(entry)
    numbers = {name: told.pop(name) for name in ("CODE_LINE", "RESCTRL_EVENT_NS", "RESCTRL_LATENCY_US")}
    assert all(number.isdecimal() for number in numbers.values())
    assert told.pop("CODE_FILE").endswith("/site-packages/agent/service/fast_path.py")
    assert told.pop("RESCTRL_CAUSE") in {"attached", "cgroup_made", "cloned_into"}
    assert told == {
        "MESSAGE": f"Placed {JOB} in class batch (threads moved: 1)",
        "MESSAGE_ID": MESSAGES["placed"].id,
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "resctrl-agent",
        "CODE_FUNC": "_log_placed",
        "RESCTRL_WORKLOAD": JOB,
        "RESCTRL_CGROUP": JOB,
        "RESCTRL_CLASS": "batch",
        "RESCTRL_GROUP": "batch",
        "RESCTRL_RULE": "jobs",
        "RESCTRL_THREADS": "1",
    }
    assert entry["_PID"] == str(main_pid())
    assert entry["_SYSTEMD_UNIT"] == AGENT
    assert entry["_TRANSPORT"] == "journal"
    keep("journalctl -o verbose", called("journalctl", "-o", "verbose", "--no-pager", f"RESCTRL_WORKLOAD={JOB}"))


@pytest.mark.parametrize("matches", [(PLACED,), ("-u", AGENT), ("-t", "resctrl-agent"), ("RESCTRL_CLASS=batch",)])
def test_it_is_found_by_its_id_its_unit_its_identifier_and_the_agent_s_own_fields(
    pid: int, matches: tuple[str, ...]
) -> None:
    assert [each for each in entries(*matches) if each.get("RESCTRL_WORKLOAD") == JOB]


def test_an_entry_is_explained_with_its_own_facts(pid: int) -> None:
    shown = called("journalctl", "-x", "--no-pager", f"RESCTRL_WORKLOAD={JOB}")
    keep("journalctl -x", shown)
    assert "Subject: A workload is placed" in shown
    assert f"resctrl-agent explain {JOB}" in shown


@pytest.mark.parametrize("name", MESSAGES)
def test_the_catalogue_explains_every_stable_event(name: str) -> None:
    message = MESSAGES[name]
    given = {field: f"some-{field.lower()}" for field in re.findall("@(RESCTRL_[A-Z_]+)@", explanation(message.id))}
    lines = [f"MESSAGE_ID={message.id}", f"MESSAGE={name}", "PRIORITY=6", *(f"{k}={v}" for k, v in given.items())]
    subprocess.run(["logger", "--journald"], input="\n".join(lines), text=True, check=True)
    await_entry(f"MESSAGE_ID={message.id}", f"MESSAGE={name}")
    shown = called("journalctl", "-x", "--no-pager", f"MESSAGE_ID={message.id}", f"MESSAGE={name}")
    assert "Defined-By: resctrl-agent" in shown
    assert "@RESCTRL" not in shown
    assert all(value in shown for value in given.values())


def explanation(message_id: str) -> str:
    """The catalogue's entry."""
    return next(part for part in CATALOG.read_text().split("\n-- ") if part.startswith(message_id))


def test_start_and_policy_are_told_under_the_unit(pid: int) -> None:
    told = [entry["MESSAGE"] for entry in entries("-u", AGENT, f"_PID={main_pid()}")]
    assert "Policy /etc/resctrl-agent/policy.yaml is in force (classes: 2, rules: 2)" in told
    assert any(re.fullmatch(r"Version \S+ started, events from bpf \(classes: 2, rules: 2\)", text) for text in told)


def test_a_journal_that_is_restarted_is_told_as_before() -> None:
    systemctl("restart", "systemd-journald.service")
    await_group(start_job("job-after-the-journal"), "batch")
    entry = await_entry("-u", AGENT, PLACED, "RESCTRL_WORKLOAD=/system.slice/job-after-the-journal.service")
    assert entry["_TRANSPORT"] == "journal"
