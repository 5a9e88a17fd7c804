"""Nodes → rules."""

import re
from collections.abc import Callable, Iterator

from agent.policy.model import Conditions, KubernetesConditions, Rule
from agent.policy.nodes import Mapping, Node, Scalar, Sequence
from agent.policy.report import Report
from agent.policy.shape import Entry, described, entries, is_nothing, items, one_of, quoted, text

RULE_KEYS = ("class", "when", "name")
CONDITION_KEYS = ("cgroup", "unit", "kubernetes", "exe", "comm", "user", "not")
KUBERNETES_KEYS = ("qos", "pod_uid")

QOS_CLASSES = ("guaranteed", "burstable", "besteffort")
QOS_SPELLINGS = (*QOS_CLASSES, "Guaranteed", "Burstable", "BestEffort")
"""As cgroups spell them, and as the Kubernetes API does."""

UNIT_SUFFIXES = ("service", "scope", "slice", "socket", "mount", "swap")
"""The systemd units that have cgroups."""

LONGEST_COMM = 15
"""Bytes of a task's name that the kernel keeps (TASK_COMM_LEN less the NUL)."""

HIGHEST_UID = 2**32 - 2

_GLOB = re.compile(r"[*?\[]")
_GLOB_PART = re.compile(r"\*+|\[[!^]?\]?[^\]]*\]|\?|.", re.DOTALL)

Complaint = tuple[str, str | None]
"""What is wrong with a pattern, going on from its text, and a hint."""

Complain = Callable[[str], Complaint | None]


def rules(node: Node, first: int, report: Report) -> Iterator[Rule]:
    """The ``rules`` section; ``first`` is the index of its first rule. A rule with mistakes keeps its index."""
    if is_nothing(node):
        return
    if not isinstance(node, Sequence):
        hint = "each rule begins with a dash" if isinstance(node, Mapping) else None
        report.error(node.position, f"rules must be a list, not {described(node)}", hint)
        return
    for index, item in enumerate(node.items, start=first):
        rule = _rule(item, index, report)
        if rule is not None:
            yield rule


def _rule(node: Node, index: int, report: Report) -> Rule | None:
    if not isinstance(node, Mapping):
        hint = 'write "{class: batch, when: {unit: backup.service}}"'
        report.error(node.position, f"rule {index} must be a mapping, not {described(node)}", hint)
        return None
    found = entries(node, f"rule {index}", RULE_KEYS, report)
    name = text(found["name"].value, f"rule {index}: name", report) if "name" in found else None
    subject = f"rule {quoted(name.text)}" if name else f"rule {index}"
    for key in ("class", "when"):
        if key not in found:
            report.error(node.position, f'{subject} has no "{key}"')
    class_name = text(found["class"].value, f"{subject}: class", report) if "class" in found else None
    when = _conditions(found["when"], f"{subject}: when", report) if "when" in found else None
    if class_name is None or when is None:
        return None
    return Rule(index, class_name.text, when, node.position, name.text if name else None, class_name.position)


def _conditions(entry: Entry, subject: str, report: Report) -> Conditions:
    found = entries(entry.value, subject, CONDITION_KEYS, report)
    if _is_empty(entry.value):
        hint = f"say what the task must be: {', '.join(CONDITION_KEYS)}"
        report.error(entry.position, f"{subject} asks nothing, so that every task would match", hint)
    inner = {key: f"{subject.removesuffix(': when')}: {key}" for key in CONDITION_KEYS}
    return Conditions(
        cgroup=_patterns(found.get("cgroup"), inner["cgroup"], _cgroup_complaint, report),
        unit=_patterns(found.get("unit"), inner["unit"], _unit_complaint, report),
        kubernetes=_kubernetes(found["kubernetes"], inner["kubernetes"], report) if "kubernetes" in found else None,
        exe=_patterns(found.get("exe"), inner["exe"], _exe_complaint, report),
        comm=_comms(found.get("comm"), inner["comm"], report),
        user=_patterns(found.get("user"), inner["user"], _user_complaint, report),
        negated=_conditions(found["not"], inner["not"], report) if "not" in found else None,
    )


