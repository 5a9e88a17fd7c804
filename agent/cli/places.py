"""From the command line's options to where things are."""

from argparse import Namespace

from agent.cli.output import remark
from agent.reconcile.node import Node
from agent.reconcile.ownership import Ledger
from agent.resctrl.filesystem import Resctrl
from agent.service.places import DEFAULT_POLICY, Places, mounted_resctrl, open_node, run_directory, state_directory


def places_of(arguments: Namespace) -> Places:
    """What was named, and for the rest the usual places."""
    usual = Places()
    return Places(
        policy=arguments.policy or DEFAULT_POLICY,
        resctrl=arguments.resctrl,
        cgroup=arguments.cgroup,
        proc=arguments.proc or usual.proc,
        state=arguments.state or state_directory(),
        run=run_directory(),
        insecure_policy=arguments.insecure_policy,
    )


def open_machine(places: Places) -> tuple[Node, Ledger]:
    """The machine, and what the agent remembers of it. Raises as ``open_node`` does."""
    node = open_node(places)
    return node, open_ledger(places, node.resctrl)


def open_resctrl(places: Places) -> tuple[Resctrl, Ledger]:
    """Only the groups, for what asks nothing of cgroups. Raises NotResctrlError."""
    resctrl = Resctrl.open(mounted_resctrl(places).path)
    return resctrl, open_ledger(places, resctrl)


def open_ledger(places: Places, resctrl: Resctrl) -> Ledger:
    """What the agent remembers of a mount. Says so where the user may not read it: then no group looks the agent's."""
    ledger = Ledger.open(places.state, resctrl.root)
    try:
        ledger.path.open().close()
    except FileNotFoundError:
        pass
    except OSError as error:
        reason = f"{ledger.path}: {error.strerror}"
        remark(f"note: {reason}; groups that the agent created look like somebody else's")
    return ledger
