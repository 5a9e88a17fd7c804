"""A resctrl mount as tests see it: plain system calls, and what the machine says of itself."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.contract.mounting import KernelMounting, Mounting

PATIENCE_S = 20
NOT_EMULATED = "not emulated: "
"""How the reason begins for which a test is left out on an emulator alone."""
NOT_GROUPS = {"info", "mon_data", "mon_groups"}


class Resctrl:
    """A mount whose kernel follows the rules of ``kernel``: 6.1, 6.12 or 7.2."""

    def __init__(self, mounting: Mounting, kernel: str) -> None:
        self.mounting = mounting
        self.path = mounting.path
        self.kernel = kernel
        self.untouched: dict[str, str] = {}

    # What the kernel and the machine are

    @property
    def real(self) -> bool:
        """Whether this is a kernel's, not an emulator's."""
        return isinstance(self.mounting, KernelMounting)

    def need_real(self, what: str) -> None:
        """Leave the test out on an emulator, which does not have ``what``."""
        if not self.real:
            pytest.skip(f"{NOT_EMULATED}{what}")

    @property
    def takes_lists(self) -> bool:
        return self.kernel != "6.1"

    @property
    def pads(self) -> bool:
        return self.kernel != "7.2"

    @property
    def clears_always(self) -> bool:
        return self.kernel == "7.2"

    @property
    def monitors(self) -> bool:
        return (self.path / "info/L3_MON").is_dir()

    @property
    def allocates(self) -> bool:
        return bool(self.schemata())

    @property
    def caches(self) -> list[str]:
        """Names of the lines that are masks."""
        return [name for name in self.schemata() if name.startswith("L")]

    @property
    def cache(self) -> str | None:
        """One of them; the same for each call."""
        return self.caches[-1] if self.caches else None

    def sparse(self, cache: str) -> bool:
        """Whether masks may have holes; kernels that do not say so tell by asking for no least number of ways."""
        if (self.path / "info" / cache / "sparse_masks").exists():
            return self.number(cache, "sparse_masks") == 1
        return self.number(cache, "min_cbm_bits") == 0

    @property
    def in_mbps(self) -> bool:
        return "4294967295" in self.untouched["schemata"]

    @property
    def closids(self) -> int:
        return min(int(file.read_text()) for file in self.path.glob("info/*/num_closids"))

    def number(self, resource: str, file: str, base: int = 10) -> int:
        return int(self.read(f"info/{resource}/{file}"), base)

    def full(self, cache: str) -> int:
        return self.number(cache, "cbm_mask", 16)

    def domains(self, resource: str) -> list[int]:
        return list(self.schemata()[resource])

    def schemata(self, group: str = "") -> dict[str, dict[int, str]]:
        """Lines by name, values by domain, without padding of any kind but zeros."""
        lines = (line.split(":") for line in self.read(f"{group}/schemata").splitlines())
        return {
            name.strip(): {int(d): v.strip() for d, _, v in (part.partition("=") for part in values.split(";"))}
            for name, values in lines
        }

    def masks(self, group: str, cache: str) -> dict[int, int]:
        return {domain: int(mask, 16) for domain, mask in self.schemata(group)[cache].items()}

    # System calls

    def read(self, file: str) -> str:
        return (self.path / file.lstrip("/")).read_text()

    def write(self, file: str, text: str | bytes) -> None:
        """One write(2), which succeeds."""
        content = text.encode() if isinstance(text, str) else text
        descriptor = os.open(self.path / file.lstrip("/"), os.O_WRONLY)
        try:
            assert os.write(descriptor, content) == len(content)
        finally:
            os.close(descriptor)

    def mkdir(self, group: str, mode: int = 0o777) -> str:
        """Make a group, as soon as there is an RMID for it: they rest a while after their groups are gone."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                (self.path / group).mkdir(mode)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return group

    def rmdir(self, group: str) -> None:
        (self.path / group).rmdir()

    def rename(self, group: str, new: str) -> None:
        os.rename(self.path / group, self.path / new)  # noqa: PTH104 - the system call is what is tested

    @property
    def status(self) -> str:
        return self.read("info/last_cmd_status")

    def refusal(self, file: str, text: str | bytes) -> tuple[str, str]:
        """The name of the errno that writing fails with, and last_cmd_status after it."""
        return errno_of(lambda: self.write(file, text)), self.status

    def set_masks(self, group: str, cache: str, mask: int) -> None:
        self.write(f"{group}/schemata", f"{cache}:" + ";".join(f"{d}={mask:x}" for d in self.domains(cache)) + "\n")

    def set_all_masks(self, group: str, mask: int) -> None:
        for cache in self.caches:
            self.set_masks(group, cache, mask)

    def make_stale(self) -> str:
        """Leave a text in last_cmd_status; returns it."""
        assert errno_of(lambda: self.write("mode", "stale\n")) == "EINVAL"
        return self.status

    def tasks(self, group: str = "") -> set[int]:
        return {int(line) for line in self.read(f"{group}/tasks").splitlines()}

    # The untouched state

    def remember(self) -> None:
        for file in ("schemata", "cpus"):
            self.untouched[file] = self.read(file)
        for file in ("mbm_total_bytes_config", "mbm_local_bytes_config", "max_threshold_occupancy"):
            with suppress(FileNotFoundError):
                self.untouched[f"info/L3_MON/{file}"] = self.read(f"info/L3_MON/{file}")

    def reset(self) -> None:
        self.remove_groups()
        self.write("mode", "shareable\n")
        for file, content in self.untouched.items():
            if content and self.read(file) != content:
                self.write(file, content)

    def remove_groups(self) -> None:
        for place in (self.path / "mon_groups", self.path):
            for entry in place.iterdir() if place.is_dir() else ():
                if entry.is_dir() and entry.name not in NOT_GROUPS:
                    entry.rmdir()


