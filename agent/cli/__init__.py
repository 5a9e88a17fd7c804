"""One module a command: arguments, a call, output."""

import os
import sys
from collections.abc import Sequence

from agent.cli.arguments import parse

INTERRUPTED = 130
"""What a shell reports of a program that SIGINT ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns 0 fine, 1 failed, 3 differences, 69 no resctrl here, 78 policy refused.

    Leaves with 2 for wrong usage.
    """
    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        status: int = arguments.run(arguments)
        if sys.stdout is not None:  # closed before we started
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _stop_writing()
        return 1
    except Exception as error:
        from agent.cli.failures import tell_of  # noqa: PLC0415 - most of the package, for failures only

        failed = tell_of(error, arguments)
        if failed is None:
            raise
        _stop_writing()
        return failed
    return status


def _stop_writing() -> None:
    """What is still buffered (the reader has gone, the disk is full) must not fail again when Python flushes it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
