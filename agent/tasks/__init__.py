"""Processes and cgroups as procfs and cgroupfs show them. Knows nothing of policy or resctrl."""
