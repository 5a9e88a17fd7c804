"""What a node should be, and the message when it is not: mappings with known keys, lists, texts, truth values."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from agent.policy.model import Position, Rule
from agent.policy.nodes import Kind, Mapping, Node, Scalar, Sequence
from agent.policy.report import Report

LONGEST_TEXT = 4096
"""Characters; PATH_MAX, and what the kernel takes in one write."""

_LONGEST_QUOTE = 60
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping, and what stands there."""

    key: Scalar
    value: Node

    @property
    def position(self) -> Position:
        """Where the value stands; the key, where the value was left out."""
        return self.value.position


def entries(node: Node, subject: str, known: Iterable[str], report: Report) -> dict[str, Entry]:
    """A mapping's entries whose keys are known; the others are errors that name the nearest known key."""
    names = tuple(known)
    found = named_entries(node, subject, report)
    for name in [name for name in found if name not in names]:
        entry = found.pop(name)
        message = f"{subject}: unknown key {quoted(name)}"
        report.error(entry.key.position, message, _key_hint(name, names))
    return found


def named_entries(node: Node, subject: str, report: Report) -> dict[str, Entry]:
    """A mapping's entries, whatever their keys. A key given twice counts once and is an error."""
    if is_nothing(node):
        return {}
    if not isinstance(node, Mapping):
        report.error(node.position, f"{subject} must be a mapping of keys to values, not {described(node)}")
        return {}
    found: dict[str, Entry] = {}
    for key, value in node.entries:
        if not isinstance(key, Scalar):
            report.error(key.position, f"{subject}: a key must be a single word, not {described(key)}")
        elif key.text in found:
            first = found[key.text].key.position
            report.error(key.position, f"{subject}: {quoted(key.text)} is given twice, first at {first}")
        else:
            found[key.text] = Entry(key, value)
    return found


def is_nothing(node: Node) -> bool:
    """Whether a value was left out, or is ``null``."""
    return isinstance(node, Scalar) and node.kind is Kind.NOTHING


def text(node: Node, subject: str, report: Report) -> Scalar | None:
    """A text or a number, as written. Never empty, and without control characters, which no name on a machine has."""
    if isinstance(node, Scalar) and len(node.text) > LONGEST_TEXT:
        report.error(node.position, f"{subject} {quoted(node.text)} is longer than {LONGEST_TEXT} characters")
        return None
    if isinstance(node, Scalar) and node.kind in (Kind.TEXT, Kind.NUMBER) and node.text:
        return _without_controls(node, subject, report)
    hint = f'for the text, write "{node.text}"' if isinstance(node, Scalar) and node.kind is Kind.BOOLEAN else None
    report.error(node.position, f"{subject} must be a text, not {described(node)}", hint)
    return None


def truth(node: Node, subject: str, report: Report) -> bool:
    """``true`` or ``false``."""
    if isinstance(node, Scalar) and node.kind is Kind.BOOLEAN:
        return node.text.lower() == "true"
    report.error(node.position, f"{subject} must be true or false, not {described(node)}")
    return False


def one_of(node: Node, subject: str, choices: Iterable[str], report: Report) -> str | None:
    """One of a few words."""
    words = tuple(choices)
    if isinstance(node, Scalar) and node.text in words:
        return node.text
    near = nearest(node.text, words) if isinstance(node, Scalar) else None
    report.error(node.position, f"{subject} must be {alternatives(words)}, not {described(node)}", near)
    return None


def items(node: Node, subject: str, report: Report) -> Iterator[Node]:
    """The nodes of a list, or the one that stands in its place. An empty list is an error."""
    if not isinstance(node, Sequence):
        yield node
        return
    if not node.items:
        report.error(node.position, f"{subject} is an empty list", "leave the key out, or say what it should be")
    yield from node.items


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The hint that names what was likely meant, if anything is near enough."""
    # Long words are not slips of the pen, and comparing them costs the square of their length.
    matches = get_close_matches(word.lower(), list(known), n=1) if len(word) <= _LONGEST_QUOTE else []
    return f'did you mean "{matches[0]}"?' if matches else None


def quoted(word: str) -> str:
    """A word of the file as messages show it: short, on one line, and harmless to a terminal."""
    short = word if len(word) <= _LONGEST_QUOTE else word[: _LONGEST_QUOTE - 1] + "…"
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short) + '"'


def described(node: Node) -> str:
    """What stands there, for "…, not a list"."""
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case Scalar(kind=Kind.NOTHING):
            return "nothing"
        case Scalar(kind=Kind.BOOLEAN | Kind.NUMBER):
            return node.text if len(node.text) <= _LONGEST_QUOTE else "a long number"
        case Scalar():
            return quoted(node.text)


def label(rule: Rule) -> str:
    """What messages call a rule."""
    return f"rule {quoted(rule.name)}" if rule.name else rule.label


def alternatives(words: Iterable[str]) -> str:
    """``"a", "b" or "c"``."""
    *rest, last = (f'"{word}"' for word in words)
    return f"{', '.join(rest)} or {last}" if rest else last


def _without_controls(node: Scalar, subject: str, report: Report) -> Scalar | None:
    strange = _CONTROL.search(node.text)
    if strange is None:
        return node
    hint = 'a block text ("|", ">") ends in a newline; write it on one line' if strange.group() == "\n" else None
    message = f"{subject} {quoted(node.text)} has the character U+{ord(strange.group()):04X} in it"
    report.error(node.position, message, hint)
    return None


def _key_hint(name: str, known: tuple[str, ...]) -> str:
    if name == "<<":
        return "merge keys are not read, so that a value has one place; write the keys out"
    key, colon, value = name.partition(":")
    if colon and key in known:
        return f'a colon needs a space after it: "{key}: {value.strip()}"'
    return nearest(name, known) or f"known keys are {', '.join(known)}"
