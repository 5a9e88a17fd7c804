"""AMD's assignable counters: which event of which group is counted, where there are fewer counters than groups."""

from agent.emulator.groups import Group
from agent.emulator.machines import Monitoring
from agent.emulator.status import LastCommandStatus

TRANSFERS = (
    "local_reads",
    "remote_reads",
    "local_non_temporal_writes",
    "remote_non_temporal_writes",
    "local_reads_slow_memory",
    "remote_reads_slow_memory",
    "dirty_victim_writes_all",
)
"""What a counter can count, by bit."""

COUNTED_AT_FIRST = {"mbm_total_bytes": 0x7F, "mbm_local_bytes": 0x15}
"""The events that counters are assigned to, in the kernel's order, and the transfers that each counts."""


class AssignableCounters:
    """The counters of one mount, the same number in each domain; their mode, and what events mean while it lasts."""

    def __init__(self, monitoring: Monitoring, status: LastCommandStatus) -> None:
        self.number = monitoring.assignable_counters
        self.domains = monitoring.domains
        self.events = tuple(event for event in COUNTED_AT_FIRST if event in monitoring.events)
        self._status = status
        self.reset(in_use=True)

    def reset(self, *, in_use: bool) -> None:
        """Begin one of the two modes: ``mbm_event``, in which counters are assigned, or ``default``."""
        self.in_use = in_use
        self.assigned_on_mkdir = in_use
        self.transfers = dict(COUNTED_AT_FIRST)
        self._holders: dict[int, set[tuple[Group, str]]] = {domain: set() for domain in self.domains}

    def available(self, domain: int) -> int:
        """How many nobody has."""
        return self.number - len(self._holders[domain])

    def has(self, group: Group, event: str, domain: int) -> bool:
        """Whether the group has one for the event."""
        return (group, event) in self._holders[domain]

    def counts(self, group: Group, event: str, domain: int) -> bool:
        """Whether there is anything to read: a control group's file sums up its monitoring groups' too."""
        if not self.in_use or event not in self.events:
            return True
        return any(self.has(each, event, domain) for each in (group, *group.children))

    def assign_new(self, group: Group) -> None:
        """What a new group gets; that there may be too few is only said, not refused."""
        if self.in_use and self.assigned_on_mkdir:
            for event in self.events:
                self.assign(group, event, self.domains)

    def assign(self, group: Group, event: str, domains: tuple[int, ...]) -> bool:
        """Give counters in as many of the domains as have one left; says where there is none. Whether all had one."""
        lacking = [domain for domain in domains if not self._assign(group, event, domain)]
        for domain in lacking:
            self._status.say(f"Failed to allocate counter for {event} in domain {domain}\n")
        return not lacking

    def take_back(self, group: Group, event: str, domains: tuple[int, ...]) -> None:
        """Free what the group has of these."""
        for domain in domains:
            self._holders[domain].discard((group, event))

    def release(self, group: Group) -> None:
        """Free all that a group and its monitoring groups have."""
        for each in (group, *group.children):
            for event in self.events:
                self.take_back(each, event, self.domains)

    def _assign(self, group: Group, event: str, domain: int) -> bool:
        if not self.has(group, event, domain):
            if not self.available(domain):
                return False
            self._holders[domain].add((group, event))
        return True
