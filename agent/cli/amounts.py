"""A value of a schemata file as people read it. Pure."""

from agent.resctrl.bandwidth import step_text
from agent.resctrl.machine import BandwidthUnit, Machine
from agent.resctrl.schemata import value_text


def amount_text(machine: Machine, resource: str, value: int) -> str:
    """``7f0``, ``20`` (per cent); with its unit where the machine counts in rates: ``10 GB/s (80)``, ``max``."""
    bandwidth = machine.bandwidth(resource)
    if bandwidth is None or bandwidth.unit is BandwidthUnit.PERCENT:
        return value_text(resource, value)
    if value >= bandwidth.maximum:
        return "max"
    text = step_text(bandwidth, value)
    return text if bandwidth.unit is BandwidthUnit.MBPS else f"{text} ({value})"
