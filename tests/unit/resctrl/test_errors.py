"""What the kernel refuses is told apart by errno and text, and says the group, the line and what to do."""

import errno
import os

import pytest

from agent.resctrl.errors import (
    CREATING,
    GroupExistsError,
    GroupGoneError,
    NotPermittedError,
    OutOfClosidsError,
    OutOfRmidsError,
    ResctrlError,
    RmidsInLimboError,
    refusal,
)


def refused(operation: str, number: int, status: str | None, group: str = "batch") -> ResctrlError:
    return refusal(group, operation, OSError(number, os.strerror(number)), status, lambda: ["latency", "pqos-1"])


@pytest.mark.parametrize(
    ("number", "status", "kind"),
    [
        (errno.ENOSPC, "Out of CLOSIDs", OutOfClosidsError),
        (errno.ENOSPC, "out of CLOSIDs", OutOfClosidsError),
        (errno.ENOSPC, "Out of RMIDs", OutOfRmidsError),
        (errno.ENOSPC, "No space on L3:0", ResctrlError),
        (errno.ENOSPC, None, ResctrlError),
        (errno.EBUSY, "Out of RMIDs", RmidsInLimboError),
        (errno.EPERM, None, NotPermittedError),
        (errno.EACCES, None, NotPermittedError),
        (errno.EROFS, None, NotPermittedError),
        (errno.EEXIST, None, GroupExistsError),
        (errno.ENOENT, None, GroupGoneError),
        (errno.ENODEV, None, GroupGoneError),
        (errno.EINVAL, "Pseudo-locking in progress", ResctrlError),
    ],
)
def test_a_group_that_cannot_be_made_is_told_apart(number: int, status: str | None, kind: type[ResctrlError]) -> None:
    error = refused(CREATING, number, status)
    assert type(error) is kind
    assert (error.group, error.errno, error.status) == ("batch", number, status if kind is not GroupGoneError else None)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("L3:0=f3;1=ff", "The mask f3 has non-consecutive 1-bits"),
        ("MB:0=0;1=110", "MB value 0 out of range [10,100]"),
    ],
)
def test_the_kernels_text_reaches_the_user_with_group_and_line(line: str, status: str) -> None:
    """Field report 2, runc#1913."""
    error = refused(f'writing "{line}"', errno.EINVAL, status)
    assert str(error) == f'group "batch": writing "{line}" failed: Invalid argument: {status}'


def test_running_out_of_closids_names_who_has_them() -> None:
    """Field report 16, collectd#3764: another program leaked groups; field report 14, runc#1878."""
    message = str(refused(CREATING, errno.ENOSPC, "Out of CLOSIDs"))
    assert message.endswith("Out of CLOSIDs: 2 control groups besides the root group have them: latency, pqos-1")


def test_a_refusal_without_a_reason_says_what_it_usually_is() -> None:
    """An unknown domain id is the one mistake for which the kernel's status reads ``ok``."""
    assert "a domain id that the machine does not have" in str(refused('writing "L3:9=f"', errno.EINVAL, None))


@pytest.mark.parametrize(
    ("operation", "number", "advice"),
    [
        (CREATING, errno.EROFS, "mounted read-only"),
        ('writing "L3:0=f"', errno.EROFS, "mounted read-only"),
        (CREATING, errno.EACCES, "only root may"),
        ('writing "L3:0=f"', errno.EPERM, "only root may"),
    ],
)
def test_without_rights_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, operation: str, number: int, advice: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert advice in str(refused(operation, number, None))


@pytest.mark.parametrize(
    ("operation", "number", "advice"),
    [
        (CREATING, errno.EACCES, "chmod u+w"),
        (CREATING, errno.EPERM, "can only monitor"),
        ('writing "L3:0=f"', errno.EACCES, "a capability or a security module"),
    ],
)
def test_root_without_rights_is_told_what_else_is_missing(
    monkeypatch: pytest.MonkeyPatch, operation: str, number: int, advice: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert advice in str(refused(operation, number, None))


def test_the_root_group_gone_means_that_resctrl_was_unmounted() -> None:
    assert str(refused("reading it", errno.ENODEV, None, group="")).startswith("the root group: reading it failed")
    assert "not mounted there any more" in str(refused("reading it", errno.ENODEV, None, group=""))
