"""The name of a monitoring group, and its place in the tree."""

from dataclasses import dataclass

DIRECTORY = "mon_groups"
"""Where the kernel keeps a control group's monitoring groups."""


@dataclass(frozen=True, slots=True, order=True)
class MonitoringGroup:
    """One monitoring group. Its members are members of its control group too."""

    control: str
    """Its control group; "" is the root group."""
    name: str

    @property
    def path(self) -> str:
        """From resctrl's root: ``batch/mon_groups/web.service``, ``mon_groups/web.service``."""
        return f"{self.control}/{DIRECTORY}/{self.name}" if self.control else f"{DIRECTORY}/{self.name}"
