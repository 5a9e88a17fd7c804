"""YAML text → nodes that know where they stand, and nothing that YAML would make of them.

YAML's own values are of no use here: they lose positions, take the last of two equal keys, and turn ``0x7f0`` and
``010`` into numbers. So a tree is built straight from the parser's events. Nothing is expanded or recursed into on the
way, and the limits on depth and size count aliases as if they were written out: what comes out is safe to walk.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import yaml

from agent.policy.model import Position

MAX_DEPTH = 32
"""Levels of nesting; a policy needs seven."""

MAX_NODES = 50_000
"""Keys, values, lists and mappings of one file, aliases written out. A rule takes about ten."""

_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# What YAML 1.1 allows in a stream. The parsers check it too, but tell only the offset, in units that differ.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

_KEY_WITHOUT_SPACE = re.compile(r"\s*(?:- +)?(?P<key>\w+):(?P<value>[^\s:]\S*)")
_NO_KEY = (
    "could not find expected ':'",
    "mapping values are not allowed",
    "did not find expected key",
    "expected <block end>",
)
"""What the parsers say where a key, or its colon, is missing."""

_LOOK_BACK = 3
"""Lines, with one or two of comments or blanks among them."""

_NULL = re.compile("~|null|Null|NULL|")
_BOOLEAN = re.compile("true|True|TRUE|false|False|FALSE")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Source:
    """One file of the policy: its name as messages show it, and its text."""

    file: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines as YAML counts them, without their ends."""
        return _LINE_BREAK.split(self.text)

    def position(self, offset: int) -> Position:
        """Where the character at ``offset`` stands."""
        before = _LINE_BREAK.split(self.text[:offset])
        return Position(self.file, len(before), len(before[-1]) + 1)


class Kind(Enum):
    """What a scalar is by YAML 1.2's core schema, as editors see it: ``yes`` and ``12:30`` are text."""

    NOTHING = "nothing"
    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, as written but for quotes."""

    position: Position
    text: str
    plain: bool
    """Not quoted."""

    @property
    def kind(self) -> Kind:
        """What it would be to an editor."""
        if not self.plain:
            return Kind.TEXT
        kinds = ((_NULL, Kind.NOTHING), (_BOOLEAN, Kind.BOOLEAN), (_NUMBER, Kind.NUMBER))
        return next((kind for pattern, kind in kinds if pattern.fullmatch(self.text)), Kind.TEXT)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    position: Position
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values in the file's order; a key may still stand there twice."""

    position: Position
    entries: tuple[tuple["Node", "Node"], ...]


Node = Scalar | Sequence | Mapping


