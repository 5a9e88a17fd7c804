"""What people are shown as the name of a workload. Pure."""

from collections.abc import Iterator

from agent.policy.model import Conditions, Rule


def workload_name(workload: str, rule: Rule) -> str:
    """The cgroup; for a rule on the program, its name, or what it asks for: ``rule 3 (exe /usr/bin/sleep)``."""
    if workload != rule.label or rule.name is not None:
        return workload
    return f"{rule.label} ({', '.join(_asked(rule.when))})"


def _asked(when: Conditions) -> Iterator[str]:
    for key, values in (("exe", when.exe), ("comm", when.comm), ("user", when.user)):
        if values:
            yield f"{key} {' or '.join(values)}"
    if when.negated is not None:
        yield from (f"not {asked}" for asked in _asked(when.negated))
