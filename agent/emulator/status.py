"""``info/last_cmd_status``: one buffer for the whole filesystem."""

_CAPACITY = 512


class LastCommandStatus:
    """Messages append until somebody clears; one that no longer fits is lost, and so are all after it."""

    def __init__(self) -> None:
        self._text = ""
        self._overflowed = False

    def clear(self) -> None:
        """Begin a command."""
        self._text = ""
        self._overflowed = False

    def say(self, text: str) -> None:
        """Append one message, newline included where the kernel has one."""
        self._overflowed |= len(self._text) + len(text) >= _CAPACITY
        if not self._overflowed:
            self._text += text

    def read(self) -> str:
        """What the file shows."""
        return self._text or "ok\n"
