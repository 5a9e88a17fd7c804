"""Rules of every file (§ 1) and what a filesystem without files of one's own refuses."""

import errno
import fcntl
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.resctrl_mount import Resctrl, errno_of


def a_group(resctrl: Resctrl) -> str:
    return resctrl.mkdir("g" if resctrl.allocates else "mon_groups/g")


def opened(resctrl: Resctrl, file: str, flags: int = os.O_RDWR) -> int:
    return os.open(resctrl.path / file, flags)


def test_a_write_of_more_than_4096_bytes_is_refused_whole(resctrl: Resctrl) -> None:
    stale = resctrl.make_stale()
    assert resctrl.refusal("tasks", b"0" * 4097) == ("E2BIG", stale)


def test_a_write_of_4096_bytes_is_a_command_like_any(resctrl: Resctrl) -> None:
    resctrl.write("tasks", b"0" * 4095 + b"\n")


def test_each_write_is_one_command_wherever_the_offset_is(resctrl: Resctrl) -> None:
    descriptor = opened(resctrl, "mode")
    for offset in (0, 7, 100000):
        assert os.pwrite(descriptor, b"shareable\n", offset) == 10
    os.write(descriptor, b"shareable\n")
    os.write(descriptor, b"shareable\n")
    os.close(descriptor)


def test_vectors_make_one_command(resctrl: Resctrl) -> None:
    descriptor = opened(resctrl, "mode")
    assert os.writev(descriptor, [b"share", b"able\n"]) == 10
    os.close(descriptor)


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR])
def test_a_file_of_0444_cannot_be_opened_for_writing_even_by_root(resctrl: Resctrl, flags: int) -> None:
    files = [Path(directory) / name for directory, _, names in os.walk(resctrl.path) for name in names]
    unwritable = [file for file in files if file.stat().st_mode & 0o222 == 0]
    assert len(unwritable) > 1
    assert {errno_of(lambda file=file: os.open(file, flags)) for file in unwritable} == {"EACCES"}


def test_permissions_can_be_changed_and_count(resctrl: Resctrl) -> None:
    file = resctrl.path / a_group(resctrl) / "tasks"
    file.chmod(0o444)
    assert errno_of(lambda: os.open(file, os.O_WRONLY)) == "EACCES"
    file.chmod(0o644)
    os.close(os.open(file, os.O_WRONLY))


def test_a_file_that_cannot_be_written_stays_so_whatever_its_permissions(resctrl: Resctrl) -> None:
    file = resctrl.path / "info/last_cmd_status"
    file.chmod(0o644)
    try:
        assert errno_of(lambda: resctrl.write("info/last_cmd_status", "ok\n")) == "EINVAL"
    finally:
        file.chmod(0o444)


def test_owners_can_be_changed(resctrl: Resctrl) -> None:
    file = resctrl.path / a_group(resctrl) / "tasks"
    os.chown(file, 1000, 1001)
    assert (file.stat().st_uid, file.stat().st_gid) == (1000, 1001)


def test_reading_on_goes_on_with_one_snapshot(resctrl: Resctrl) -> None:
    descriptor = opened(resctrl, "info/last_cmd_status", os.O_RDONLY)
    resctrl.write("mode", "shareable\n")
    first = os.read(descriptor, 1)
    stale = resctrl.make_stale()
    rest = os.read(descriptor, 4096)
    assert (first + rest, os.read(descriptor, 4096)) == (b"ok\n", b"")
    assert os.pread(descriptor, 4096, 0).decode() == stale
    os.close(descriptor)


def test_a_shell_can_redirect_into_files(resctrl: Resctrl) -> None:
    for operator in (">", ">>"):
        subprocess.run(["sh", "-c", f"echo shareable {operator} {resctrl.path}/mode"], check=True)


def test_truncating_changes_nothing(resctrl: Resctrl) -> None:
    os.truncate(resctrl.path / "mode", 3)
    assert resctrl.read("mode") == "shareable\n"


