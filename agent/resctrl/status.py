"""``info/last_cmd_status``: why the kernel refused the last command, if the text is about that command at all."""

import os
from contextlib import suppress

SILENT = "ok"


class LastCommandStatus:
    """The one status text of a mount, read through a descriptor that stays open.

    The text is global: a command of another program overwrites it. Nor does every command of ours touch it. Writes
    to tasks, schemata and mode start it anew, so after them ``text`` is theirs. mkdir and writes to cpus append to
    whatever was there (before 6.16), so for them it has to be cleared first: ``clear``, then ``text``. rmdir never
    touches it.
    """

    def __init__(self, root: int) -> None:
        """``root`` is a descriptor of the resctrl root directory, used while this object is."""
        self._root = root
        self._file = os.open("info/last_cmd_status", os.O_RDONLY, dir_fd=root)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._file)

    def text(self) -> str | None:
        """The text on one line, or None where the kernel says nothing (``ok``)."""
        lines = os.pread(self._file, 4096, 0).decode(errors="replace").split("\n")
        text = "; ".join(line.strip() for line in lines if line.strip())
        return None if text in ("", SILENT) else text

    def clear(self) -> None:
        """Write the root group's mode as it is: that changes nothing, and empties the text on every kernel.

        Where that is refused, the command it is done for will be too, and says why itself.
        """
        with suppress(OSError):
            file = os.open("mode", os.O_RDWR, dir_fd=self._root)
            try:
                os.write(file, os.pread(file, 64, 0))
            finally:
                os.close(file)
