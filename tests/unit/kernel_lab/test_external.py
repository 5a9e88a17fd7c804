"""Commands of the machine, and what is told of them when they fail."""

from pathlib import Path

import pytest

from tests.kernel.lab import external
from tests.kernel.lab.errors import LabError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_what_a_command_prints_is_in_the_log_after_the_command(log: Path) -> None:
    external.run(["sh", "-c", "echo out; echo complaint >&2"], log)
    assert log.read_text() == "$ sh -c echo out; echo complaint >&2\nout\ncomplaint\n"


def test_a_failure_shows_the_last_lines_and_names_the_log(log: Path) -> None:
    with pytest.raises(LabError) as failed:
        external.run(["sh", "-c", "seq 100; exit 3"], log)
    message = str(failed.value)
    assert message.startswith("sh ended with status 3:\n    81\n")
    assert message.endswith(f"    100\nAll of it: {log}")


def test_commands_are_the_distributions_own_whatever_comes_first_on_path(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "id").write_text("#!/bin/sh\necho shadowed\n")
    (tmp_path / "id").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    external.run(["id", "-u"], log)
    assert "shadowed" not in log.read_text()


def test_what_a_query_complains_of_is_in_the_error() -> None:
    with pytest.raises(LabError, match="status 2: no such mirror"):
        external.output_of(["sh", "-c", "echo no such mirror >&2; exit 2"])