def test_a_descriptor_of_a_removed_group_is_no_device_any_more(resctrl: Resctrl) -> None:
    group = a_group(resctrl)
    descriptor = opened(resctrl, f"{group}/tasks")
    stale = resctrl.make_stale()
    resctrl.rmdir(group)
    assert errno_of(lambda: os.read(descriptor, 10)) == "ENODEV"
    assert errno_of(lambda: os.write(descriptor, b"0\n")) == "ENODEV"
    assert resctrl.status == stale
    os.close(descriptor)


def test_that_stays_so_when_a_group_of_the_same_name_is_made(resctrl: Resctrl) -> None:
    group = a_group(resctrl)
    directory = opened(resctrl, group, os.O_RDONLY)
    descriptor = opened(resctrl, f"{group}/tasks")
    resctrl.rmdir(group)
    a_group(resctrl)
    assert errno_of(lambda: os.write(descriptor, b"0\n")) == "ENODEV"
    assert errno_of(lambda: os.open("tasks", os.O_RDONLY, dir_fd=directory)) == "ENOENT"
    assert os.listdir(directory) == []  # noqa: PTH208 - of a descriptor
    os.close(descriptor)
    os.close(directory)


def test_what_was_open_below_a_removed_control_group_is_gone_too(resctrl: Resctrl) -> None:
    if not (resctrl.allocates and resctrl.monitors):
        pytest.skip("no monitoring groups below control groups")
    resctrl.mkdir("g")
    resctrl.mkdir("g/mon_groups/m")
    directory = opened(resctrl, "g/mon_groups/m", os.O_RDONLY)
    descriptor = opened(resctrl, "g/mon_groups/m/tasks")
    resctrl.rmdir("g")
    assert errno_of(lambda: os.read(descriptor, 10)) == "ENODEV"
    assert errno_of(lambda: os.open("tasks", os.O_RDONLY, dir_fd=directory)) == "ENOENT"
    os.close(descriptor)
    os.close(directory)


def test_who_writes_while_the_group_is_removed_fails_in_one_of_two_ways(resctrl: Resctrl) -> None:
    """Whether it was waiting already when the group went, or came after."""
    for _ in range(10):
        descriptor = opened(resctrl, f"{a_group(resctrl)}/tasks")
        reader = ThreadPoolExecutor(1).submit(read_until_it_fails, descriptor)
        resctrl.rmdir("g" if resctrl.allocates else "mon_groups/g")
        assert reader.result() in ("ENODEV", "ENOENT")
        os.close(descriptor)


def read_until_it_fails(descriptor: int) -> str:
    while True:
        try:
            os.pread(descriptor, 1, 0)
        except OSError as error:
            return errno.errorcode[error.errno or 0]


def test_nothing_but_groups_can_be_made(resctrl: Resctrl) -> None:
    file = str(resctrl.path / "x")
    # System calls, not pathlib: they are what is tested.
    assert errno_of(lambda: os.open(file, os.O_CREAT | os.O_WRONLY)) == "EACCES"
    assert errno_of(lambda: os.mknod(file, 0o644)) == "EACCES"
    assert errno_of(lambda: os.mkfifo(file)) == "EPERM"
    assert errno_of(lambda: os.symlink("y", file)) == "EPERM"  # noqa: PTH211 - see above
    assert errno_of(lambda: os.link(resctrl.path / "mode", file)) == "EPERM"
    assert errno_of(lambda: os.setxattr(resctrl.path / "mode", "user.x", b"1")) == "ENOTSUP"


def test_files_cannot_be_removed(resctrl: Resctrl) -> None:
    assert errno_of(lambda: os.unlink(resctrl.path / "mode")) == "EPERM"  # noqa: PTH108 - the system call is tested


def test_the_root_directory_can_be_locked(resctrl: Resctrl) -> None:
    first, second = (opened(resctrl, "", os.O_RDONLY) for _ in range(2))
    fcntl.flock(first, fcntl.LOCK_EX)
    assert errno_of(lambda: fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)) == "EAGAIN"
    fcntl.flock(first, fcntl.LOCK_SH)
    fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(first)
    os.close(second)
