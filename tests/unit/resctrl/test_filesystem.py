"""Groups in a plain directory that has resctrl's files. What only a kernel does is proved on the emulator."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.resctrl.errors import GroupExistsError, GroupGoneError, MachineError, NotResctrlError
from agent.resctrl.filesystem import Group, Resctrl, _commands, _read
from agent.resctrl.schemata import parse

MachineTree = Callable[[str], Path]


@pytest.fixture
def root(machine_tree: MachineTree) -> Path:
    """A machine with one control group, ``batch``."""
    return machine_tree("padded-20way")


@pytest.fixture
def resctrl(root: Path) -> Iterator[Resctrl]:
    with Resctrl(root, emulated=False) as opened:
        yield opened


def make_monitoring_group(root: Path, group: str, name: str) -> None:
    (root / group / "mon_groups" / name).mkdir(parents=True)


def emptied(path: Path) -> Path:
    """A regular file keeps what a shorter write leaves of it, which the kernel's files do not."""
    path.write_text("")
    return path


def test_lists_control_groups_and_nothing_else(root: Path, resctrl: Resctrl) -> None:
    (root / "a group").mkdir()
    (root / "mon_groups").mkdir()
    assert resctrl.groups() == ["a group", "batch"]


def test_reads_a_control_group(root: Path, resctrl: Resctrl) -> None:
    make_monitoring_group(root, "batch", "pod2")
    make_monitoring_group(root, "batch", "pod1")
    (root / "batch/cpus_list").write_text("2-3,8\n")
    assert resctrl.read_group("batch") == Group(
        "batch",
        (root / "batch").stat().st_ino,
        {"MB": {0: 20, 1: 20}, "L3": {0: 0xF, 1: 0xF}},
        "shareable",
        frozenset({2, 3, 8}),
        ("pod1", "pod2"),
    )


def test_reads_the_root_group_by_the_empty_name(root: Path, resctrl: Resctrl) -> None:
    group = resctrl.read_group("")
    assert (group.name, group.inode, group.cpus) == ("", root.stat().st_ino, frozenset(range(8)))


def test_reads_every_group_but_those_that_go_meanwhile(root: Path, resctrl: Resctrl) -> None:
    (root / "going").mkdir()  # its files are gone already, the directory is not
    assert [group.name for group in resctrl.read_groups()] == ["", "batch"]


def test_reads_all_threads_in_the_kernels_order(root: Path, resctrl: Resctrl) -> None:
    (root / "batch/tasks").write_text("".join(f"{tid}\n" for tid in range(300_000, 0, -1)))
    assert resctrl.tasks("batch") == list(range(300_000, 0, -1))
    assert resctrl.tasks("") == []


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda r: r.read_group("gone"), id="read_group"),
        pytest.param(lambda r: r.group_inode("gone"), id="group_inode"),
        pytest.param(lambda r: r.tasks("gone"), id="tasks"),
        pytest.param(lambda r: r.open_tasks("gone"), id="open_tasks"),
        pytest.param(lambda r: r.remove("gone"), id="remove"),
        pytest.param(lambda r: r.write_schemata("gone", {"L3": {0: 1}}), id="write_schemata"),
        pytest.param(lambda r: r.write_mode("gone", "exclusive"), id="write_mode"),
        pytest.param(lambda r: r.write_cpus("gone", frozenset({1})), id="write_cpus"),
    ],
)
def test_a_group_that_is_not_there_is_gone(resctrl: Resctrl, use: Callable[[Resctrl], object]) -> None:
    with pytest.raises(GroupGoneError, match=r'^group "gone": '):
        use(resctrl)


def test_a_group_made_anew_does_not_lend_its_values_to_the_one_being_read(root: Path, resctrl: Resctrl) -> None:
    def replaced_while_reading() -> None:
        with resctrl._reading("batch") as directory:
            shutil.rmtree(root / "batch")
            shutil.copytree(root / "info", root / "batch")
            (root / "batch/schemata").write_text("L3:0=1\n")
            _read(directory, "schemata")

    with pytest.raises(GroupGoneError):
        replaced_while_reading()