class Processes:
    """Processes to move about. Each sleeps until its end of a pipe is closed, and then does what it was made for."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            # Not communicate: what the process started may hold its ends of the pipes.
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()  # type: ignore[union-attr]  # both are pipes

    def start(self, program: str = "import sys; sys.stdin.read()", uid: int | None = None) -> subprocess.Popen[str]:
        """A Python process with pipes for stdin and stdout."""
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=uid,
            group=uid,
            extra_groups=[] if uid else None,
        )
        self._started.append(process)
        return process

    def sleeper(self, uid: int | None = None) -> int:
        """The id of a process that does nothing."""
        process = self.start("import sys; print(flush=True); sys.stdin.read()", uid)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    def sleeper_with_id_below(self, pid: int) -> int:
        """One that is younger than process ``pid`` but has a lower id."""
        while True:
            free = next(lower for lower in range(pid - 1, 1, -1) if not Path(f"/proc/{lower}").exists())
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(free - 1))
            found = self.sleeper()
            if found < pid:
                return found

    def threads(self, count: int) -> list[int]:
        """Thread ids of one process, its leader first."""
        process = self.start(
            f"""
import os, sys, threading
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range({count - 1})]
for thread in threads: thread.start()
print(os.getpid(), *(thread.native_id for thread in threads), flush=True)
sys.stdin.read()
end.set()
"""
        )
        return [int(tid) for tid in self.line(process).split()]

    def line(self, process: subprocess.Popen[str]) -> str:
        """The next line that the process prints."""
        assert process.stdout is not None
        return process.stdout.readline()

    def say(self, process: subprocess.Popen[str], text: str = "") -> None:
        """Give it a line to read."""
        assert process.stdin is not None
        process.stdin.write(text + "\n")
        process.stdin.flush()


def errno_of(call: Callable[[], object]) -> str:
    """The name of the errno that a call fails with."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    raise AssertionError("it succeeded")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s"
        time.sleep(0.01)


def free_pid() -> int:
    """An id that no task has."""
    limit = int(Path("/proc/sys/kernel/pid_max").read_text())
    return next(pid for pid in range(limit - 1, 1, -1) if not Path(f"/proc/{pid}").exists())


def lowest_ways(count: int) -> int:
    return (1 << count) - 1


def run_as(uid: int, program: str, *arguments: str) -> str:
    """What a Python program prints that runs as another user."""
    return subprocess.run(
        [sys.executable, "-S", "-c", program, *arguments],
        user=uid,
        group=uid,
        extra_groups=[],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


WRITE_AS = """
import errno, os, sys
descriptor = os.open(sys.argv[1], os.O_WRONLY)
try:
    os.write(descriptor, sys.argv[2].encode())
    print("OK")
except OSError as error:
    print(errno.errorcode[error.errno])
"""
"""A program for ``run_as``: writes its second argument to the file that its first names."""
