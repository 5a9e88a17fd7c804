"""The map of ways of a whole machine: every cache that can be divided."""

from collections.abc import Mapping

from agent.cli.output import tell, tell_drawing
from agent.cli.ways import HARDWARE_LEGEND, LEGEND, LEGEND_BESIDE_ROOT, Holder, draw
from agent.resctrl.machine import Machine
from agent.resctrl.schemata import Schemata


def tell_map(machine: Machine, groups: Mapping[str, Schemata], root: str | None) -> None:
    """Draws who has which ways. ``groups``: label → schemata; ``root``: that of the root group if no class has it.

    Nothing is drawn where no cache can be divided.
    """
    for cache in machine.caches:
        for name in cache.schemata_names:
            holders = [Holder(label, schemata.get(name, {}), label == root) for label, schemata in groups.items()]
            tell([""])
            tell_drawing(draw(name, cache.cbm_mask, cache.shareable_bits, holders))
    if machine.caches:
        tell([""])
        tell_drawing([LEGEND if root is None else LEGEND_BESIDE_ROOT])
        if any(cache.shareable_bits for cache in machine.caches):
            tell([HARDWARE_LEGEND])
