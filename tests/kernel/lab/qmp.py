"""QEMU's own control: QMP, a line of JSON for each command, answer and event."""

import json
import socket
from collections.abc import Iterator
from typing import Any

from .errors import LabError

PATIENCE_S = 120.0


class Monitor:
    """One connection; commands are asked one after the other."""

    def __init__(self, connection: socket.socket) -> None:
        """Waits for QEMU to greet. Raises LabError if it ends instead."""
        connection.settimeout(PATIENCE_S)
        self._stream = connection.makefile("rwb", buffering=0)
        self._events: list[dict[str, Any]] = []
        next(self._messages())
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """What the command returns. Raises LabError if QEMU refuses it."""
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        for message in self._messages():
            if "event" in message:
                self._events.append(message)
            elif "error" in message:
                raise LabError(f"QEMU refuses {command} {arguments}: {message['error']['desc']}")
            else:
                return message["return"]
        raise AssertionError("unreachable: messages end with an error")

    def migrate(self, command: str, uri: str) -> None:
        """Save or load the state of the machine, all but its memory. Raises LabError if QEMU cannot.

        x-ignore-shared leaves out memory that is a file mapped shared: the file is the snapshot of it.
        """
        for capability in ("x-ignore-shared", "events"):
            self.execute("migrate-set-capabilities", capabilities=[{"capability": capability, "state": True}])
        self.execute(command, uri=uri)
        if not any(self._migration_ends()):
            raise LabError(f"QEMU failed at {command} {uri}")

    def _migration_ends(self) -> Iterator[bool]:
        """Whether it ended well, at its end."""
        while True:
            event = self._events.pop(0) if self._events else next(self._messages())
            if event["event"] == "MIGRATION" and event["data"]["status"] in ("completed", "failed"):
                yield event["data"]["status"] == "completed"
                return

    def _messages(self) -> Iterator[dict[str, Any]]:
        while line := self._stream.readline():
            yield json.loads(line)
        raise LabError("QEMU ended")
