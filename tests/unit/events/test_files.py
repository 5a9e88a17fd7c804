"""PolicyWatch on real files: inotify queues an event within the system call that causes it, so no test waits."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events.files import PolicyWatch


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    directory = tmp_path / "resctrl-agent"
    directory.mkdir()
    path = directory / "policy.yaml"
    path.write_text("version: 1\n")
    return path


@pytest.fixture
def watch(policy: Path) -> Iterator[PolicyWatch]:
    watch = PolicyWatch(policy)
    yield watch
    watch.close()


def replace(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.rename(path)


def point(link: Path, target: str) -> None:
    """As Kubernetes does it: a new link renamed over the old one."""
    new = link.with_name("..data_tmp")
    new.symlink_to(target)
    new.rename(link)


def watches(watch: PolicyWatch) -> int:
    return Path(f"/proc/self/fdinfo/{watch.fileno()}").read_text().count("inotify wd")


def test_nothing_has_changed_at_first_and_nothing_wakes(watch: PolicyWatch):
    assert not watch.read()
    assert select.select([watch], [], [], 0) == ([], [], [])


def test_a_change_makes_it_readable_and_is_told_once(watch: PolicyWatch, policy: Path):
    policy.write_text("version: 1\nrules: []\n")
    assert select.select([watch], [], [], 0)[0]
    assert watch.read()
    assert not watch.read()


def test_a_file_saved_in_place_counts_when_its_writer_closes_it(watch: PolicyWatch, policy: Path):
    with policy.open("w") as file:
        file.write("version: ")
        file.flush()
        assert not watch.read()
        file.write("1\n")
    assert watch.read()


def test_a_new_file_counts_when_its_writer_closes_it(watch: PolicyWatch, policy: Path):
    policy.unlink()
    assert watch.read()
    with policy.open("w") as file:
        assert not watch.read()
        policy.chmod(0o600)
        assert not watch.read()
        file.write("version: 1\n")
        file.flush()
        assert not watch.read()
    assert watch.read()


def test_a_change_waits_for_another_file_that_is_being_written(watch: PolicyWatch, policy: Path):
    drop_ins = policy.parent / "policy.d"
    drop_ins.mkdir()
    assert watch.read()
    with policy.open("w") as file:
        file.write("version: 1\n")
        file.flush()
        (drop_ins / "10-a.yaml").write_text("rules: []\n")
        assert not watch.read()
    assert watch.read()


def test_a_half_written_file_that_is_removed_holds_nothing_back(watch: PolicyWatch, policy: Path):
    with policy.open("w") as file:
        file.write("version: ")
        file.flush()
        policy.unlink()
        assert watch.read()


def test_a_file_replaced_by_rename_counts_every_time(watch: PolicyWatch, policy: Path):
    for number in range(3):
        replace(policy, f"# {number}\nversion: 1\n")
        assert watch.read()


def test_a_hard_link_put_in_place_counts(watch: PolicyWatch, policy: Path):
    policy.rename(policy.with_name("policy.saved"))
    assert watch.read()
    policy.hardlink_to(policy.with_name("policy.saved"))
    assert watch.read()


def test_an_editor_that_leaves_a_backup_is_followed(watch: PolicyWatch, policy: Path):
    policy.rename(policy.with_name("policy.yaml~"))
    with policy.open("w") as file:
        file.write("version: 1\n")
        file.flush()
        assert not watch.read()
    assert watch.read()
    policy.with_name("policy.yaml~").unlink()
    assert not watch.read()


@pytest.mark.parametrize("name", [".policy.yaml.swp", "4913", "policy.yaml~", "README", "other.yaml"])
def test_other_files_in_the_directory_do_not_count(watch: PolicyWatch, policy: Path, name: str):
    policy.with_name(name).write_text("x")
    policy.with_name(name).unlink()
    assert not watch.read()


def test_the_lock_of_an_editor_is_no_drop_in(policy: Path):
    drop_ins = policy.parent / "policy.d"
    drop_ins.mkdir()
    watch = PolicyWatch(policy)
    (drop_ins / ".#10-a.yaml").symlink_to("nobody@nowhere.1")
    assert not watch.read()
    watch.close()


def test_removal_and_putting_back_both_count(watch: PolicyWatch, policy: Path):
    """auto-cpufreq#489 and PR#663, nohang#70 (field report 37): the removal went unnoticed."""
    text = policy.read_text()
    policy.unlink()
    assert watch.read()
    policy.write_text(text)
    assert watch.read()


def test_mode_and_owner_count_since_they_decide_whether_a_policy_is_refused(watch: PolicyWatch, policy: Path):
    policy.chmod(0o666)
    assert watch.read()
    policy.chmod(0o644)
    assert watch.read()


def test_a_drop_in_directory_that_appears_and_disappears_counts(watch: PolicyWatch, policy: Path):
    drop_in = policy.parent / "policy.d" / "10-a.yaml"
    drop_in.parent.mkdir()
    assert watch.read()
    for step in (lambda: drop_in.write_text("rules: []\n"), drop_in.unlink, drop_in.parent.rmdir, drop_in.parent.mkdir):
        step()
        assert watch.read()
    drop_in.write_text("rules: []\n")
    assert watch.read()


def test_a_drop_in_made_together_with_its_directory_counts(watch: PolicyWatch, policy: Path):
    drop_in = policy.parent / "policy.d" / "10-a.yaml"
    drop_in.parent.mkdir()
    drop_in.write_text("rules: []\n")
    assert watch.read()
    drop_in.write_text("rules: [] #\n")
    assert watch.read()


