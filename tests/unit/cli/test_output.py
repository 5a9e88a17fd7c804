import io
import sys

import pytest

from agent.cli.output import tell, tell_drawing

DRAWING = "  batch  ··▒▒ ████  3f – a × b → c …"


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stdout(monkeypatch):
    """``stdout(encoding, kind)`` puts a stream in stdout's place; calling the result gives what was written to it."""

    def replace(encoding: str, kind: type[io.TextIOWrapper] = io.TextIOWrapper):
        buffer = io.BytesIO()
        stream = kind(buffer, encoding=encoding)
        monkeypatch.setattr(sys, "stdout", stream)

        def written() -> str:
            stream.flush()
            return buffer.getvalue().decode(encoding)

        return written

    return replace


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "iso-8859-15"])
def test_where_signs_cannot_be_shown_there_is_ascii(stdout, encoding):
    written = stdout(encoding)
    tell([DRAWING])
    assert written() == "  batch  ..++ ####  3f - a x b -> c ...\n"


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8"])
def test_in_utf_8_all_signs_are_as_they_are(stdout, encoding):
    written = stdout(encoding)
    tell([DRAWING])
    assert written() == DRAWING + "\n"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_that_no_encoding_takes_do_not_fail(stdout, encoding):
    written = stdout(encoding)
    tell(["/a\udcff\N{SNOWMAN}"])
    assert "/a\\udcff" in written()


@pytest.mark.parametrize("say", [tell, tell_drawing])
def test_a_name_cannot_command_the_terminal(stdout, say):
    written = stdout("utf-8", Terminal)
    say(["  comm  \033]0;evil\a\x9b2J\x7f"])
    assert written() == "  comm  \\x1b]0;evil\\x07\\x9b2J\\x7f\n"


def test_nothing_is_coloured_where_no_terminal_is(stdout):
    written = stdout("utf-8")
    tell_drawing([DRAWING])
    assert "\033" not in written()


def test_a_terminal_gets_colours(stdout, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    written = stdout("utf-8", Terminal)
    tell_drawing(["··▒▒ ████"])
    assert written() == "\033[2m··\033[0m\033[33m▒▒\033[0m \033[32m████\033[0m\n"


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_none_gets_none(stdout, monkeypatch, variable, value):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    written = stdout("utf-8", Terminal)
    tell_drawing([DRAWING])
    assert written() == DRAWING + "\n"
