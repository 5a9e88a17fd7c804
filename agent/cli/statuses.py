"""Exit statuses that scripts rely on; 0 is fine."""

FAILED = 1
WRONG_USAGE = 2
DIFFERENCES = 3
"""``plan --exit-code``: something would change."""
POLICY_REFUSED = 78
"""EX_CONFIG of sysexits.h."""
