"""Keeps tasks in the resctrl group that one policy file says they belong to."""

__version__ = "0.1.0"
