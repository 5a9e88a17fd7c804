"""Membership that an eBPF program keeps while threads are created, exec and end. See bpf/emulator.bpf.c."""

import ctypes
import errno
import struct
import time
from collections.abc import Iterator
from typing import Self

from agent.emulator.errors import RefusedError
from agent.emulator.groups import ROOT_NUMBER
from agent.events.btf import KernelTypes
from agent.events.libbpf import open_library
from agent.events.loader import load
from agent.resources import resource

_MOST_MEMBERS = 1 << 17
"""Threads that were moved or are outside the root group, at most."""

_MEMBER = struct.Struct("=IIQQ")
"""struct member of the program."""

_BATCH = 4096


class BpfMembership:
    """Which group each thread of the machine is in. Raises BpfUnavailableError when made where eBPF cannot be used."""

    def __init__(self) -> None:
        self._libbpf = open_library()
        self._program = load(resource("bpf/emulator.bpf.c"), cflags=_definitions(), maps=("members",))
        self._map = self._program.maps["members"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget who is where, and follow no more."""
        self._program.close()

    def place(self, tid: int, group: int) -> None:
        """Put a thread into a group. The root group too is written down: it may be the creator that is elsewhere."""
        value = _MEMBER.pack(group, 0, time.monotonic_ns(), 0)
        if self._libbpf.bpf_map_update_elem(self._map, struct.pack("=I", tid), value, ctypes.c_uint64(0)) < 0:
            raise _failed()

    def group_of(self, tid: int) -> int:
        """The group that it was put into, or that its creator was in."""
        value = ctypes.create_string_buffer(_MEMBER.size)
        if self._libbpf.bpf_map_lookup_elem(self._map, struct.pack("=I", tid), value) < 0:
            if ctypes.get_errno() != errno.ENOENT:
                raise _failed()
            return ROOT_NUMBER
        return int(_MEMBER.unpack(value.raw)[0])

    def placed(self) -> Iterator[tuple[int, int]]:
        """All threads with an entry, in no order; some may be dead by now."""
        keys = (ctypes.c_uint32 * _BATCH)()
        values = ctypes.create_string_buffer(_MEMBER.size * _BATCH)
        position, following = ctypes.c_uint32(), ctypes.c_uint32()
        start = None
        more = True
        while more:
            number = ctypes.c_uint32(_BATCH)
            # Past the last bucket it says ENOENT, with what was left filled in.
            more = (
                self._libbpf.bpf_map_lookup_batch(
                    self._map, start, ctypes.byref(following), keys, values, ctypes.byref(number), None
                )
                >= 0
            )
            if not more and ctypes.get_errno() != errno.ENOENT:
                raise _failed()
            members = _MEMBER.iter_unpack(values.raw[: number.value * _MEMBER.size])
            yield from ((tid, member[0]) for tid, member in zip(keys, members, strict=False))
            position.value = following.value
            start = ctypes.byref(position)


def _definitions() -> list[str]:
    with KernelTypes() as types:
        fields = {
            "TASK_PID": types.offset("task_struct", "pid"),
            "TASK_START_TIME": types.offset("task_struct", "start_time"),
        }
    return [f"-D{name}={value}" for name, value in {**fields, "MEMBERS": _MOST_MEMBERS}.items()]


def _failed() -> RefusedError:
    """What bpf(2) says, E2BIG when the map is full, is what the caller's write(2) fails with."""
    return RefusedError(ctypes.get_errno())
