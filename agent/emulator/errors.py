"""How the emulated kernel refuses, and why there may be no emulator at all."""

import os


class RefusedError(OSError):
    """What a system call fails with. ``status`` is for last_cmd_status; None leaves that as it is."""

    def __init__(self, code: int, status: str | None = None) -> None:
        super().__init__(code, os.strerror(code))
        self.status = status


class EmulatorError(Exception):
    """The emulator cannot run here; the message says why and what to do."""
