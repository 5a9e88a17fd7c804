import subprocess
import sys
from pathlib import Path

import pytest

from agent import __version__
from agent.cli.arguments import COMMANDS, parse

BEFORE_AND_AFTER = [
    pytest.param(["--output", "json"], "output", "json", id="output"),
    pytest.param(["--policy", "/a"], "policy", Path("/a"), id="policy"),
    pytest.param(["--resctrl", "/a"], "resctrl", Path("/a"), id="resctrl"),
    pytest.param(["--cgroup", "/a"], "cgroup", Path("/a"), id="cgroup"),
    pytest.param(["--proc", "/a"], "proc", Path("/a"), id="proc"),
    pytest.param(["--state", "/a"], "state", Path("/a"), id="state"),
    pytest.param(["--insecure-policy"], "insecure_policy", True, id="insecure-policy"),
    pytest.param(["--log-level", "debug"], "log_level", "debug", id="log-level"),
]


@pytest.mark.parametrize(("option", "name", "value"), BEFORE_AND_AFTER)
def test_an_option_of_every_command_may_stand_before_the_command_or_after_it(option, name, value):
    assert getattr(parse([*option, "plan"]), name) == value
    assert getattr(parse(["plan", *option]), name) == value
    assert getattr(parse(["plan"]), name) != value


def test_of_an_option_given_twice_the_one_after_the_command_counts():
    assert parse(["--policy", "/a", "plan", "--policy", "/b"]).policy == Path("/b")


def test_an_option_may_stand_after_the_second_word_of_a_command():
    assert parse(["machine", "save", "/d", "--resctrl", "/a"]).resctrl == Path("/a")
    assert parse(["--resctrl", "/a", "machine", "save", "/d"]).resctrl == Path("/a")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as exit_:
        parse([name, "--help"])
    assert exit_.value.code == 0
    assert f"usage: resctrl-agent {name}" in capsys.readouterr().out


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as exit_:
        parse(["--help"])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n    {name} " not in shown] == []


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["frobnicate"],
        ["plan", "--bogus"],
        ["plan", "--exit"],
        ["explain"],
        ["plan", "--output", "xml"],
        ["run", "--audit-interval", "0"],
        ["run", "--audit-interval", "soon"],
        ["run", "--audit-interval", "nan"],
        ["machine", "load"],
    ],
)
def test_wrong_usage_ends_with_status_2(argv, capsys):
    with pytest.raises(SystemExit) as exit_:
        parse(argv)
    assert exit_.value.code == 2
    assert "usage: resctrl-agent" in capsys.readouterr().err


def test_the_module_and_the_command_are_the_same():
    module = subprocess.run([sys.executable, "-m", "agent", "--version"], capture_output=True, text=True, check=True)
    script = Path(sys.executable).with_name("resctrl-agent")
    command = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert module.stdout == command.stdout == f"resctrl-agent {__version__}\n"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("run", "emulate")])
def test_a_command_loads_neither_the_daemon_nor_the_emulator(name):
    code = (
        "import sys; from agent.cli.arguments import parse; parse(sys.argv[1:]); "
        "print([m for m in sys.modules if m in ('structlog', 'asyncio', 'bcc', 'mfusepy', 'agent.emulator')])"
    )
    arguments = [name, "1"] if name == "explain" else [name]
    loaded = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
