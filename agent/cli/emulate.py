"""``resctrl-agent emulate``: an emulated resctrl, for as long as the command runs."""

import argparse
from pathlib import Path

from agent.cli.arguments import Commands
from agent.cli.errors import CommandError
from agent.cli.output import tell
from agent.emulator.errors import EmulatorError
from agent.emulator.machines import DEFAULT_MACHINE, MACHINES
from agent.emulator.rules import DEFAULT_KERNEL, KERNELS
from agent.emulator.run import emulate


def add_parser(commands: Commands) -> None:
    """``emulate``"""
    parser = commands.add_parser(
        "emulate",
        help="mount an emulated resctrl",
        description="Mounts an emulated resctrl and serves it until it is unmounted or the command is ended. "
        "Threads are real and inherit their group; nothing is really divided. Needs root, for FUSE and eBPF.",
    )
    parser.add_argument(
        "mountpoint", type=Path, metavar="MOUNTPOINT", help="an empty directory; made where there is none"
    )
    parser.add_argument(
        "--machine", choices=MACHINES, default=DEFAULT_MACHINE, help="the hardware (default: %(default)s)"
    )
    parser.add_argument(
        "--kernel", choices=KERNELS, default=DEFAULT_KERNEL, help="whose rules it follows (default: Linux %(default)s)"
    )
    parser.add_argument(
        "--mount-option",
        action="append",
        dest="mount_options",
        metavar="OPTION",
        help="cdp, cdpl2, mba_MBps or debug, as far as the machine and the kernel have them; may be repeated "
        "(default: those that the machine is named for)",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    machine, rules = MACHINES[arguments.machine], KERNELS[arguments.kernel]
    options = machine.mount_options if arguments.mount_options is None else frozenset(arguments.mount_options)
    try:
        emulate(arguments.mountpoint, machine, rules, options, lambda text: tell([text]))
    except EmulatorError as error:
        raise CommandError(str(error)) from error
    return 0
