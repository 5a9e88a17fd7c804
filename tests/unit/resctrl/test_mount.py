"""Finding resctrl among the mounts, and saying why it cannot be mounted."""

import errno
from pathlib import Path

import pytest

from agent.resctrl.mount import (
    MountError,
    MountFailure,
    MountPoint,
    SeveralResctrlError,
    _mount_error,
    _options,
    find_resctrl,
    fstype_of,
    mount_resctrl,
    resctrl_at,
    supported,
)

KERNEL = "36 25 0:31 / /sys/fs/resctrl rw,relatime shared:9 - resctrl resctrl rw\n"
WITH_OPTIONS = "36 25 0:31 / /sys/fs/resctrl rw,relatime - resctrl resctrl rw,cdp,mba_MBps\n"
OF_ONE_GROUP = "40 25 0:31 /batch /srv/batch rw - resctrl resctrl rw\n"
EMULATED = "41 25 0:52 / /tmp/my\\040resctrl rw - fuse.resctrl resctrl rw,user_id=0,group_id=0,allow_other\n"
ANOTHER = "42 25 0:53 / /run/other rw master:1 propagate_from:2 - fuse.resctrl resctrl rw,user_id=0\n"
OTHERS = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n26 25 0:5 / /proc rw - proc proc rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "found"),
    [
        pytest.param(OTHERS, None, id="not mounted"),
        pytest.param("", None, id="no mounts"),
        pytest.param("nonsense\n", None, id="nonsense"),
        pytest.param(OTHERS + KERNEL, MountPoint(Path("/sys/fs/resctrl"), frozenset(), "resctrl"), id="plain"),
        pytest.param(
            WITH_OPTIONS, MountPoint(Path("/sys/fs/resctrl"), frozenset({"cdp", "mba_MBps"}), "resctrl"), id="options"
        ),
        pytest.param(
            EMULATED, MountPoint(Path("/tmp/my resctrl"), frozenset(), "fuse.resctrl"), id="emulated, with a blank"
        ),
        pytest.param(
            EMULATED + KERNEL, MountPoint(Path("/sys/fs/resctrl"), frozenset(), "resctrl"), id="the kernel's first"
        ),
        pytest.param(OF_ONE_GROUP, None, id="a bind mount of one group"),
    ],
)
def test_finds_resctrl_and_its_options(mountinfo: str, found: MountPoint | None) -> None:
    assert find_resctrl(mountinfo) == found


def test_which_of_several_emulated_ones_is_meant_has_to_be_said() -> None:
    with pytest.raises(SeveralResctrlError, match="at /tmp/my resctrl, /run/other: name one with --resctrl"):
        find_resctrl(EMULATED + ANOTHER)
    assert find_resctrl(EMULATED + KERNEL + ANOTHER) == find_resctrl(KERNEL)


def test_one_that_is_mounted_at_two_places_is_one() -> None:
    again = EMULATED.replace("/tmp/my\\040resctrl", "/srv/again")
    assert find_resctrl(EMULATED + again) == find_resctrl(EMULATED)


def test_finds_the_one_at_a_place() -> None:
    mountinfo = KERNEL + EMULATED + ANOTHER
    assert resctrl_at(mountinfo, Path("/run/other")) == MountPoint(Path("/run/other"), frozenset(), "fuse.resctrl")
    assert resctrl_at(mountinfo, Path("/elsewhere")) is None


def test_what_was_mounted_over_resctrl_hides_it() -> None:
    over = "43 36 0:60 / /sys/fs/resctrl rw - tmpfs tmpfs rw\n"
    assert resctrl_at(KERNEL + over, Path("/sys/fs/resctrl")) is None


@pytest.mark.parametrize(
    ("filesystems", "known"),
    [("nodev\tsysfs\nnodev\tresctrl\n\text4\n", True), ("nodev\tsysfs\n\text4\n", False), ("", False)],
)
def test_knows_whether_the_kernel_has_resctrl(filesystems: str, *, known: bool) -> None:
    assert supported(filesystems) is known


def test_tells_filesystems_apart() -> None:
    assert fstype_of(Path("/proc")) == "proc"
    with pytest.raises(FileNotFoundError):
        fstype_of(Path("/nowhere"))


@pytest.mark.parametrize(
    ("cdp", "mba_mbps", "options"),
    [
        (frozenset[str](), False, []),
        (frozenset({"l2", "l3"}), False, ["cdp", "cdpl2"]),
        (frozenset({"l2"}), True, ["cdpl2", "mba_MBps"]),
    ],
)
def test_asks_the_kernel_for_what_the_policy_says(cdp: frozenset[str], *, mba_mbps: bool, options: list[str]) -> None:
    assert _options(cdp, mba_mbps=mba_mbps) == options


@pytest.mark.parametrize(
    ("options", "number", "reason", "says"),
    [
        pytest.param([], errno.ENODEV, MountFailure.NO_KERNEL_SUPPORT, "CONFIG_X86_CPU_RESCTRL", id="no resctrl"),
        pytest.param([], errno.ENOENT, MountFailure.NO_KERNEL_SUPPORT, "no such directory", id="no directory"),
        pytest.param([], errno.EPERM, MountFailure.NO_KERNEL_SUPPORT, "no such directory", id="no directory, not root"),
        pytest.param(
            ["mba_MBps"],
            errno.EINVAL,
            MountFailure.OPTION_NOT_SUPPORTED,
            "needs Linux 4.18 and an Intel CPU with the flags mba and cqm_mbm_local",
            id="field report 12, intel-cmt-cat#183",
        ),
        pytest.param(["cdp"], errno.EINVAL, MountFailure.OPTION_NOT_SUPPORTED, "the flag cdp_l3", id="no CDP"),
        pytest.param(["cdp"], errno.EBUSY, MountFailure.ALREADY_MOUNTED, "mounted already", id="mounted otherwise"),
        pytest.param([], errno.EINVAL, MountFailure.OTHER, "Invalid argument", id="anything else"),
    ],
)
def test_a_mount_that_fails_says_what_is_missing(
    options: list[str], number: int, reason: MountFailure, says: str
) -> None:
    error = _mount_error(Path("/sys/fs/nowhere"), options, number)
    assert error.reason is reason
    assert says in str(error)


def test_a_mount_that_is_not_permitted_says_who_may(tmp_path: Path) -> None:
    error = _mount_error(tmp_path, [], errno.EPERM)
    assert error.reason is MountFailure.NOT_PERMITTED
    assert "CAP_SYS_ADMIN" in str(error)
    assert "sys-fs-resctrl.mount" in str(error)


@pytest.mark.skipif(supported(Path("/proc/filesystems").read_text()), reason="would mount the machine's resctrl")
def test_mounting_without_resctrl_in_the_kernel_fails(tmp_path: Path) -> None:
    with pytest.raises(MountError) as failure:
        mount_resctrl(tmp_path, frozenset(), mba_mbps=False)
    assert failure.value.reason in {MountFailure.NO_KERNEL_SUPPORT, MountFailure.NOT_PERMITTED}
