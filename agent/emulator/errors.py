"""How the emulated kernel refuses: an OSError with the errno, and the text that goes to last_cmd_status."""

import os


class RefusedError(OSError):
    """What a system call fails with. ``status`` is for last_cmd_status; None leaves that as it is."""

    def __init__(self, code: int, status: str | None = None) -> None:
        super().__init__(code, os.strerror(code))
        self.status = status