def test_a_group_that_reads_like_nothing_a_kernel_writes_is_named(root: Path, resctrl: Resctrl) -> None:
    (root / "batch/schemata").write_text("L3:0=what\n")
    with pytest.raises(MachineError, match='group "batch": schemata: schemata line "L3:0=what"'):
        resctrl.read_group("batch")
    (root / "batch/schemata").write_text("L3:0=1\n")
    (root / "batch/cpus_list").write_text("1-x\n")
    with pytest.raises(MachineError, match='group "batch": cpus_list'):
        resctrl.read_group("batch")


def test_makes_and_removes_groups(root: Path, resctrl: Resctrl) -> None:
    resctrl.create("render")
    assert (root / "render").is_dir()
    resctrl.remove("render")
    assert not (root / "render").exists()


def test_a_group_of_that_name_exists_already(resctrl: Resctrl) -> None:
    with pytest.raises(GroupExistsError, match='group "batch": creating it failed: File exists'):
        resctrl.create("batch")
    with pytest.raises(GroupExistsError):
        resctrl.create("schemata")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../other", "/etc", "info", "mon_groups", "a\nb"])
def test_no_name_leads_to_anything_but_a_group(resctrl: Resctrl, name: str) -> None:
    for use in (resctrl.create, resctrl.remove):
        with pytest.raises(ValueError, match="not the name of a group"):
            use(name)
    if name:
        with pytest.raises(ValueError, match="not the name of a group"):
            resctrl.read_group(name)


def test_a_link_is_not_a_group(root: Path, resctrl: Resctrl, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path)
    assert "link" not in resctrl.groups()


def test_writes_several_lines_at_once(root: Path, resctrl: Resctrl) -> None:
    schemata = emptied(root / "batch/schemata")
    resctrl.write_schemata("batch", {"L3": {1: 0xFF, 0: 0xF}, "MB": {0: 20}})
    assert schemata.read_text() == "L3:0=f;1=ff\nMB:0=20\n"


@pytest.mark.parametrize("values", [{}, {"L3": {}}, {"L3": {}, "MB": {}}])
def test_no_values_are_no_write(root: Path, resctrl: Resctrl, values: dict[str, dict[int, int]]) -> None:
    """Field report 6, goresctrl PR#89: an empty line was written."""
    before = (root / "batch/schemata").read_text()
    resctrl.write_schemata("batch", values)
    assert (root / "batch/schemata").read_text() == before


def test_what_is_too_long_for_the_kernel_is_split_into_legal_writes() -> None:
    domains = range(600)
    values = {"MB": dict.fromkeys(domains, 2048), "L3": dict.fromkeys(domains, 0xFFFFF), "L2": {0: 1}}
    writes = ["\n".join(lines) + "\n" for lines in _commands(values)]
    assert all(len(write) <= 4096 for write in writes)
    written: dict[str, dict[int, int]] = {}
    for write in writes:
        for name, each in ((n, e) for line in write.splitlines() for n, e in parse(line).items()):
            written.setdefault(name, {}).update(each)
    assert written == values


def test_writes_the_mode_with_the_newline_the_kernel_wants(root: Path, resctrl: Resctrl) -> None:
    mode = emptied(root / "batch/mode")
    resctrl.write_mode("batch", "exclusive")
    assert mode.read_text() == "exclusive\n"


@pytest.mark.parametrize(("cpus", "text"), [(frozenset({3, 2, 8}), "2-3,8\n"), (frozenset[int](), "\n")])
def test_writes_cpus_as_a_list(root: Path, resctrl: Resctrl, cpus: frozenset[int], text: str) -> None:
    cpus_list = emptied(root / "batch/cpus_list")
    resctrl.write_cpus("batch", cpus)
    assert cpus_list.read_text() == text


def test_moves_threads_through_a_file_that_stays_open(root: Path, resctrl: Resctrl) -> None:
    tasks = resctrl.open_tasks("batch")
    assert tasks.move([812]).moved == (812,)
    assert tasks.move([]).moved == ()
    tasks.close()
    assert (root / "batch/tasks").read_text() == "812"


def test_opening_a_place_that_is_no_resctrl_says_what_is_there(root: Path) -> None:
    with pytest.raises(NotResctrlError, match=r"filesystem, not resctrl: mount it with `mount -t resctrl"):
        Resctrl.open(root)
    with pytest.raises(NotResctrlError, match=r"nowhere: No such file or directory"):
        Resctrl.open(root / "nowhere")
    with pytest.raises(NotResctrlError, match="is a proc filesystem"):
        Resctrl.open(Path("/proc"))
