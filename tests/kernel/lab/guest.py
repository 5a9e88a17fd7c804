"""A command in a guest: the laboratory as its users see it."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import agent_port, machine, snapshot, stages, tsc
from .agent_port import MS_RDONLY, Mount, Report, Request, Write
from .build import Built, built
from .distributions import distribution
from .errors import CommandTimeoutError, LabError
from .hardware import Counters, Hardware, hardware
from .machine import Machine

CHECKOUT = Path(__file__).parents[3]

TIMEOUT_S = 300.0
PREPARING_TIMEOUT_S = 900.0

SETTLED = "systemctl is-system-running --wait || true; udevadm settle"
"""What systemd and udev still have to do when the agent starts would be done again in every run."""

_9P = "trans=virtio,version=9p2000.L,msize=262144"
_PROJECT = Mount("project", "/mnt/project", "9p", MS_RDONLY, f"{_9P},cache=loose")
_SHARE = Mount("share", "/mnt/share", "9p", 0, f"{_9P},cache=none")

AS_DESCRIBED = Counters()


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    status: int
    """Its exit status; 128 and the signal's number if a signal ended it."""
    stdout: str
    stderr: str
    guest_s: float
    """By the guest's clock, which a busy host makes long."""


class Guest:
    """A kind of guest. Each run starts from the same state, and nothing that it changes is kept.

    In the guest /mnt/project is the checkout, read-only, /mnt/share is ``share``, writable, and /sys/fs/resctrl is
    mounted as the hardware says.
    """

    def __init__(
        self,
        distribution_name: str,
        flavour: str | Hardware = "intel",
        *,
        prepared: str = "",
        prepared_from: str = "",
        share: Path | None = None,
    ) -> None:
        """Start nothing yet. Raises LabError if there is no such distribution or flavour.

        ``prepared`` is a command that is run once, with the project and resctrl mounted, before the state is kept that
        runs start from: daemons that it leaves behind are in every run. ``prepared_from`` is a digest of what it reads
        in the project: with another one it is run again.
        """
        self._distribution = distribution(distribution_name)
        self._hardware = hardware(flavour) if isinstance(flavour, str) else flavour
        self._prepared = prepared
        self._prepared_from = prepared_from
        self._share = share

    def run(
        self,
        command: str,
        *,
        timeout_s: float = TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
        counters: Counters = AS_DESCRIBED,
    ) -> Finished:
        """Run a command with bash, as root. Raises CommandTimeoutError, LabError."""
        stdout, stderr = io.BytesIO(), io.BytesIO()
        request = self._request(command, environment or {})
        try:
            report = self._serve(request, counters, timeout_s, stdout.write, stderr.write)
        except TimeoutError:
            raise CommandTimeoutError(command, timeout_s, _text(stdout), _text(stderr)) from None
        return Finished(report.status, _text(stdout), _text(stderr), report.guest_s)

    def stream(
        self,
        command: str,
        stdout: Write,
        stderr: Write,
        *,
        keys: int | None = None,
        timeout_s: float = TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
    ) -> Report:
        """Run a command and pass on what it prints as it comes, and to it what can be read from descriptor ``keys``.

        Raises CommandTimeoutError, LabError.
        """
        request = self._request(command, environment or {}, keys)
        try:
            return self._serve(request, AS_DESCRIBED, timeout_s, stdout, stderr)
        except TimeoutError:
            raise CommandTimeoutError(command, timeout_s, "", "") from None

    def prepare(self) -> None:
        """Make the state that runs start from, if it is not there. Raises LabError."""
        with self._restored(AS_DESCRIBED):
            pass

    def _serve(self, request: Request, counters: Counters, timeout_s: float, stdout: Write, stderr: Write) -> Report:
        with self._restored(counters) as running:
            try:
                return agent_port.run(running.ports, request, timeout_s, stdout, stderr)
            except LabError as failed:
                raise LabError(f"{failed}\n{running.last_words()}") from failed

    def _request(self, command: str, environment: Mapping[str, str], keys: int | None = None) -> Request:
        mounts = [_PROJECT]
        if self._share is not None:
            mounts.append(_SHARE)
        if not self._prepared:  # else it is mounted already, or the preparation unmounted it
            mounts += self._resctrl()
        return Request(command, environment, mounts, keys=keys)

    def _resctrl(self) -> list[Mount]:
        options = self._hardware.mount_options
        return [] if options is None else [Mount("resctrl", "/sys/fs/resctrl", "resctrl", 0, options)]

    @contextmanager
    def _restored(self, counters: Counters) -> Iterator[Machine]:
        parts = built(self._distribution)
        settings = {**self._hardware.settings(), **counters.settings()}
        put_together = machine.Parts(
            parts.qemu, parts.system, parts.boot, self._hardware.vendor, settings, CHECKOUT, self._share
        )
        with snapshot.restored(self._key(parts), put_together, self._prepare) as running:
            yield running

    def _key(self, parts: Built) -> str:
        """All that the state depends on; how the counters behave in one run is not part of it."""
        preparation = [self._prepared, self._prepared_from, self._resctrl()] if self._prepared else []
        described = json.dumps([parts.identity, self._hardware.settings(), tsc.processor(), preparation])
        return stages.digest(described, SETTLED, Path(machine.__file__))

    def _prepare(self, booted: Machine) -> None:
        agent_port.wait_until_ready(booted.ports["control"])
        _run_once(booted, Request(SETTLED, {}, []))
        if self._prepared:
            # The project is unmounted again: each run mounts it anew, as it is then.
            mounts = [_PROJECT, *self._resctrl()]
            _run_once(booted, Request(self._prepared, {}, mounts, unmounts=["/mnt/project"]))


def _run_once(booted: Machine, request: Request) -> None:
    printed = io.BytesIO()
    try:
        report = agent_port.run(booted.ports, request, PREPARING_TIMEOUT_S, printed.write, printed.write)
    except TimeoutError:
        raise CommandTimeoutError(request.command, PREPARING_TIMEOUT_S, _text(printed), "") from None
    if report.status:
        raise LabError(f"status {report.status} of {request.command}\n{_text(printed)}")


def _text(stream: io.BytesIO) -> str:
    return stream.getvalue().decode(errors="replace")
