"""``machine``: what this machine can do, and ``machine save``, which writes it down for ``check --machine``."""

from argparse import Namespace
from pathlib import Path

from agent.cli.arguments import COMMANDS, Commands
from agent.cli.machine_text import described, mount_line
from agent.cli.output import tell, tell_json
from agent.cli.places import places_of
from agent.resctrl.machine import machine_as_json, read_machine, save_machine
from agent.resctrl.mount import EMULATED_FSTYPE
from agent.service.places import mounted_resctrl


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser("machine", help=COMMANDS["machine"], description="Says what this machine can do.")
    parser.set_defaults(run=run)
    saving = parser.add_subparsers(metavar="save").add_parser(
        "save", help="write a description", description="Writes a description of this machine for check --machine."
    )
    saving.add_argument("directory", type=Path, metavar="DIR", help="a directory that is empty or does not exist")
    saving.set_defaults(run=save)


def run(arguments: Namespace) -> int:
    """Prints the machine."""
    mounted = mounted_resctrl(places_of(arguments))
    machine = read_machine(mounted.path, mounted.options)
    emulated = mounted.source_fstype == EMULATED_FSTYPE
    if arguments.output == "json":
        tell_json({**machine_as_json(machine), "emulated": emulated, "mount": str(mounted.path)})
    else:
        tell([mount_line(mounted.path, emulated=emulated), *described(machine)])
    return 0


def save(arguments: Namespace) -> int:
    """Writes the description."""
    mounted = mounted_resctrl(places_of(arguments))
    save_machine(mounted.path, arguments.directory, mounted.options)
    if arguments.output == "json":
        tell_json({"saved": str(arguments.directory)})
    else:
        tell([f"saved in {arguments.directory}"])
    return 0
