"""The emulator as a whole: what it needs, a place to mount on, and serving."""

import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote

from agent.emulator.bpf_membership import BpfMembership
from agent.emulator.errors import EmulatorError, RefusedError
from agent.emulator.kernel import Kernel
from agent.emulator.machines import Machine
from agent.emulator.mounted import Mount, mount, possible_options
from agent.emulator.mountpoint import prepare, require_fuse
from agent.emulator.rules import KernelRules
from agent.emulator.serve import serve
from agent.emulator.threads import ProcThreads
from agent.events.unavailable import BpfUnavailableError
from agent.tasks.hierarchy import in_initial_pid_namespace


def emulate(
    mountpoint: Path, machine: Machine, rules: KernelRules, options: frozenset[str], tell: Callable[[str], None]
) -> None:
    """Mount and serve until unmounted or ended by a signal; ``tell`` gets a line once the mount answers, and others.

    Raises EmulatorError.
    """
    mounted = _mounted(machine, rules, options)
    require_fuse()
    place = mountpoint.resolve()
    cleared = prepare(place)
    if cleared:
        tell(cleared)
    with _membership() as membership:
        serve(
            Kernel(mounted, membership, ProcThreads()),
            place,
            lambda: _tell_ready(tell, machine, rules, place),
        )


def _mounted(machine: Machine, rules: KernelRules, options: frozenset[str]) -> Mount:
    try:
        return mount(machine, rules, options)
    except RefusedError as error:
        possible = ", ".join(sorted(possible_options(machine, rules))) or "none"
        refused = ", ".join(sorted(options - possible_options(machine, rules)))
        raise EmulatorError(
            f"mount option {refused}: Linux {rules.version} does not take it on {machine.name}; possible: {possible}"
        ) from error


def _membership() -> BpfMembership:
    if not in_initial_pid_namespace(Path("/proc")):
        raise EmulatorError(
            "this is not the initial pid namespace, so threads cannot be told by their ids: "
            "run the emulator on the host, or in a container with the host's pid namespace"
        )
    try:
        return BpfMembership()
    except BpfUnavailableError as error:
        raise EmulatorError(f"eBPF is needed to follow which group new threads inherit: {error}") from error


def _tell_ready(tell: Callable[[str], None], machine: Machine, rules: KernelRules, place: Path) -> None:
    tell(f"emulated resctrl ({machine.name}, Linux {rules.version} rules) at {place}")
    tell(f"in another terminal: resctrl-agent --resctrl {quote(str(place))} --policy FILE plan")
    sys.stdout.flush()
