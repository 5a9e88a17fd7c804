"""CPUs that come online or go offline, told by the kernel's uevents: cache domains come and go with the last of theirs.

resctrl itself tells nothing. Its own callbacks have run when the uevent is sent, so what is read then is what is in
force. Suspending and SMT control send the same events when CPUs come back.
"""

import ctypes
import errno
import socket
import struct

NETLINK_KOBJECT_UEVENT = 15
KERNELS = 1
"""The multicast group of what the kernel sends; udev's is another. No capability is needed to listen."""

CPU_PREFIXES = (b"online@/devices/system/cpu/cpu", b"offline@/devices/system/cpu/cpu")
"""How the messages in question begin."""

SO_ATTACH_FILTER = 26
LOAD_WORD, LOAD_BYTE, JUMP_IF_EQUAL, RETURN = 0x20, 0x30, 0x15, 0x06
"""Instructions of classic BPF: BPF_LD|BPF_W|BPF_ABS, BPF_LD|BPF_B|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K."""

WHOLE_MESSAGE = 0xFFFFFFFF


class HotplugWatch:
    """Readable whenever a CPU came online or went offline.

    The kernel sends uevents for every kind of device, dozens for the start of a container. A filter keeps back all
    that are not about CPUs, so that they do not wake the agent.
    """

    def __init__(self) -> None:
        """Raises OSError where uevents cannot be had (a service that may not use AF_NETLINK, a seccomp filter)."""
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT
        )
        try:
            accept_only(self._socket, CPU_PREFIXES)
            self._socket.bind((0, KERNELS))
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """The descriptor to wait on; call ``acknowledge`` when it is readable."""
        return self._socket.fileno()

    def acknowledge(self) -> None:
        """Takes in all that was told, so that the next event wakes again. What was lost is made up by looking anew."""
        while True:
            try:
                self._socket.recv(1)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise

    def close(self) -> None:
        """Stops watching."""
        self._socket.close()


def accept_only(receiver: socket.socket, prefixes: tuple[bytes, ...]) -> None:
    """Lets the kernel drop every message to the socket that begins with none of ``prefixes``. Raises OSError."""
    code = b"".join(_accept(prefix) for prefix in prefixes) + _instruction(RETURN, 0)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HP", len(code) // len(_instruction(RETURN, 0)), ctypes.addressof(instructions))
    receiver.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def _accept(prefix: bytes) -> bytes:
    """Accepts a message that begins so, else goes on behind. The kernel drops what is too short for a load."""
    words, rest = divmod(len(prefix), 4)
    loads = [(LOAD_WORD, at, 4) for at in range(0, words * 4, 4)]
    loads += [(LOAD_BYTE, at, 1) for at in range(words * 4, words * 4 + rest)]
    code = b""
    for position, (load, at, size) in enumerate(loads):
        to_the_end = 2 * (len(loads) - position - 1) + 1
        expected = int.from_bytes(prefix[at : at + size], "big")
        code += _instruction(load, at) + _instruction(JUMP_IF_EQUAL, expected, if_false=to_the_end)
    return code + _instruction(RETURN, WHOLE_MESSAGE)


def _instruction(code: int, value: int, *, if_false: int = 0) -> bytes:
    """``struct sock_filter``."""
    return struct.pack("HBBI", code, 0, if_false, value)
