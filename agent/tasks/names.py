"""What a cgroup's path says: the systemd units and the Kubernetes pod and container that it belongs to. Pure.

The same path always gives the same names, so callers may remember them for as long as they like.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

RUNTIMES = {
    "cri-containerd": "containerd",
    "crio": "crio",
    "docker": "docker",
    "libpod": "podman",
    "kata": "kata",
}
"""What runtimes put before a container's id in the name of its cgroup."""


class Unit(NamedTuple):
    """A systemd unit's name as systemctl shows it, and its cgroup."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Pod:
    """A Kubernetes pod, and the container in it that the path leads to or into."""

    uid: str
    """As the API shows it, with dashes; for a static pod the hash in its ``kubernetes.io/config.hash`` annotation."""
    qos: str
    """``guaranteed``, ``burstable`` or ``besteffort``."""
    path: str
    """The pod's cgroup; the container's where a runtime that ignores the kubelet's cgroup driver makes no other."""
    container_id: str | None = None
    """None: the path is the pod's own, or leads to something that is no container. The sandbox (pause) has an id."""
    container_path: str | None = None
    """The container's cgroup, also for a path below it."""
    runtime: str | None = None
    """Of the values of RUNTIMES; None where the name does not tell."""


@dataclass(frozen=True, slots=True)
class Names:
    """Whose cgroup it is, outermost first."""

    units: tuple[Unit, ...]
    """Slices, then at most one service, scope, socket, mount or swap unit, of the system's service manager. What
    lies below that unit was named by whoever it was delegated to, so names there are not the system's units."""
    user_units: tuple[Unit, ...]
    """Likewise for the service manager of a user, below ``user@UID.service``: named by that user."""
    pod: Pod | None


def identify(path: str) -> Names:
    """Names of the cgroup with this path (``/``, ``/system.slice/x.service``), from its components alone."""
    components = [component for component in path.split("/") if component]
    units = _units(components, 0)
    user_units = _units(components, len(units)) if units and _USER_MANAGER.fullmatch(units[-1].name) else ()
    return Names(units, user_units, _pod(components))


_UNIT = re.compile(r"[A-Za-z0-9:_.\\-]+(?:@[A-Za-z0-9:_.\\@-]+)?\.(service|scope|slice|socket|mount|swap)")
"""A unit that can have a cgroup: plain, or the instance of a template (systemd.unit(5))."""

_USER_MANAGER = re.compile(r"user@[0-9]+\.service")

_POD_SLICE = re.compile(r"(?:.+-)?kubepods(?:-(?P<qos>burstable|besteffort))?-pod(?P<uid>.+)\.slice")
"""The kubelet's systemd driver; what precedes ``kubepods`` is its --cgroup-root."""

_POD_DIRECTORY = re.compile(r"pod(?P<uid>.+)")
"""The kubelet's cgroupfs driver, below one of _POD_PARENTS."""

_POD_PARENTS = {
    ("kubepods",): "guaranteed",
    ("kubepods", "burstable"): "burstable",
    ("kubepods", "besteffort"): "besteffort",
}

_CONTAINER = re.compile(
    rf"(?:(?P<prefix>{'|'.join(RUNTIMES)})[-_]|.+[-_](?=[0-9a-f]{{64}}(?:\.scope)?$))?"
    r"(?P<id>[A-Za-z0-9][A-Za-z0-9_.+-]*?)(?:\.scope)?"
)
"""``cri-containerd-ID.scope``, ``crio-ID``, ``kata_ID``, plain ``ID``; an unknown prefix only before a full id."""

_CONTAINER_WATCHER = re.compile(r"(?:crio-|libpod-)?conmon(?:-.*)?")
"""The process that watches a container of CRI-O or Podman, beside it in the pod."""


def _units(components: Sequence[str], start: int) -> tuple[Unit, ...]:
    units: list[Unit] = []
    for end, component in enumerate(components[start:], start + 1):
        name = component.removeprefix("_")  # put before names that cgroupfs could take for its own, as in _cpu.service
        kind = _UNIT.fullmatch(name)
        if kind is None:
            break
        units.append(Unit(name, _join(components[:end])))
        if kind[1] != "slice":
            break
    return tuple(units)


def _pod(components: Sequence[str]) -> Pod | None:
    """The outermost pod: a cgroup inside a container may look like one, and is that container's."""
    for index, component in enumerate(components):
        found = _pod_of_slice(component) or _pod_of_directory(components, index)
        if found is not None:
            uid, qos = found
            return _with_container(Pod(uid, qos, _join(components[: index + 1])), component, components[index + 1 :])
    return None


def _pod_of_slice(component: str) -> tuple[str, str] | None:
    """Uid and QoS class; ``:`` ends the slice where a runtime took the systemd driver's notation for a path."""
    match = _POD_SLICE.fullmatch(component.partition(":")[0])
    return (match["uid"].replace("_", "-"), match["qos"] or "guaranteed") if match else None


def _pod_of_directory(components: Sequence[str], index: int) -> tuple[str, str] | None:
    match = _POD_DIRECTORY.fullmatch(components[index])
    if match is None:
        return None
    before = components[:index]
    qos = next((qos for parents, qos in _POD_PARENTS.items() if tuple(before[-len(parents) :]) == parents), None)
    return (match["uid"], qos) if qos else None


def _with_container(pod: Pod, component: str, below: Sequence[str]) -> Pod:
    _, _, notation = component.partition(":")
    name = notation.replace(":", "-") if notation else next(iter(below), "")
    match = None if _CONTAINER_WATCHER.fullmatch(name) else _CONTAINER.fullmatch(name)
    if match is None:
        return pod
    path = pod.path if notation else f"{pod.path}/{name}"
    return replace(pod, container_id=match["id"], container_path=path, runtime=RUNTIMES.get(match["prefix"]))


def _join(components: Sequence[str]) -> str:
    return "/" + "/".join(components)
