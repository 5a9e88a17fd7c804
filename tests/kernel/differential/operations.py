"""A program: which operations one seed makes of one machine's facts.

Programs don't look at what their operations come to, so that a program is the same wherever it runs. They remember only
which groups there should be, so that most operations are on groups that exist.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.kernel.differential import texts
from tests.kernel.differential.facts import Facts

ROLES = (
    "a",
    "b",
    "other",
    "saved",
    "zombie",
    "threads",
    "threads.1",
    "threads.2",
    "forker",
    "gone",
    "self",
    "kthreadd",
)
"""The processes and threads that exist at first; see processes.py."""

Choice = TypeVar("Choice")

USERS = (0, 1000, 1001, 1002, 1003)

_CONTROLS = ("g0", "g1", "g2", "g3", "g4", "g5")
_MONITORS = ("m0", "m1", "m2")
_ODD_NAMES = (
    "mon_groups", "mon_data", "info", "schemata", "tasks", "a b", "a\nb", "\xe9", ".", "..", "-", "g:1", "x" * 255,
    "x" * 256, "*", "L3", "cpus",
)  # fmt: skip
_SLOTS = ("A", "B", "C", "D")
_LONG = (4095, 4096, 4097, 5000, 9000)


@dataclass(frozen=True, slots=True)
class Operation:
    """One step: the name of a method of performer.py's Performer, and what it is given."""

    name: str
    arguments: tuple[str | int, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


class Program:
    """The operations of one seed, one after the other, without an end."""

    def __init__(self, seed: int, facts: Facts) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self._facts = facts
        self._controls: list[str] = [""]
        self._monitors: list[str] = []
        self._roles = list(ROLES)
        self._in_limbo = False
        kinds: tuple[tuple[int, Callable[[], Iterator[Operation]]], ...] = (
            (14, self._make),
            (8, self._remove),
            (5, self._rename),
            (18, self._write_schemata),
            (7, self._write_mode),
            (4, self._set_apart),
            (20, self._write_tasks),
            (12, self._write_cpus),
            (5, self._write_setting),
            (6, self._write_group_setting),
            (2, self._write_long),
            (3, self._read),
            (7, self._keep_open),
            (7, self._change_processes),
            (4, self._refused),
            (1, self._lock),
            (2, self._attributes),
        )
        self._weights = [weight for weight, _ in kinds]
        self._kinds = [kind for _, kind in kinds]

    def __iter__(self) -> Iterator[Operation]:
        while True:
            (kind,) = self._chance.choices(self._kinds, self._weights)
            yield from kind()

    # Groups

    def _make(self) -> Iterator[Operation]:
        if self._in_limbo and self._facts.few_rmids:
            self._in_limbo = False
            yield Operation("settle", ())
        if self._likely(0.15):
            yield self._operation("mkdir", self._anywhere(), self._pick((0o777, 0o700, 0o1777)))
            return
        if self._likely(0.1):
            yield self._operation("mkdir_as", self._pick(USERS), self._anywhere())
            return
        if self._likely(0.5) or not self._facts.closids:
            group = f"{self._control()}/mon_groups/{self._pick(_MONITORS)}".lstrip("/")
            self._remember(self._monitors, group)
        else:
            group = self._pick(_CONTROLS)
            self._remember(self._controls, group)
        yield self._operation("mkdir", group, 0o777)

    def _remove(self) -> Iterator[Operation]:
        self._in_limbo = True
        if self._likely(0.15):
            yield self._operation("rmdir", self._anywhere())
            return
        group = self._group()
        if group in self._monitors:
            self._monitors.remove(group)
        elif group:
            self._controls.remove(group)
            self._monitors = [each for each in self._monitors if not each.startswith(f"{group}/")]
        yield self._operation("rmdir", group or "g0")

    def _rename(self) -> Iterator[Operation]:
        if self._likely(0.3) or not self._monitors:
            kind = self._pick(("rename", "rename", "rename", "rename_exclusively"))
            yield self._operation(kind, self._anywhere(), self._anywhere())
            return
        group = self._pick(self._monitors)
        to = f"{self._control()}/mon_groups/{self._pick(_MONITORS)}".lstrip("/")
        self._monitors.remove(group)
        self._remember(self._monitors, to)
        yield self._operation("rename", group, to)

    # Writes

    def _write_schemata(self) -> Iterator[Operation]:
        yield self._write(self._in_group("schemata"), texts.schemata(self._chance, self._facts))

    def _write_mode(self) -> Iterator[Operation]:
        yield self._write(self._in_group("mode"), texts.mode(self._chance))

    def _set_apart(self) -> Iterator[Operation]:
        """A group that shares no way with the root group, and so can be exclusive unless others are in its way."""
        group = self._pick(self._controls)
        for place, masks in (("", (0xF, 0x7)), (group, (0xF0, 0x30, 0x50))):
            lines = [
                f"{resource.name}:{';'.join(f'{domain}={self._pick(masks):x}' for domain in resource.domains)}\n"
                for resource in self._facts.resources
                if resource.ways
            ]
            yield self._write(f"{place}/schemata".lstrip("/"), "".join(lines))
        yield self._write(f"{group}/mode".lstrip("/"), "exclusive\n")

    def _write_tasks(self) -> Iterator[Operation]:
        text = texts.tasks(self._chance, self._roles)
        yield self._write(self._in_group("tasks"), text, self._pick(USERS) if self._likely(0.25) else 0)

    def _write_cpus(self) -> Iterator[Operation]:
        if self._likely(0.5):
            yield self._write(self._in_group("cpus"), texts.cpus(self._chance, self._facts))
        else:
            yield self._write(self._in_group("cpus_list"), texts.cpus_list(self._chance, self._facts))

    def _write_setting(self) -> Iterator[Operation]:
        if self._facts.settings:
            file = self._pick(self._facts.settings)
            # With few RMIDs the threshold stays as high as it can be: they must not rest for long.
            if not (self._facts.few_rmids and file.endswith("max_threshold_occupancy")):
                yield self._write(file, self._setting(file))

    def _setting(self, file: str) -> str:
        if file.endswith("_config"):
            return texts.event_configuration(self._chance)
        if file.endswith("event_filter"):
            return texts.event_filter(self._chance)
        if file.endswith("mbm_assign_mode"):
            return texts.word(self._chance, ("default", "mbm_event", "x"))
        if file.endswith("mbm_assign_on_mkdir"):
            return texts.word(self._chance, ("0", "1", "1", "2", "y", "n", "on", "off"))
        return texts.threshold(self._chance)

    def _write_group_setting(self) -> Iterator[Operation]:
        if "mba_MBps_event" in self._facts.group_files:
            words = ("mbm_local_bytes", "mbm_total_bytes", "llc_occupancy", "x")
            yield self._write(self._in_group("mba_MBps_event"), texts.word(self._chance, words))
        if "mbm_L3_assignments" in self._facts.group_files:
            yield self._write(self._in_group("mbm_L3_assignments"), texts.assignments(self._chance))

    def _write_long(self) -> Iterator[Operation]:
        character = self._pick(("0", " ", ",", "x", "\n", "1,"))
        file = self._in_group(self._pick(("schemata", "tasks", "cpus", "cpus_list", "mode")))
        yield self._operation("write_long", file, character, self._pick(_LONG))

    def _read(self) -> Iterator[Operation]:
        yield self._operation(
            "read", self._pick((self._anywhere(), self._in_group(self._pick(self._facts.group_files))))
        )

    # Descriptors that outlive what they were opened for

    def _keep_open(self) -> Iterator[Operation]:
        slot = self._pick(_SLOTS)
        uses: tuple[tuple[str, tuple[str | int, ...]], ...] = (
            ("read_open", (4096, 0)),
            ("read_open", (self._pick((1, 3, 7, 4096)), self._pick((-1, 0, 2, 100)))),
            ("write_open", (self._pick(("shareable\n", "x\n", "{a}\n", "1\n", "L3:0=3\n", "\n")),)),
            ("list_open", ()),
            ("stat_open", ()),
            ("open_below", (self._pick(("tasks", "schemata", "mon_groups", "mon_data", "..", "x")),)),
            ("make_below", (self._pick(_MONITORS),)),
            ("move_below", (self._group() or "g0", self._pick(_MONITORS))),
        )
        if self._likely(0.4):
            file = self._in_group(self._pick(self._facts.group_files))
            yield self._operation("open", slot, file, self._pick(("r", "w", "rw", "wt", "wa")))
        elif self._likely(0.4):
            group = self._group() or "g0"
            yield self._operation("open", slot, self._pick((group, f"{group}/mon_groups", self._anywhere())), "r")
        else:
            name, arguments = self._pick(uses)
            yield self._operation(name, slot, *arguments)

    # Processes

    def _change_processes(self) -> Iterator[Operation]:
        if self._likely(0.8):
            child = f"child{len(self._roles)}"
            self._roles.append(child)
            yield self._operation(
                self._pick(("fork", "fork", "start_thread")), self._pick(("forker", "a", "b", "threads")), child
            )
        else:
            yield self._operation("end", self._pick(("zombie", "b", *self._roles[len(ROLES) :])))

    # What is refused, and what changes nothing but what stat shows

    def _refused(self) -> Iterator[Operation]:
        kind = self._pick(("create", "create", "unlink", "unlink", "symlink", "link", "make_fifo", "remove_file"))
        place = self._pick((self._anywhere(), self._in_group(self._pick(self._facts.group_files))))
        yield self._operation(kind, place)

    def _lock(self) -> Iterator[Operation]:
        yield self._operation("lock", self._pick(_SLOTS), self._pick(("shared", "exclusive", "release")))

    def _attributes(self) -> Iterator[Operation]:
        group = self._group()
        place = self._pick((group, f"{group}/mon_groups", self._in_group(self._pick(self._facts.group_files))))
        kind = self._pick(("chmod", "chmod", "chown", "truncate"))
        number = {"chmod": (0o600, 0o640, 0o444, 0o755, 0o777, 0o1777), "chown": USERS, "truncate": (0, 1, 100)}[kind]
        yield self._operation(kind, place, self._pick(number))

    # Places

    def _group(self) -> str:
        """One that should exist; the root group is ''."""
        return self._pick((*self._controls, *self._monitors))

    def _control(self) -> str:
        return self._pick(self._controls)

    def _in_group(self, file: str) -> str:
        groups = (
            self._controls if file in {"schemata", "mode", "mba_MBps_event"} else [*self._controls, *self._monitors]
        )
        return f"{self._pick(groups)}/{file}".lstrip("/")

    def _anywhere(self) -> str:
        """A path that may exist or not."""
        directories = ("", "mon_groups", "info", "info/L3_MON", "mon_data", "mon_data/mon_L3_00", "nowhere", "schemata")
        group = self._group()
        below = (f"{group}/{place}" for place in ("", "mon_groups", "mon_data", "mon_data/mon_L3_00"))
        directory = self._pick((*directories, *below))
        names = (*_ODD_NAMES, *_CONTROLS, *_MONITORS, "llc_occupancy", "last_cmd_status", "mode", "num_rmids")
        return f"{directory}/{self._pick(names)}".replace("//", "/").lstrip("/")

    # Chance

    def _write(self, file: str, text: str, user: int = 0) -> Operation:
        return self._operation("write", file, text, user)

    def _operation(self, name: str, *arguments: str | int) -> Operation:
        return Operation(name, arguments)

    def _likely(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _pick(self, choices: Sequence[Choice]) -> Choice:
        return self._chance.choice(choices)

    def _remember(self, groups: list[str], group: str) -> None:
        if group not in groups:
            groups.append(group)