def test_what_is_no_drop_in_does_not_count(watch: PolicyWatch, policy: Path):
    drop_ins = policy.parent / "policy.d"
    drop_ins.mkdir()
    assert watch.read()
    (drop_ins / "README.md").write_text("x")
    assert not watch.read()


def test_a_drop_in_that_is_a_link_is_followed_to_its_file(policy: Path, tmp_path: Path):
    target = tmp_path / "elsewhere" / "a.txt"
    target.parent.mkdir()
    target.write_text("rules: []\n")
    drop_ins = policy.parent / "policy.d"
    drop_ins.mkdir()
    (drop_ins / "10-a.yaml").symlink_to(target)
    watch = PolicyWatch(policy)
    replace(target, "rules: [] #\n")
    assert watch.read()
    watch.close()


def test_a_configmap_is_followed_from_update_to_update(tmp_path: Path):
    mount = tmp_path / "config"
    for generation in ("..1", "..2", "..3"):
        (mount / generation).mkdir(parents=True)
        (mount / generation / "policy.yaml").write_text(f"# {generation}\nversion: 1\n")
    (mount / "..data").symlink_to("..1")
    (mount / "policy.yaml").symlink_to("..data/policy.yaml")
    watch = PolicyWatch(mount / "policy.yaml")
    for generation in ("..2", "..3", "..1"):
        point(mount / "..data", generation)
        assert watch.read()
        assert not watch.read()
    (mount / "..1" / "policy.yaml").write_text("version: 1\n")
    assert watch.read()
    (mount / "..2" / "policy.yaml").write_text("version: 1\n")
    assert not watch.read()
    watch.close()


def test_a_link_that_is_turned_to_another_directory_is_followed(tmp_path: Path):
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text("version: 1\n")
    (tmp_path / "current").symlink_to("blue")
    watch = PolicyWatch(tmp_path / "current" / "policy.yaml")
    point(tmp_path / "current", str(tmp_path / "green"))
    assert watch.read()
    (tmp_path / "blue" / "policy.yaml").write_text("version: 1\n")
    assert not watch.read()
    (tmp_path / "green" / "policy.yaml").write_text("version: 1\n")
    assert watch.read()
    watch.close()


def test_a_directory_that_is_still_missing_is_waited_for(tmp_path: Path):
    policy = tmp_path / "etc" / "resctrl-agent" / "policy.yaml"
    watch = PolicyWatch(policy)
    policy.parent.parent.mkdir()
    assert watch.read()
    policy.parent.mkdir()
    assert watch.read()
    policy.write_text("version: 1\n")
    assert watch.read()
    watch.close()


def test_a_directory_that_is_put_in_anothers_place_is_followed(watch: PolicyWatch, policy: Path, tmp_path: Path):
    new = tmp_path / "new"
    new.mkdir()
    (new / "policy.yaml").write_text("version: 1\n")
    policy.parent.rename(tmp_path / "old")
    new.rename(policy.parent)
    assert watch.read()
    (tmp_path / "old" / "policy.yaml").write_text("version: 1\n")
    assert not watch.read()
    policy.write_text("version: 1\n")
    assert watch.read()


def test_a_directory_above_the_policys_that_is_replaced_is_followed(tmp_path: Path):
    policy = tmp_path / "etc" / "resctrl-agent" / "policy.yaml"
    for directory in (policy.parent, tmp_path / "new" / "resctrl-agent"):
        directory.mkdir(parents=True)
    watch = PolicyWatch(policy)
    (tmp_path / "etc").rename(tmp_path / "old")
    assert watch.read()
    (tmp_path / "new").rename(tmp_path / "etc")
    assert watch.read()
    policy.write_text("version: 1\n")
    assert watch.read()
    watch.close()


def test_a_directory_removed_and_made_again_is_followed(watch: PolicyWatch, policy: Path):
    policy.unlink()
    policy.parent.rmdir()
    assert watch.read()
    policy.parent.mkdir()
    assert watch.read()
    policy.write_text("version: 1\n")
    assert watch.read()


def test_links_in_a_circle_end(tmp_path: Path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    watch = PolicyWatch(tmp_path / "a" / "policy.yaml")
    (tmp_path / "a").unlink()
    assert watch.read()
    watch.close()


def test_a_path_through_parent_directories_is_followed(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    watch = PolicyWatch(tmp_path / "a" / ".." / "b" / "policy.yaml")
    (tmp_path / "b" / "policy.yaml").write_text("version: 1\n")
    assert watch.read()
    watch.close()


def test_an_overflowed_queue_counts_as_a_change(watch: PolicyWatch, policy: Path):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    one, other = policy.with_name("one"), policy.with_name("other")
    one.touch()
    for _ in range(limit // 4 + 1):
        one.rename(other)
        other.rename(one)
    assert watch.read()
    assert not watch.read()


def test_updates_leave_no_watches_behind(tmp_path: Path):
    """tuned PR#512 and #724 (field report 42)."""
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text("version: 1\n")
    (tmp_path / "current").symlink_to("blue")
    watch = PolicyWatch(tmp_path / "current" / "policy.yaml")
    before = watches(watch)
    for number in range(20):
        point(tmp_path / "current", ("green", "blue")[number % 2])
        assert watch.read()
    assert watches(watch) == before
    watch.close()


def test_being_out_of_watches_names_the_setting_to_raise(policy: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(self, path, mask):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("agent.events.files.INotify.add_watch", refuse)
    with pytest.raises(OSError, match=r"fs\.inotify\.max_user_watches"):
        PolicyWatch(policy)
