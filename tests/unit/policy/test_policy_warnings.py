import pytest

from agent.policy.problem import Severity

HEAD = "version: 1\nclasses: {a: {}, b: {}}\nrules:\n"


def rules(*conditions: str) -> str:
    return HEAD + "".join(f"- {{class: {'ab'[n % 2]}, when: {when}}}\n" for n, when in enumerate(conditions))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("{unit: a.service}", "{unit: a.service}"),
        ("{unit: [a.service, b.service]}", "{unit: a.service}"),
        ("{unit: a.service}", "{unit: a.service, user: root}"),
        ("{cgroup: /a}", "{cgroup: /a/b}"),
        ("{cgroup: /a}", "{cgroup: /a/}"),
        ("{cgroup: /a}", "{cgroup: [/a/b, /a/*/c]}"),
        ("{cgroup: /a}", "{cgroup: /a/**}"),
        ("{cgroup: /a}", "{cgroup: /a/b, unit: b.service}"),
        ("{cgroup: /}", "{cgroup: /a}"),
        ("{cgroup: /a/*}", "{cgroup: /a/*}"),
        ("{exe: /bin/x, user: root}", "{exe: /bin/x, user: root}"),
        ("{kubernetes: {qos: BestEffort}}", "{kubernetes: {qos: besteffort, pod_uid: x}}"),
        ("{not: {user: root}}", "{comm: x, not: {user: root}}"),
    ],
)
def test_a_rule_that_an_earlier_one_leaves_nothing_is_pointed_out(earlier, later, read):
    (warning,) = read(rules(earlier, later)).warnings
    assert warning.severity is Severity.WARNING
    assert warning.message == "rule 2 can never match: rule 1 at policy.yaml:4:3 takes all that it would"
    assert str(warning.position) == "policy.yaml:5:3"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("{cgroup: /a/b}", "{cgroup: /a}"),
        ("{cgroup: /a}", "{cgroup: /ab}"),
        ("{cgroup: /a}", "{cgroup: [/a/b, /b]}"),
        ("{cgroup: /a/*}", "{cgroup: /a/b}"),
        ("{cgroup: /a/*}", "{cgroup: /a}"),
        ("{cgroup: /a, user: root}", "{cgroup: /a}"),
        ("{cgroup: /a, not: {user: root}}", "{cgroup: /a}"),
        ("{unit: a.service}", "{unit: [a.service, b.service]}"),
        ("{unit: a.service}", "{cgroup: /a}"),
        ("{kubernetes: {qos: besteffort}}", "{kubernetes: {pod_uid: x}}"),
        ("{kubernetes: {qos: besteffort}}", "{unit: a.service}"),
        ("{not: {user: root}}", "{not: {user: bin}}"),
    ],
)
def test_a_rule_that_is_left_something_is_not(earlier, later, read):
    assert read(rules(earlier, later)).warnings == ()


@pytest.mark.parametrize(
    "when", ["{cgroup: /a/b%d, comm: x}", "{cgroup: /a, comm: x%d}", "{unit: u.service, user: %d}"]
)
def test_thousands_of_similar_rules_are_told_apart(when, read):
    assert read(rules(*(when % n for n in range(4000)))).warnings == ()


def test_a_class_without_a_rule_is_pointed_out(read):
    (warning,) = read("version: 1\nclasses:\n  a: {}\n  b: {cpus: 1}\n  c: {default: true}\n").warnings
    assert warning.message == 'class "a" has no rule, so that nothing will be in it'
    assert str(warning.position) == "policy.yaml:3:3"


@pytest.mark.parametrize(
    ("comm", "hint"),
    [
        ("a-name-that-is-too-long", 'write "a-name-that-is-"'),
        ("ééééééééx", 'write "ééééééé"'),
        ('"a-name-that-is-to?"', None),
        ('"*a-name-that-is-t[oa]*"', None),
    ],
)
def test_a_name_longer_than_the_kernel_keeps_is_pointed_out(comm, hint, read):
    (warning,) = read(rules(f"{{comm: {comm}}}", "{comm: x}")).warnings
    assert "can never match: the kernel cuts names to 15 bytes" in warning.message
    assert warning.hint == hint
    assert str(warning.position) == "policy.yaml:4:27"


@pytest.mark.parametrize("comm", ["exactly-fifteen", '"*-name-[a-z]-*-"', '"[!a-zA-Z0-9]*"', '"*[*"'])
def test_a_name_that_the_kernel_can_keep_is_not(comm, read):
    assert read(rules(f"{{comm: {comm}}}", "{comm: x}")).warnings == ()


def test_optional_amounts_that_are_not_given_are_pointed_out(read):
    (warning,) = read("version: 1\nclasses: {a: {default: true, l3: 30%, optional: [l3, mb]}}\n").warnings
    assert warning.message == 'class "a": optional "mb" makes no difference, since the class gives no mb'


def test_two_rules_of_one_name_are_pointed_out(read):
    text = HEAD + "- {class: a, when: {comm: a}, name: x}\n- {class: b, when: {comm: b}, name: x}\n"
    (warning,) = read(text).warnings
    assert warning.message == 'rule "x" has the same name as the one at policy.yaml:4:3'


def test_warnings_come_along_with_errors(refused):
    problems = refused("version: 1\nclasses: {a: {default: true, optional: [mb], l3: 130%}}\n")
    assert [problem.severity for problem in problems] == [Severity.WARNING, Severity.ERROR]
