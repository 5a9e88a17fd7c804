"""CPUs of the guest, switched off and on: four, two to each of the L3 domains 0 and 1."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.resctrl.cpulist import parse_cpu_list

_CPUS = Path("/sys/devices/system/cpu")


def online() -> frozenset[int]:
    """Those that are online."""
    return parse_cpu_list((_CPUS / "online").read_text())


def switch(cpu: int, *, on: bool) -> None:
    """Returns when it is done, resctrl's part included."""
    (_CPUS / f"cpu{cpu}/online").write_text("1" if on else "0")


@contextmanager
def offline(*cpus: int) -> Iterator[None]:
    """Switched off one after the other, and on again at the end."""
    try:
        for cpu in cpus:
            switch(cpu, on=False)
        yield
    finally:
        for cpu in sorted(set(cpus) - online()):
            switch(cpu, on=True)
