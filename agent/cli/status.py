"""``status``: classes and who is in them, what is held and by whom. Needs no daemon: the machine is the state."""

from argparse import Namespace

from agent.cli.arguments import COMMANDS, Commands
from agent.cli.output import tell_json
from agent.cli.places import open_machine, places_of
from agent.cli.situation import read_situation
from agent.cli.status_json import as_json
from agent.cli.status_text import FEW, tell_status


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "status",
        help=COMMANDS["status"],
        description="Shows the classes with the schemata in force and the threads in them, who holds CLOSIDs and "
        "RMIDs, what differs from the policy, and which ways belong to whom. Needs no daemon.",
    )
    parser.add_argument("--workloads", action="store_true", help="list every workload, not only the largest of a class")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Shows what there is, also where the policy is missing or refused."""
    places = places_of(arguments)
    node, ledger = open_machine(places)
    with node.resctrl:
        situation = read_situation(places, node, ledger)
    if arguments.output == "json":
        tell_json(as_json(situation))
    else:
        tell_status(situation, None if arguments.workloads else FEW)
    return 0
