"""What the laboratory says when it cannot do what was asked."""


class LabError(Exception):
    """Says what was tried, what the machine said, and what to do."""


class CommandTimeoutError(LabError):
    """A command in a guest took longer than it was given. The guest is gone."""

    def __init__(self, command: str, timeout_s: float, stdout: str, stderr: str) -> None:
        super().__init__(f"not done within {timeout_s:g} s: {command}\n{stdout}{stderr}".rstrip())
        self.stdout = stdout
        self.stderr = stderr
