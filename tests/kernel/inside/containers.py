"""Containers of runc and crun, under both cgroup drivers; all gone at the end."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = "/bin/worker"

RUNTIMES = ("runc", "crun")


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Where a container's cgroup is to be: as its configuration says it, and as the kernel will."""

    configured: str
    """A path, or for the systemd driver ``slice:prefix:name``."""
    path: str
    """Of the cgroup that holds all of the container."""
    systemd: bool = False

    @classmethod
    def by_cgroupfs(cls, pod: str, name: str) -> "Cgroup":
        """As the kubelet's cgroupfs driver has it, for a pod of the best-effort class."""
        path = f"/kubepods/besteffort/pod{pod}/{name}"
        return cls(path, path)

    @classmethod
    def by_systemd(cls, pod: str, name: str) -> "Cgroup":
        """As the kubelet's systemd driver has it; a unit's name has ``_`` where the pod's uid has ``-``."""
        slice_ = f"kubepods-besteffort-pod{pod.replace('-', '_')}.slice"
        above = "/kubepods.slice/kubepods-besteffort.slice"
        path = f"{above}/{slice_}/cri-containerd-{name}.scope"
        return cls(f"{slice_}:cri-containerd:{name}", path, systemd=True)


@dataclass
class Containers:
    """A root file system with a worker and a busybox in it, and the containers started from it."""

    directory: Path
    started: list[tuple[str, str]] = field(default_factory=list)

    def start(self, runtime: str, name: str, cgroup: Cgroup, *arguments: str) -> int:
        """Starts a worker with these arguments in a container; returns its process."""
        bundle = self.directory / f"{runtime}-{name}"
        bundle.mkdir(exist_ok=True)
        (bundle / "config.json").write_text(json.dumps(self._config(cgroup.configured, arguments)))
        pid_file = bundle / "pid"
        driver = ["--systemd-cgroup"] if cgroup.systemd else []
        run = ["run", "--detach", "--pid-file", str(pid_file), "--bundle", str(bundle), name]
        self.started.append((runtime, name))
        self._call([*self._command(runtime), *driver, *run], bundle)
        return int(pid_file.read_text())

    def execute(self, runtime: str, name: str, *command: str) -> None:
        """One more process in a running container; returns when it runs."""
        self._call([*self._command(runtime), "exec", "--detach", name, *command], self.directory / f"{runtime}-{name}")

    def remove_all(self) -> None:
        """Kills and removes every container, some at a time."""
        commands = [[*self._command(runtime), "delete", "--force", name] for runtime, name in self.started]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda command: subprocess.run(command, check=False, capture_output=True), commands))
        self.started.clear()

    def _call(self, command: list[str], bundle: Path) -> None:
        """With its output in a file: the container's processes keep it open for as long as they live."""
        with (bundle / "log").open("w+") as log:
            done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            log.seek(0)
            assert done.returncode == 0, f"{' '.join(command)}: {log.read()}"

    def _command(self, runtime: str) -> list[str]:
        return [runtime, "--root", str(self.directory / f"state-{runtime}")]

    def _config(self, cgroup: str, arguments: tuple[str, ...]) -> dict[str, object]:
        namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        ]
        process = {"cwd": "/", "args": [PROGRAM, *arguments], "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}}
        return {
            "ociVersion": "1.0.2",
            "process": process,
            "root": {"path": str(self.directory / "rootfs"), "readonly": True},
            "mounts": mounts,
            "linux": {"cgroupsPath": cgroup, "namespaces": namespaces},
        }


@contextmanager
def containers(directory: Path, worker: Path) -> Iterator[Containers]:
    """Everything in ``directory``; ``worker`` is a program that needs nothing but itself."""
    rootfs = directory / "rootfs"
    for name in ("bin", "proc", "dev"):
        (rootfs / name).mkdir(parents=True)
    shutil.copy(worker, rootfs / PROGRAM[1:])
    shutil.copy("/bin/busybox", rootfs / "bin/busybox")
    made = Containers(directory)
    try:
        yield made
    finally:
        made.remove_all()
