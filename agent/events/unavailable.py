"""Why eBPF cannot be used here, as a value that the agent can tell apart and say."""

from enum import Enum


class Cause(Enum):
    """What is missing. Each value is a word for logs and metrics; the error's message says what to do."""

    BCC = "bcc"
    LIBBPF = "libbpf"
    PERMISSION = "permission"
    TRACEPOINTS = "tracepoints"
    """Neither BTF nor tracefs says what the kernel's tracepoints hold, or a tracepoint is missing."""
    COMPILER = "compiler"
    """The compiler refused the program."""
    KERNEL = "kernel"
    """The kernel refused the program or a map, for another reason than permission."""
    LOADER = "loader"
    """The loading process hung or died."""


class BpfUnavailableError(Exception):
    """eBPF cannot be used. The message is whole sentences: what was tried, what was said, what to do."""

    def __init__(self, cause: Cause, message: str) -> None:
        self.cause = cause
        super().__init__(message)
