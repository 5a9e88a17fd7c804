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
    directory = Path(tempfile.mkdtemp(prefix="resctrl-agent-test-"))
    directory.chmod(0o755)
    place = directory / "resctrl"
    with emulator_at(place, machine, kernel, *mount_options):
        yield place
    # Not with all that is in it: should it still be mounted, that would be the emulated files.
    place.rmdir()
    directory.rmdir()


@contextmanager
def emulator_at(place: Path, machine: str, kernel: str, *mount_options: str) -> Iterator[None]:
    """The command on a place that stays; unmounted at the end."""
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
