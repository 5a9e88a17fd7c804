"""One QEMU process: the emulated machine, without anything that the laboratory means by it."""

import os
import shlex
import socket
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import external, guest_boot, guest_system, tsc
from .errors import LabError
from .qmp import Monitor

MEMORY = "2G"
"""Of a guest; the host gives what of it is touched."""

CPUS = "4,sockets=2,cores=2,threads=1"
"""Two sockets, since each has an L3 and so is a domain of resctrl."""

PROCESSORS = {
    "intel": "max,vendor=GenuineIntel,family=6,model=106,stepping=6,model-id=Lab-RDT",
    # Leaf 0x80000020 tells of AMD's QoS, so leaves must go so far.
    "amd": "max,vendor=AuthenticAMD,family=25,model=1,stepping=1,xlevel=0x80000020,model-id=Lab-QoS",
}
"""Model numbers of processors that have the real thing. The kernel asks CPUID, but for errata it asks the model."""

COSTLY = ("la57", "smap", "smep", "pku", "svm", "umip", "xsave", "avx", "avx2", "fma", "f16c", "vaes", "vpclmulqdq")
"""Features that cost emulation much: a fifth level of page tables, checks at each access, wide registers to save at
each switch, and vector code in libc that is slower than plain code once it is translated."""

KERNEL_OPTIONS = (
    "console=ttyS0",
    "loglevel=4",
    "panic=-1",  # at once, so that -no-reboot ends QEMU and the host is told
    "tsc=reliable",  # no watchdog compares it with a timer that a busy host delays
    "no_timer_check",
    "nowatchdog",  # a CPU that the host does not run is not stuck
    "mitigations=off",
    "nokaslr",
    "audit=0",
    "apparmor=0",
    "random.trust_cpu=on",
    "cryptomgr.notests",
    "rcupdate.rcu_expedited=1",  # else each rmdir of a cgroup, each unload of a probe waits for slow grace periods
    "net.ifnames=0",
    "systemd.show_status=0",
    "systemd.mask=systemd-udev-settle.service",
)

CONSOLE = "console.log"
COMPLAINTS = "qemu.log"

PORTS = ("control", "input", "output", "error")
"""Virtio ports, named lab.<port> in the guest: guest_files/root/usr/local/sbin/lab-agent says what goes over them."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a machine is put together from."""

    qemu: Path
    system: Path
    boot: Path
    vendor: str
    settings: Mapping[str, str]
    """Of the model of RDT and AMD QoS: QEMU's environment."""
    project: Path
    """A directory that the guest can mount read-only, under the tag ``project``."""
    share: Path | None
    """One that it can mount and write in, under the tag ``share``."""


class Machine:
    """A running QEMU, and this end of its ports."""

    def __init__(self, ports: Mapping[str, socket.socket], logs: Path) -> None:
        self._logs = logs
        self.ports = ports
        try:
            self.monitor = Monitor(ports["monitor"])
        except LabError as failed:
            raise LabError(f"{failed}: {self.last_words()}") from failed

    def save(self, state: Path) -> None:
        """Stop, and write down everything but the memory. Raises LabError."""
        self.monitor.execute("stop")
        self.monitor.migrate("migrate", f"exec:cat >{shlex.quote(str(state))}")

    def load(self, state: Path) -> None:
        """Go on from where a machine of the same parts was saved. Raises LabError."""
        self.monitor.migrate("migrate-incoming", f"exec:cat {shlex.quote(str(state))}")
        self.monitor.execute("cont")

    def last_words(self) -> str:
        """What QEMU complained of, and the end of what the guest wrote to its console."""
        texts = (external.last_lines(self._logs / name) for name in (COMPLAINTS, CONSOLE))
        return "\n".join(text for text in texts if text) or "it said nothing"


@contextmanager
def booting(parts: Parts, memory: Path, logs: Path) -> Iterator[Machine]:
    """A machine that boots, with its memory in a file that is left behind."""
    rate = tsc.rate_khz()
    with _running(parts, memory, "on", logs, "-append", f"{_kernel_line()} tsc_early_khz={rate}") as machine:
        yield machine


