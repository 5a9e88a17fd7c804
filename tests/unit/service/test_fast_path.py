"""Events are merged, and told of once for each workload."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from agent.events.event import Event, EventKind
from agent.policy.model import Conditions, Position, Rule
from agent.reconcile.placement import Outcome
from agent.reconcile.rules import Target
from agent.resctrl.errors import GroupGoneError
from agent.service.fast_path import FastPath

RULE = Rule(1, "batch", Conditions(cgroup=("/x",)), Position("policy.yaml", 1, 1))
BATCH = Target(RULE, "batch", "batch", "/x")


class Placements:
    """Stands for the machine: what placing a cgroup gives, and what was asked for."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.asked = []
        self.monitoring = {"/measured": "group"}
        self.rules = SimpleNamespace(
            forget=self.asked.append, forget_all=lambda: None, judge_cgroup=lambda _: SimpleNamespace(otherwise=BATCH)
        )

    def monitor_of(self, target):
        return self.monitoring.get(target.workload)

    def place(self, path):
        self.asked.append(path)
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome(path)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Source:
    """Events that wait, all to be read at once."""

    def __init__(self, events, lost=0):
        self.batches = [events]
        self.lost = lambda: lost

    def read(self):
        return self.batches.pop() if self.batches else []


def attached(path, tid=1):
    return Event(EventKind.ATTACHED, 1000, 7, tid, path)


def fast_path(placements):
    asked, troubles = [], []
    path = FastPath(lambda _: asked.append("everything"), lambda: asked.append("workloads"), troubles.append)
    path.use(placements)
    return path, asked, troubles


def test_a_storm_in_one_cgroup_is_one_look_at_it_as_wished_for_in_cpu_pooler_70():
    placements = Placements()
    path, _, _ = fast_path(placements)
    path.drain(Source([attached("/x", tid) for tid in range(500)] + [attached("/y")]))
    assert placements.asked == ["/x", "/y"]


def test_a_cgroup_that_is_gone_by_the_end_of_the_storm_is_not_looked_at():
    placements = Placements()
    path, _, _ = fast_path(placements)
    path.drain(Source([attached("/x"), Event(EventKind.CGROUP_REMOVED, 1001, 7, path="/x")]))
    assert placements.asked == ["/x"], "only its verdict is forgotten"


MONITORED = replace(BATCH, monitored=True)


@pytest.mark.parametrize(
    ("target", "without", "asked_for"),
    [
        (BATCH, (), []),
        (MONITORED, (), ["workloads"]),
        (MONITORED, (MONITORED.workload,), []),
        (replace(MONITORED, workload="/measured"), (), []),
    ],
)
def test_a_workload_without_a_monitoring_group_is_asked_for_unless_it_waits_for_one(target, without, asked_for):
    path, asked, _ = fast_path(Placements(Outcome("/x", [(target, 3)])))
    path.without_group = frozenset(without)
    path.drain(Source([attached("/x")]))
    assert asked == asked_for
    assert path.take_unmonitored() == ({target.workload} if asked_for else set())
    assert path.take_unmonitored() == set()


def test_when_a_monitored_workload_goes_its_group_is_looked_at():
    path, asked, _ = fast_path(Placements())
    path.drain(Source([Event(EventKind.CGROUP_REMOVED, 1001, 7, path="/measured")]))
    assert asked == ["workloads"]


def test_a_workload_is_told_of_once_until_it_is_gone():
    moved = [Outcome("/x/1", [(BATCH, 3)]), Outcome("/x/2", [(BATCH, 2)]), Outcome("/x/1", [(BATCH, 1)])]
    path, _, _ = fast_path(Placements(*moved))
    with capture_logs() as logs:
        path.drain(Source([attached("/x/1")]))
        path.drain(Source([attached("/x/2")]))
        path.drain(Source([Event(EventKind.CGROUP_REMOVED, 1001, 7, path="/x")]))
        path.drain(Source([attached("/x/1")]))
    placed = [(entry["log_level"], entry["cgroup"], entry["threads"]) for entry in logs if entry["event"] == "placed"]
    assert placed == [("info", "/x/1", 3), ("debug", "/x/2", 2), ("info", "/x/1", 1)]


def test_the_log_waits_until_no_event_does():
    placements = Placements(Outcome("/x/1", [(BATCH, 1)]), Outcome("/x/2", [(BATCH, 1)]))
    path, _, _ = fast_path(placements)
    source = Source([])
    source.batches = [[attached("/x/2")], [attached("/x/1")]]
    read = source.read
    logged = []
    with capture_logs() as logs:
        source.read = lambda: logged.append(len(logs)) or read()
        path.drain(source)
    assert placements.asked == ["/x/1", "/x/2"]
    assert logged == [0, 0, 0], "a reading that came after a line in the log"
    assert [entry["cgroup"] for entry in logs] == ["/x/1", "/x/2"]


def test_an_endless_storm_does_not_keep_others_from_their_turn():
    path, _, _ = fast_path(Placements())
    path.drain(SimpleNamespace(read=lambda: [attached("/x")], lost=lambda: 0))


def test_a_workload_that_is_gone_before_it_is_told_of_is_news_again_later():
    placements = Placements(Outcome("/x", [(BATCH, 1)]), Outcome("/x", [(BATCH, 1)]))
    path, _, _ = fast_path(placements)
    source = Source([])
    source.batches = [[Event(EventKind.CGROUP_REMOVED, 1001, 7, path="/x")], [attached("/x")]]
    with capture_logs() as logs:
        path.drain(source)
        path.drain(Source([attached("/x")]))
    assert [entry["log_level"] for entry in logs] == ["info", "info"]


def test_a_rename_and_lost_events_lead_to_a_look_at_everything():
    path, asked, _ = fast_path(Placements())
    path.drain(Source([Event(EventKind.CGROUP_RENAMED, 1000, 7, path="/z")]))
    path.drain(Source([], lost=5))
    path.drain(Source([], lost=5))
    assert asked == ["everything", "everything"]


def test_a_group_that_is_gone_is_trouble_for_the_keeper():
    error = GroupGoneError("batch", "moving threads", 19)
    path, _, troubles = fast_path(Placements(error))
    path.drain(Source([attached("/x")]))
    assert troubles == [error]


@pytest.mark.parametrize("failures", [{}, {5: "Operation not permitted"}])
async def test_what_could_not_be_finished_is_tried_again_and_told_of_when_it_lasts(failures):
    placements = Placements(*(Outcome("/x", [(BATCH, 1)], complete=False, failures=failures) for _ in range(4)))
    path, _, _ = fast_path(placements)
    with capture_logs() as logs:
        path.drain(Source([attached("/x")]))
        async with asyncio.timeout(10):
            while len(placements.asked) < 5:  # noqa: ASYNC110 - nothing tells of a look
                await asyncio.sleep(0)
    (partial,) = [entry for entry in logs if entry["event"] == "partial"]
    assert partial["workload"] == "/x"
    assert ("not permitted" in partial["reason"]) == bool(failures)


def test_while_nothing_is_in_force_events_are_dropped():
    placements = Placements()
    path, _, _ = fast_path(placements)
    path.rest()
    path.drain(Source([attached("/x"), Event(EventKind.EXECED, 1000, 0, 5)]))
    assert placements.asked == []
