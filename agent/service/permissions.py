"""What a policy asks of the agent that it may not be permitted to do, so that nothing is left out silently."""

from collections.abc import Iterator
from pathlib import Path

from agent.policy.model import Policy
from agent.policy.problem import Problem, Severity
from agent.tasks.process import may_read_programs

HOW_TO_PERMIT = (
    "systemctl edit resctrl-agent, with CapabilityBoundingSet=CAP_SYS_PTRACE under [Service], then systemctl restart "
    "resctrl-agent; rules on comm and user need no permission"
)


def unjudged_rules(policy: Policy, proc: Path, pid: int | None = None) -> tuple[Problem, ...]:
    """A warning for each rule on ``exe`` where the agent may not read which program others run.

    ``pid`` is the agent's process; None: this one.
    """
    if may_read_programs(proc, pid):
        return ()
    why = "matches no process, because the agent lacks CAP_SYS_PTRACE, without which it cannot read exe"
    return tuple(_problems(policy, Severity.WARNING, why))


def rules_to_be_permitted(policy: Policy) -> tuple[Problem, ...]:
    """The same as notes, for when no agent runs that could be looked at."""
    why = "asks for exe, which the service, as it is installed, lacks the permission to read"
    return tuple(_problems(policy, Severity.NOTE, why))


def _problems(policy: Policy, severity: Severity, why: str) -> Iterator[Problem]:
    for rule in policy.rules:
        if rule.when.of_exe:
            yield Problem(severity, f"{rule.label}: {why}", rule.position, HOW_TO_PERMIT)
