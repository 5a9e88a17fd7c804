"""Desired state − observed state → actions, in an order in which each of them is legal. Pure.

The order, and why:

1. ``set-mode shareable`` for groups of ours whose exclusive mode is in the way: the kernel judges a mask against the
   masks in force, so an exclusive group has to let go before anybody moves across its ways.
2. ``remove-group`` for as many stale groups as new ones need CLOSIDs of; the rest stay until their tasks have moved.
3. ``create-group``.
4. ``write-schemata``, groups that only give up ways first, so that two classes do not share ways on the way.
5. ``set-mode exclusive``, then ``set-cpus``.
6. Monitoring groups of workloads move, go and are made; one that moves takes its threads along.
7. ``move-tasks``: masks are in force before anybody is moved in.
8. ``remove-group`` for what is stale.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agent.policy.model import Mode
from agent.reconcile.actions import (
    Action,
    CreateGroup,
    GroupAction,
    MonitoringAction,
    MoveTasks,
    RemoveGroup,
    SetCpus,
    SetMode,
    WriteSchemata,
)
from agent.reconcile.desired import Desired, DesiredGroup
from agent.resctrl.filesystem import Group
from agent.resctrl.machine import Machine
from agent.resctrl.schemata import Schemata, is_cache

ROOT = ""
"""The name of the root group."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The machine's groups as they are."""

    groups: Mapping[str, Group]
    """By name, the root group as "" among them."""
    owned: frozenset[str] = frozenset()
    """Those that the agent created."""
    granted: Mapping[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)
    """(group, resource, domain) → (what was asked last, what the hardware made of it)."""
    found: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    """(group, resource, domain) → what a group that the agent did not create had before the agent's first write."""

    def before_us(self, name: str) -> Schemata:
        """The group's schemata as they would be without the agent."""
        schemata = {resource: dict(values) for resource, values in self.groups[name].schemata.items()}
        for (group, resource, domain), value in self.found.items():
            if group == name and domain in schemata.get(resource, {}):
                schemata[resource][domain] = value
        return schemata

    def foreign(self, desired: Mapping[str, DesiredGroup]) -> tuple[str, ...]:
        """Groups that are neither ours nor any class's, by name."""
        return tuple(sorted(g for g in self.groups if g != ROOT and g not in self.owned and g not in desired))


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a plan cannot be carried out on the machine as it is, and what would help."""

    message: str
    closid_holders: tuple[str, ...] = ()
    """Who holds the CLOSIDs, where there are too few."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in order, and why it cannot be done (then nothing is)."""

    preparation: tuple[GroupAction, ...]
    """Groups, schemata, modes, CPUs: everything before the first task moves."""
    monitoring: tuple[MonitoringAction, ...]
    """Workloads' monitoring groups that move, go and are made."""
    moves: tuple[MoveTasks, ...]
    cleanup: tuple[RemoveGroup, ...]
    given_back: tuple[str, ...]
    """Groups of somebody else (the root group among them) that are as they were before the agent, from now on."""
    obstacles: tuple[Obstacle, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """All of it, in order."""
        return (*self.preparation, *self.monitoring, *self.moves, *self.cleanup)


def make_plan(
    desired: Desired,
    observed: Observed,
    machine: Machine,
    moves: Mapping[str, int],
    monitoring: Sequence[MonitoringAction] = (),
) -> Plan:
    """``moves``: group → how many threads have to be moved into it; ``monitoring`` comes before."""
    draft = _Draft(desired.groups, observed, machine)
    early, late = draft.stale()
    counted = tuple(MoveTasks(name, count) for name, count in sorted(moves.items()) if count)
    cleanup = tuple(RemoveGroup(name) for name in late)
    given_back = tuple(draft.let_alone())
    return Plan(
        tuple(draft.preparation(early)), tuple(monitoring), counted, cleanup, given_back, tuple(draft.obstacles())
    )


@dataclass(frozen=True, slots=True)
class _Draft:
    desired: Mapping[str, DesiredGroup]
    observed: Observed
    machine: Machine

    def obstacles(self) -> Iterator[Obstacle]:
        yield from self._name_clashes()
        foreign = self.observed.foreign(self.desired)
        needed = 1 + len([name for name in self.desired if name != ROOT]) + len(foreign)
        if foreign and needed > self.machine.num_closids:
            yield Obstacle(
                f"out of CLOSIDs: the machine has {self.machine.num_closids}, the root group and the policy's classes "
                f"need {needed - len(foreign)}, and {len(foreign)} are held by groups of somebody else: "
                f"{', '.join(foreign)}. Remove those that nobody needs (rmdir), or use fewer classes",
                foreign,
            )
        for name in foreign:
            yield from self._exclusive_neighbour(self.observed.groups[name])

    def stale(self) -> tuple[list[str], list[str]]:
        """Our groups that no class needs: those whose CLOSIDs are needed first, and the rest."""
        stale = self._stale()
        spare = self.machine.num_closids - len(self.observed.groups)
        wanting = max(0, len(self._new()) - spare)
        return stale[:wanting], stale[wanting:]

    def preparation(self, early: Sequence[str]) -> Iterator[GroupAction]:
        relaxed = [name for name in self.observed.groups if self._must_let_go(name)]
        default = self._mkdir_default({*relaxed, *early})
        writes = {name: self._writes(group, default) for name, group in self.desired.items()}
        writes |= {name: self._making_way(name) for name in self._stale() if name not in early}
        writes |= {name: self._giving_back(name) for name in self.let_alone()}
        yield from (SetMode(name, Mode.EXCLUSIVE.value, Mode.SHAREABLE.value) for name in relaxed)
        yield from (RemoveGroup(name) for name in early)
        yield from (CreateGroup(name) for name in self._new())
        for name in sorted(writes, key=lambda name: not _only_shrinks(writes[name])):
            yield from writes[name]
        yield from self._exclusive_modes(relaxed)
        yield from self._cpus()

    def _stale(self) -> list[str]:
        return sorted(name for name in self.observed.owned if name not in self.desired)

    def _making_way(self, name: str) -> list[WriteSchemata]:
        """A stale group lives until its tasks have moved. Meanwhile it must not share what becomes exclusive.

        It gets what the root group has: that cannot meet an exclusive class.
        """
        stale = self.observed.groups[name].schemata
        exclusive = [group.schemata for group in self.desired.values() if group.mode is Mode.EXCLUSIVE]
        if not any(meeting(schemata, stale, self.machine) for schemata in exclusive):
            return []
        root = self.desired[ROOT].schemata if ROOT in self.desired else self.observed.before_us(ROOT)
        return [
            WriteSchemata(name, resource, domain, before, root[resource][domain])
            for resource, values in stale.items()
            if is_cache(resource)
            for domain, before in values.items()
            if root[resource].get(domain, before) != before
        ]

    def let_alone(self) -> list[str]:
        """Groups that the agent did not create and once changed for a class that the policy no longer has."""
        changed = {group for group, _, _ in self.observed.found}
        return sorted(changed & self.observed.groups.keys() - self.desired.keys() - self.observed.owned)

    def _giving_back(self, name: str) -> list[WriteSchemata]:
        current = self.observed.groups[name].schemata
        return [
            WriteSchemata(name, resource, domain, current[resource][domain], value)
            for resource, values in self.observed.before_us(name).items()
            for domain, value in values.items()
            if current[resource][domain] != value
        ]

    def _new(self) -> list[str]:
        return [name for name in self.desired if name not in self.observed.groups]

    def _name_clashes(self) -> Iterator[Obstacle]:
        for name, group in self.desired.items():
            exists = name != ROOT and name in self.observed.groups
            if exists and name not in self.observed.owned and not group.adopt and self._would_change(group):
                yield Obstacle(
                    f'group "{name}" exists and the agent did not create it: remove it (rmdir), name the class '
                    f"otherwise, or say `adopt: true` for the class to let the agent change it"
                )

    def _would_change(self, group: DesiredGroup) -> bool:
        """A group that is as its class wants it can be used whoever made it: the agent's memory may be lost."""
        existing = self.observed.groups[group.name]
        return bool(self._writes(group, {})) or existing.mode != group.mode.value or group.cpus is not None

    def _exclusive_neighbour(self, foreign: Group) -> Iterator[Obstacle]:
        """The kernel refuses what an exclusive group has to whoever it is, and the mode to who shares anything."""
        for group in self.desired.values():
            apart = group.mode is Mode.EXCLUSIVE or foreign.mode in (Mode.EXCLUSIVE.value, "pseudo-locked")
            met = meeting(group.schemata, foreign.schemata, self.machine) if apart else None
            if met:
                mode = "is to be exclusive" if group.mode is Mode.EXCLUSIVE else "uses ways"
                yield Obstacle(
                    f'class "{group.class_name}" {mode} and meets group "{foreign.name}" ({foreign.mode}, and not the '
                    f"agent's) in {met}: give that group other ways, or remove it (rmdir)"
                )

    def _writes(self, group: DesiredGroup, default: Schemata) -> list[WriteSchemata]:
        existing = self.observed.groups.get(group.name)
        current = existing.schemata if existing else default
        return [
            WriteSchemata(group.name, resource, domain, current.get(resource, {}).get(domain), value)
            for resource, values in group.schemata.items()
            for domain, value in values.items()
            if not self._in_force(group.name, resource, domain, current.get(resource, {}).get(domain), value)
        ]

    def _in_force(self, group: str, resource: str, domain: int, current: int | None, wanted: int) -> bool:
        granted = self.observed.granted.get((group, resource, domain))
        return current == wanted or (granted is not None and granted == (wanted, current))

    def _mkdir_default(self, let_go: Collection[str]) -> Schemata:
        """What mkdir gives a new group once the groups in ``let_go`` have let go of exclusive ways.

        All but others' exclusive ways, the lowest run of them; bandwidth unlimited.
        """
        default: dict[str, Mapping[int, int]] = {}
        for bandwidth in self.machine.bandwidths:
            default[bandwidth.name] = dict.fromkeys(bandwidth.domains, bandwidth.maximum)
        groups = self.observed.groups.values()
        exclusive = [g for g in groups if g.mode != Mode.SHAREABLE.value and g.name not in let_go]
        for cache in self.machine.caches:
            for name in cache.schemata_names:
                taken = dict.fromkeys(cache.domains, 0)
                for group in exclusive:
                    for peer in cache.schemata_names:
                        for domain, mask in group.schemata.get(peer, {}).items():
                            taken[domain] = taken.get(domain, 0) | mask
                default[name] = {d: _lowest_run(cache.cbm_mask & ~taken[d]) for d in cache.domains}
        return default

    def _must_let_go(self, name: str) -> bool:
        """Whether a group is exclusive and has to stop being so, for good or while masks change around it."""
        group = self.observed.groups[name]
        if group.mode != Mode.EXCLUSIVE.value or not (name in self.observed.owned or name in self.desired):
            return False
        wanted = self.desired.get(name)
        if wanted is None or wanted.mode is Mode.SHAREABLE:
            return True
        if any(is_cache(write.resource) for write in self._writes(wanted, {})):
            return True
        others = (other.schemata for other in self.desired.values() if other.name != name)
        return any(meeting(schemata, group.schemata, self.machine) for schemata in others)

    def _exclusive_modes(self, relaxed: Sequence[str]) -> Iterator[SetMode]:
        for name, group in self.desired.items():
            existing = self.observed.groups.get(name)
            mode = Mode.SHAREABLE.value if existing is None or name in relaxed else existing.mode
            if group.mode is Mode.EXCLUSIVE and mode != Mode.EXCLUSIVE.value:
                yield SetMode(name, mode, Mode.EXCLUSIVE.value)

    def _cpus(self) -> Iterator[SetCpus]:
        """Of the CPUs a class names those that are online, which are some group's: the kernel takes no others."""
        online = frozenset(cpu for group in self.observed.groups.values() for cpu in group.cpus)
        for name, group in self.desired.items():
            existing = self.observed.groups.get(name)
            before = existing.cpus if existing else frozenset()
            wanted = group.cpus
            if wanted is None and name in self.observed.owned:
                wanted = frozenset()  # the policy no longer names CPUs: they go back to the root group
            if wanted is not None and wanted & online != before and name != ROOT:
                yield SetCpus(name, before, wanted & online)


def meeting(one: Schemata, other: Schemata, machine: Machine) -> str | None:
    """Where two groups' cache masks meet, code against data too, as the kernel judges it; ``L3 domain 0, ways 3``."""
    for cache in machine.caches:
        for domain in cache.domains:
            both = _ways(one, cache.schemata_names, domain) & _ways(other, cache.schemata_names, domain)
            if both:
                return f"{cache.name} domain {domain}, ways {both:x}"
    return None


def _ways(schemata: Schemata, names: Sequence[str], domain: int) -> int:
    bits = 0
    for name in names:
        bits |= schemata.get(name, {}).get(domain, 0)
    return bits


def _only_shrinks(writes: Sequence[WriteSchemata]) -> bool:
    masks = [w for w in writes if is_cache(w.resource)]
    return all(w.before is not None and w.after & ~w.before == 0 for w in masks)


def _lowest_run(bits: int) -> int:
    lowest = bits & -bits
    run = 0
    while lowest & bits:
        run |= lowest
        lowest <<= 1
    return run
