"""Units of the real systemd, all gone at the end."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.emulated.running_agent import until
from tests.kernel.inside.whereabouts import DEADLINE_S, threads_in

_UNIT_FILES = Path("/run/systemd/system")


@dataclass
class Units:
    """Units that a test starts, of the system's service manager or of a user's."""

    scope: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)

    def start(self, *names: str) -> None:
        """Starts units that have files; returns when they have started."""
        self.started += names
        self.systemctl("start", *names)

    def run(self, unit: str, *arguments: str | Path, block: bool = True) -> None:
        """Starts a transient unit with ``systemd-run``."""
        self.started.append(unit)
        wait = () if block else ("--no-block",)
        self._call("systemd-run", "--quiet", "--collect", f"--unit={unit}", *wait, *map(str, arguments))

    def run_scope(self, unit: str, *arguments: str | Path) -> "subprocess.Popen[bytes]":
        """Starts a program in a scope of its own, which ``systemd-run`` itself becomes."""
        self.started.append(unit)
        command = ["systemd-run", *self.scope, "--quiet", "--collect", "--scope", f"--unit={unit}"]
        return subprocess.Popen([*command, *map(str, arguments)], env={**os.environ, **self.environment})

    def stop(self, *names: str) -> None:
        """Stops units; returns when nothing of them is left."""
        cgroups = [self.cgroup(name) for name in names]
        self.systemctl("stop", *names)
        for cgroup in filter(None, cgroups):
            until(lambda cgroup=cgroup: not threads_in(cgroup), f"{cgroup} is empty", DEADLINE_S)

    def cgroup(self, name: str) -> str:
        """Where systemd says that the unit's processes are; "" for a unit that has none."""
        return self.systemctl("show", "--property=ControlGroup", "--value", name).strip()

    def main_pid(self, name: str) -> int:
        """The service's main process, 0 where there is none."""
        return int(self.systemctl("show", "--property=MainPID", "--value", name))

    def systemctl(self, *arguments: str) -> str:
        """What it prints."""
        return self._call("systemctl", *arguments)

    def stop_all(self) -> None:
        """Stops what was started and is still there."""
        names, self.started = self.started, []
        command = ["systemctl", *self.scope, "stop", *names]
        if names:  # a unit that has ended by itself is not known any more, which is as good
            subprocess.run(command, check=False, capture_output=True, env={**os.environ, **self.environment})

    def _call(self, program: str, *arguments: str) -> str:
        command = [program, *self.scope, *arguments]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env={**os.environ, **self.environment}
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout


@contextmanager
def unit_files(units: Mapping[str, str]) -> Iterator[None]:
    """Unit files by name (``x.service``, ``x.service.d/y.conf``), known to systemd until the end."""
    paths = [_UNIT_FILES / name for name in units]
    for path, text in zip(paths, units.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    try:
        yield
    finally:
        for path in paths:
            path.unlink()
        subprocess.run(["systemctl", "daemon-reload"], check=True)


@contextmanager
def units() -> Iterator[Units]:
    """Units of the system's service manager."""
    made = Units()
    try:
        yield made
    finally:
        made.stop_all()
