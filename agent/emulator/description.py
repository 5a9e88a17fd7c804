"""A machine as a saved description: the untouched tree as plain files."""

from collections.abc import Iterator
from pathlib import Path

from agent.emulator.kernel import Kernel
from agent.emulator.machines import Machine
from agent.emulator.membership import RememberedMembership
from agent.emulator.mounted import mount
from agent.emulator.rules import DEFAULT_KERNEL, KERNELS, KernelRules
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory
from agent.resctrl.machine import MOUNT_OPTIONS_FILE

_NOBODY = Caller(uid=0, gid=0, tid=0)


def write_description(machine: Machine, directory: Path, rules: KernelRules = KERNELS[DEFAULT_KERNEL]) -> None:
    """Write what ``resctrl-agent machine save`` would save of this machine into an empty or new directory.

    ``tasks`` is left empty: nobody runs on a description.
    """
    kernel = Kernel(mount(machine, rules, machine.mount_options), RememberedMembership(), NoThreads())
    _write(kernel, kernel.root, directory)
    (directory / MOUNT_OPTIONS_FILE).write_text(",".join(sorted(machine.mount_options)) + "\n")


class NoThreads:
    """A machine on which nothing runs."""

    def exists(self, _tid: int) -> bool:
        """No."""
        return False

    def owners(self, _tid: int) -> frozenset[int]:
        """Nobody."""
        return frozenset()

    def every(self) -> Iterator[int]:
        """None."""
        return iter(())

    def named_by(self, _caller: Caller, _number: int) -> int | None:
        """None."""
        return None

    def names_for(self, _caller: Caller, _tids: list[int]) -> list[int]:
        """None."""
        return []


def _write(kernel: Kernel, source: Directory, destination: Path) -> None:
    destination.mkdir(parents=True, exist_ok=True)
    for name, node in source.entries.items():
        if isinstance(node, Directory):
            _write(kernel, node, destination / name)
        else:
            (destination / name).write_text(kernel.read(node, _NOBODY), newline="\n")
