"""A program: an emulated resctrl of any machine, mounted as often as it is asked to on standard input.

The command ``resctrl-agent emulate`` knows machines by name and mounts once; tests also want machines that are like a
certain virtual one, and to mount again without loading eBPF again. It answers ``mounted`` or the name of an errno, and
``unmounted`` when somebody has unmounted it.
"""

import errno
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

from agent.emulator.bpf_membership import BpfMembership
from agent.emulator.errors import RefusedError
from agent.emulator.groups import ROOT_NUMBER
from agent.emulator.kernel import Kernel
from agent.emulator.machines import Machine
from agent.emulator.mounted import mount
from agent.emulator.rules import KERNELS
from agent.emulator.serve import serve
from agent.emulator.threads import ProcThreads

Asked = tuple[Path, Machine, str, frozenset[str]]
"""Where, which machine, whose rules, and the mount options."""


def main() -> None:
    with BpfMembership() as membership:
        for place, machine, kernel, options in _asked():
            try:
                mounted = mount(machine, KERNELS[kernel], options)
            except RefusedError as error:
                _say(errno.errorcode[error.errno or 0])
                continue
            serve(Kernel(mounted, membership, ProcThreads()), place, lambda: _say("mounted"))
            for tid, _ in list(membership.placed()):
                membership.place(tid, ROOT_NUMBER)
            _say("unmounted")


def _asked() -> Iterator[Asked]:
    while True:
        try:
            yield pickle.load(sys.stdin.buffer)  # noqa: S301 - from the test that started this
        except EOFError:
            return


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
