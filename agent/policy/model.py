"""What a policy says, as values.

Between the text (``read.py``, ``decode.py``) and the machine (``agent.reconcile``) stand these plain frozen
values: amounts as they were meant, not yet as masks or steps, since the same policy serves machines that count
differently. Every value that a later check can complain about carries the position it was read from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Generic, TypeVar

A = TypeVar("A")

CACHE_KEYS = ("l3", "l3code", "l3data", "l2", "l2code", "l2data")
"""Keys of a class that are cache amounts; the plain ones set code and data alike where CDP is on."""

BANDWIDTH_KEYS = ("mb", "smba")
"""Keys of a class that are bandwidth amounts: of memory, and of slow memory (AMD)."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where in which file; line and column count from 1, and are 0 for the file as a whole."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class WayRange:
    """From ``start`` to ``end`` per cent of the ways (0 ≤ start < end ≤ 100) of the cache or of the partition."""

    start: Fraction
    end: Fraction


@dataclass(frozen=True, slots=True)
class WayCount:
    """So many ways (≥ 1), from the lowest of the cache or of the class's partition upwards."""

    ways: int


@dataclass(frozen=True, slots=True)
class WayMask:
    """Exactly these ways (> 0). Only outside partitions, since a mask cannot be relative."""

    bits: int


CacheAmount = WayRange | WayCount | WayMask

EVERY_WAY = WayRange(Fraction(0), Fraction(100))
"""``max``, and what a class gets that leaves a cache out."""


@dataclass(frozen=True, slots=True)
class BandwidthPercent:
    """Per cent of the machine's bandwidth, 0 < percent ≤ 100."""

    percent: Fraction


@dataclass(frozen=True, slots=True)
class BandwidthRate:
    """Bytes per second (> 0) of one domain; 1 GB is 10⁹ bytes."""

    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class Unlimited:
    """``max``, and what a class gets that leaves bandwidth out."""


BandwidthAmount = BandwidthPercent | BandwidthRate | Unlimited


@dataclass(frozen=True, slots=True)
class Written(Generic[A]):
    """An amount, its text as written, and where."""

    amount: A
    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class PerDomain(Generic[A]):
    """An amount for each cache id: ``domains[id]`` where given, else ``default`` (None: everything)."""

    default: Written[A] | None
    domains: Mapping[int, Written[A]]
    position: Position


class Mode(Enum):
    """A control group's mode as the kernel spells it."""

    SHAREABLE = "shareable"
    EXCLUSIVE = "exclusive"


class Monitor(Enum):
    """Whose use of cache and bandwidth is counted apart, by a monitoring group and an RMID of its own."""

    WORKLOAD = "workload"
    """Each workload's."""
    CLASS = "class"
    """Only the class's as a whole: its control group counts that anyway."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A slice of each cache named, disjoint from every other partition; laid out from way 0 in the file's order."""

    name: str
    caches: Mapping[str, Written[CacheAmount]]
    """By key of CACHE_KEYS; a WayRange from 0 (``60%``) or a WayCount."""
    position: Position


@dataclass(frozen=True, slots=True)
class ClassPolicy:
    """A class: what its control group may use. The class with ``default`` is the root group."""

    name: str
    position: Position
    default: bool = False
    partition: Written[str] | None = None
    caches: Mapping[str, PerDomain[CacheAmount]] = field(default_factory=dict)
    """By key of CACHE_KEYS. A key that is missing means everything."""
    bandwidths: Mapping[str, PerDomain[BandwidthAmount]] = field(default_factory=dict)
    """By key of BANDWIDTH_KEYS. A key that is missing means no limit."""
    mode: Mode = Mode.SHAREABLE
    cpus: Written[frozenset[int]] | None = None
    optional: frozenset[str] = frozenset()
    """Keys (``l2``, ``mb``, …) whose resource the machine may lack: then a warning, not an error."""
    adopt: bool = False
    """Take over a group of this name that the agent did not create."""
    monitor: Monitor = Monitor.CLASS

    @property
    def group(self) -> str:
        """The control group's name; "" is the root group."""
        return "" if self.default else self.name


@dataclass(frozen=True, slots=True)
class KubernetesConditions:
    """What a pod's cgroup says of the pod. An empty tuple asks nothing; several values mean any of them."""

    qos: tuple[str, ...] = ()
    """``guaranteed``, ``burstable``, ``besteffort``."""
    pod_uid: tuple[str, ...] = ()
    """Globs over the uid as the API shows it (with dashes)."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """All must hold; within one, any of its values. An empty tuple (or None) asks nothing."""

    cgroup: tuple[str, ...] = ()
    """Path globs from the hierarchy's root: ``*`` within a component, ``**`` across components."""
    unit: tuple[str, ...] = ()
    """Globs over the names of systemd units."""
    kubernetes: KubernetesConditions | None = None
    exe: tuple[str, ...] = ()
    """Globs over the program's path, ``*`` within a component, ``**`` across."""
    comm: tuple[str, ...] = ()
    """Globs over the name in /proc/PID/comm, which the kernel cuts to 15 bytes."""
    user: tuple[str, ...] = ()
    """User names, or numbers as text."""
    negated: "Conditions | None" = None
    """The conditions under ``not``: none of the task's facts may satisfy all of them."""

    @property
    def of_program(self) -> bool:
        """Whether a process's own facts are asked for, so that each process is judged by itself."""
        return bool(self.exe or self.comm or self.user) or (self.negated is not None and self.negated.of_program)

    @property
    def of_exe(self) -> bool:
        """Whether the program's path is asked for, which not every reader of procfs is told."""
        return bool(self.exe) or (self.negated is not None and self.negated.of_exe)


@dataclass(frozen=True, slots=True)
class Rule:
    """What belongs to a class. Rules are tried in order; the first whose conditions hold wins."""

    index: int
    """Place among all rules, from 1, drop-ins after policy.yaml."""
    class_name: str
    when: Conditions
    position: Position
    name: str | None = None
    class_position: Position | None = None
    """Where the rule names its class; None in a rule that came from no file."""

    @property
    def label(self) -> str:
        """What messages and ``explain`` call the rule: its name, else ``rule N``."""
        return self.name or f"rule {self.index}"


@dataclass(frozen=True, slots=True)
class MountPolicy:
    """The ``resctrl`` section: how the agent mounts resctrl, and what the machine cannot say of itself."""

    cdp: frozenset[str] = frozenset()
    """Of ``l2``, ``l3``."""
    bandwidth: str | None = None
    """``percent`` or ``MBps``; None: however resctrl is mounted."""
    bandwidth_capacity: int | None = None
    """Bytes per second of one domain; lets per cent and rates be converted into each other."""
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy: policy.yaml and its drop-ins, decoded and consistent in itself."""

    files: tuple[str, ...]
    mount: MountPolicy
    partitions: Mapping[str, Partition]
    classes: Mapping[str, ClassPolicy]
    rules: tuple[Rule, ...]

    @property
    def default_class(self) -> ClassPolicy | None:
        """The class of the root group, if the policy speaks of it."""
        return next((c for c in self.classes.values() if c.default), None)

    @property
    def judges_programs(self) -> bool:
        """Whether some rule asks for a process's own facts, so that execs must be watched."""
        return any(rule.when.of_program for rule in self.rules)
