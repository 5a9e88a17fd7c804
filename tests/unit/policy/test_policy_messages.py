import pytest

from agent.policy import load
from agent.policy.model import Position
from agent.policy.problem import PolicyRefusedError, Problem, Severity
from agent.policy.render import as_json, as_text


def problem(line: str | None, column: int, hint: str | None = None) -> Problem:
    return Problem(Severity.ERROR, "this is wrong", Position("policy.yaml", 12, column), hint, line)


def test_a_message_shows_the_line_and_points_at_the_place(refused):
    (found,) = refused("version: 1\nclasses:\n  batch:\n    l3: 130%\n")
    assert as_text(found) == (
        'policy.yaml:4:9: error: class "batch": l3 "130%" is more than 100 %\n'
        "        l3: 130%\n"
        "            ^"
    )  # fmt: skip


def test_a_hint_comes_last(refused):
    (found,) = refused("version: 1\nclasses:\n  batch:\n    l3s: 30%\n")
    assert as_text(found).splitlines()[-1] == 'hint: did you mean "l3"?'


def test_a_problem_without_a_line_is_one_line(tmp_path):
    assert as_text(problem(None, 1)) == "policy.yaml:12:1: error: this is wrong"


@pytest.mark.parametrize(
    ("line", "column", "shown", "caret"),
    [
        ("\tl3: 130%", 6, "\tl3: 130%", "\t    ^"),
        ("名前: 130%", 5, "名前: 130%", "      ^"),
        ("e\u0301: 130%", 5, "e\u0301: 130%", "   ^"),
        ("a: \x1b[31m", 4, "a: \ufffd[31m", "   ^"),
        ("\u202ea: b", 5, "\ufffda: b", "    ^"),
        ("abc", 9, "abc", "   ^"),
    ],
)
def test_the_caret_stands_below_what_is_meant(line, column, shown, caret):
    assert as_text(problem(line, column)).splitlines()[1:] == [f"    {shown}", f"    {caret}"]


def test_a_long_line_is_shown_around_the_place():
    line = "x" * 5000 + "HERE" + "y" * 5000
    _, shown, caret = as_text(problem(line, 5001)).splitlines()
    assert len(shown) < 120
    assert shown[caret.index("^") :].startswith("HERE")


def test_json_has_what_others_rely_on():
    assert as_json(problem("x", 9, "try this")) == {
        "file": "policy.yaml",
        "line": 12,
        "column": 9,
        "severity": "error",
        "message": "this is wrong",
        "hint": "try this",
    }


def test_the_exception_says_the_first_mistake_and_how_many_follow(refused, write):
    with pytest.raises(
        PolicyRefusedError, match=r"^policy.yaml:1:10: policy: version must be 1, not 2 \(and 1 more\)$"
    ):
        load(write("version: 2\nx: 1\n"))
