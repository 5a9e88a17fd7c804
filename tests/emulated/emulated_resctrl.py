"""An emulated resctrl for tests: the real command, in a process of its own."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE_S = 30


@contextmanager
def emulated_resctrl(machine: str, kernel: str, *mount_options: str) -> Iterator[Path]:
    """``resctrl-agent emulate`` where any user can reach it; unmounted at the end, whatever was done to it."""
    with tempfile.TemporaryDirectory(prefix="resctrl-agent-test-") as directory:
        Path(directory).chmod(0o755)
        place = Path(directory) / "resctrl"
        with _running(place, machine, kernel, mount_options):
            yield place


@contextmanager
def _running(place: Path, machine: str, kernel: str, mount_options: tuple[str, ...]) -> Iterator[None]:
    command = [sys.executable, "-m", "agent", "emulate", str(place), "--machine", machine, "--kernel", kernel]
    command += [f"--mount-option={option}" for option in mount_options]
    emulator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert emulator.stdout is not None
        said = emulator.stdout.readline()
        assert said.startswith("emulated resctrl"), f"the emulator said {said!r} and ended with {emulator.poll()}"
        yield
    finally:
        emulator.terminate()
        try:
            emulator.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            emulator.kill()
            emulator.communicate()
            subprocess.run(["umount", "--lazy", place], check=True)
