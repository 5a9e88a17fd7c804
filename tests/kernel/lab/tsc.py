"""The rate of this machine's time-stamp counter, which the emulated processor's counter is too."""

import ctypes
import mmap
import time
from collections.abc import Callable
from pathlib import Path

_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
"""rdtsc; shl rdx, 32; or rax, rdx; ret"""

MEASURED_S = 0.3


def rate_khz() -> int:
    """Measured here and told to the guest's kernel, which would measure it wrong on a busy machine.

    It calibrates against an emulated timer within some milliseconds, in which the host may well run something else.
    With a rate that is off, its clocks drift, timeouts come early or late, and it gives up the counter as unstable.
    """
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(_RDTSC)
        return _ticks_per_ms(ctypes.addressof(ctypes.c_char.from_buffer(code)))


def processor() -> str:
    """Model name of the processor: a snapshot has the rate in it, so another machine's is none for this one."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")


def _ticks_per_ms(address: int) -> int:
    ticks: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)
    started_ns, first = time.monotonic_ns(), ticks()
    time.sleep(MEASURED_S)
    ended_ns, last = time.monotonic_ns(), ticks()
    return round((last - first) * 1e6 / (ended_ns - started_ns))
