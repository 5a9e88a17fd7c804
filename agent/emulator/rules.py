"""How kernels differ, as switches: the rules that one version of Linux follows."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class KernelRules:
    """What one kernel does. Each switch names behaviour, not a version: kernels between these have a mixture."""

    version: str
    takes_task_lists: bool
    """``tasks`` takes comma lists, and says which task failed."""
    moves_monitoring_groups: bool
    """rename(2) of a monitoring group works."""
    has_debug_option: bool
    shows_sparse_masks: bool
    configures_events: bool
    """``mbm_*_config`` where the hardware can."""
    knows_sub_numa_clusters: bool
    allocates_rmid_first: bool
    """mkdir takes the RMID before the CLOSID: with neither left, it is RMIDs that it complains of."""
    pads_values: bool
    """Schemata values are padded to a common width."""
    clears_status_always: bool
    """mkdir and cpus writes clear last_cmd_status as well."""
    narrows_sparse_masks: bool
    """A new group's mask is narrowed to one run of ways even where masks may have holes."""
    no_device_below_info: bool
    """mkdir below ``info`` is ENODEV, not EPERM, on a machine that can monitor."""
    removed_have_no_links: bool
    """Whoever has a file or directory of a removed group open sees it with no links, not with one or two."""
    chooses_mbps_event: bool
    """Control groups have ``mba_MBps_event`` under mba_MBps."""
    assigns_counters: bool
    """Assignable counters are used where the hardware has them; ``mbm_assign_mode`` exists even where it has not."""


_LINUX_6_1 = KernelRules(
    "6.1",
    takes_task_lists=False,
    moves_monitoring_groups=False,
    has_debug_option=False,
    shows_sparse_masks=False,
    configures_events=False,
    knows_sub_numa_clusters=False,
    allocates_rmid_first=True,
    pads_values=True,
    clears_status_always=False,
    narrows_sparse_masks=True,
    no_device_below_info=False,
    removed_have_no_links=False,
    chooses_mbps_event=False,
    assigns_counters=False,
)
_LINUX_6_12 = replace(
    _LINUX_6_1,
    version="6.12",
    takes_task_lists=True,
    moves_monitoring_groups=True,
    has_debug_option=True,
    shows_sparse_masks=True,
    configures_events=True,
    knows_sub_numa_clusters=True,
    allocates_rmid_first=False,
)
_LINUX_7_2 = replace(
    _LINUX_6_12,
    version="7.2",
    pads_values=False,
    clears_status_always=True,
    narrows_sparse_masks=False,
    no_device_below_info=True,
    removed_have_no_links=True,
    chooses_mbps_event=True,
    assigns_counters=True,
)

KERNELS = {rules.version: rules for rules in (_LINUX_6_1, _LINUX_6_12, _LINUX_7_2)}
"""The kernels that ``--kernel`` names."""

DEFAULT_KERNEL = _LINUX_6_12.version
