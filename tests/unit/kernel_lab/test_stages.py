"""What is built once, and when it is built again."""

import os
from pathlib import Path

import pytest

from tests.kernel.lab import stages


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    directory = tmp_path / "sources"
    (directory / "below").mkdir(parents=True)
    (directory / "a").write_text("1")
    (directory / "below/b").write_text("2")
    return directory


def test_a_digest_stays_when_only_times_change(sources: Path) -> None:
    before = stages.digest(sources)
    os.utime(sources / "a", (1, 1))
    assert stages.digest(sources) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda sources: (sources / "a").write_text("3"),
        lambda sources: (sources / "a").rename(sources / "c"),
        lambda sources: (sources / "below/b").unlink(),
        lambda sources: (sources / "link").symlink_to("a"),
    ],
    ids=["content", "name", "removal", "link"],
)
def test_a_digest_changes_with_what_is_in_a_directory(sources: Path, change) -> None:
    before = stages.digest(sources)
    change(sources)
    assert stages.digest(sources) != before


def test_a_digest_tells_where_one_text_ends_and_the_next_begins() -> None:
    assert stages.digest("ab", "c") != stages.digest("a", "bc")


def test_compiled_python_is_no_input(sources: Path) -> None:
    before = stages.digest(sources)
    (sources / "__pycache__").mkdir()
    (sources / "__pycache__/a.pyc").write_text("4")
    assert stages.digest(sources) == before


def test_what_was_built_is_current_for_its_inputs_alone(cache: Path) -> None:
    with stages.rebuilt(cache / "thing", "inputs") as fresh:
        (fresh / "result").write_text("built")
    assert (cache / "thing/result").read_text() == "built"
    assert stages.is_current(cache / "thing", "inputs")
    assert not stages.is_current(cache / "thing", "other inputs")


def test_what_was_never_built_is_not_current(cache: Path) -> None:
    assert not stages.is_current(cache / "thing", "inputs")


def test_a_build_that_fails_leaves_what_was_there(cache: Path) -> None:
    with stages.rebuilt(cache / "thing", "old") as fresh:
        (fresh / "result").write_text("old")
    with pytest.raises(OSError, match="disk"), stages.rebuilt(cache / "thing", "new"):
        raise OSError("disk full")
    assert stages.is_current(cache / "thing", "old")
    assert [entry.name for entry in cache.iterdir() if entry.name.startswith("thing")] == ["thing"]


def test_what_a_killed_build_left_is_not_built_upon(cache: Path) -> None:
    (cache / "thing.new").mkdir(parents=True)
    (cache / "thing.new/half").write_text("written")
    with stages.rebuilt(cache / "thing", "inputs"):
        pass
    assert not (cache / "thing/half").exists()
