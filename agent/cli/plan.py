"""``plan``: what would change. Changes nothing."""

from argparse import Namespace

from agent.cli.arguments import COMMANDS, Commands
from agent.cli.changes import sentences
from agent.cli.output import tell, tell_json
from agent.cli.places import open_machine, places_of
from agent.cli.problems import tell_warnings
from agent.cli.statuses import DIFFERENCES
from agent.policy import load
from agent.reconcile.apply import PlanObstructedError
from agent.service.reconciler import bring_to, draw_plan


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "plan", help=COMMANDS["plan"], description="Says what would change, in the order in which it would."
    )
    parser.add_argument("--exit-code", action="store_true", help="exit with 3 when something would change")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Raises PlanObstructedError, once the changes are shown, where they could not be made."""
    places = places_of(arguments)
    loaded = load(places.policy, insecure=places.insecure_policy)
    node, ledger = open_machine(places)
    with node.resctrl:
        in_force = bring_to(node, ledger, loaded.policy)
        tell_warnings((*loaded.warnings, *in_force.desired.problems), places)
        plan = draw_plan(node, ledger, in_force)
    if arguments.output == "json":
        changes = [action.as_json() for action in plan.actions]
        tell_json({"changes": changes, "obstacles": [str(obstacle) for obstacle in plan.obstacles]})
    else:
        tell(sentences(plan.actions, node.machine) or ["nothing to do"])
    if plan.obstacles:
        raise PlanObstructedError(plan.obstacles)
    return DIFFERENCES if plan.actions and arguments.exit_code else 0
