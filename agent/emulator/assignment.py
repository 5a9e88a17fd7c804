"""The files of assignable counters: a group's ``mbm_L3_assignments``, and what ``info/L3_MON`` has on them."""

import errno
from collections.abc import Callable, Sequence

from agent.emulator import numbers
from agent.emulator.counters import TRANSFERS, AssignableCounters
from agent.emulator.errors import RefusedError
from agent.emulator.groups import Group
from agent.emulator.schemata import WHITESPACE
from agent.emulator.status import LastCommandStatus
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory, File, Read, Write

_TRUE, _FALSE = frozenset({"y", "t", "1", "on"}), frozenset({"n", "f", "0", "of"})
_MODES = frozenset({"default", "mbm_event"})
_MODE_NEEDED = "mbm_event counter assignment mode is not enabled\n"


class AssignmentFiles:
    """Adds the files. Everything it is given belongs to one mount."""

    def __init__(self, counters: AssignableCounters, status: LastCommandStatus) -> None:
        self._counters = counters
        self._status = status

    def fill_info(self, directory: Directory) -> None:
        """Add to ``info/L3_MON`` what is there in either mode."""
        counters = self._counters
        directory.file("num_mbm_cntrs", lambda _: self._by_domain(lambda _domain: counters.number))
        directory.file("available_mbm_cntrs", self._while_in_use(lambda: self._by_domain(counters.available)))
        directory.file(
            "mbm_assign_on_mkdir",
            self._while_in_use(lambda: f"{counters.assigned_on_mkdir:d}\n"),
            self._write_assign_on_mkdir,
        )
        configurations = directory.directory("event_configs")
        for event in counters.events:
            self._add_filter(configurations.directory(event), event)

    def fill_group(self, directory: Directory, group: Group) -> None:
        """Add ``mbm_L3_assignments`` to a group."""
        directory.file(
            "mbm_L3_assignments", self._while_in_use(lambda: self._assignments(group)), self._assignments_write(group)
        )

    def _assignments(self, group: Group) -> str:
        def state(event: str) -> Callable[[int], str]:
            return lambda domain: "e" if self._counters.has(group, event, domain) else "_"

        return "".join(f"{event}:{self._by_domain(state(event))}" for event in self._counters.events)

    def _assignments_write(self, group: Group) -> Write:
        def write(_: Caller, text: str) -> None:
            command = begin_line(self._status, text)
            if not self._counters.in_use:
                raise RefusedError(errno.EINVAL, "mbm_event mode is not enabled\n")
            for line in command.split("\n"):
                event, _separator, states = line.partition(":")
                self._assign_line(group, event, states)

        return write

    def _assign_line(self, group: Group, event: str, states: str) -> None:
        """Each domain is in force as soon as it is read, whatever follows it; nothing is read after ``*``."""
        if event not in self._counters.events:
            raise RefusedError(errno.ENOENT, f"Invalid event {event}\n")
        while states:
            assignment, _, states = states.partition(";")
            domain, equals, state = assignment.strip(WHITESPACE).partition("=")
            shown = state if equals else "(null)"
            if domain.startswith("*"):
                self._assign(group, event, self._counters.domains, shown, "*")
                return
            number = _domain(domain)
            if number not in self._counters.domains:
                raise RefusedError(errno.EINVAL, f"Invalid domain id {number}\n")
            self._assign(group, event, (number,), shown, str(number))

    def _assign(self, group: Group, event: str, domains: tuple[int, ...], state: str, shown: str) -> None:
        failed = f"Assign operation '{event}:{shown}={state}' failed\n"
        if state == "_":
            self._counters.take_back(group, event, domains)
        elif state != "e":
            raise RefusedError(errno.EINVAL, failed)
        elif not self._counters.assign(group, event, domains):
            raise RefusedError(errno.ENOSPC, failed)

    def _write_assign_on_mkdir(self, _: Caller, text: str) -> None:
        value = _truth(text)
        self._status.clear()
        self._require_use()
        self._counters.assigned_on_mkdir = value

    def _add_filter(self, directory: Directory, event: str) -> None:
        def read() -> str:
            counted = self._counters.transfers[event]
            return ",".join(name for bit, name in enumerate(TRANSFERS) if counted >> bit & 1) + "\n"

        def write(_: Caller, text: str) -> None:
            command = begin_line(self._status, text)
            self._require_use()
            self._counters.transfers[event] = _transfers(command)

        directory.file("event_filter", self._while_in_use(read), write)

    def _while_in_use(self, read: Callable[[], str]) -> Read:
        """Reading is a command too: it clears the status, and says there why it is refused in the other mode."""

        def checked(_: Caller) -> str:
            self._status.clear()
            if not self._counters.in_use:
                self._status.say(_MODE_NEEDED)
                raise RefusedError(errno.EINVAL)
            return read()

        return checked

    def _require_use(self) -> None:
        if not self._counters.in_use:
            raise RefusedError(errno.EINVAL, _MODE_NEEDED)

    def _by_domain(self, value: Callable[[int], object]) -> str:
        return ";".join(f"{domain}={value(domain)}" for domain in self._counters.domains) + "\n"


