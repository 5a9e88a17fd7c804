"""``run``: the daemon, in the foreground."""

from argparse import ArgumentTypeError, Namespace

from agent.cli.arguments import COMMANDS, Commands
from agent.cli.places import places_of
from agent.service.logs import configure

AUDIT_INTERVAL_S = 60.0


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser("run", help=COMMANDS["run"], description="Runs the daemon until SIGTERM or Ctrl-C.")
    parser.add_argument(
        "--audit-interval",
        type=_seconds,
        default=AUDIT_INTERVAL_S,
        metavar="SECONDS",
        help="look over everything this often, whatever events say (default: %(default)g)",
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Returns the daemon's exit status; raises what its start can fail with."""
    configure(arguments.log_level)
    from agent.service import daemon  # noqa: PLC0415 - brings its loggers, which are to be configured first

    return daemon.run(places_of(arguments), arguments.audit_interval)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0.1 <= seconds < float("inf"):
        raise ArgumentTypeError(f"{text} is not at least 0.1 seconds")
    return seconds
