"""Who has to give way."""

from agent.policy.model import Conditions, Position, Rule
from agent.reconcile.contention import FORGOTTEN_AFTER, PUT_BACK_AT_MOST, Contended, Contention, contended
from agent.reconcile.rules import Target
from agent.reconcile.survey import Misplaced

RULE = Rule(1, "batch", Conditions(cgroup=("/x",)), Position("policy.yaml", 1, 1))


def stray(tid=7, group="batch", actual="theirs"):
    return Misplaced(tid, "/x", Target(RULE, group, group, "/x"), actual)


def contention(starts=None):
    return Contention((starts or {}).get, frozenset({"batch", "latency"}))


def put_back(judge, thread):
    place, _ = judge.judge([thread])
    judge.placed(place)
    return bool(place)


def test_a_thread_is_put_back_three_times_and_then_left():
    judge = contention()
    assert [put_back(judge, stray()) for _ in range(PUT_BACK_AT_MOST + 2)] == [True] * PUT_BACK_AT_MOST + [False] * 2
    assert judge.judge([stray(tid=8)])[0], "others are still placed"


def test_what_could_not_be_placed_does_not_count():
    judge = contention()
    for _ in range(PUT_BACK_AT_MOST + 2):
        assert judge.judge([stray()])[0]


def test_a_thread_that_is_to_go_elsewhere_now_starts_anew():
    judge = contention()
    while put_back(judge, stray()):
        pass
    assert put_back(judge, stray(group="latency"))


def test_our_own_groups_are_nobody_elses():
    judge = contention()
    assert all(put_back(judge, stray(actual="latency")) for _ in range(10))


def test_another_thread_of_the_same_id_starts_anew():
    starts = {7: 100}
    judge = contention(starts)
    while put_back(judge, stray()):
        pass
    starts[7] = 200
    assert put_back(judge, stray())


def test_a_thread_that_stays_in_its_place_is_forgotten():
    judge = contention()
    while put_back(judge, stray()):
        pass
    for _ in range(FORGOTTEN_AFTER + 1):
        judge.judge([])
    assert put_back(judge, stray())


def test_what_is_left_is_told_by_workload():
    assert contended([stray(7), stray(8), stray(9, actual="")]) == (
        Contended("/x", "batch", "theirs", 2),
        Contended("/x", "batch", "", 1),
    )
