"""fast_path_alone POLICY ROOT: the daemon's way from an event to a write, and nothing else of it.

ROOT is any directory with what of resctrl placing needs, so that the emulator's own cost is not measured. Says "ready"
and goes on until it is killed.
"""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agent.events.kernel import KernelEvents
from agent.policy import load
from agent.reconcile.node import Node
from agent.reconcile.placement import Placement
from agent.reconcile.rules import RuleBook
from agent.reconcile.survey import Belonging
from agent.resctrl.filesystem import Resctrl
from agent.service.logs import configure
from agent.tasks.hierarchy import current_hierarchy


async def serve(policy: Path, root: Path) -> None:
    from agent.service.fast_path import FastPath  # noqa: PLC0415 - as in the daemon: after the log is configured

    proc = Path("/proc")
    machine: Any = SimpleNamespace()  # placing never asks
    node = Node(Resctrl(root, emulated=True), machine, current_hierarchy(proc), proc, tells_of_each=False)
    fast_path = FastPath(look_at_everything=no_such_luck, monitor=lambda: None, trouble=raise_it)
    fast_path.use(Placement(node, Belonging(RuleBook(load(policy).policy), managed=frozenset())))
    source = KernelEvents.open(node.hierarchy.id)
    asyncio.get_running_loop().add_reader(source.fileno(), lambda: fast_path.drain(source))
    print("ready", flush=True)
    await asyncio.Event().wait()


def no_such_luck() -> None:
    sys.exit("events were lost: nothing that is measured from here on means anything")


def raise_it(error: Exception) -> None:
    raise error


if __name__ == "__main__":
    configure("info")
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
