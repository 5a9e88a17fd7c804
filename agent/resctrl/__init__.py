"""The kernel's resctrl filesystem: what the machine can do, schemata, groups. Knows nothing of policy."""
