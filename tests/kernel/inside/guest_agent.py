"""The agent as it runs in a guest: from the checkout, on the kernel's own resctrl."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.emulated.running_agent import Agent, start_agent, until
from tests.kernel.inside.whereabouts import DEADLINE_S

RESCTRL = Path("/sys/fs/resctrl")

NO_AUDIT = ("--audit-interval", "3600")
"""For tests of what events alone do."""


class GuestAgent(Agent):
    """With the patience that a guest needs, and what ``status`` says."""

    def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The records of an event, once there are ``count``."""

        def logged() -> list[dict[str, Any]]:
            assert self.process.poll() is None, f"the agent ended:\n{self.log_file.read_text()}"
            found = self.log(event)
            return found if len(found) >= count else []

        found: list[dict[str, Any]] = until(logged, f'{count} × "{event}" in\n{self.log_file}', DEADLINE_S)
        return found

    def status(self) -> dict[str, Any]:
        """What ``status --output json`` shows."""
        shown = self.command("status", "--output", "json")
        assert shown.returncode == 0, shown.stderr
        status: dict[str, Any] = json.loads(shown.stdout)
        return status


@contextmanager
def guest_agent(
    directory: Path, policy: str, *options: str, errors: frozenset[str] = frozenset()
) -> Iterator[GuestAgent]:
    """An agent from ``started`` in its log on; at the end it is stopped, and all that it owns is given back.

    It must not have logged an error, save those that patterns in ``errors`` match, which a test brings about.
    """
    started = start_agent(directory, RESCTRL, policy, *options)
    places = [argument for argument in started.places if argument not in options]  # what other commands take too
    agent = GuestAgent(started.process, started.log_file, started.policy, started.resctrl, places)
    try:
        agent.wait_for("started")
        yield agent
        assert agent.process.poll() is None, f"the agent ended:\n{agent.log_file.read_text()}"
    finally:
        agent.process.terminate()
        agent.process.wait(DEADLINE_S)
        released = agent.command("release")
    assert agent.process.returncode == 0
    assert released.returncode == 0, released.stderr
    complaints = [record["event"] for record in agent.log() if record["level"] in {"error", "critical"}]
    unexpected = [event for event in complaints if not any(fnmatchcase(event, pattern) for pattern in errors)]
    assert not unexpected, unexpected


def schemata(group: str) -> dict[str, str]:
    """A group's, by resource, without the padding that some kernels put."""
    text = (RESCTRL / group / "schemata").read_text().replace(" ", "")
    return dict(line.split(":", 1) for line in text.splitlines())
