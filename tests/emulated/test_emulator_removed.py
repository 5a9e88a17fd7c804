"""What is left of a removed group for those who have something of it open, as seen on running kernels."""

import errno
import os
from pathlib import Path

import pytest

from tests.emulated.emulated_resctrl import emulated_resctrl

pytestmark = pytest.mark.bpf

BELOW = ("tasks", "mon_groups", "mon_data", "mon_data/mon_L3_00", "mon_data/mon_L3_00/llc_occupancy")


@pytest.mark.parametrize(("kernel", "file_links", "directory_links"), [("6.1", 1, 2), ("6.12", 1, 2), ("7.2", 0, 0)])
def test_links_and_room_of_what_was_removed(kernel: str, file_links: int, directory_links: int) -> None:
    with emulated_resctrl("xeon-2s", kernel) as resctrl:
        group = resctrl / "g"
        group.mkdir()
        opened = {path: os.open(group / path, os.O_RDONLY) for path in ("", *BELOW)}
        try:
            group.rmdir()
            links = {path: os.fstat(descriptor).st_nlink for path, descriptor in opened.items()}
            assert links == {
                path: file_links if path.endswith(("tasks", "occupancy")) else directory_links for path in opened
            }
            # The directory that was removed is known to be dead before anybody asks resctrl.
            assert mkdir_below(opened[""]) == "ENOENT"
            assert {mkdir_below(opened[path]) for path in BELOW[1:4]} == {"ENODEV"}
        finally:
            for descriptor in opened.values():
                os.close(descriptor)


def test_nothing_moves_into_a_removed_group() -> None:
    with emulated_resctrl("xeon-2s", "6.12") as resctrl:
        for path in ("g", "mon_groups/m"):
            (resctrl / path).mkdir()
        gone = os.open(resctrl / "g/mon_groups", os.O_RDONLY)
        try:
            (resctrl / "g").rmdir()
            with pytest.raises(OSError) as refused:  # noqa: PT011 - the errno says which
                os.rename(resctrl / "mon_groups/m", "m", dst_dir_fd=gone)
        finally:
            os.close(gone)
        assert refused.value.errno == errno.ENODEV
        assert (resctrl / "mon_groups/m").is_dir()


def mkdir_below(directory: int) -> str:
    with pytest.raises(OSError) as refused:  # noqa: PT011 - the errno says which
        Path(f"/proc/self/fd/{directory}/x").mkdir()
    return errno.errorcode[refused.value.errno or 0]
