"""The libbpf that the distribution's bcc depends on, through ctypes."""

import ctypes

from agent.events.unavailable import BpfUnavailableError, Cause

_NAME = "libbpf.so.1"


def open_library() -> ctypes.CDLL:
    """The library, with errno kept for ``ctypes.get_errno``. Raises BpfUnavailableError when it is not installed."""
    try:
        return ctypes.CDLL(_NAME, use_errno=True)
    except OSError as error:
        raise BpfUnavailableError(
            Cause.LIBBPF, f"{_NAME} cannot be opened ({error}): install libbpf1 (Debian, Ubuntu) or libbpf (Fedora)"
        ) from error
