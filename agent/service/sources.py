"""Choosing where events come from, and never silently less than the best."""

import structlog

from agent.events.event import EventSource
from agent.events.kernel import KernelEvents
from agent.events.scan import CgroupScan
from agent.events.unavailable import BpfUnavailableError
from agent.tasks.hierarchy import Hierarchy

log = structlog.get_logger()

BPF = "bpf"
SCAN = "scan"


def open_source(hierarchy: Hierarchy) -> tuple[EventSource, str]:
    """eBPF, or where that cannot be used inotify, which the daemon has to help with a look at everything each second.

    Raises OSError where not even the cgroup tree can be watched.
    """
    try:
        return KernelEvents.open(hierarchy.id), BPF
    except BpfUnavailableError as error:
        log.warning("event source fallback", reason=str(error), cause=error.cause.value)
        return CgroupScan(hierarchy.mount), SCAN
