"""An independent record of when tasks were born, programs executed, and the agent's writes to resctrl done."""

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from agent.events.btf import KernelTypes
from agent.events.loader import load
from agent.events.ringbuffer import RingBuffer

_RECORD = struct.Struct("=QqII")
_EXEC, _BIRTH = 1, 3
_TASKS = re.compile(rb"[0-9]+(,[0-9]+)*\Z")
_SCHEMATA = re.compile(rb"[A-Z0-9]+:[0-9]+=")


@dataclass(frozen=True, slots=True)
class Exec:
    time_ns: int
    pid: int
    program: str


@dataclass
class Witness:
    """Watches from entering to leaving the ``with`` block; then the record is complete."""

    agent_pid: int
    execs: list[Exec] = field(default_factory=list)
    placed_ns: dict[int, int] = field(default_factory=dict)
    """Thread id → when the first write that named it returned."""
    schemata_ns: list[int] = field(default_factory=list)
    """When each write to a ``schemata`` returned."""
    born_ns: dict[int, int] = field(default_factory=dict)
    _records: list[bytes] = field(default_factory=list)

    def __enter__(self) -> Self:
        with KernelTypes() as types:
            offsets = {
                "PT_REGS_SI": types.offset("pt_regs", "si"),
                "PT_REGS_DX": types.offset("pt_regs", "dx"),
                "TASK_PID": types.offset("task_struct", "pid"),
                "BPRM_FILENAME": types.offset("linux_binprm", "filename"),
            }
        cflags = [f"-D{name}={offset}" for name, offset in offsets.items()] + [f"-DAGENT={self.agent_pid}"]
        self._program = load(Path(__file__).with_name("witness.bpf.c"), cflags=cflags, maps=("events",))
        self._ring = RingBuffer(self._program.maps["events"], self._records.append)
        return self

    def __exit__(self, *error: object) -> None:
        self.read()
        self._program.close()
        self._ring.close()

    def read(self) -> None:
        """Takes in what has happened so far."""
        self._ring.consume()
        for record in self._records:
            time_ns, result, kind, length = _RECORD.unpack_from(record)
            text = record[_RECORD.size :]
            if kind == _BIRTH:
                self.born_ns[result] = time_ns
            elif kind == _EXEC:
                self.execs.append(Exec(time_ns, result, text[: length - 1].decode()))
            elif result > 0 and _TASKS.match(text[:length]):
                for tid in text[:length].split(b","):
                    self.placed_ns.setdefault(int(tid), time_ns)
            elif result > 0 and _SCHEMATA.match(text):
                self.schemata_ns.append(time_ns)
        self._records.clear()
