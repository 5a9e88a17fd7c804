"""What the contract tests cannot reach from outside: clocks, machines that nobody has, and long memories."""

import errno

import pytest

from agent.emulator.errors import RefusedError
from agent.emulator.machines import MACHINES, Machine
from agent.emulator.mounted import mount, possible_options
from agent.emulator.rules import KERNELS
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory
from tests.unit.emulator.kernels import Operated
from tests.unit.emulator.machine_specs import AMD, CDP, EVERYTHING, HASWELL, INTEL_12WAY


def refusal_of_mkdir(kernel: Operated, path: str) -> str:
    with pytest.raises(RefusedError) as refused:
        kernel.mkdir(path)
    return errno.errorcode[refused.value.errno or 0]


def test_an_rmid_rests_until_the_kernels_next_look() -> None:
    kernel = Operated(INTEL_12WAY)
    for number in range(255):
        kernel.mkdir(f"mon_groups/m{number}")
    assert refusal_of_mkdir(kernel, "mon_groups/more") == "ENOSPC"
    kernel.rmdir("mon_groups/m0")
    kernel.now += 0.99
    assert refusal_of_mkdir(kernel, "mon_groups/more") == "EBUSY"
    kernel.now += 0.01
    kernel.mkdir("mon_groups/more")


def test_rmids_come_round_in_turn_and_closids_from_the_lowest() -> None:
    kernel = Operated(INTEL_12WAY, options=["debug"])
    for name in "abc":
        kernel.mkdir(name)
    kernel.rmdir("a")
    kernel.now += 1
    kernel.mkdir("d")
    assert (kernel.read("d/ctrl_hw_id"), kernel.read("d/mon_hw_id")) == ("1\n", "4\n")


def test_a_failed_mkdir_gives_back_what_it_took() -> None:
    kernel = Operated(HASWELL)
    kernel.mkdir("e")
    kernel.write("schemata", "L3:0=ffff0\n")
    kernel.write("e/schemata", "L3:0=0000f\n")
    kernel.write("e/mode", "exclusive\n")
    kernel.write("mode", "exclusive\n")
    for _ in range(5):
        assert refusal_of_mkdir(kernel, "more") == "ENOSPC"
    assert kernel.status.endswith("No space on L3:0\n")
    kernel.write("mode", "shareable\n")
    kernel.mkdir("more")
    assert kernel.read("more/schemata") == "L3:0=ffff0\n"


def test_one_free_way_is_no_space_where_two_are_needed() -> None:
    kernel = Operated(HASWELL)
    kernel.mkdir("e")
    kernel.write("schemata", "L3:0=7fff0\n")
    kernel.write("e/schemata", "L3:0=f\n")
    for group in ("e/", ""):
        kernel.write(f"{group}mode", "exclusive\n")
    assert refusal_of_mkdir(kernel, "more") == "ENOSPC"


def test_a_mask_needs_its_least_number_of_ways() -> None:
    kernel = Operated(HASWELL)
    with pytest.raises(RefusedError):
        kernel.write("schemata", "L3:0=1\n")
    assert kernel.status == "Need at least 2 bits in the mask\n"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "6.12",
            "  SMBA:0=2048;1=2048\n    MB:0=2048;1=2048\n    L2:0=00ff;1=00ff;2=00ff;3=00ff\n    L3:0=ffff;1=ffff\n",
        ),
        ("7.2", "  SMBA:0=2048;1=2048\n    MB:0=2048;1=2048\n    L2:0=ff;1=ff;2=ff;3=ff\n    L3:0=ffff;1=ffff\n"),
    ],
)
def test_all_resources_together_come_in_the_kernels_order(version: str, expected: str) -> None:
    assert Operated(EVERYTHING, version).read("schemata") == expected


def test_each_level_is_split_by_its_own_option() -> None:
    kernel = Operated(EVERYTHING, options=["cdp", "cdpl2"])
    names = [line.partition(":")[0].strip() for line in kernel.read("schemata").splitlines()]
    assert names == ["SMBA", "MB", "L2DATA", "L2CODE", "L3DATA", "L3CODE"]
    assert kernel.read("info/L2CODE/num_closids") == "8\n"


def test_blanks_are_those_of_latin_1() -> None:
    kernel = Operated(INTEL_12WAY)
    kernel.kernel.write(kernel.file("schemata"), Caller(0, 0, 1), b"\xa0L3:0=\xa0f\xa0\n")
    assert kernel.read("schemata").splitlines()[1] == "    L3:0=00f;1=fff"


def test_values_are_padded_to_the_widest_of_all_resources() -> None:
    wide = Machine("wide", cpus=4, l3=HASWELL.l3, mb=INTEL_12WAY.mb)
    kernel = Operated(wide)
    assert kernel.read("schemata") == "MB:0=  100;1=  100\nL3:0=fffff\n"


