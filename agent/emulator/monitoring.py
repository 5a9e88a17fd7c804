"""Monitoring: ``mon_data``, and what ``info/L3_MON`` lets one set."""

import errno
from collections.abc import Iterator, Mapping

from agent.emulator import numbers
from agent.emulator.assignment import AssignmentFiles, AssignMode, begin_line
from agent.emulator.counters import COUNTED_AT_FIRST, AssignableCounters
from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group
from agent.emulator.machines import Monitoring
from agent.emulator.mounted import Mount
from agent.emulator.schemata import WHITESPACE
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory, File, Read, fixed

_EVENT_MASK = 0x7F
"""Every kind of transfer that a bandwidth event can count."""

_COUNTER_TEXT = "0\n"
"""There is no model of traffic or occupancy behind the emulated counters."""


class EventSettings:
    """What can be set about counters, for the whole mount."""

    def __init__(self, mount: Mount, monitoring: Monitoring) -> None:
        self._monitoring = monitoring
        self._status = mount.status
        self._counters = mount.counters
        self._shows_mode = mount.rules.assigns_counters
        self._configurable = monitoring.configurable and mount.rules.configures_events
        self._threshold = self._rounded(monitoring.threshold_limit // monitoring.num_rmids)
        self._counted: Mapping[str, dict[int, int]] = {
            event: dict.fromkeys(monitoring.domains, mask) for event, mask in COUNTED_AT_FIRST.items()
        }

    def fill(self, info: Directory) -> None:
        """Add ``L3_MON`` to ``info``."""
        directory = info.directory("L3_MON")
        directory.file("num_rmids", fixed(f"{self._monitoring.num_rmids}\n"))
        directory.file("mon_features", lambda _: self._features())
        directory.file("max_threshold_occupancy", lambda _: f"{self._threshold}\n", self._write_threshold)
        configurations = list(self._configurations(directory)) if self._configurable else []
        if self._counters:
            AssignmentFiles(self._counters, self._status).fill_info(directory)
        if self._shows_mode:
            AssignMode(self._counters, self._status, configurations).fill(directory)

    def _features(self) -> str:
        configured = self._configurable and not (self._counters and self._counters.in_use)
        lines = []
        for event in self._monitoring.events:
            lines.append(event)
            if configured and event in self._counted:
                lines.append(f"{event}_config")
        return "".join(f"{line}\n" for line in lines)

    def _configurations(self, directory: Directory) -> Iterator[File]:
        for event in sorted(self._counted.keys() & set(self._monitoring.events)):
            yield self._configuration(directory, event)

    def _configuration(self, directory: Directory, event: str) -> File:
        counted = self._counted[event]

        def read(_: Caller) -> str:
            return ";".join(f"{domain}=0x{mask:02x}" for domain, mask in counted.items()) + "\n"

        def write(_: Caller, text: str) -> None:
            self._configure(counted, text)

        return directory.file(f"{event}_config", read, write)

    def _configure(self, counted: dict[int, int], text: str) -> None:
        """Each domain is in force as soon as it is read, whatever follows it."""
        rest = begin_line(self._status, text)
        while rest:
            assignment, _, rest = rest.partition(";")
            domain, mask = _configuration(assignment.strip(WHITESPACE))
            if domain not in counted:
                raise RefusedError(errno.EINVAL)
            counted[domain] = mask

    def _write_threshold(self, _: Caller, text: str) -> None:
        try:
            threshold = numbers.unsigned(numbers.c_string(text), 0, 32)
        except ValueError:
            raise RefusedError(errno.EINVAL) from None
        except OverflowError:
            raise RefusedError(errno.ERANGE) from None
        if threshold > self._monitoring.threshold_limit:
            raise RefusedError(errno.EINVAL)
        self._threshold = self._rounded(threshold)

    def _rounded(self, threshold: int) -> int:
        return threshold // self._monitoring.counter_unit * self._monitoring.counter_unit


def fill_counters(directory: Directory, group: Group, monitoring: Monitoring, mount: Mount) -> None:
    """Add a group's ``mon_data``."""
    counters = directory.directory("mon_data")
    nodes = monitoring.sub_numa_nodes if mount.rules.knows_sub_numa_clusters else 1
    for position, domain in enumerate(monitoring.domains):
        cache = counters.directory(f"mon_L3_{domain:02}")
        _add_events(cache, group, domain, mount)
        if nodes > 1:
            for node in range(position * nodes, (position + 1) * nodes):
                _add_events(cache.directory(f"mon_sub_L3_{node:02}"), group, domain, mount)


def _add_events(directory: Directory, group: Group, domain: int, mount: Mount) -> None:
    monitoring = mount.machine.monitoring
    for event in monitoring.events if monitoring else ():
        directory.file(event, _count(group, event, domain, mount.counters))


def _count(group: Group, event: str, domain: int, counters: AssignableCounters | None) -> Read:
    def read(_: Caller) -> str:
        counted = counters is None or counters.counts(group, event, domain)
        return _COUNTER_TEXT if counted else "Unassigned\n"

    return read


def _configuration(assignment: str) -> tuple[int, int]:
    domain, _, mask = assignment.partition("=")
    number = _number(domain, 10, "Missing '=' or non-numeric domain id\n")
    counted = _number(mask, 16, "Non-numeric event configuration value\n")
    if counted & ~_EVENT_MASK:
        raise RefusedError(errno.EINVAL, f"Invalid event configuration: max valid mask is 0x{_EVENT_MASK:02x}\n")
    return number, counted


def _number(text: str, base: int, complaint: str) -> int:
    try:
        return numbers.unsigned(text, base, 64)
    except (ValueError, OverflowError):
        raise RefusedError(errno.EINVAL, complaint) from None
