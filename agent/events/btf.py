"""Where the running kernel keeps the fields of its structures: its own type information (BTF), through libbpf.

BTF is megabytes large, so it is open only within a ``with`` block:

    with KernelTypes() as types:
        pid = types.offset("task_struct", "pid")
"""

import ctypes
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from agent.events.libbpf import open_library
from agent.events.unavailable import BpfUnavailableError, Cause

_STRUCT = 4
_UNION = 5


class KernelTypes:
    """The kernel's BTF. Raises BpfUnavailableError when the kernel has none or libbpf is missing."""

    def __init__(self) -> None:
        self._libbpf = _declared(open_library())
        self._btf = self._libbpf.btf__load_vmlinux_btf()
        if not self._btf:
            raise BpfUnavailableError(
                Cause.TRACEPOINTS,
                "the kernel does not describe its types in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the memory back. Closing twice is harmless."""
        self._libbpf.btf__free(self._btf)
        self._btf = None

    def offset(self, struct: str, member: str) -> int:
        """Bytes from the start of ``struct`` to ``member``, also one within anonymous structs and unions.

        Raises KeyError("struct.member") when this kernel has no such structure or member.
        """
        found = self._find(struct, member)
        if found is None:
            raise KeyError(f"{struct}.{member}")
        return found

    def has(self, struct: str, member: str) -> bool:
        """Whether this kernel's ``struct`` has ``member``."""
        return self._find(struct, member) is not None

    def _find(self, struct: str, member: str) -> int | None:
        type_id = self._libbpf.btf__find_by_name_kind(self._btf, struct.encode(), _STRUCT)
        if type_id < 0:
            return None
        bits = next((bits for name, bits in self._members(type_id, 0) if name == member.encode()), None)
        return None if bits is None else bits // 8

    def _members(self, type_id: int, base: int) -> Iterator[tuple[bytes, int]]:
        """Names and bit offsets; an anonymous member's own members take its place, as they do in C."""
        header = _Type.from_address(self._libbpf.btf__type_by_id(self._btf, type_id))
        if header.kind not in (_STRUCT, _UNION):
            return
        array = _Member * header.length
        for member in array.from_address(ctypes.addressof(header) + ctypes.sizeof(_Type)):
            # With the kind flag the upper 8 bits are the width of a bit field.
            bits = base + (member.offset & 0xFFFFFF if header.kind_flag else member.offset)
            name = self._libbpf.btf__name_by_offset(self._btf, member.name)
            if name:
                yield name, bits
            else:
                yield from self._members(member.type, bits)


class _Type(ctypes.Structure):
    """struct btf_type."""

    _fields_ = (("name", ctypes.c_uint32), ("info", ctypes.c_uint32), ("size", ctypes.c_uint32))

    info: int

    @property
    def length(self) -> int:
        return self.info & 0xFFFF

    @property
    def kind(self) -> int:
        return (self.info >> 24) & 0x1F

    @property
    def kind_flag(self) -> bool:
        return bool(self.info >> 31)


class _Member(ctypes.Structure):
    """struct btf_member."""

    _fields_ = (("name", ctypes.c_uint32), ("type", ctypes.c_uint32), ("offset", ctypes.c_uint32))


def _declared(libbpf: ctypes.CDLL) -> ctypes.CDLL:
    libbpf.btf__load_vmlinux_btf.argtypes = ()
    libbpf.btf__load_vmlinux_btf.restype = ctypes.c_void_p
    libbpf.btf__free.argtypes = (ctypes.c_void_p,)
    libbpf.btf__free.restype = None
    libbpf.btf__find_by_name_kind.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32)
    libbpf.btf__find_by_name_kind.restype = ctypes.c_int32
    libbpf.btf__type_by_id.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
    libbpf.btf__type_by_id.restype = ctypes.c_void_p
    libbpf.btf__name_by_offset.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
    libbpf.btf__name_by_offset.restype = ctypes.c_char_p
    return libbpf