@pytest.mark.parametrize(
    ("machine", "version", "options"),
    [
        (INTEL_12WAY, "6.1", {"cdp", "mba_MBps"}),
        (INTEL_12WAY, "6.12", {"cdp", "mba_MBps", "debug"}),
        (AMD, "6.12", {"cdp", "debug"}),
        (EVERYTHING, "7.2", {"cdp", "cdpl2", "debug"}),
        (HASWELL, "6.1", set()),
        (MACHINES["monitor-only"], "7.2", {"debug"}),
    ],
)
def test_a_machine_can_be_mounted_with_what_it_and_its_kernel_have(
    machine: Machine, version: str, options: set[str]
) -> None:
    assert possible_options(machine, KERNELS[version]) == options
    for option in {"cdp", "cdpl2", "mba_MBps", "debug", "nonsense"} - options:
        with pytest.raises(RefusedError) as refused:
            mount(machine, KERNELS[version], frozenset({option}))
        assert refused.value.errno == errno.EINVAL


def test_sub_numa_clusters_show_from_6_11_on() -> None:
    def directories(version: str) -> dict[str, list[str]]:
        entries = Operated(MACHINES["snc2"], version).directory("mon_data").entries
        return {
            name: [n for n, e in entry.entries.items() if isinstance(e, Directory)]
            for name, entry in entries.items()
            if isinstance(entry, Directory)
        }

    assert directories("6.1") == {"mon_L3_00": [], "mon_L3_01": []}
    assert directories("7.2") == {
        "mon_L3_00": ["mon_sub_L3_00", "mon_sub_L3_01"],
        "mon_L3_01": ["mon_sub_L3_02", "mon_sub_L3_03"],
    }


def test_a_task_follows_its_group_through_moves_and_removals() -> None:
    kernel = Operated(INTEL_12WAY, tasks=[10])
    for group in ("a", "b", "a/mon_groups/m"):
        kernel.mkdir(group)
    kernel.write("a/tasks", "10")
    kernel.write("a/mon_groups/m/tasks", "10")
    kernel.rename("a/mon_groups/m", "b/mon_groups/m")
    assert (kernel.read("a/tasks"), kernel.read("b/tasks"), kernel.read("b/mon_groups/m/tasks")) == ("", "10\n", "10\n")
    kernel.rmdir("b/mon_groups/m")
    assert kernel.read("b/tasks") == "10\n"
    kernel.rmdir("b")
    assert kernel.read("tasks") == "1\n10\n"


def test_ends_of_tasks_need_no_word_to_the_kernel() -> None:
    kernel = Operated(INTEL_12WAY, tasks=[10])
    kernel.mkdir("a")
    kernel.write("a/tasks", "10")
    del kernel.threads.by_id[10]
    assert kernel.read("a/tasks") == ""


def test_who_moves_whom_is_a_question_of_uids() -> None:
    kernel = Operated(INTEL_12WAY, tasks=[10])
    kernel.threads.by_id[10] = frozenset({1000, 1001})
    kernel.mkdir("a")
    for uid in (0, 1000, 1001):
        kernel.write("a/tasks", "10", Caller(uid, uid, 5))
    with pytest.raises(RefusedError) as refused:
        kernel.write("a/tasks", "10", Caller(1002, 1002, 5))
    assert (refused.value.errno, kernel.status.splitlines()[0]) == (errno.EPERM, "No permission to move task 10")


def test_under_cdp_a_new_group_keeps_off_both_parts_of_an_exclusive_one() -> None:
    """As captured from Linux 6.1: code in 0xf and data in 0xf0 leave 0xf00 for either."""
    kernel = Operated(CDP)
    kernel.mkdir("a")
    kernel.write("schemata", "L3CODE:0=f00;1=f00\nL3DATA:0=f00;1=f00\n")
    kernel.write("a/schemata", "L3CODE:0=f;1=f\nL3DATA:0=f0;1=f0\n")
    kernel.write("a/mode", "exclusive\n")
    assert kernel.read("info/L3CODE/bit_usage") == "0=SSSS0000EEEE;1=SSSS0000EEEE\n"
    assert kernel.read("info/L3DATA/bit_usage") == "0=SSSSEEEE0000;1=SSSSEEEE0000\n"
    kernel.mkdir("b")
    assert kernel.read("b/schemata") == "    MB:0=100;1=100\nL3DATA:0=f00;1=f00\nL3CODE:0=f00;1=f00\n"


@pytest.mark.parametrize(("version", "mask"), [("6.1", "001f"), ("6.12", "001f"), ("7.2", "ff5f")])
def test_where_masks_may_have_holes_new_kernels_leave_them(version: str, mask: str) -> None:
    """As seen on running kernels of these versions."""
    kernel = Operated(AMD, version)
    kernel.mkdir("a")
    kernel.write("schemata", "L3:0=ff5f\n")
    kernel.write("a/schemata", "L3:0=a0;1=0\n")
    kernel.write("a/mode", "exclusive\n")
    kernel.mkdir("b")
    assert kernel.read("b/schemata").splitlines()[1] == f"    L3:0={mask};1=ffff"


def test_a_file_of_a_removed_group_is_dead_for_good() -> None:
    kernel = Operated(INTEL_12WAY)
    kernel.mkdir("a")
    file = kernel.file("a/schemata")
    kernel.rmdir("a")
    kernel.mkdir("a")
    for call in (
        lambda: kernel.kernel.read(file, Caller(0, 0, 1)),
        lambda: kernel.kernel.write(file, Caller(0, 0, 1), b"x"),
    ):
        with pytest.raises(RefusedError) as refused:
            call()
        assert refused.value.errno == errno.ENODEV
