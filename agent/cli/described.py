"""The machine that ``check`` compares a policy with: the one here, a saved description, or an emulated one's."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from agent.resctrl import schemata
from agent.resctrl.errors import NotResctrlError
from agent.resctrl.machine import Machine, read_machine
from agent.resctrl.mount import SeveralResctrlError
from agent.resctrl.schemata import Schemata
from agent.service.places import Places, mounted_resctrl


@dataclass(frozen=True, slots=True)
class Described:
    """What a machine can do, and its root group's schemata."""

    machine: Machine
    root: Schemata


def machine_here(places: Places) -> Described | None:
    """This machine; None where resctrl is not mounted.

    Raises NotResctrlError where it is not at the place named, or where several are there and none is named.
    """
    try:
        mounted = mounted_resctrl(places)
    except SeveralResctrlError:
        raise
    except NotResctrlError:
        if places.resctrl is not None:
            raise
        return None
    return _read(mounted.path, mounted.options)


def machine_named(name: str) -> Described:
    """The emulated machine of that name, else the description in that directory.

    Raises NotResctrlError where it is neither, MachineError where a description is not as a kernel writes it.
    """
    from agent.emulator.description import write_description  # noqa: PLC0415 - only where it is asked for
    from agent.emulator.machines import MACHINES  # noqa: PLC0415 - likewise

    if name in MACHINES:
        with tempfile.TemporaryDirectory(prefix="resctrl-agent-") as directory:
            write_description(MACHINES[name], Path(directory))
            return _read(Path(directory))
    if not Path(name).is_dir():
        raise NotResctrlError(
            f"{name} is no directory with a description (resctrl-agent machine save {name} makes one where resctrl "
            f"is mounted), nor an emulated machine: {', '.join(MACHINES)}"
        )
    return _read(Path(name))


def _read(root: Path, options: frozenset[str] = frozenset()) -> Described:
    return Described(read_machine(root, options), schemata.parse((root / "schemata").read_text()))
