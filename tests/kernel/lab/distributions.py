"""The guests: which Debian, and what is installed in it."""

from dataclasses import dataclass

from .errors import LabError

_SYSTEM = "systemd systemd-sysv dbus udev kmod procps iproute2 util-linux mount less jq ca-certificates busybox-static"
_KERNEL = "linux-image-amd64 linux-headers-amd64"
_TOOLS = "gcc libc6-dev make git strace stress-ng bpftool"
_PYTHON = "python3 python3-venv python3-pip python3-pytest python3-yaml python3-structlog python3-prometheus-client"
_EBPF = "python3-bpfcc libbpf1"
_CONTAINERS = "runc crun containerd"
_EVERYWHERE = f"{_SYSTEM} {_KERNEL} {_TOOLS} {_PYTHON} {_EBPF} {_CONTAINERS}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A guest's operating system: suites of the Debian archive, and packages from them."""

    name: str
    suites: tuple[str, ...]
    packages: tuple[str, ...]


def distribution(name: str) -> Distribution:
    """The distribution of that name. Raises LabError."""
    if name not in DISTRIBUTIONS:
        raise LabError(f"no distribution {name!r}; there are {', '.join(DISTRIBUTIONS)}")
    return DISTRIBUTIONS[name]


def _debian(name: str, suites: str, packages: str) -> Distribution:
    return Distribution(name, tuple(suites.split()), tuple(f"{_EVERYWHERE} {packages}".split()))


DISTRIBUTIONS = {
    each.name: each
    for each in (
        _debian("debian-12", "bookworm bookworm-updates bookworm-security", "fuse3 libfuse3-3"),
        _debian("debian-13", "trixie trixie-updates trixie-security", "fuse3 libfuse3-4"),
        _debian("debian-sid", "sid", "fuse3 libfuse3-4"),
    )
}
"""By name, oldest kernel first: 6.1, 6.12, and the newest that Debian has."""
