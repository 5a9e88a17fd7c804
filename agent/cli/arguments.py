"""The command line: which commands there are, and the options that all of them take, before their name or after.

A command's module is imported only when its name is on the command line, so that none waits for what another needs.
Each has ``add_parser(commands)``, which sets the default ``run`` to what takes the parsed arguments and returns the
exit status.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from agent import __version__

PROGRAM = "resctrl-agent"

COMMANDS = {
    "run": "the daemon, in the foreground",
    "check": "read the policy and say every mistake, and what this machine makes of it",
    "plan": "what would change",
    "apply": "bring the machine to the policy once, and exit",
    "explain": "which rule a task or a cgroup falls under, and why",
    "status": "classes, who is in them, what is held and by whom",
    "machine": "what this machine can do",
    "release": "give back all that the agent owns",
    "emulate": "mount an emulated resctrl",
}

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # noqa: SLF001 - it has no public name


class CommandParser(argparse.ArgumentParser):
    """The parser of one command: what it does not find of the common options stays as it was before its name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        _add_common_options(self, argparse.SUPPRESS, argparse.SUPPRESS)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with ``run`` to be called. Exits with status 2 for wrong usage, 0 after --help or --version."""
    parser = argparse.ArgumentParser(
        PROGRAM,
        description="Keeps tasks in the resctrl group that one policy file says they belong to.",
        epilog="Exit status: 0 fine, 1 failed, 2 wrong usage, 3 differences (plan --exit-code), 78 policy refused.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _add_common_options(parser, None, "text")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, summary in COMMANDS.items():
        if name in argv:
            import_module(f"agent.cli.{name}").add_parser(commands)
        else:
            commands.add_parser(name, help=summary)
    return parser.parse_args(argv)


def _add_common_options(parser: argparse.ArgumentParser, nothing: str | None, output: str) -> None:
    """``nothing`` and ``output`` are the defaults; SUPPRESS leaves alone what an outer parser has set."""
    options = parser.add_argument_group("options of every command")
    options.add_argument("--output", choices=("text", "json"), default=output, help="text (default) or json")
    places = (
        ("policy", "FILE", "the policy; drop-ins are in policy.d beside it (default: /etc/resctrl-agent/policy.yaml)"),
        ("resctrl", "DIR", "the resctrl mount (default: wherever it is mounted)"),
        ("cgroup", "DIR", "the cgroup hierarchy to follow (default: the one that systemd or the kubelet uses)"),
        ("proc", "DIR", "procfs (default: /proc)"),
        ("state", "DIR", "where the agent remembers what it created (default: /var/lib/resctrl-agent)"),
    )
    for name, metavar, explanation in places:
        options.add_argument(f"--{name}", type=Path, metavar=metavar, default=nothing, help=explanation)
    options.add_argument(
        "--insecure-policy",
        action="store_true",
        default=nothing if nothing == argparse.SUPPRESS else False,
        help="also take a policy that others than root can write",
    )
    levels = ("debug", "info", "warning", "error")
    options.add_argument(
        "--log-level",
        choices=levels,
        default=nothing if nothing == argparse.SUPPRESS else "info",
        help="what the daemon logs (default: info)",
    )