class NotReadableError(Exception):
    """The text is not one YAML document of reasonable size. There is at most one such mistake a file."""

    def __init__(self, position: Position, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.position = position
        self.message = message
        self.hint = hint


def compose(source: Source) -> Node | None:
    """The document's root, None where there are only comments. Raises NotReadableError."""
    strange = _UNPRINTABLE.search(source.text)
    if strange:
        message = f"the character U+{ord(strange.group()):04X} cannot be in YAML"
        raise NotReadableError(source.position(strange.start()), message)
    composer = _Composer(source)
    try:
        for event in yaml.parse(source.text, Loader=_Loader):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(source, error) from error
    except yaml.YAMLError as error:
        raise NotReadableError(Position(source.file, 1, 1), f"not YAML: {error}") from error
    return composer.root


@dataclass(frozen=True, slots=True)
class _Built:
    """A node and its size with aliases written out: nodes, and levels."""

    node: Node
    nodes: int
    height: int


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    event: yaml.CollectionStartEvent
    children: list[_Built] = field(default_factory=list)


class _Composer:
    def __init__(self, source: Source) -> None:
        self.root: Node | None = None
        self._source = source
        self._open: list[_Open] = []
        self._anchors: dict[str, _Built] = {}
        self._documents = 0
        self._nodes = 0

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._start_document(event)
            case yaml.AliasEvent():
                self._add(event, self._alias(event))
            case yaml.ScalarEvent():
                self._refuse_tag(event)
                scalar = Scalar(self._position(event), event.value, event.style in (None, ""))
                self._add(event, _Built(scalar, nodes=1, height=1))
            case yaml.CollectionStartEvent():
                self._refuse_tag(event)
                self._check_depth(event, 1)
                self._open.append(_Open(event))
            case yaml.CollectionEndEvent():
                opened = self._open.pop()
                self._add(opened.event, self._close(opened))

    def _start_document(self, event: yaml.DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            hint = 'remove the "---", or put the second document into policy.d'
            raise NotReadableError(self._position(event), "a second YAML document begins here", hint)

    def _alias(self, event: yaml.AliasEvent) -> _Built:
        anchor = str(event.anchor)
        built = self._anchors.get(anchor)
        if built is None:
            hint = f'for the text "*{anchor}", put it in quotes'
            within = any(opened.event.anchor == anchor for opened in self._open)
            what = "stands inside what it refers to" if within else "refers to nothing before it"
            raise NotReadableError(self._position(event), f"the alias *{anchor} {what}", hint)
        return built

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag is not None:
            hint = f'for the text "{event.tag}", put it in quotes' if event.tag.startswith("!") else None
            raise NotReadableError(self._position(event), f"a policy has no use for the YAML tag {event.tag}", hint)

    def _add(self, event: yaml.NodeEvent, built: _Built) -> None:
        self._check_depth(event, built.height)
        # A list or mapping was counted child by child.
        self._nodes += built.nodes if isinstance(event, yaml.AliasEvent) else 1
        if self._nodes > MAX_NODES:
            hint = "aliases count as if they were written out" if self._anchors else None
            raise NotReadableError(self._position(event), f"more than {MAX_NODES} keys and values", hint)
        if event.anchor is not None:
            self._anchors[event.anchor] = built
        if self._open:
            self._open[-1].children.append(built)
        else:
            self.root = built.node

    def _close(self, opened: _Open) -> _Built:
        position = self._position(opened.event)
        nodes = [built.node for built in opened.children]
        node: Node
        if isinstance(opened.event, yaml.MappingStartEvent):
            node = Mapping(position, tuple(_entries(nodes)))
        else:
            node = Sequence(position, tuple(nodes))
        size = 1 + sum(built.nodes for built in opened.children)
        return _Built(node, size, 1 + max((built.height for built in opened.children), default=0))

    def _check_depth(self, event: yaml.NodeEvent, height: int) -> None:
        if len(self._open) + height > MAX_DEPTH:
            raise NotReadableError(self._position(event), _TOO_DEEP)

    def _position(self, event: yaml.Event) -> Position:
        return _position(self._source, event.start_mark)


def _entries(nodes: list[Node]) -> Iterator[tuple[Node, Node]]:
    for key, value in zip(nodes[::2], nodes[1::2], strict=True):
        if isinstance(value, Scalar) and value.plain and not value.text:
            # A value that was left out stands nowhere; its key is what a reader can find.
            yield key, Scalar(key.position, "", plain=True)
        else:
            yield key, value


def _position(source: Source, mark: Any) -> Position:
    return Position(source.file, mark.line + 1, mark.column + 1)


def _syntax_error(source: Source, error: yaml.MarkedYAMLError) -> NotReadableError:
    mark = error.problem_mark or error.context_mark
    ends = mark is None or (mark.line + 1 >= len(source.lines) and mark.column >= len(source.lines[-1]))
    if error.context_mark is not None and (ends or error.context == "while scanning a quoted scalar"):
        mark = error.context_mark
    position = _position(source, mark) if mark else Position(source.file, 1, 1)
    if "maximum nesting depth" in str(error.problem):
        # libyaml reads ahead of its events, and gives up at a depth of its own before ours is seen.
        return NotReadableError(position, _TOO_DEEP)
    unspaced = _unspaced(source, position, error)
    if unspaced is not None:
        return unspaced
    context = f" {error.context}" if error.context else ""
    return NotReadableError(position, f"not YAML: {error.problem}{context}", _syntax_hint(source, position, error))


def _unspaced(source: Source, position: Position, error: yaml.MarkedYAMLError) -> NotReadableError | None:
    """``mb:40%`` is a text to YAML, which notices that it is no key at the colon of a line further down."""
    if not any(sign in str(error.problem) for sign in _NO_KEY):
        return None
    for number in range(position.line, max(position.line - _LOOK_BACK, 0), -1):
        found = _KEY_WITHOUT_SPACE.match(source.lines[number - 1]) if number <= len(source.lines) else None
        if found:
            at = Position(source.file, number, found.start("value") + 1)
            hint = f'a colon needs a space after it: "{found["key"]}: {found["value"]}"'
            return NotReadableError(at, f"not YAML: {error.problem}", hint)
    return None


def _syntax_hint(source: Source, position: Position, error: yaml.MarkedYAMLError) -> str | None:
    line = source.lines[position.line - 1] if position.line <= len(source.lines) else ""
    if error.context in ("while scanning an alias", "while scanning an anchor"):
        return 'a pattern that begins with "*" or "&" must be in quotes'
    if "\t" in line[: position.column]:
        return "YAML is indented with spaces; there is a tab in this line"
    if "cannot start any token" in str(error.problem):
        return "a text that begins with this character must be in quotes"
    return None
