"""What a new control group gets: a CLOSID, an RMID, and its share of everything."""

import errno
from collections.abc import Sequence

from agent.emulator.controls import BandwidthControl
from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group
from agent.emulator.identifiers import ClosidPool, RmidPool
from agent.emulator.mounted import Mount
from agent.emulator.overlap import Part, lowest_run


class Identifiers:
    """The CLOSIDs and RMIDs of one mount. ``rmids`` is None on a machine that cannot monitor."""

    def __init__(self, closids: ClosidPool, rmids: RmidPool | None, *, rmid_first: bool) -> None:
        self._closids = closids
        self._rmids = rmids
        self._rmid_first = rmid_first

    def take_both(self) -> tuple[int, int]:
        """A CLOSID and an RMID, or neither. Raises RefusedError."""
        if self._rmid_first:
            rmid = self.take_rmid()
            try:
                return self._take_closid(), rmid
            except RefusedError:
                self.give_back_rmid(rmid)
                raise
        closid = self._take_closid()
        try:
            return closid, self.take_rmid()
        except RefusedError:
            self._closids.give_back(closid)
            raise

    def take_rmid(self) -> int:
        """For a monitoring group; 0 where nothing is monitored. Raises RefusedError."""
        if self._rmids is None:
            return 0
        try:
            return self._rmids.take()
        except OSError as error:
            raise RefusedError(error.errno or 0, "Out of RMIDs\n") from None

    def give_back(self, group: Group) -> None:
        """What a removed group and its monitoring groups had."""
        for each in (group, *group.children):
            self.give_back_rmid(each.rmid)
        if not group.parent:
            self._closids.give_back(group.closid)

    def give_back_rmid(self, rmid: int) -> None:
        """Into limbo, where there is one."""
        if self._rmids is not None:
            self._rmids.give_back(rmid)

    def _take_closid(self) -> int:
        closid = self._closids.take()
        if closid is None:
            raise RefusedError(errno.ENOSPC, "Out of CLOSIDs\n")
        return closid


def initialise(mount: Mount, others: Sequence[Group], group: Group) -> None:
    """Give a new group what the ``others`` leave. Raises RefusedError where that is too little."""
    controls = mount.controls
    for control in controls.all:
        for domain in control.domains:
            if isinstance(control, BandwidthControl):
                share = control.unlimited
            else:
                share = _initial_mask(mount, Part(controls, others, control, domain))
            controls.set(control.name, domain, group.closid, share)


def _initial_mask(mount: Mount, part: Part) -> int:
    cache = part.control.cache
    mask = part.free_ways()
    if mount.rules.narrows_sparse_masks or not cache.sparse_masks:
        mask = lowest_run(mask)
    if mask.bit_count() < cache.min_cbm_bits:
        raise RefusedError(errno.ENOSPC, f"No space on {part.control.name}:{part.domain}\n")
    return mask
