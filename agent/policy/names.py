"""Which names a class may have, given that its control group is a directory beside the kernel's own files."""

import re

LONGEST_NAME = 255
"""Bytes in the name of a directory."""

KERNEL_FILES = frozenset(
    {
        "cpus",
        "cpus_list",
        "ctrl_hw_id",
        "info",
        "mba_MBps_event",
        "mbm_L3_assignments",
        "mode",
        "mon_data",
        "mon_groups",
        "mon_hw_id",
        "schemata",
        "size",
        "tasks",
    }
)
"""What the kernel puts, or may put, beside the control groups; mkdir would be EEXIST."""

NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9_.-]*"
"""Stricter than the kernel, which refuses only newlines and slashes: names are typed in shells and shown in tables."""


def complaint(name: str) -> str | None:
    """Why this cannot be the name of a control group; None where it can."""
    if name in KERNEL_FILES:
        return "is the name of a file that the kernel keeps in its place"
    if not re.fullmatch(NAME_PATTERN, name):
        return "is not a name: letters, digits, and _ . - after the first"
    if len(name) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} bytes"
    return None
