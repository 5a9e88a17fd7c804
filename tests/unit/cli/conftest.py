from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.cli import main

MACHINES = Path(__file__).parents[2] / "machines"


@dataclass
class Ran:
    status: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs one command in this process, away from what the machine has of its own."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as exit_:
            status = exit_.code
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def policy(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a policy that may be trusted."""

    def write(text: str) -> Path:
        file = tmp_path / "policy.yaml"
        file.write_text(text)
        file.chmod(0o644)
        return file

    return write


@pytest.fixture
def nothing_mounted(tmp_path: Path) -> Path:
    """A procfs in which nothing is mounted."""
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text("22 1 0:20 / / rw - ext4 /dev/sda1 rw\n")
    return proc
