"""Monitoring: ``mon_data``, and what ``info/L3_MON`` lets one set."""

import errno
from collections.abc import Mapping

from agent.emulator import numbers
from agent.emulator.errors import RefusedError
from agent.emulator.machines import Monitoring
from agent.emulator.rules import KernelRules
from agent.emulator.schemata import WHITESPACE
from agent.emulator.status import LastCommandStatus
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory, fixed

_EVENT_MASK = 0x7F
"""Every kind of transfer that a bandwidth event can count."""

_COUNTED_AT_FIRST = {"mbm_total_bytes": 0x7F, "mbm_local_bytes": 0x15}

_COUNTER_TEXT = "0\n"
"""There is no model of traffic or occupancy behind the emulated counters."""


class EventSettings:
    """What can be set about counters, for the whole mount."""

    def __init__(self, monitoring: Monitoring, status: LastCommandStatus) -> None:
        self._monitoring = monitoring
        self._status = status
        self._threshold = self._rounded(monitoring.threshold_limit // monitoring.num_rmids)
        self._counted: Mapping[str, dict[int, int]] = {
            event: dict.fromkeys(monitoring.domains, mask) for event, mask in _COUNTED_AT_FIRST.items()
        }

    def fill(self, info: Directory, rules: KernelRules) -> None:
        """Add ``L3_MON`` to ``info``."""
        configurable = self._monitoring.configurable and rules.configures_events
        directory = info.directory("L3_MON")
        directory.file("num_rmids", fixed(f"{self._monitoring.num_rmids}\n"))
        directory.file("mon_features", fixed(self._features(configurable=configurable)))
        if "llc_occupancy" in self._monitoring.events:
            directory.file("max_threshold_occupancy", lambda _: f"{self._threshold}\n", self._write_threshold)
        if configurable:
            for event in sorted(self._counted):
                self._add_configuration(directory, event)
        if rules.shows_assign_mode:
            directory.file("mbm_assign_mode", fixed("[default]\n"), self._write_assign_mode)

    def _features(self, *, configurable: bool) -> str:
        lines = []
        for event in self._monitoring.events:
            lines.append(event)
            if configurable and event in self._counted:
                lines.append(f"{event}_config")
        return "".join(f"{line}\n" for line in lines)

    def _add_configuration(self, directory: Directory, event: str) -> None:
        counted = self._counted[event]

        def read(_: Caller) -> str:
            return ";".join(f"{domain}=0x{mask:02x}" for domain, mask in counted.items()) + "\n"

        def write(_: Caller, text: str) -> None:
            self._configure(counted, text)

        directory.file(f"{event}_config", read, write)

    def _configure(self, counted: dict[int, int], text: str) -> None:
        """Each domain is in force as soon as it is read, whatever follows it."""
        if not text.endswith("\n"):
            raise RefusedError(errno.EINVAL)
        self._status.clear()
        rest = numbers.c_string(text[:-1])
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

    def _write_assign_mode(self, _: Caller, text: str) -> None:
        if not text.endswith("\n"):
            raise RefusedError(errno.EINVAL)
        self._status.clear()
        if text == "mbm_event\n":
            raise RefusedError(errno.EINVAL, "mbm_event mode is not supported\n")
        if text != "default\n":
            raise RefusedError(errno.EINVAL, "Unsupported assign mode\n")


def fill_counters(directory: Directory, monitoring: Monitoring, rules: KernelRules) -> None:
    """Add a group's ``mon_data``."""
    counters = directory.directory("mon_data")
    nodes = monitoring.sub_numa_nodes if rules.knows_sub_numa_clusters else 1
    for position, domain in enumerate(monitoring.domains):
        cache = counters.directory(f"mon_L3_{domain:02}")
        _add_events(cache, monitoring)
        if nodes > 1:
            for node in range(position * nodes, (position + 1) * nodes):
                _add_events(cache.directory(f"mon_sub_L3_{node:02}"), monitoring)


def _add_events(directory: Directory, monitoring: Monitoring) -> None:
    for event in monitoring.events:
        directory.file(event, fixed(_COUNTER_TEXT))


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
