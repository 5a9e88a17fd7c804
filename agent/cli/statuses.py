"""Exit statuses that scripts rely on; 0 is fine."""

FAILED = 1
WRONG_USAGE = 2
DIFFERENCES = 3
"""``plan --exit-code``: something would change."""
NO_RESCTRL = 69
"""EX_UNAVAILABLE of sysexits.h: this kernel or processor has no resctrl, so that trying again is of no use."""
POLICY_REFUSED = 78
"""EX_CONFIG of sysexits.h."""
