import os
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.service.journal import Journal, encode, field_name, is_journal_stream
from tests.unit.service.journald import Journald, decode


def test_an_entry_arrives_field_by_field(journald: Journald) -> None:
    with Journal(str(journald.path)) as journal:
        journal.send(encode({"MESSAGE": "placed", "PRIORITY": "6"}))
    assert journald.entry() == {"MESSAGE": b"placed", "PRIORITY": b"6"}


def test_an_entry_too_long_for_a_datagram_arrives_whole(journald: Journald) -> None:
    with Journal(str(journald.path)) as journal:
        journal.send(encode({"MESSAGE": "x" * (20 << 20), "PRIORITY": "3"}))
    assert journald.entry() == {"MESSAGE": b"x" * (20 << 20), "PRIORITY": b"3"}


def test_a_short_entry_needs_no_file(journald: Journald) -> None:
    with Journal(str(journald.path)) as journal:
        journal.send(encode({"MESSAGE": "short"}))
    assert not journald.entry_came_as_a_file()


def test_a_journald_that_was_restarted_is_found_again(journald: Journald) -> None:
    with Journal(str(journald.path)) as journal:
        journald.close()
        journald.path.unlink()
        with closing(Journald(journald.path)) as restarted:
            journal.send(encode({"MESSAGE": "after the restart"}))
            assert restarted.entry() == {"MESSAGE": b"after the restart"}


def test_a_journald_that_is_gone_is_an_error(journald: Journald) -> None:
    with Journal(str(journald.path)) as journal:
        journald.close()
        with pytest.raises(OSError, match="refused"):
            journal.send(encode({"MESSAGE": "unheard"}))


def test_no_journald_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Journal(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("plain", b"NAME=plain\n"),
        ("a=b", b"NAME=a=b\n"),
        ("", b"NAME=\n"),
        ("grün", "NAME=grün\n".encode()),
        ("two\nlines", b"NAME\n\x09\0\0\0\0\0\0\0two\nlines\n"),
        (os.fsdecode(b"not \xff UTF-8"), b"NAME=not \\udcff UTF-8\n"),
    ],
)
def test_a_value_is_sent_as_the_protocol_wants_it(value: str, sent: bytes) -> None:
    assert encode({"NAME": value}) == sent


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True), st.text()))
def test_what_is_encoded_can_be_decoded(fields: dict[str, str]) -> None:
    assert decode(encode(fields)) == {name: value.encode("utf-8", "backslashreplace") for name, value in fields.items()}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("class", "CLASS"),
        ("latency_us", "LATENCY_US"),
        ("event source", "EVENT_SOURCE"),
        ("_private", "PRIVATE"),
        ("2nd", "ND"),
        ("x" * 100, "X" * 64),
    ],
)
def test_a_field_name_is_one_that_journald_takes(text: str, name: str) -> None:
    assert field_name(text) == name


def test_the_journal_stream_is_known_by_device_and_inode(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w") as stderr:
        stat = os.fstat(stderr.fileno())
        ours = {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
        redirected = {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino + 1}"}
        assert is_journal_stream(stderr.fileno(), ours)
        assert not is_journal_stream(stderr.fileno(), redirected)
        assert not is_journal_stream(stderr.fileno(), {})


def test_a_closed_descriptor_is_no_journal_stream() -> None:
    assert not is_journal_stream(1 << 20, {"JOURNAL_STREAM": "8:1"})
