"""CPUs that go offline and come back, and the domains that go and come with them (§§ 9, 10)."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.resctrl_mount import Resctrl

CPUS = Path("/sys/devices/system/cpu")


@pytest.fixture
def switch(resctrl: Resctrl, request: pytest.FixtureRequest) -> Iterator["Switch"]:
    resctrl.need_real("CPUs of an emulated machine are always online")
    if not request.config.getoption("--remount"):
        pytest.skip("no CPU may be taken offline (--remount)")
    with ExitStack() as stack:
        yield Switch(stack)


class Switch:
    """Takes CPUs offline; they come back with the test's end at the latest."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def off(self, cpu: int) -> None:
        self._set(cpu, "0")
        self._stack.callback(self.on, cpu)

    def on(self, cpu: int) -> None:
        if self._file(cpu).read_text() == "0\n":
            self._set(cpu, "1")

    def _set(self, cpu: int, text: str) -> None:
        self._file(cpu).write_text(text)

    @staticmethod
    def _file(cpu: int) -> Path:
        return CPUS / f"cpu{cpu}" / "online"


@pytest.fixture
def last(resctrl: Resctrl) -> int:
    """The CPU with the highest number."""
    return int(resctrl.read("cpus_list").replace("-", ",").split(",")[-1])


@pytest.fixture
def group(resctrl: Resctrl) -> str:
    if not resctrl.allocates:
        pytest.skip("nothing to divide")
    return resctrl.mkdir("g")


def test_a_cpu_that_goes_offline_leaves_its_group_and_comes_back_into_the_root(
    resctrl: Resctrl, switch: Switch, group: str, last: int
) -> None:
    resctrl.write("g/cpus_list", f"{last - 1},{last}")
    switch.off(last)
    assert resctrl.read("g/cpus_list") == f"{last - 1}\n"
    assert resctrl.read("cpus_list") == f"0-{last - 2}\n"
    switch.on(last)
    assert resctrl.read("g/cpus_list") == f"{last - 1}\n"
    assert resctrl.read("cpus_list") == f"0-{last - 2},{last}\n"


def test_it_leaves_its_monitoring_group_too(resctrl: Resctrl, switch: Switch, group: str, last: int) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    resctrl.write("g/cpus_list", str(last))
    resctrl.mkdir("g/mon_groups/m")
    resctrl.write("g/mon_groups/m/cpus_list", str(last))
    switch.off(last)
    switch.on(last)
    assert resctrl.read("g/mon_groups/m/cpus_list") == "\n"


def test_a_cpu_that_is_offline_cannot_be_assigned(resctrl: Resctrl, switch: Switch, group: str, last: int) -> None:
    resctrl.write("g/cpus_list", str(last - 1))
    switch.off(last)
    for file, text in (("cpus_list", f"{last}"), ("cpus", f"{1 << last:x}"), ("cpus_list", "all")):
        resctrl.write("mode", "shareable\n")
        assert resctrl.refusal(f"g/{file}", text) == ("EINVAL", "Can only assign online CPUs\n")
    assert resctrl.read("g/cpus_list") == f"{last - 1}\n"


def domains(resctrl: Resctrl) -> list[int]:
    return resctrl.domains(next(iter(resctrl.schemata())))


def test_a_domain_goes_with_its_last_cpu_and_comes_back_with_its_first(
    resctrl: Resctrl, switch: Switch, group: str, last: int
) -> None:
    before = domains(resctrl)
    resource = next(iter(resctrl.schemata()))
    for cpu in (last, last - 1):
        switch.off(cpu)
    assert domains(resctrl) == before[: len(domains(resctrl))]
    assert len(domains(resctrl)) < len(before)
    assert resctrl.domains(resource) == [
        int(part.partition("=")[0])
        for part in resctrl.read(f"{group}/size").splitlines()[0].partition(":")[2].split(";")
    ]
    value = resctrl.schemata()[resource][before[0]]
    assert resctrl.refusal("g/schemata", f"{resource}:{before[-1]}={value}\n") == ("EINVAL", "ok\n")
    switch.on(last)
    assert before[-1] in domains(resctrl)


def test_a_domain_that_comes_back_has_nothing_set(resctrl: Resctrl, switch: Switch, group: str, last: int) -> None:
    if resctrl.cache is None:
        pytest.skip("no cache control")
    untouched = resctrl.masks("g", resctrl.cache)
    resctrl.set_masks("g", resctrl.cache, 0b11)
    for cpu in (last, last - 1):
        switch.off(cpu)
    for cpu in (last - 1, last):
        switch.on(cpu)
    found = resctrl.masks("g", resctrl.cache)
    gone = resctrl.domains(resctrl.cache)[-1]
    assert found[gone] == untouched[gone]
    assert found[resctrl.domains(resctrl.cache)[0]] == 0b11


def test_its_counters_go_and_come_with_it(resctrl: Resctrl, switch: Switch, last: int) -> None:
    if not resctrl.monitors:
        pytest.skip("no monitoring")
    resctrl.mkdir("mon_groups/m")

    def counters() -> list[str]:
        return sorted(path.name for path in (resctrl.path / "mon_groups/m/mon_data").iterdir())

    before = counters()
    for cpu in (last, last - 1):
        switch.off(cpu)
    assert counters() == before[:-1]
    switch.on(last)
    assert counters() == before
