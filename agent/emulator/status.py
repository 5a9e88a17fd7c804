"""``info/last_cmd_status``: one buffer for the whole filesystem."""

_CAPACITY = 512


_PUT = frozenset(
    {
        "Out of CLOSIDs\n",
        "Out of RMIDs\n",
        "Bad CPU list/mask\n",
        "Can't drop CPUs from default group\n",
        "Can only add CPUs to mongroup that belong to parent\n",
    }
)
"""Texts that come after others where nobody clears before them, and that the kernel copies whole or not at all. All
others it prints into the room that is left."""


class LastCommandStatus:
    """Messages append until somebody clears; once one did not fit, all after it are lost."""

    def __init__(self) -> None:
        self._text = ""
        self._overflowed = False

    def clear(self) -> None:
        """Begin a command."""
        self._text = ""
        self._overflowed = False

    def say(self, text: str) -> None:
        """Append one message, newline included where the kernel has one."""
        if self._overflowed:
            return
        room = _CAPACITY - 1 - len(self._text)
        self._overflowed = len(text) > room
        if not self._overflowed or text not in _PUT:
            self._text += text[:room]

    def read(self) -> str:
        """What the file shows."""
        return self._text or "ok\n"
