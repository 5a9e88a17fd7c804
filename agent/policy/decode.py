"""Texts → one policy, with every mistake collected."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from agent.policy.classes import classes, mount_policy, partitions
from agent.policy.consistency import check_consistency
from agent.policy.effect import warn_of_no_effect
from agent.policy.model import ClassPolicy, MountPolicy, Partition, Policy, Position, Rule
from agent.policy.nodes import Kind, Mapping, Node, NotReadableError, Scalar, Sequence, Source, compose
from agent.policy.problem import Problem
from agent.policy.report import Report, is_drop_in
from agent.policy.rules import rules
from agent.policy.shape import Entry, described, entries, is_nothing, quoted

TOP_KEYS = ("version", "resctrl", "partitions", "classes", "rules")

VERSION = "1"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A policy that can be put in force, and what is worth a warning."""

    policy: Policy
    warnings: tuple[Problem, ...]


def decode_files(sources: tuple[Source, ...], unread: Iterable[Problem] = ()) -> Loaded:
    """The policy that these files make together, the first of them the main one and the others drop-ins.

    ``unread`` are problems of reading the files. Raises PolicyRefusedError with all problems when one is an error.
    """
    report = Report(sources)
    report.extend(unread)
    draft = _Draft(report)
    whole = not report.has_errors
    for source in sources:
        whole = draft.add(source) and whole
    # Where a file is missing or is not YAML, what the others refer to may well be in it.
    if whole:
        check_consistency(draft.policy(), report)
    if not report.has_errors:
        warn_of_no_effect(draft.policy(), report)
    return Loaded(draft.policy(), report.warnings_or_refuse())


D = TypeVar("D", ClassPolicy, Partition)


@dataclass(slots=True)
class _Draft:
    """The policy as far as it was read."""

    report: Report
    files: list[str] = field(default_factory=list)
    mount: MountPolicy | None = None
    partitions: dict[str, Partition] = field(default_factory=dict)
    classes: dict[str, ClassPolicy] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    rules_seen: int = 0

    def policy(self) -> Policy:
        return Policy(
            files=tuple(self.files),
            mount=self.mount or MountPolicy(),
            partitions=self.partitions,
            classes=self.classes,
            rules=tuple(self.rules),
        )

    def add(self, source: Source) -> bool:
        """Take in one more file; False when it is no YAML at all."""
        self.files.append(source.file)
        try:
            root = compose(source)
        except NotReadableError as error:
            self.report.error(error.position, error.message, error.hint)
            return False
        self._add_document(root or Mapping(Position(source.file, 1, 1), ()))
        return True

    def _add_document(self, root: Node) -> None:
        found = entries(root, "policy", TOP_KEYS, self.report)
        if isinstance(root, Mapping) or is_nothing(root):
            self._check_version(root, found.get("version"))
        if "resctrl" in found:
            self._add_mount(found["resctrl"])
        if "partitions" in found:
            self._define("partition", self.partitions, partitions(found["partitions"].value, self.report))
        if "classes" in found:
            self._define("class", self.classes, classes(found["classes"].value, self.report))
        if "rules" in found:
            self._add_rules(found["rules"].value)

    def _check_version(self, root: Node, entry: Entry | None) -> None:
        if entry is None:
            if not is_drop_in(root.position.file):
                self.report.error(root.position, 'policy: "version" is missing', 'write "version: 1"')
        elif not (isinstance(entry.value, Scalar) and entry.value.kind is Kind.NUMBER and entry.value.text == VERSION):
            message = f"policy: version must be {VERSION}, not {described(entry.value)}"
            self.report.error(entry.position, message, "this is the only version that this agent reads")

    def _add_mount(self, entry: Entry) -> None:
        if self.mount is None:
            self.mount = mount_policy(entry, self.report)
        else:
            message = f"resctrl is given twice, first at {self.mount.position}"
            self.report.error(entry.key.position, message)

    def _define(self, what: str, defined: dict[str, D], new: Iterable[D]) -> None:
        for definition in new:
            first = defined.setdefault(definition.name, definition)
            if first is not definition:
                message = f"{what} {quoted(definition.name)} is defined twice, first at {first.position}"
                self.report.error(definition.position, message)

    def _add_rules(self, node: Node) -> None:
        self.rules += rules(node, self.rules_seen + 1, self.report)
        self.rules_seen += len(node.items) if isinstance(node, Sequence) else 0
