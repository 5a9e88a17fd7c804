import ast
import re
from pathlib import Path

import pytest

from agent.resources import resource
from agent.service.journal import field_name
from agent.service.messages import MESSAGES


def catalogue() -> dict[str, str]:
    text = resource("systemd/resctrl-agent.catalog").read_text()
    entries = re.split(r"^-- (\S+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(entries[::2], entries[1::2], strict=True))


def field_of_journal(name: str) -> str:
    return f"RESCTRL_{field_name(name.rstrip('_'))}"


def calls_that_log_a_stable_event() -> list[tuple[str, str, set[str | None]]]:
    """Where, which, and the fields that are given; None among them: further ones, unpacked from a mapping."""
    package = Path(__file__).parents[3] / "agent"
    return [
        (f"{path.relative_to(package)}:{call.lineno}", call.args[0].value, {k.arg for k in call.keywords})
        for path in sorted(package.rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value in MESSAGES
    ]


def test_the_catalogue_explains_every_stable_event_and_nothing_else() -> None:
    assert set(catalogue()) == {message.id for message in MESSAGES.values()}


def test_every_id_is_one_that_journald_takes_and_used_once() -> None:
    ids = [message.id for message in MESSAGES.values()]
    assert all(re.fullmatch(r"[0-9a-f]{32}", message_id) for message_id in ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", MESSAGES)
def test_the_catalogue_shows_only_fields_that_the_event_has(name: str) -> None:
    shown = set(re.findall(r"@([A-Z_]+)@", catalogue()[MESSAGES[name].id]))
    assert shown <= {field_of_journal(field) for field in MESSAGES[name].fields}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_catalogue_has_a_subject_for_every_event(name: str) -> None:
    assert re.match(r"\nSubject: \S.*\nDefined-By: resctrl-agent\n", catalogue()[MESSAGES[name].id])


def test_whoever_logs_a_stable_event_gives_every_field_of_its_sentence() -> None:
    incomplete = {
        f"{where}: {name}": missing
        for where, name, given in calls_that_log_a_stable_event()
        if None not in given and (missing := MESSAGES[name].fields - given)
    }
    assert incomplete == {}


def test_no_event_is_listed_that_nobody_logs() -> None:
    assert {name for _, name, _ in calls_that_log_a_stable_event()} == set(MESSAGES)


def test_the_root_group_reads_as_a_slash() -> None:
    assert "group /;" in MESSAGES["drift corrected"].sentence({"group": "", "changes": "L3:0=f"})


def test_a_forgotten_field_does_not_silence_the_event() -> None:
    sentence = MESSAGES["placed"].sentence({"workload": "/a", "class_": "batch"})
    assert sentence == "Placed /a in class batch (threads moved: ?)"


def test_a_list_of_changes_reads_as_a_list() -> None:
    changes = [{"resource": "L3", "from": "7ff", "to": "f"}, {"resource": "MB", "from": "100", "to": "20"}]
    sentence = MESSAGES["drift corrected"].sentence({"group": "batch", "changes": changes})
    assert sentence.endswith("put right: resource=L3 from=7ff to=f, resource=MB from=100 to=20")
