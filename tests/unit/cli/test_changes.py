import pytest

from agent.cli.changes import sentences
from agent.reconcile.actions import CreateGroup, MoveTasks, RemoveGroup, SetCpus, SetMode, WriteSchemata
from agent.resctrl.machine import read_machine
from tests.unit.cli.conftest import MACHINES


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (CreateGroup("batch"), "create group batch"),
        (RemoveGroup("batch"), "remove group batch"),
        (WriteSchemata("batch", "L3", 0, 0x7FF, 0xF), "write L3 domain 0 of group batch: 7ff → f"),
        (WriteSchemata("", "MB", 3, 100, 20), "write MB domain 3 of the root group: 100 → 20"),
        (WriteSchemata("batch", "L3", 0, None, 0xF), "write L3 domain 0 of group batch: none → f"),
        (SetMode("batch", "shareable", "exclusive"), "set the mode of group batch: shareable → exclusive"),
        (SetCpus("batch", frozenset(), frozenset({2, 3, 8})), "set the CPUs of group batch: none → 2-3,8"),
        (MoveTasks("batch", 12), "move 12 threads into group batch"),
        (MoveTasks("", 1), "move 1 thread into the root group"),
    ],
)
def test_each_action_is_a_sentence(action, sentence):
    assert sentences([action]) == [sentence]


def test_with_a_machine_rates_have_their_unit():
    amd = read_machine(MACHINES / "amd", frozenset())
    write = WriteSchemata("batch", "MB", 0, 2048, 80)
    assert sentences([write], amd) == ["write MB domain 0 of group batch: max → 10 GB/s (80)"]


def test_the_same_write_to_many_domains_is_one_line():
    domains = (*range(8), *range(16, 24))
    writes = [WriteSchemata("batch", "L3", domain, 0xFFFF, 0xF) for domain in domains]
    assert sentences(writes) == ["write L3 domains 0–7, 16–23 of group batch: ffff → f"]


def test_writes_that_differ_keep_their_lines_and_the_order_of_their_first():
    writes = [
        WriteSchemata("a", "MB", 0, 100, 20),
        WriteSchemata("a", "L3", 0, 0xFF, 0xF),
        WriteSchemata("a", "L3", 1, 0xFF, 0x3),
        WriteSchemata("a", "L3", 2, 0xFF, 0xF),
        WriteSchemata("b", "L3", 0, 0xFF, 0xF),
    ]
    assert sentences(writes) == [
        "write MB domain 0 of group a: 100 → 20",
        "write L3 domains 0, 2 of group a: ff → f",
        "write L3 domain 1 of group a: ff → 3",
        "write L3 domain 0 of group b: ff → f",
    ]
