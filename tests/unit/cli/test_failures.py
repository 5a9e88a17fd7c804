import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from agent.cli import main
from agent.cli.arguments import parse
from agent.cli.errors import CommandError, UsageError
from agent.cli.failures import tell_of
from agent.policy.model import Position
from agent.policy.problem import PolicyRefusedError, Problem, Severity
from agent.reconcile.apply import ApplyError, PlanObstructedError
from agent.reconcile.ownership import StateError
from agent.reconcile.plan import Obstacle
from agent.resctrl.errors import AlreadyRunningError, LockTimeoutError, MachineError, NotResctrlError, ResctrlError
from agent.resctrl.mount import MountError, MountFailure
from agent.service.places import WrongNamespaceError
from agent.tasks.hierarchy import NoHierarchyError

REFUSED = ResctrlError("batch", 'writing "L3:0=5"', errno.EINVAL, "The mask 5 has non-consecutive 1-bits")


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (AlreadyRunningError("process 1 is it"), ["process 1 is it"]),
        (ApplyError(REFUSED, ()), [f"{REFUSED} (what was done before it is undone)"]),
        (CommandError("no such task"), ["no such task"]),
        (LockTimeoutError("locked"), ["locked"]),
        (MachineError("/x: no"), ["/x: no"]),
        (MountError(MountFailure.OTHER, "cannot mount"), ["cannot mount"]),
        (NoHierarchyError("none"), ["none"]),
        (NotResctrlError("not mounted"), ["not mounted"]),
        (PlanObstructedError([Obstacle("one"), Obstacle("two")]), ["one", "two"]),
        (REFUSED, [str(REFUSED)]),
        (StateError("/var: read-only"), ["/var: read-only"]),
        (WrongNamespaceError("hostPID"), ["hostPID"]),
        (OSError(errno.EACCES, "Permission denied", "/proc/1/exe"), ["/proc/1/exe: Permission denied"]),
        (OSError(errno.ENOSPC, "No space left on device"), ["No space left on device"]),
    ],
)
def test_what_can_be_expected_to_fail_is_a_line_for_each_problem(error, lines, capsys):
    assert tell_of(error, parse(["plan"])) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"resctrl-agent: error: {line}" for line in lines]


def test_a_machine_without_resctrl_has_a_status_of_its_own_so_that_nobody_tries_again(capsys):
    error = MountError(MountFailure.NO_KERNEL_SUPPORT, "this kernel has no resctrl here")
    assert tell_of(error, parse(["run"])) == 69
    assert capsys.readouterr().err == "resctrl-agent: error: this kernel has no resctrl here\n"


def test_the_kernels_text_reaches_the_user_with_group_and_line(capsys):
    """Field report 2 (runc#1913)."""
    tell_of(REFUSED, parse(["apply"]))
    shown = capsys.readouterr().err
    assert all(part in shown for part in ('group "batch"', "L3:0=5", "non-consecutive 1-bits"))


def test_an_argument_of_no_known_form_is_wrong_usage(capsys):
    assert tell_of(UsageError("foo is neither"), parse(["plan"])) == 2


def test_a_refused_policy_is_told_problem_by_problem_with_status_78(capsys, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nclasses: {a: {l3: 0xfff}}\n")
    policy.chmod(0o644)
    problems = [
        Problem(Severity.ERROR, "too wide", Position("policy.yaml", 2, 19), "narrower"),
        Problem(Severity.WARNING, "elsewhere", Position("policy.d/x.yaml", 1, 1)),
    ]
    assert tell_of(PolicyRefusedError(problems), parse(["apply", "--policy", str(policy)])) == 78
    assert capsys.readouterr().err.splitlines() == [
        "policy.yaml:2:19: error: too wide",
        "    classes: {a: {l3: 0xfff}}",
        "                      ^",
        "hint: narrower",
        "policy.d/x.yaml:1:1: warning: elsewhere",
    ]


def test_a_mistake_in_the_program_is_not_hidden(monkeypatch):
    monkeypatch.setattr("agent.cli.plan.places_of", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["plan"])


def test_an_interrupt_has_the_status_that_shells_give_it(monkeypatch, capsys):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agent.cli.plan.places_of", interrupted)
    assert main(["plan"]) == 130
    assert capsys.readouterr().err == ""


def check(policy: Path, stdout: int | IO[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent", "check", "--machine", "xeon-2s", "--policy", policy]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def test_a_reader_that_has_left_gets_no_traceback(policy):
    reader, writer = os.pipe()
    os.close(reader)
    ran = check(policy("version: 1\n"), writer)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_output_that_cannot_be_written_is_a_failure(policy):
    with Path("/dev/full").open("w") as full:
        ran = check(policy("version: 1\n"), full)
    assert (ran.returncode, ran.stderr) == (1, "resctrl-agent: error: No space left on device\n")


@pytest.mark.parametrize("command", [["plan"], ["apply"], ["explain", "1"]])
def test_a_refused_policy_is_json_where_json_is_asked_for(command, capsys, tmp_path):
    assert main([*command, "--policy", str(tmp_path / "none.yaml"), "--output", "json"]) == 78
    captured = capsys.readouterr()
    shown = json.loads(captured.out)
    assert (shown["ok"], captured.err) == (False, "")
    assert [(each["file"], each["severity"]) for each in shown["problems"]] == [("none.yaml", "error")]


def test_in_the_journal_an_error_has_its_priority(tmp_path):
    reader, writer = os.pipe()
    place = os.fstat(writer)
    command = [sys.executable, "-m", "agent", "apply", "--policy", tmp_path / "none.yaml"]
    stream = {"JOURNAL_STREAM": f"{place.st_dev}:{place.st_ino}"}
    subprocess.run(command, stderr=writer, env={**os.environ, **stream}, check=False)
    os.close(writer)
    with os.fdopen(reader) as journal:
        said = journal.read().splitlines()
    assert said[0].startswith("<3>none.yaml: error: ")
    assert said[1].startswith("<3>hint: name another with --policy, or begin with a copy of /")
    assert all(line.startswith("<3>") for line in said)
