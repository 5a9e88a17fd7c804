"""``make uninstall`` takes away what ``make install`` put there, and nothing else."""

import subprocess
from pathlib import Path

from tests.kernel.inside.unit_service import (
    AGENT,
    FEW_CLASSES,
    MOUNT,
    POLICY,
    RESCTRL,
    STATE,
    await_group,
    property_of,
    save_policy,
    start_job,
    systemctl,
    unmount,
)
from tests.kernel.inside.whereabouts import group_of

CHECKOUT = Path("/root/checkout")

NOT_OURS = ("/usr/src", "/usr/lib/modules", "/usr/include")
"""The kernel has files of that name too."""


def test_the_policy_the_state_and_what_is_in_force_stay() -> None:
    unmount()
    save_policy(FEW_CLASSES)
    systemctl("enable", "--now", AGENT)
    placed = start_job("job-that-stays")
    await_group(placed, "batch")
    assert "/usr/bin/resctrl-agent" in files_by_name()
    subprocess.run(["make", "--silent", "-C", CHECKOUT, "uninstall"], check=True)
    assert files_by_name() == []
    assert property_of(AGENT, "LoadState") == "not-found"
    assert POLICY.read_text() == FEW_CLASSES
    assert list(STATE.iterdir())
    assert (RESCTRL / "batch").is_dir()
    assert group_of(placed) == "batch"
    assert property_of(MOUNT, "ActiveState") == "active"


def files_by_name() -> list[str]:
    """What bears the name outside of the administrator's own files."""
    apart = [argument for path in NOT_OURS for argument in ("-path", path, "-prune", "-o")]
    command = ["find", "/usr", "/etc/systemd", *apart, "-name", "*resctrl*", "-print"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