def _kubernetes(entry: Entry, subject: str, report: Report) -> KubernetesConditions:
    found = entries(entry.value, subject, KUBERNETES_KEYS, report)
    if _is_empty(entry.value):
        report.error(entry.position, f"{subject} asks nothing", f"for any pod, write qos: [{', '.join(QOS_CLASSES)}]")
    qos = found.get("qos")
    words = [one_of(item, f"{subject}: qos", QOS_SPELLINGS, report) for item in _values(qos, f"{subject}: qos", report)]
    return KubernetesConditions(
        qos=tuple(word.lower() for word in words if word is not None),
        pod_uid=_patterns(found.get("pod_uid"), f"{subject}: pod_uid", _pod_uid_complaint, report),
    )


def _is_empty(node: Node) -> bool:
    return is_nothing(node) or (isinstance(node, Mapping) and not node.entries)


def _values(entry: Entry | None, subject: str, report: Report) -> Iterator[Node]:
    return items(entry.value, subject, report) if entry else iter(())


def _patterns(entry: Entry | None, subject: str, complain: Complain, report: Report) -> tuple[str, ...]:
    return tuple(pattern.text for pattern in _good_patterns(entry, subject, complain, report))


def _good_patterns(entry: Entry | None, subject: str, complain: Complain, report: Report) -> Iterator[Scalar]:
    for node in _values(entry, subject, report):
        pattern = text(node, subject, report)
        complaint = complain(pattern.text) if pattern else None
        if pattern and complaint:
            report.error(pattern.position, f"{subject} {quoted(pattern.text)} {complaint[0]}", complaint[1])
        elif pattern:
            yield pattern


def _comms(entry: Entry | None, subject: str, report: Report) -> tuple[str, ...]:
    patterns = tuple(_good_patterns(entry, subject, lambda _: None, report))
    for pattern in patterns:
        if _shortest_match(pattern.text) > LONGEST_COMM:
            message = f"{subject} {quoted(pattern.text)} can never match: the kernel cuts names to {LONGEST_COMM} bytes"
            report.warning(pattern.position, message, _comm_hint(pattern.text))
    return tuple(pattern.text for pattern in patterns)


def _comm_hint(comm: str) -> str | None:
    cut = comm.encode(errors="replace")[:LONGEST_COMM].decode(errors="ignore")
    return None if _GLOB.search(comm) else f"write {quoted(cut)}"


def _shortest_match(glob: str) -> int:
    """Bytes of the shortest name that a pattern can match."""
    parts = _GLOB_PART.findall(glob)
    return sum(_part_length(part) for part in parts)


def _part_length(part: str) -> int:
    if part.startswith("*"):
        return 0
    return 1 if _GLOB.match(part) else len(part.encode(errors="replace"))


def _cgroup_complaint(glob: str) -> Complaint | None:
    if glob.startswith("/sys/fs/cgroup/"):
        return "is a path of the file system", f"paths begin at the hierarchy's root: {quoted(glob[14:])}"
    return _path_complaint(glob, f"paths begin at the hierarchy's root: {quoted('/' + glob)}")


def _exe_complaint(glob: str) -> Complaint | None:
    if "/" in glob:
        return _path_complaint(glob, "give the program's whole path, as /proc/PID/exe shows it")
    return _path_complaint(glob, f"write {quoted('/**/' + glob)}, or comm: {glob[:LONGEST_COMM]}")


def _path_complaint(glob: str, hint: str) -> Complaint | None:
    if not glob.startswith("/"):
        return "does not begin with a slash", hint
    if "//" in glob or {".", ".."} & set(glob.split("/")):
        return 'can never match: a path has no "//", "." or ".."', None
    return None


def _unit_complaint(glob: str) -> Complaint | None:
    if "/" in glob:
        return "is a path, not the name of a unit", f"write cgroup: {quoted(glob)}"
    if _GLOB.search(glob) or glob.rpartition(".")[2] in UNIT_SUFFIXES:
        return None
    return "can never match: only services, scopes, slices and such have cgroups", f"write {quoted(glob + '.service')}"


def _user_complaint(user: str) -> Complaint | None:
    if user.isdecimal() and (len(user) > 10 or int(user) > HIGHEST_UID):
        return f"is not a user id: the highest is {HIGHEST_UID}", None
    if not user.isdecimal() and re.fullmatch(r"[-+.]?[0-9][0-9._xXoOeE+-]*|.*[\s:/].*", user):
        return "is neither a user's name nor a number", None
    return None


def _pod_uid_complaint(glob: str) -> Complaint | None:
    if "_" in glob:
        return (
            'can never match: uids are compared as the API shows them, with "-"',
            f"write {quoted(glob.replace('_', '-'))}",
        )
    return None
