"""What can be done to a machine: the steps of a plan, as values."""

from dataclasses import dataclass

from agent.resctrl.monitoring_group import MonitoringGroup
from agent.resctrl.schemata import value_text


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """mkdir of a control group."""

    group: str

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        return {"action": "create-group", "group": self.group}


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    """rmdir of a control group that the agent created and no class needs any more."""

    group: str

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        return {"action": "remove-group", "group": self.group}


@dataclass(frozen=True, slots=True)
class WriteSchemata:
    """One value of one domain; ``before`` of a group still to be created is what mkdir will give it."""

    group: str
    resource: str
    domain: int
    before: int | None
    after: int

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        before = None if self.before is None else value_text(self.resource, self.before)
        after = value_text(self.resource, self.after)
        return {
            "action": "write-schemata",
            "group": self.group,
            "resource": self.resource,
            "domain": self.domain,
            "from": before,
            "to": after,
        }


@dataclass(frozen=True, slots=True)
class SetMode:
    """A change of a group's mode."""

    group: str
    before: str
    after: str

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        return {"action": "set-mode", "group": self.group, "from": self.before, "to": self.after}


@dataclass(frozen=True, slots=True)
class SetCpus:
    """A change of the CPUs whose otherwise unplaced tasks use the group."""

    group: str
    before: frozenset[int]
    after: frozenset[int]

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        return {"action": "set-cpus", "group": self.group, "from": sorted(self.before), "to": sorted(self.after)}


@dataclass(frozen=True, slots=True)
class MoveTasks:
    """So many threads are not in their group."""

    group: str
    count: int

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        return {"action": "move-tasks", "group": self.group, "count": self.count}


@dataclass(frozen=True, slots=True)
class CreateMonitoring:
    """mkdir of a workload's monitoring group."""

    group: MonitoringGroup
    workload: str

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        return {"action": "create-monitoring-group", "group": self.group.path, "workload": self.workload}


@dataclass(frozen=True, slots=True)
class MoveMonitoring:
    """A workload changes class: its monitoring group moves to another control group, with all its threads."""

    group: MonitoringGroup
    to: MonitoringGroup
    workload: str

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        move = {"from": self.group.path, "to": self.to.path}
        return {"action": "move-monitoring-group", "group": self.group.path, "workload": self.workload, **move}


@dataclass(frozen=True, slots=True)
class RemoveMonitoring:
    """rmdir of a monitoring group whose workload is gone, or is no longer to be counted apart."""

    group: MonitoringGroup
    workload: str

    def as_json(self) -> dict[str, object]:
        """The action as ``plan --output json`` shows it."""
        return {"action": "remove-monitoring-group", "group": self.group.path, "workload": self.workload}


MonitoringAction = CreateMonitoring | MoveMonitoring | RemoveMonitoring

GroupAction = CreateGroup | RemoveGroup | WriteSchemata | SetMode | SetCpus | MoveTasks

Action = GroupAction | MonitoringAction
