"""Warnings for what a policy says to no effect: classes without rules, rules behind others that take everything."""

from collections.abc import Iterable, Iterator, Mapping

from agent.policy.model import Conditions, Policy, Rule
from agent.policy.report import Report
from agent.policy.shape import label, quoted

_GLOB_CHARACTERS = frozenset("*?[")

Asked = Mapping[str, tuple[str, ...]]
"""What a rule asks for. All must hold; of several values, any."""


def warn_of_no_effect(policy: Policy, report: Report) -> None:
    """Look through a policy that is consistent."""
    _warn_of_unused_classes(policy, report)
    _warn_of_equal_names(policy.rules, report)
    _warn_of_covered_rules(policy.rules, report)


def _warn_of_unused_classes(policy: Policy, report: Report) -> None:
    named = {rule.class_name for rule in policy.rules}
    for spec in policy.classes.values():
        if spec.name not in named and not spec.default and spec.cpus is None:
            message = f"class {quoted(spec.name)} has no rule, so that nothing will be in it"
            report.warning(spec.position, message)


def _warn_of_equal_names(rules: Iterable[Rule], report: Report) -> None:
    first: dict[str, Rule] = {}
    for rule in rules:
        other = first.setdefault(rule.label, rule)
        if other is not rule:
            report.warning(rule.position, f"{label(rule)} has the same name as the one at {other.position}")


def _warn_of_covered_rules(rules: Iterable[Rule], report: Report) -> None:
    earlier = _Earlier()
    for rule in rules:
        wide = next((other for other in earlier.candidates(rule.when) if _covers(other.when, rule.when)), None)
        if wide is not None:
            message = f"{label(rule)} can never match: {label(wide)} at {wide.position} takes all that it would"
            report.warning(rule.position, message, "the first rule that matches wins; put the narrower one first")
        earlier.add(rule)


class _Earlier:
    """The rules so far, each found by one thing that it asks for, so that not all are compared with each other."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, str], list[Rule]] = {}

    def add(self, rule: Rule) -> None:
        """File the rule under that of its keys which tells it best from the others."""
        asked = _asked(rule.when)
        places = [[(key, value) for value in values] for key, values in asked.items()] or [[("", "")]]
        rarest = min(places, key=lambda places: sum(len(self._rules.get(place, ())) for place in places))
        for place in rarest:
            self._rules.setdefault(place, []).append(rule)

    def candidates(self, narrow: Conditions) -> Iterator[Rule]:
        """Every rule that may cover ``narrow``: one that does asks, under any of its keys, for the first value too."""
        yield from self._rules.get(("", ""), ())
        for key, values in _asked(narrow).items():
            for value in _tops(values[0]) if key == "cgroup" else values[:1]:
                yield from self._rules.get((key, value), ())


def _asked(when: Conditions) -> Asked:
    pods = when.kubernetes
    asked = {
        "pod_uid": pods.pod_uid if pods else (),
        "comm": when.comm,
        "exe": when.exe,
        "unit": when.unit,
        "cgroup": tuple(glob.rstrip("/") for glob in when.cgroup),
        "user": when.user,
        "qos": pods.qos if pods else (),
    }
    return {key: values for key, values in asked.items() if values}


def _covers(wide: Conditions, narrow: Conditions) -> bool:
    """Whether whatever satisfies ``narrow`` clearly satisfies ``wide``. May say no where the answer is yes."""
    if wide.negated not in (None, narrow.negated):
        return False
    given = _asked(narrow)
    return all(key in given and _each_within(key, given[key], values) for key, values in _asked(wide).items())


def _each_within(key: str, narrow: tuple[str, ...], wide: tuple[str, ...]) -> bool:
    if key == "cgroup":
        return all(any(top in wide for top in _tops(glob)) for glob in narrow)
    return set(narrow) <= set(wide)


def _tops(glob: str) -> Iterator[str]:
    """The pattern itself, and the literal cgroups that it is surely below."""
    yield glob
    parts = glob.split("/")
    for count in range(len(parts) - 1, 0, -1):
        top = "/".join(parts[:count])
        if not _GLOB_CHARACTERS & set(top):
            yield top
