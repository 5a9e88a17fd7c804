"""The events that others may rely on: each has an id in the journal, an entry in the message catalogue, a sentence.

A caller logs an event's name with its fields, ``log.info("placed", workload=…, class_=…, group=…, threads=…)``;
``logs.py`` makes the sentence of it. Fields beyond the sentence's are welcome: the journal and JSON carry them all.
What is not listed here is logged as a sentence of its own and may change at any time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """A stable event. Its id never changes; systemd/resctrl-agent.catalog says at length what it means."""

    id: str
    """MESSAGE_ID: 32 hexadecimal digits."""
    template: str
    """The sentence; every name in braces is a field that the caller gives."""

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields that the sentence needs."""
        return frozenset(name for _, name, _, _ in Formatter().parse(self.template) if name)

    def sentence(self, fields: Mapping[str, Any]) -> str:
        """The sentence with its fields filled in. The root group, whose name is empty, reads ``/``.

        A field that the caller forgot reads ``?``: logging never raises.
        """
        return self.template.format_map(_Forgiving({key: _shown(value) for key, value in fields.items()}))


MESSAGES: Mapping[str, Message] = {
    "started": Message(
        "2542da5dc03241dc8287e82389fe6eff",
        "Version {version} started, events from {event_source} (classes: {classes}, rules: {rules})",
    ),
    "stopped": Message(
        "cd2ff8da7c5241f48ea758ed077694d5",
        "Stopped by {reason}; groups and limits stay in force",
    ),
    "policy accepted": Message(
        "d65e442c2f014dc28789751b4c2cf167",
        "Policy {policy} is in force (classes: {classes}, rules: {rules})",
    ),
    "policy refused": Message(
        "8efcdd0625fc4429b54fa43d8f943f0d",
        "Policy {policy} is refused, the one before stays in force: {problems}",
    ),
    "placed": Message(
        "15278ff4dcc64079965bd6cd81908e57",
        "Placed {workload} in class {class_} (threads moved: {threads})",
    ),
    "partial": Message(
        "8b6f696a150b4d4482e2ee5c5d4e7d33",
        "Placed {workload} in class {class_} only in part: {reason}; trying again",
    ),
    "events lost": Message(
        "57e0b11858b6416ca527860a50298d3e",
        "The kernel dropped {lost} events; looking at every workload",
    ),
    "closids exhausted": Message(
        "a2c441f90eb8499db3fde1f99f7c7675",
        "No CLOSID is left for class {class_}: all {total} are held, by {holders}",
    ),
    "drift corrected": Message(
        "4b3539aeaf444fcba563561eb884651b",
        "Somebody changed group {group}; put right: {changes}",
    ),
    "hotplug corrected": Message(
        "6b1f7d0e3a52486f9d0c1e0f4b7a9c35",
        "CPUs came online or went offline, which changed group {group}; put right: {changes}",
    ),
    "contended": Message(
        "95fa7d9fbb1b4a84ab92699572503b6d",
        "Somebody keeps taking {workload} from class {class_} to group {other_group}; leaving it there",
    ),
    "event source fallback": Message(
        "c875ff5aef34449bb91b1e43a7b8e777",
        "eBPF cannot be used, so the cgroup tree is scanned every second and tasks are placed late: {reason}",
    ),
}


class _Forgiving(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def _shown(value: object) -> object:
    match value:
        case "":
            return "/"
        case list() | tuple():
            return ", ".join(str(_shown(each)) for each in value)
        case dict():
            return " ".join(f"{key}={each}" for key, each in value.items())
        case _:
            return value
