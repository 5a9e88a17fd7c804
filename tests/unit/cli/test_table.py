import pytest

from agent.cli.amounts import amount_text
from agent.cli.table import schemata_as_json, table, values_text
from agent.resctrl.machine import Machine, read_machine
from tests.unit.cli.conftest import MACHINES


def machine(name: str) -> Machine:
    return read_machine(MACHINES / name, frozenset())


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right():
    assert table(("CLASS", "THREADS", "L3"), [("batch", "7", "f"), ("a", "1200", ""), ("b", "-", "7ff")]) == [
        "CLASS  THREADS  L3",
        "batch        7  f",
        "a         1200",
        "b            -  7ff",
    ]


@pytest.mark.parametrize(
    ("resource", "values", "text"),
    [
        ("L3", {0: 0x7FF}, "0: 7ff"),
        ("L3", {1: 0xF, 0: 0xF}, "0–1: f"),
        ("L3", {0: 0xF, 1: 0xFF, 2: 0xF, 16: 0xF}, "0, 2, 16: f; 1: ff"),
        ("MB", {0: 100, 128: 20}, "0: 100; 128: 20"),
        ("MB", {}, ""),
    ],
)
def test_domains_of_the_same_value_stand_together(resource, values, text):
    assert values_text(machine("xeon-11way"), resource, values) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("xeon-11way", 20, "20"),
        ("xeon-11way", 100, "100"),
        ("mba-mbps", 1000, "1000 MiB/s"),
        ("mba-mbps", 4294967295, "max"),
        ("amd", 80, "10 GB/s (80)"),
        ("amd", 2048, "max"),
    ],
)
def test_rates_have_their_unit(name, value, text):
    assert amount_text(machine(name), "MB", value) == text


def test_json_has_values_as_the_kernel_prints_them():
    assert schemata_as_json({"L3": {1: 0x1F, 0: 0x7FF}, "MB": {0: 100}}) == {
        "L3": {"0": "7ff", "1": "1f"},
        "MB": {"0": "100"},
    }
