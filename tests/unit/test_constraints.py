"""constraints.txt: what make and CI install is the same everywhere and always."""

from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def pins() -> list[Requirement]:
    return [Requirement(line) for line in CONSTRAINTS.read_text().splitlines() if line and not line.startswith("#")]


def needed(requirement: Requirement) -> set[str]:
    """Names of all that is installed with it on this machine, itself included."""
    found: set[str] = set()
    waiting = [requirement]
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        if name in found:
            continue
        found.add(name)
        extras = each.extras or {""}
        waiting += [
            further
            for further in map(Requirement, requires(name) or ())
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return found


def test_everything_that_the_agent_and_its_tests_need_is_pinned() -> None:
    pinned = {canonicalize_name(pin.name) for pin in pins()}
    assert needed(Requirement("resctrl-agent[dev]")) - {"resctrl-agent"} <= pinned


def test_every_pin_is_exact_and_given_once() -> None:
    assert all([specifier.operator for specifier in pin.specifier] == ["=="] for pin in pins())
    names = [canonicalize_name(pin.name) for pin in pins()]
    assert len(names) == len(set(names))
