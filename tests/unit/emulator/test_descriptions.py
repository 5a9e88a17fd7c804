"""Untouched trees: equal to those captured from running kernels, and readable as saved descriptions."""

from pathlib import Path

import pytest

from agent.emulator.description import write_description
from agent.emulator.machines import MACHINES, Machine
from agent.emulator.rules import KERNELS
from agent.resctrl.machine import read_machine
from tests.unit.emulator.machine_specs import AMD, CDP, INTEL_12WAY

CAPTURED = Path(__file__).parent.parent.parent / "machines"
OURS_ALONE = {"mount_options"}


def files(directory: Path) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.mark.parametrize("machine", [INTEL_12WAY, AMD, CDP], ids=lambda machine: machine.name)
def test_an_untouched_tree_is_byte_for_byte_what_linux_6_1_shows(tmp_path: Path, machine: Machine) -> None:
    write_description(machine, tmp_path, KERNELS["6.1"])
    emulated, captured = files(tmp_path), files(CAPTURED / machine.name)
    assert emulated.keys() - OURS_ALONE == captured.keys()
    counted = {name for name in captured if name.startswith("mon_data/")}
    assert {n: c for n, c in emulated.items() if n not in counted | OURS_ALONE} == {
        n: c for n, c in captured.items() if n not in counted
    }


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MACHINES)
def test_each_named_machine_reads_as_a_saved_description(tmp_path: Path, name: str, kernel: str) -> None:
    machine = MACHINES[name]
    write_description(machine, tmp_path, KERNELS[kernel])
    described = read_machine(tmp_path)
    assert described.mount_options == machine.mount_options
    assert {cache.name for cache in described.caches} == {
        f"L{cache.level}" for cache in (machine.l2, machine.l3) if cache
    }
    assert (described.monitoring is None) == (machine.monitoring is None)
    for cache in described.caches:
        spec = machine.l3 if cache.name == "L3" else machine.l2
        assert spec is not None
        assert (cache.domains, cache.cbm_mask, cache.shareable_bits) == (
            spec.domains,
            spec.full_mask,
            spec.shareable_bits,
        )


def test_the_machines_of_the_manual_exist() -> None:
    assert set(MACHINES) == {
        "xeon-2s",
        "xeon-icelake-2s",
        "epyc-2s",
        "epyc-abmc",
        "l2-only",
        "mba-mbps",
        "cdp",
        "snc2",
        "mba-only",
        "monitor-only",
    }
