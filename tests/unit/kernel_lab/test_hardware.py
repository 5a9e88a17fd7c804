"""What is said of emulated hardware, and that the model in QEMU hears it."""

import re
from pathlib import Path

import pytest

from tests.kernel.lab.distributions import distribution
from tests.kernel.lab.errors import LabError
from tests.kernel.lab.hardware import FLAVOURS, Counters, Hardware, hardware

MODEL = Path(__file__).parents[2] / "kernel/lab/qemu/rdt_config.c"


def read_by_the_model() -> set[str]:
    source = MODEL.read_text()
    return {f"QEMU_RDT_{field}" for field in re.findall(r'number\("(\w+)"', source)} | set(
        re.findall(r'getenv\("(\w+)"\)', source)
    )


def test_the_model_reads_all_settings_and_no_others() -> None:
    everything = {**FLAVOURS["intel"].settings(), **Counters(unavailable_rmid=1, error_rmid=2).settings()}
    assert set(everything) == read_by_the_model()


def test_settings_are_numbers_as_the_model_reads_them() -> None:
    settings = Hardware("x", l3_shareable=0xC00, sparse_masks=True, mba=False).settings()
    assert settings["QEMU_RDT_L3_SHAREABLE"] == "3072"
    assert settings["QEMU_RDT_SPARSE_MASKS"] == "1"
    assert settings["QEMU_RDT_MBA"] == "0"
    assert settings["QEMU_RDT_EVENTS"] == "7"


def test_mount_options_are_no_setting_of_the_processor() -> None:
    assert FLAVOURS["intel-cdp"].settings() == FLAVOURS["intel"].settings()


def test_counters_that_read_well_are_not_mentioned() -> None:
    assert set(Counters().settings()) == {"QEMU_RDT_BUSY_CPU_MBPS"}


@pytest.mark.parametrize("look_up", [hardware, distribution])
def test_an_unknown_name_is_answered_with_those_that_there_are(look_up) -> None:
    with pytest.raises(LabError, match=r"'z80'; there are \w+"):
        look_up("z80")


def test_each_is_found_by_its_name() -> None:
    assert all(hardware(name).name == name for name in FLAVOURS)
