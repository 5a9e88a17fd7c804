"""What a command itself can fail with."""


class CommandError(Exception):
    """A command cannot do what was asked; the message says why and, where there is something, what to do."""


class UsageError(Exception):
    """An argument is not of a form that the command takes."""
