"""The real agent in a process of its own, and what it logged."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEADLINE_S = 20.0
"""Far more than anything takes on a busy machine; a test that reaches it has failed."""


def until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Waits for a condition that no descriptor tells of, and returns what it gave."""
    end = time.monotonic() + deadline_s
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}")
        time.sleep(0.005)
    return result


@dataclass
class Agent:
    process: subprocess.Popen[bytes]
    log_file: Path
    policy: Path
    resctrl: Path
    places: list[str]

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """What was logged so far, whole lines only."""
        text = self.log_file.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if event in (None, record["event"])]

    def wait_for(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The records of an event, once there are ``count``."""

        def logged() -> list[dict[str, Any]]:
            assert self.process.poll() is None, f"the agent ended:\n{self.log_file.read_text()}"
            found = self.log(event)
            return found if len(found) >= count else []

        found: list[dict[str, Any]] = until(logged, f'{count} × "{event}" in\n{self.log_file}')
        return found

    def tasks(self, group: str) -> set[int]:
        """The threads in a control group; none where there is no such group."""
        try:
            return {int(tid) for tid in (self.resctrl / group / "tasks").read_text().split()}
        except FileNotFoundError:
            return set()

    def write_policy(self, text: str) -> None:
        """Replaces the policy by a rename, as careful editors do."""
        fresh = self.policy.with_name("new")
        fresh.write_text(text)
        fresh.rename(self.policy)

    def follow(self, text: str) -> None:
        """Replaces the policy and waits until it is in force."""
        before = len(self.log("policy accepted"))
        self.write_policy(text)
        self.wait_for("policy accepted", before + 1)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another command of the agent on the same places."""
        line = [sys.executable, "-m", "agent", *arguments, *self.places]
        return subprocess.run(line, capture_output=True, text=True, check=False, env=environment(self.policy.parent))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DEADLINE_S)


@contextmanager
def running_agent(
    directory: Path, resctrl: Path, policy: str, *options: str, under: Sequence[str] = ()
) -> Iterator[Agent]:
    """An agent on an emulated (or real) resctrl, from ``started`` in its log on; ended and checked at the end."""
    agent = start_agent(directory, resctrl, policy, *options, under=under)
    try:
        agent.wait_for("started")
        yield agent
        assert agent.process.poll() is None, f"the agent ended:\n{agent.log_file.read_text()}"
    finally:
        agent.stop()
    assert agent.process.returncode == 0


def start_agent(directory: Path, resctrl: Path, policy: str, *options: str, under: Sequence[str] = ()) -> Agent:
    """The same without waiting and without an end; ``under`` is a command that runs another."""
    file = directory / "policy.yaml"
    file.write_text(policy)
    file.chmod(0o644)
    places = ["--policy", str(file), "--resctrl", str(resctrl), "--state", str(directory / "state"), *options]
    log_file = directory / "agent.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*under, sys.executable, "-m", "agent", "run", "--log-level", "debug", *places],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=environment(directory),
        )
    return Agent(process, log_file, file, resctrl, places)


def environment(directory: Path) -> dict[str, str]:
    """With a run directory of the test's own, where the agent and ``status`` meet."""
    return {**os.environ, "RUNTIME_DIRECTORY": str(directory / "run")}
