"""Records as the eBPF programs send them. tests/emulated has them sent by a kernel."""

import struct

import pytest

from agent.events.event import Event, EventKind
from agent.events.kernel import _event


def record(kind: int, path: bytes = b"", *, tid: int = 0) -> bytes:
    return struct.pack("=QQII", 1_000_000_007, 1 << 33, tid, kind) + path


def test_an_attachment_says_who_went_where():
    assert _event(record(4, b"/a/b\0", tid=77)) == Event(EventKind.ATTACHED, 1_000_000_007, 1 << 33, 77, "/a/b")


def test_a_record_of_a_task_alone_has_no_path():
    assert _event(record(5, tid=77)) == Event(EventKind.CLONED_INTO, 1_000_000_007, 1 << 33, 77, "")


def test_names_that_are_not_utf8_survive():
    event = _event(record(1, b"/caf\xe9\0"))
    assert event
    assert event.path == "/caf\udce9"


CUT_SHORT = [b"/" + 1022 * b"x" + b"\0", b"\0", b""]


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("path", CUT_SHORT)
def test_a_path_that_was_cut_short_is_no_event(kind: int, path: bytes):
    assert _event(record(kind, path)) is None


@pytest.mark.parametrize("path", CUT_SHORT)
def test_a_task_that_moved_can_be_asked_where_to_when_the_path_was_cut_short(path: bytes):
    assert _event(record(4, path, tid=77)) == Event(EventKind.ATTACHED, 1_000_000_007, 0, 77, "")


def test_the_longest_path_that_fits_is_an_event():
    event = _event(record(1, b"/" + 1021 * b"x" + b"\0"))
    assert event
    assert len(event.path) == 1022