class AssignMode:
    """``mbm_assign_mode``: whether counters are assigned, or every group has its own."""

    def __init__(
        self, counters: AssignableCounters | None, status: LastCommandStatus, configurations: Sequence[File]
    ) -> None:
        """``counters`` is None where only the latter is possible; ``configurations`` are the files of the latter."""
        self._counters = counters
        self._status = status
        self._configurations = configurations

    def fill(self, directory: Directory) -> None:
        """Add it to ``info/L3_MON``."""
        directory.file("mbm_assign_mode", lambda _: self._modes(), self._write)
        if self._counters:
            for file in self._configurations:
                directory.hide(file)

    def _modes(self) -> str:
        if self._counters is None:
            return "[default]\n"
        return "[mbm_event]\ndefault\n" if self._counters.in_use else "[default]\nmbm_event\n"

    def _write(self, _: Caller, text: str) -> None:
        mode = begin_line(self._status, text)
        if mode not in _MODES:
            raise RefusedError(errno.EINVAL, "Unsupported assign mode\n")
        if self._counters is None:
            if mode == "mbm_event":
                raise RefusedError(errno.EINVAL, "mbm_event mode is not supported\n")
        elif self._counters.in_use != (mode == "mbm_event"):
            self._switch(self._counters, in_use=mode == "mbm_event")

    def _switch(self, counters: AssignableCounters, *, in_use: bool) -> None:
        counters.reset(in_use=in_use)
        for file in self._configurations:
            if file.parent:
                (file.parent.hide if in_use else file.parent.show)(file)


def begin_line(status: LastCommandStatus, text: str) -> str:
    """A command without its newline. One that lacks it fails before the status is touched."""
    if not text.endswith("\n"):
        raise RefusedError(errno.EINVAL)
    status.clear()
    return numbers.c_string(text[:-1])


def _domain(text: str) -> int:
    try:
        return numbers.unsigned(text, 10, 64)
    except (ValueError, OverflowError):
        raise RefusedError(errno.EINVAL, "Missing domain id\n") from None


def _truth(text: str) -> bool:
    """As kstrtobool reads it: by the first letter, of ``on`` and ``off`` by the second."""
    said = text[:2].lower() if text[:1] in {"o", "O"} else text[:1].lower()
    if said not in _TRUE | _FALSE:
        raise RefusedError(errno.EINVAL)
    return said in _TRUE


def _transfers(text: str) -> int:
    """A mask of bits from a list of names."""
    counted = 0
    while text:
        name, _, text = text.partition(",")
        name = name.strip(WHITESPACE)
        if name not in TRANSFERS:
            raise RefusedError(errno.EINVAL, f"Invalid memory transaction type {name}\n")
        counted |= 1 << TRANSFERS.index(name)
    return counted
