"""One module a command: arguments, a call, output."""