@contextmanager
def waiting(parts: Parts, memory: Path, logs: Path) -> Iterator[Machine]:
    """A machine that waits for a state to load. Its memory begins as the file and changes in private."""
    with _running(parts, memory, "off", logs, "-append", _kernel_line(), "-incoming", "defer") as machine:
        yield machine


@contextmanager
def _running(parts: Parts, memory: Path, shared: str, logs: Path, *more: str) -> Iterator[Machine]:
    with ExitStack() as stack:
        ours: dict[str, socket.socket] = {}
        theirs: dict[str, socket.socket] = {}
        for name in (*PORTS, "monitor"):
            ours[name], theirs[name] = map(stack.enter_context, socket.socketpair())
        descriptors = {name: end.fileno() for name, end in theirs.items()}
        line = [*_command_line(parts, f"{_quoted(memory)},share={shared}", logs, descriptors), *more]
        process = _start(line, parts.settings, descriptors.values(), logs)
        stack.callback(process.wait)
        stack.callback(process.kill)
        for end in theirs.values():
            end.close()  # else QEMU's end would not be noticed here
        yield Machine(ours, logs)


def _start(
    line: Sequence[str], settings: Mapping[str, str], descriptors: Collection[int], logs: Path
) -> subprocess.Popen[bytes]:
    (logs / CONSOLE).write_bytes(b"")
    with (logs / COMPLAINTS).open("wb") as complaints:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *line],  # whoever starts it may be killed before it can clean up
            stdin=subprocess.DEVNULL,
            stdout=complaints,
            stderr=complaints,
            env={**os.environ, **settings},
            pass_fds=list(descriptors),
        )


def _kernel_line() -> str:
    return " ".join(KERNEL_OPTIONS)


def _command_line(parts: Parts, memory: str, logs: Path, descriptors: Mapping[str, int]) -> Iterator[str]:
    yield from (str(parts.qemu / "qemu-system-x86_64"), "-L", str(parts.qemu))
    yield from ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
    yield from ("-M", "pc,hpet=off,memory-backend=memory", "-m", MEMORY, "-smp", CPUS)
    yield from ("-object", f"memory-backend-file,id=memory,size={MEMORY},mem-path={memory}")
    yield from ("-cpu", ",".join((PROCESSORS[parts.vendor], *(f"{feature}=off" for feature in COSTLY))))
    # One thread for all CPUs of a guest. With one each, on a busy host, a CPU now and then ran an int3 that the kernel
    # had put into its own code while changing it (mounting resctrl does) and had taken out again: the guest panicked.
    yield from ("-accel", "tcg,thread=single,tb-size=256")
    yield from ("-kernel", str(parts.system / guest_system.KERNEL), "-initrd", str(parts.boot / guest_boot.INITRAMFS))
    disk = _quoted(parts.system / guest_system.ROOT)
    yield from ("-drive", f"file={disk},format=raw,if=virtio,readonly=on,cache=unsafe")
    yield from ("-serial", f"file:{logs / CONSOLE}")
    yield from _directory("project", parts.project, "readonly=on")
    # A machine without the device could not go on from a snapshot of one with it.
    yield from _directory("share", parts.share or parts.project, "readonly=off" if parts.share else "readonly=on")
    yield from ("-device", "virtio-serial-pci")
    for name in PORTS:
        yield from ("-chardev", f"socket,id={name},fd={descriptors[name]}")
        yield from ("-device", f"virtserialport,chardev={name},name=lab.{name}")
    yield from ("-chardev", f"socket,id=monitor,fd={descriptors['monitor']}", "-mon", "chardev=monitor,mode=control")


def _directory(tag: str, path: Path, access: str) -> Iterator[str]:
    yield from ("-fsdev", f"local,id={tag},path={_quoted(path)},security_model=none,multidevs=remap,{access}")
    yield from ("-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}")


def _quoted(path: Path) -> str:
    """A comma is doubled where QEMU takes commas for the end of a value."""
    return str(path).replace(",", ",,")
