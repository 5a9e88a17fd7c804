"""A situation as ``status --output json`` shows it. Pure."""

from collections.abc import Mapping
from dataclasses import asdict

from agent.cli.situation import GroupStatus, Holdings, Situation
from agent.cli.table import schemata_as_json
from agent.policy.render import as_json as problem_as_json
from agent.reconcile.survey import Misplaced, Workload
from agent.tasks.hierarchy import Hierarchy

NOBODY = "none"
"""The event source where no agent runs."""

UNKNOWN = "unknown"
"""An agent runs, but what it wrote down cannot be read."""


MISPLACED = 20
"""Threads out of place that are named; ``misplaced`` is how many there are."""


def as_json(situation: Situation) -> dict[str, object]:
    """Where the policy is missing or refused, ``classes`` is empty, and what compares the machine with it is None."""
    plan, found = situation.plan, situation.survey
    return {
        "mount": str(situation.mount),
        "emulated": situation.emulated,
        "cgroups": _cgroups(situation.hierarchy),
        "event_source": event_source(situation),
        "classes": [_class(group) for group in situation.groups if group.class_name is not None],
        "other_groups": [_other(group) for group in situation.groups if group.class_name is None],
        "workloads": [_workload(each) for group in situation.groups for each in group.workloads],
        "misplaced": len(found.misplaced) if found else None,
        "misplaced_threads": [_misplaced(each) for each in found.misplaced[:MISPLACED]] if found else None,
        "closids": _holdings(situation.closids),
        "rmids": _holdings(situation.rmids),
        "drift": [action.as_json() for action in plan.preparation] if plan else None,
        "obstacles": [str(obstacle) for obstacle in plan.obstacles] if plan else [],
        "contended": [dict(each) for each in situation.daemon.contended] if situation.daemon else [],
        "daemon": _daemon(situation),
        "policy": _policy(situation),
    }


def event_source(situation: Situation) -> str:
    """``bpf``, ``scan``, ``none`` or ``unknown``."""
    if not situation.agent_runs:
        return NOBODY
    return situation.daemon.event_source if situation.daemon else UNKNOWN


def _cgroups(hierarchy: Hierarchy) -> dict[str, object]:
    return {
        "version": hierarchy.version,
        "controllers": list(hierarchy.controllers),
        "mount": str(hierarchy.mount),
    }


def _misplaced(thread: Misplaced) -> dict[str, object]:
    return {"tid": thread.tid, "cgroup": thread.path, "group": thread.group, "actual_group": thread.actual}


def _class(group: GroupStatus) -> dict[str, object]:
    return {
        "name": group.class_name,
        "group": group.group,
        "exists": group.mode is not None,
        "mode": group.mode,
        "schemata": schemata_as_json(group.schemata),
        "threads": group.threads,
        "workloads": len(group.workloads),
    }


def _other(group: GroupStatus) -> dict[str, object]:
    return {
        "group": group.group,
        "ours": group.ours,
        "mode": group.mode,
        "schemata": schemata_as_json(group.schemata),
        "threads": group.threads,
    }


def _workload(workload: Workload) -> dict[str, object]:
    return {
        "name": workload.name,
        "class": workload.class_name,
        "rule": workload.rule,
        "threads": workload.threads,
    }


def _holdings(holdings: Holdings) -> dict[str, object]:
    return {
        "total": holdings.total,
        "root": min(1, holdings.total),
        "ours": len(holdings.ours),
        "foreign": len(holdings.foreign),
        "free": holdings.free,
        "foreign_groups": list(holdings.foreign),
    }


def _daemon(situation: Situation) -> Mapping[str, object] | None:
    if situation.daemon is None:
        return None
    facts = asdict(situation.daemon)
    del facts["contended"]
    return facts


def _policy(situation: Situation) -> dict[str, object]:
    policy = situation.in_force.policy if situation.in_force else None
    return {
        "path": str(situation.policy),
        "ok": policy is not None,
        "classes": len(policy.classes) if policy else None,
        "rules": len(policy.rules) if policy else None,
        "problems": [problem_as_json(problem) for problem in situation.problems],
    }
