"""What is said of what was put right."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.reconcile.actions import Action, CreateGroup, SetCpus, SetMode, WriteSchemata
from agent.resctrl.machine import read_machine
from agent.service.drift import say_drift, say_drift_after_hotplug

MACHINE = read_machine(Path(__file__).parents[2] / "machines/intel-12way")

RESET = WriteSchemata("batch", "L3", 1, 0xFFF, 0xF)
"""Of a domain that came back with all ways."""
CHANGED = WriteSchemata("batch", "L3", 0, 0x1, 0xF)
OTHERS_RESET = WriteSchemata("other", "MB", 1, 100, 20)


def said(log: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(record["event"], record["group"], record["changes"]) for record in log]


def test_what_hotplug_did_is_told_apart_from_what_somebody_did() -> None:
    with capture_logs() as log:
        say_drift_after_hotplug([RESET, OTHERS_RESET, CHANGED], MACHINE)
    assert said(log) == [
        ("hotplug corrected", "batch", "L3:1 fff → f"),
        ("hotplug corrected", "other", "MB:1 100 → 20"),
        ("drift corrected", "batch", "L3:0 1 → f"),
    ]


def test_without_hotplug_everything_is_somebodys_doing() -> None:
    with capture_logs() as log:
        say_drift([RESET, CHANGED])
    assert said(log) == [("drift corrected", "batch", "L3:1 fff → f; L3:0 1 → f")]


def test_a_group_is_said_once_whatever_the_order_of_the_steps() -> None:
    relaxed = SetMode("batch", "exclusive", "shareable")
    exclusive = SetMode("batch", "shareable", "exclusive")
    with capture_logs() as log:
        say_drift_after_hotplug([relaxed, OTHERS_RESET, RESET, exclusive], MACHINE)
    assert [(group, changes) for _, group, changes in said(log)] == [
        ("batch", "exclusive → shareable; L3:1 fff → f; shareable → exclusive"),
        ("other", "MB:1 100 → 20"),
    ]


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (SetCpus("batch", frozenset(), frozenset({1, 2, 3})), "cpus none → 1-3"),
        (SetCpus("batch", frozenset({1, 3}), frozenset()), "cpus 1,3 → none"),
        (WriteSchemata("batch", "MB", 0, None, 20), "MB:0 unknown → 20"),
        (CreateGroup("batch"), "create-group"),
    ],
)
def test_an_action_is_told_in_few_words(action: Action, words: str) -> None:
    with capture_logs() as log:
        say_drift([action])
    assert said(log) == [("drift corrected", "batch", words)]
