"""Reading a BPF ring buffer through libbpf."""

import ctypes
import errno
import os
from collections.abc import Callable

from agent.events.libbpf import open_library

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class RingBuffer:
    """The consuming end of a BPF_MAP_TYPE_RINGBUF. No eBPF capability is needed once it is open.

    ``on_record`` gets a copy of each record, on the caller's stack within ``consume``; it must not raise, since
    between it and the caller stands C.
    """

    def __init__(self, map_descriptor: int, on_record: Callable[[bytes], object]) -> None:
        """Map the buffer. The descriptor may be closed afterwards. Raises OSError with the kernel's reason."""
        self._libbpf = _declared(open_library())

        def on_sample(_context: int | None, address: int, size: int) -> int:
            on_record(ctypes.string_at(address, size))
            return 0

        # libbpf keeps the pointer only: the object must live as long as the buffer.
        self._callback = _CALLBACK(on_sample)
        self._buffer = self._libbpf.ring_buffer__new(map_descriptor, self._callback, None, None)
        if not self._buffer:
            number = ctypes.get_errno()
            raise OSError(number, f"ring buffer of map descriptor {map_descriptor}: {os.strerror(number)}")

    def fileno(self) -> int:
        """Readable while records wait; for ``loop.add_reader``."""
        return int(self._libbpf.ring_buffer__epoll_fd(self._buffer))

    def consume(self) -> int:
        """Hand every waiting record to ``on_record``; how many there were."""
        number = int(self._libbpf.ring_buffer__consume(self._buffer))
        if number < 0:
            raise OSError(-number, f"reading a ring buffer: {errno.errorcode.get(-number, number)}")
        return number

    def close(self) -> None:
        """Unmap the buffer. Take ``fileno()`` out of the event loop first. Closing twice is harmless."""
        self._libbpf.ring_buffer__free(self._buffer)
        self._buffer = None


def _declared(libbpf: ctypes.CDLL) -> ctypes.CDLL:
    libbpf.ring_buffer__new.argtypes = (ctypes.c_int, _CALLBACK, ctypes.c_void_p, ctypes.c_void_p)
    libbpf.ring_buffer__new.restype = ctypes.c_void_p
    libbpf.ring_buffer__free.argtypes = (ctypes.c_void_p,)
    libbpf.ring_buffer__free.restype = None
    libbpf.ring_buffer__consume.argtypes = (ctypes.c_void_p,)
    libbpf.ring_buffer__consume.restype = ctypes.c_int
    libbpf.ring_buffer__epoll_fd.argtypes = (ctypes.c_void_p,)
    libbpf.ring_buffer__epoll_fd.restype = ctypes.c_int
    return libbpf
