"""``python -m tests.kernel.lab``: build guests, run a command in one, have a shell there, see what there is."""

import argparse
import os
import shlex
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import cache, guest_system, qemu_build, stages
from .distributions import DISTRIBUTIONS, distribution
from .errors import CommandTimeoutError, LabError
from .guest import TIMEOUT_S, Guest
from .hardware import FLAVOURS

TIMED_OUT = 124
FAILED = 125
INTERRUPTED = 130
"""Exit statuses for what is not the command's own, as timeout(1) and the shell have them."""

FIRST_COMMAND = "uname -r && cat /sys/fs/resctrl/schemata"

SHELL = "export TERM={term}; stty rows {rows} columns {columns}; exec bash -il"
SHELL_TIMEOUT_S = 86400.0


def main() -> int:
    arguments = _parser().parse_args()
    try:
        status: int = arguments.does(arguments)
    except LabError as failed:
        print(f"lab: {failed}", file=sys.stderr)
        return TIMED_OUT if isinstance(failed, CommandTimeoutError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.kernel.lab", description=__doc__)
    commands = parser.add_subparsers(required=True)

    build = commands.add_parser("build", help="build what is missing, and run a first command")
    build.add_argument("distribution", nargs="*", help=f"all unless some are named: {', '.join(DISTRIBUTIONS)}")
    build.set_defaults(does=_build)

    run = commands.add_parser("run", help="run a command; output and exit status are its own")
    _add_guest(run)
    run.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help="(%(default)g)")
    run.add_argument("command", nargs=argparse.REMAINDER, help="one argument is for bash, several are quoted")
    run.set_defaults(does=_run)

    shell = commands.add_parser("shell", help="a shell in a guest, with this terminal")
    _add_guest(shell)
    shell.set_defaults(does=_shell)

    there_is = commands.add_parser("list", help="distributions, hardware, and what is built")
    there_is.set_defaults(does=_list)
    return parser


def _add_guest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--guest", default="debian-13", metavar="DISTRIBUTION", help="(%(default)s)")
    parser.add_argument("--hardware", default="intel", metavar="FLAVOUR", help="(%(default)s)")
    parser.add_argument("--share", type=Path, metavar="DIRECTORY", help="what the guest finds at /mnt/share")


def _build(arguments: argparse.Namespace) -> int:
    chosen = [distribution(name) for name in arguments.distribution or DISTRIBUTIONS]
    print(f"In {cache.cache()}:", flush=True)
    with _timed("QEMU"):
        qemu_build.build()
    for each in chosen:
        with _timed(f"{each.name}, packages"):
            guest_system.build(each)
        with _timed(f"{each.name}, first boot"):
            Guest(each.name).prepare()
    for each in chosen:
        print(f"\n{each.name}:", flush=True)
        status = Guest(each.name).stream(FIRST_COMMAND, _to_stdout, _to_stderr).status
        if status:
            raise LabError(f"the first command in {each.name} ended with status {status}: {FIRST_COMMAND}")
    return 0


@contextmanager
def _timed(what: str) -> Iterator[None]:
    started = time.monotonic()
    print(f"  {what:<28}", end="", flush=True)
    try:
        yield
    except BaseException:
        print("failed")
        raise
    print(f"{time.monotonic() - started:5.0f} s", flush=True)


def _run(arguments: argparse.Namespace) -> int:
    if not arguments.command:
        raise LabError("no command: python -m tests.kernel.lab run [OPTION…] COMMAND…")
    command = arguments.command[0] if len(arguments.command) == 1 else shlex.join(arguments.command)
    guest = Guest(arguments.guest, arguments.hardware, share=arguments.share)
    return guest.stream(command, _to_stdout, _to_stderr, timeout_s=arguments.timeout).status


def _shell(arguments: argparse.Namespace) -> int:
    """script(1) makes a terminal in the guest, of the size that this one has now."""
    if not sys.stdin.isatty():
        raise LabError("a shell needs a terminal; to run a command: python -m tests.kernel.lab run COMMAND…")
    size = shutil.get_terminal_size()
    inner = SHELL.format(term=shlex.quote(os.environ.get("TERM", "vt100")), rows=size.lines, columns=size.columns)
    command = f"exec script -qfec {shlex.quote(inner)} /dev/null"
    guest = Guest(arguments.guest, arguments.hardware, share=arguments.share)
    guest.prepare()  # while Ctrl-C still ends this
    with _raw(sys.stdin.fileno()) as keys:
        return guest.stream(command, _to_stdout, _to_stderr, keys=keys, timeout_s=SHELL_TIMEOUT_S).status


@contextmanager
def _raw(terminal: int) -> Iterator[int]:
    """Every key goes to the guest, Ctrl-C too."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _list(_arguments: argparse.Namespace) -> int:
    print(f"Cache: {cache.cache()}\n\nGuests:")
    _print_state("QEMU", cache.qemu(), qemu_build.made_from())
    for each in DISTRIBUTIONS.values():
        _print_state(each.name, cache.guest(each.name) / "system", guest_system.made_from(each))
    kept = [entry for entry in cache.snapshots().iterdir() if entry.is_dir()]
    print(f"  {len(kept)} snapshots, {_size(cache.snapshots())}\n\nHardware:\n  {' '.join(FLAVOURS)}")
    return 0


def _print_state(what: str, directory: Path, made_from: str) -> None:
    if not directory.exists():
        print(f"  {what:<12} not built")
    elif stages.is_current(directory, made_from):
        print(f"  {what:<12} {_size(directory)}")
    else:
        print(f"  {what:<12} {_size(directory)}, built from other sources than this checkout's")


def _size(directory: Path) -> str:
    """Of what the files take on the disk: most of them have holes."""
    blocks = sum(path.lstat().st_blocks for path in directory.rglob("*"))
    return f"{blocks * 512 / 1e6:.0f} MB"


def _to_stdout(part: bytes) -> None:
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def _to_stderr(part: bytes) -> None:
    sys.stderr.buffer.write(part)
    sys.stderr.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
