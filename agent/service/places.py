"""Where things are: the policy, resctrl, the cgroups, the state; by default where a distribution has them."""

import os
from dataclasses import dataclass
from pathlib import Path

from agent.policy.model import MountPolicy
from agent.reconcile.node import Node
from agent.reconcile.ownership import DEFAULT_STATE
from agent.resctrl.errors import NotResctrlError
from agent.resctrl.filesystem import Resctrl
from agent.resctrl.machine import read_machine
from agent.resctrl.mount import MountPoint, find_resctrl, mount_resctrl, resctrl_at
from agent.tasks.hierarchy import FOREIGN_PID_NAMESPACE, current_hierarchy, in_initial_pid_namespace
from agent.tasks.process import has_resctrl_groups

DEFAULT_POLICY = Path("/etc/resctrl-agent/policy.yaml")
DEFAULT_RESCTRL = Path("/sys/fs/resctrl")
DEFAULT_RUN = Path("/run/resctrl-agent")


class WrongNamespaceError(Exception):
    """The agent runs where thread ids are not those of the kernel."""


@dataclass(frozen=True, slots=True)
class Places:
    """What the command line named, or else where the distribution has it."""

    policy: Path = DEFAULT_POLICY
    resctrl: Path | None = None
    """None: wherever it is mounted; to be mounted at DEFAULT_RESCTRL where it is not."""
    cgroup: Path | None = None
    """None: the hierarchy that ``find_hierarchy`` chooses."""
    proc: Path = Path("/proc")
    state: Path = DEFAULT_STATE
    run: Path = DEFAULT_RUN
    insecure_policy: bool = False


def state_directory() -> Path:
    """STATE_DIRECTORY of systemd, else the usual place."""
    return Path(os.environ.get("STATE_DIRECTORY", DEFAULT_STATE))


def run_directory() -> Path:
    """RUNTIME_DIRECTORY of systemd, else the usual place."""
    return Path(os.environ.get("RUNTIME_DIRECTORY", DEFAULT_RUN))


def open_node(places: Places) -> Node:
    """The machine as it is. Mounts nothing.

    Raises NotResctrlError, MachineError, NoHierarchyError, WrongNamespaceError, each saying what to do.
    """
    if not in_initial_pid_namespace(places.proc):
        raise WrongNamespaceError(FOREIGN_PID_NAMESPACE)
    mounted = mounted_resctrl(places)
    machine = read_machine(mounted.path, mounted.options)
    hierarchy = current_hierarchy(places.proc, places.cgroup)
    resctrl = Resctrl.open(mounted.path)  # last, since it keeps descriptors
    tells_of_each = not resctrl.emulated and has_resctrl_groups(places.proc)
    return Node(resctrl, machine, hierarchy, places.proc, tells_of_each)


def mounted_resctrl(places: Places) -> MountPoint:
    """The resctrl that was named, or the one there is. Raises NotResctrlError where there is none, or more than one."""
    mountinfo = (places.proc / "self/mountinfo").read_text()
    found = resctrl_at(mountinfo, places.resctrl.resolve()) if places.resctrl else find_resctrl(mountinfo)
    if found is None:
        where = f"{places.resctrl} is no mount of resctrl" if places.resctrl else "resctrl is not mounted"
        raise NotResctrlError(
            f"{where}: mount it (systemctl start sys-fs-resctrl.mount, or mount -t resctrl resctrl {DEFAULT_RESCTRL}), "
            "or try the policy on an emulated machine (resctrl-agent emulate --help)"
        )
    return found


def mount_if_needed(places: Places, wanted: MountPolicy) -> MountPoint | None:
    """Mounts resctrl as the policy says where it is not mounted and no place was named; None: it was mounted already.

    Raises MountError, which says why not and what to do.
    """
    mountinfo = (places.proc / "self/mountinfo").read_text()
    if places.resctrl is not None or find_resctrl(mountinfo) is not None:
        return None
    mount_resctrl(DEFAULT_RESCTRL, wanted.cdp, mba_mbps=wanted.bandwidth == "MBps")
    return mounted_resctrl(places)
