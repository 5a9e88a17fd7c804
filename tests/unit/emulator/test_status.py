"""The one buffer of 512 bytes, the last of which ends the text."""

from agent.emulator.status import LastCommandStatus

CONSTANT = "Out of CLOSIDs\n"


def test_a_long_message_is_cut_short() -> None:
    """As seen on running kernels after writing 4095 times ``x`` to tasks."""
    status = LastCommandStatus()
    status.say(f"Task list parsing error pid {'x' * 4095}\n")
    assert status.read() == f"Task list parsing error pid {'x' * 483}"
    assert len(status.read()) == 511


def test_messages_without_values_are_there_whole_or_not_at_all() -> None:
    status = LastCommandStatus()
    for _ in range(100):
        status.say(CONSTANT)
    assert status.read() == CONSTANT * (511 // len(CONSTANT))


def test_what_comes_after_one_that_did_not_fit_is_lost() -> None:
    status = LastCommandStatus()
    status.say("x" * 500)
    status.say(CONSTANT)
    status.say("y")
    assert status.read() == "x" * 500
    status.clear()
    status.say("y")
    assert status.read() == "y"
