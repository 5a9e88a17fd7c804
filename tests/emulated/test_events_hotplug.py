"""Uevents of this machine's own kernel: writing an action to a device's ``uevent`` makes it send one."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events.hotplug import HotplugWatch
from tests.emulated.running_agent import DEADLINE_S

CPU = Path("/sys/devices/system/cpu/cpu0/uevent")

pytestmark = pytest.mark.skipif(not os.access(CPU, os.W_OK), reason="/sys is read-only")


@pytest.fixture
def watch() -> Iterator[HotplugWatch]:
    made = HotplugWatch()
    yield made
    made.close()


def wakes(watch: HotplugWatch, within_s: float) -> bool:
    return bool(select.select([watch], [], [], within_s)[0])


def test_the_kernel_tells_of_a_cpu_once_for_all_that_happened_to_it(watch: HotplugWatch) -> None:
    CPU.write_text("online\n")
    CPU.write_text("offline\n")
    assert wakes(watch, DEADLINE_S)
    watch.acknowledge()
    assert not wakes(watch, 0)
    CPU.write_text("online\n")
    assert wakes(watch, DEADLINE_S)


def test_what_is_told_of_other_devices_is_kept_back(watch: HotplugWatch) -> None:
    """The kernel has delivered a uevent when the write of it returns."""
    CPU.write_text("change\n")
    assert not wakes(watch, 0)
