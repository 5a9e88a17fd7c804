"""An emulated kernel in this process, operated by path, with tasks that exist only on paper."""

from collections.abc import Iterable, Iterator

from agent.emulator.kernel import Kernel
from agent.emulator.machines import Machine
from agent.emulator.membership import RememberedMembership
from agent.emulator.mounted import mount
from agent.emulator.rules import KERNELS
from agent.emulator.threads import Caller
from agent.emulator.tree import Directory, File

ROOT = Caller(uid=0, gid=0, tid=1)


class PaperThreads:
    """Threads by id, each with the uids that own it."""

    def __init__(self, owners: dict[int, frozenset[int]]) -> None:
        self.by_id = owners

    def exists(self, tid: int) -> bool:
        return tid in self.by_id

    def owners(self, tid: int) -> frozenset[int]:
        return self.by_id.get(tid, frozenset())

    def every(self) -> Iterator[int]:
        return iter(self.by_id)

    def named_by(self, _caller: Caller, number: int) -> int | None:
        return number if number in self.by_id else None

    def names_for(self, _caller: Caller, tids: list[int]) -> list[int]:
        return tids


class Operated:
    """System calls on an emulated kernel."""

    def __init__(
        self, machine: Machine, version: str = "6.12", options: Iterable[str] = (), tasks: Iterable[int] = ()
    ) -> None:
        self.now = 100.0
        self.threads = PaperThreads({tid: frozenset({0}) for tid in (1, *tasks)})
        self.kernel = Kernel(
            mount(machine, KERNELS[version], frozenset(options) or machine.mount_options),
            RememberedMembership(),
            self.threads,
            lambda: self.now,
        )

    def read(self, path: str, caller: Caller = ROOT) -> str:
        return self.kernel.read(self.file(path), caller)

    def write(self, path: str, text: str, caller: Caller = ROOT) -> None:
        self.kernel.write(self.file(path), caller, text.encode())

    def mkdir(self, path: str, caller: Caller = ROOT) -> None:
        above, _, name = path.rpartition("/")
        self.kernel.make_directory(self.directory(above), name, 0o755, caller)

    def rmdir(self, path: str) -> None:
        self.kernel.remove_directory(self.directory(path))

    def rename(self, old: str, new: str) -> None:
        above, _, name = new.rpartition("/")
        self.kernel.rename(self._find(old), self.directory(above), name)

    def file(self, path: str) -> File:
        node = self._find(path)
        assert isinstance(node, File)
        return node

    def directory(self, path: str) -> Directory:
        node = self._find(path)
        assert isinstance(node, Directory)
        return node

    def _find(self, path: str) -> File | Directory:
        node: File | Directory = self.kernel.root
        for name in filter(None, path.split("/")):
            assert isinstance(node, Directory)
            node = node.entries[name]
        return node

    @property
    def status(self) -> str:
        return self.read("info/last_cmd_status")
