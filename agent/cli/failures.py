"""What failed, in one line a problem on stderr, and the exit status."""

from argparse import Namespace

from agent.cli.arguments import PROGRAM
from agent.cli.errors import CommandError, UsageError
from agent.cli.output import complain, tell_json
from agent.cli.places import places_of
from agent.cli.problems import quoting, tell_problems
from agent.cli.statuses import FAILED, NO_RESCTRL, POLICY_REFUSED, WRONG_USAGE
from agent.policy.problem import PolicyRefusedError
from agent.policy.render import as_json
from agent.reconcile.apply import ApplyError, PlanObstructedError
from agent.reconcile.ownership import StateError
from agent.resctrl.errors import AlreadyRunningError, LockTimeoutError, MachineError, NotResctrlError, ResctrlError
from agent.resctrl.mount import MountError, MountFailure
from agent.service.places import WrongNamespaceError
from agent.tasks.hierarchy import NoHierarchyError

_EXPECTED = (
    AlreadyRunningError,
    ApplyError,
    CommandError,
    LockTimeoutError,
    MachineError,
    MountError,
    NoHierarchyError,
    NotResctrlError,
    ResctrlError,
    StateError,
    UsageError,
    WrongNamespaceError,
)


def tell_of(error: Exception, arguments: Namespace) -> int | None:
    """Says what failed and returns the exit status; None for what only a mistake in the program explains."""
    if isinstance(error, PolicyRefusedError):
        if arguments.output == "json" and arguments.command != "run":
            tell_json({"ok": False, "problems": [as_json(problem) for problem in error.problems]})
        else:
            tell_problems(quoting(error.problems, places_of(arguments)))
        return POLICY_REFUSED
    lines = _lines_of(error)
    if lines is None:
        return None
    for line in lines:
        complain(f"{PROGRAM}: error: {line}")
    return _status_of(error)


def _status_of(error: Exception) -> int:
    if isinstance(error, MountError) and error.reason is MountFailure.NO_KERNEL_SUPPORT:
        return NO_RESCTRL
    return WRONG_USAGE if isinstance(error, UsageError) else FAILED


def _lines_of(error: Exception) -> list[str] | None:
    if isinstance(error, PlanObstructedError):
        return [str(obstacle) for obstacle in error.obstacles]
    if isinstance(error, _EXPECTED):
        return [str(error)]
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return [f"{error.filename}: {reason}" if error.filename else reason]
    return None
