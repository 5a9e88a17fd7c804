"""Failures are said once and tried again with patience."""

from structlog.testing import capture_logs

from agent.service.trouble import RETRY_S, SAY_AGAIN_S, Trouble


def test_the_first_time_is_said_and_tried_again_at_once_and_the_next_time_later():
    now = 0.0
    trouble = Trouble(lambda: now)
    with capture_logs() as logs:
        assert trouble.note(RuntimeError("no space")) == 0
        now = 1.0
        assert trouble.note(RuntimeError("no space")) == RETRY_S
        assert trouble.note(RuntimeError("another")) == 0
    assert [entry["event"] for entry in logs] == ["no space", "another"]


def test_a_failure_that_lasts_is_said_again_after_a_while():
    now = 0.0
    trouble = Trouble(lambda: now)
    with capture_logs() as logs:
        for moment in (0.0, 5.0, SAY_AGAIN_S - 1, SAY_AGAIN_S + 1):
            now = moment
            trouble.note(RuntimeError("no space"))
    assert len(logs) == 2


def test_a_failure_that_comes_back_much_later_is_tried_again_at_once():
    now = 0.0
    trouble = Trouble(lambda: now)
    trouble.note(RuntimeError("no space"))
    now = 100.0
    assert trouble.note(RuntimeError("no space")) == 0


def test_failures_of_the_system_that_differ_in_the_task_they_name_are_the_same():
    trouble = Trouble(lambda: 0.0)
    with capture_logs() as logs:
        trouble.note(OSError(24, "Too many open files", "/proc/1/stat"))
        assert trouble.note(OSError(24, "Too many open files", "/proc/2/stat")) == RETRY_S
    assert len(logs) == 1
