"""A short-lived process compiles, loads and attaches an eBPF program, hands the descriptors over and exits.

bcc brings LLVM with it: about 125 MB that the daemon would never get rid of. What keeps a program going is only its
descriptors, so a child does the work, sends them over a socket and is gone; the parent never imports bcc.
"""

import json
import os
import socket
import subprocess
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.events.unavailable import BpfUnavailableError, Cause
from agent.resources import resource

__all__ = ["BpfUnavailableError", "Cause", "LoadedProgram", "load"]

_TIMEOUT_SECONDS = 60
"""Loading takes 0.2 to 0.5 s; a machine that emulates its CPU takes fifty times that."""

_ANSWER_BYTES = 65536
_MOST_DESCRIPTORS = 253
"""SCM_MAX_FD: what the kernel passes in one message."""


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program in force for as long as its links are open. All descriptors are close-on-exec."""

    maps: Mapping[str, int]
    """Descriptors of the maps asked for, by name."""
    links: tuple[int, ...]
    """One for each probe, raw tracepoint or perf event; closing it detaches the probe."""

    def close(self) -> None:
        """Detach the probes and let go of the maps."""
        for descriptor in (*self.links, *self.maps.values()):
            os.close(descriptor)


def load(source: Path, *, cflags: Sequence[str] = (), maps: Sequence[str]) -> LoadedProgram:
    """Compile ``source``, load it, and attach each RAW_TRACEPOINT_PROBE and TRACEPOINT_PROBE in it.

    ``maps`` names the maps whose descriptors are wanted. Raises BpfUnavailableError, with what the compiler or the
    kernel said in its message (where it is not permitted, the line that says so), and OSError when ``source`` cannot
    be read.
    """
    request = json.dumps({"text": source.read_text(), "cflags": list(cflags), "maps": list(maps)})
    ours, childs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with childs:
            output = _run_child(request, childs.fileno())
        return _receive(ours, source, maps, output)


def _run_child(request: str, descriptor: int) -> str:
    """Everything that the child and the libraries in it wrote to its descriptors 1 and 2."""
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-m", "agent.events.loader", str(descriptor)],
            input=request.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(descriptor,),
            env=_environment(),
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.output or b"").decode(errors="replace")
        raise _unavailable(
            Cause.LOADER, f"loading an eBPF program took more than {_TIMEOUT_SECONDS} s", said
        ) from error
    return child.stdout.decode(errors="replace")


def _environment() -> dict[str, str]:
    """The child finds modules where this process does, and bcc the few headers that it insists on."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path),
        "BCC_KERNEL_SOURCE": str(resource("bpf")),
    }


def _receive(ours: socket.socket, source: Path, maps: Sequence[str], output: str) -> LoadedProgram:
    # Not socket.recv_fds: it ignores its flags, and a descriptor must not leak into a program started meanwhile.
    answer, ancillary, _, _ = ours.recvmsg(
        _ANSWER_BYTES, socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array("i")
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    if not answer:
        raise _unavailable(Cause.LOADER, f"{source.name}: the process that loads it died without an answer", output)
    failure = json.loads(answer)
    if failure:
        cause, meaning = _explanation(failure, output)
        if cause is Cause.PERMISSION:
            raise _unavailable(cause, f"{source.name}: {_refused_to_us(meaning, failure['said'], output)}")
        raise _unavailable(cause, f"{source.name}: {meaning}", failure["said"], output)
    return LoadedProgram(dict(zip(maps, descriptors, strict=False)), tuple(descriptors[len(maps) :]))


def _unavailable(cause: Cause, *texts: str) -> BpfUnavailableError:
    return BpfUnavailableError(cause, "\n".join(text.strip() for text in texts if text.strip()))


def _explanation(failure: Mapping[str, str], output: str) -> tuple[Cause, str]:
    """The cause, what it means and what to do. The texts are all there is to go by: bcc raises plain exceptions."""
    if failure["step"] == "import":
        return Cause.BCC, _BCC_MISSING
    texts = failure["said"] + "\n" + output
    return next(
        ((cause, meaning) for signs, cause, meaning in _SIGNS if any(sign in texts for sign in signs)),
        (Cause.KERNEL, "the kernel refuses the program"),
    )


def _refused_to_us(meaning: str, *texts: str) -> str:
    """Of all that was said only the line that tells: the rest speaks of a failed compilation, which there was not."""
    root = "" if os.geteuid() == 0 else "this needs root: "
    lines = (line.strip() for text in reversed(texts) for line in text.splitlines())
    return f"{root}{meaning} ({next(line for line in lines if any(sign in line for sign in _FORBIDDEN))})"


_BCC_MISSING = (
    "bcc cannot be imported. Install the distribution's own, python3-bpfcc (Debian, Ubuntu) or python3-bcc (Fedora); "
    "the bcc on PyPI is another project. It belongs to /usr/bin/python3, so a virtual environment must be made by that "
    "interpreter with --system-site-packages"
)
_NOT_PERMITTED = (
    "the kernel refuses eBPF to this process. It needs CAP_BPF and CAP_PERFMON in the initial user namespace, and no "
    "seccomp filter or lockdown against bpf(2); where the kernel has no BTF, CAP_SYS_ADMIN or "
    "kernel.perf_event_paranoid below 3 as well"
)
_NO_TRACEPOINT = (
    "a tracepoint is not in this kernel, or tracefs, which describes it, is not mounted "
    "(mount -t tracefs tracefs /sys/kernel/tracing)"
)

_FORBIDDEN = ("Operation not permitted", "Need super-user privileges", "perf_event_open")

_SIGNS = (
    (_FORBIDDEN, Cause.PERMISSION, _NOT_PERMITTED),
    (("declaration of 'struct tracepoint__", "bpf_attach_raw_tracepoint"), Cause.TRACEPOINTS, _NO_TRACEPOINT),
    ((" error generated.", " errors generated."), Cause.COMPILER, "the compiler refuses the program"),
)
"""In what bcc, clang and the kernel say: signs, and what they tell. The first match counts."""


# What follows runs in the child.


def _child(descriptor: int) -> None:
    request = json.load(sys.stdin)
    with socket.socket(fileno=descriptor) as answer:
        _answer(answer, request)
    sys.stdout.flush()
    # bcc turns perf events off in an exit function; the parent wants them on.
    os._exit(0)


def _answer(answer: socket.socket, request: Mapping[str, Any]) -> None:
    try:
        from bcc import BPF  # noqa: PLC0415 - only here: it brings LLVM
    except (ImportError, OSError) as error:
        return _refuse(answer, "import", error)
    try:
        program = BPF(text=request["text"].encode(), cflags=request["cflags"])
    except Exception as error:  # noqa: BLE001 - bcc raises nothing more specific
        return _refuse(answer, "load", error)
    maps = [program[name].map_fd for name in request["maps"]]
    links = [*program.raw_tracepoint_fds.values(), *program.tracepoint_fds.values()]
    socket.send_fds(answer, [b"{}"], maps + links)
    return None


def _refuse(answer: socket.socket, step: str, error: Exception) -> None:
    answer.send(json.dumps({"step": step, "said": str(error)}).encode())


if __name__ == "__main__":
    _child(int(sys.argv[1]))
