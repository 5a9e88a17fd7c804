"""Which rule wins."""

import pytest

from agent.reconcile.rules import EXE_HIDDEN, NEGATED, RuleBook
from agent.tasks.process import Program

SHELL = Program(exe="/usr/bin/bash", comm="bash", uid=0, is_kernel_thread=False)
FFMPEG = Program(exe="/usr/bin/ffmpeg", comm="ffmpeg", uid=1000, is_kernel_thread=False)
HIDDEN = Program(exe=None, comm="ffmpeg", uid=1000, is_kernel_thread=False, exe_hidden=True)
KERNEL = Program(exe=None, comm="kworker/0:1", uid=0, is_kernel_thread=True)

UID = "0b4e4d4c-64ad-4a3a-9c3c-5d2f2c1d7a11"
POD = f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice"


def book(policy, rules, **classes):
    named = {"a": "", "b": "", "c": "", **classes}
    text = "classes:\n" + "".join(f"  {name}: {{{spec}}}\n" for name, spec in named.items()) + "rules:\n"
    users = {"render": 1000, "root": 0}
    loaded = policy(text + "".join(f"  - {rule}\n" for rule in rules))
    return RuleBook(loaded, lambda user: int(user) if user.isdecimal() else users.get(user))


def winner(rules, path, program=SHELL):
    target = rules.judge(rules.judge_cgroup(path), program)
    return (target.class_name, target.workload) if target else None


@pytest.mark.parametrize(
    ("when", "path", "workload"),
    [
        ("cgroup: /x", "/x", "/x"),
        ("cgroup: /x", "/x/y/z", "/x"),
        ("cgroup: /x/", "/x", "/x"),
        ("cgroup: /x", "/xy", None),
        ("cgroup: /x", "/", None),
        ("cgroup: /", "/anything/at/all", "/"),
        ("cgroup: /x/*", "/x", None),
        ("cgroup: /x/*", "/x/y/z", "/x/y"),
        ("cgroup: /x*/z", "/xy/z/deep", "/xy/z"),
        ("cgroup: /x*z", "/x/z", None),
        ("cgroup: /**/db", "/a/b/db/w", "/a/b/db"),
        ("cgroup: /**/db", "/db", "/db"),
        ("cgroup: /a/**", "/a", None),
        ("cgroup: /a/**", "/a/b/c", "/a/b"),
        ("cgroup: '/a[12]'", "/a2/b", "/a2"),
        ("cgroup: '/a[!12]'", "/a2", None),
        ("cgroup: '/a[!12]b'", "/a/b", None),
        ("cgroup: [/x, /y]", "/y/1", "/y"),
        ("unit: mysqld.service", "/system.slice/mysqld.service", "/system.slice/mysqld.service"),
        ("unit: mysqld.service", "/system.slice/mysqld.service/sub", "/system.slice/mysqld.service"),
        ("unit: 'batch@*.service'", "/system.slice/batch@7.service", "/system.slice/batch@7.service"),
        ("unit: system.slice", "/system.slice/x.service", "/system.slice"),
        ("unit: '*.slice'", "/a.slice/a-b.slice/x.service", "/a.slice/a-b.slice"),
        ("kubernetes: {qos: besteffort}", f"{POD}/cri-containerd-{'e' * 64}.scope", POD),
        (
            "kubernetes: {qos: besteffort}",
            f"/kubepods/besteffort/pod{UID}/{'e' * 64}",
            f"/kubepods/besteffort/pod{UID}",
        ),
        ("kubernetes: {qos: burstable}", POD, None),
        ("kubernetes: {qos: [burstable, besteffort]}", POD, POD),
        (f"kubernetes: {{pod_uid: {UID}}}", POD, POD),
        ("kubernetes: {pod_uid: '0b4e*'}", POD, POD),
        ("kubernetes: {qos: besteffort}", "/kubepods.slice/kubepods-besteffort.slice", None),
        (f"{{cgroup: /kubepods.slice, kubernetes: {{pod_uid: {UID}}}}}"[1:-1], POD, POD),
        ("not: {cgroup: /x}", "/y", "/y"),
        ("not: {cgroup: /x}", "/x/y", None),
        ("cgroup: /x, not: {cgroup: /x/y}", "/x/z", "/x"),
        ("cgroup: /x, not: {cgroup: /x/y}", "/x/y/z", None),
    ],
)
def test_a_cgroup_belongs_to_the_workload_that_its_rule_names(policy, when, path, workload):
    rules = book(policy, [f"{{class: a, when: {{{when}}}}}"])
    assert winner(rules, path) == (("a", workload) if workload else None)


@pytest.mark.parametrize(
    ("when", "program", "matches"),
    [
        ("exe: /usr/bin/ffmpeg", FFMPEG, True),
        ("exe: /usr/bin/ffmpeg", SHELL, False),
        ("exe: '/usr/*/ffmpeg'", FFMPEG, True),
        ("exe: '/*/ffmpeg'", FFMPEG, False),
        ("exe: '/**/ffmpeg'", FFMPEG, True),
        ("exe: '/**'", KERNEL, False),
        ("comm: 'ff*'", FFMPEG, True),
        ("comm: 'kworker/*'", KERNEL, True),
        ("user: render", FFMPEG, True),
        ("user: '1000'", FFMPEG, True),
        ("user: nobody-knows", FFMPEG, False),
        ("user: render, exe: /usr/bin/ffmpeg", FFMPEG, True),
        ("user: root, exe: /usr/bin/ffmpeg", FFMPEG, False),
        ("exe: /usr/bin/ffmpeg, not: {user: root}", FFMPEG, True),
        ("exe: /usr/bin/ffmpeg, not: {user: render}", FFMPEG, False),
        ("cgroup: /x, not: {user: render, exe: /usr/bin/ffmpeg}", FFMPEG, False),
        ("cgroup: /x, not: {user: root, exe: /usr/bin/ffmpeg}", FFMPEG, True),
        ("cgroup: /x, not: {cgroup: /x/y, user: render}", FFMPEG, True),
        ("cgroup: /x, not: {cgroup: /x, user: render}", FFMPEG, False),
    ],
)
def test_a_process_is_judged_by_its_own_facts(policy, when, program, matches):
    rules = book(policy, [f"{{class: a, when: {{{when}}}}}"])
    assert (winner(rules, "/x", program) is not None) == matches


def test_the_first_rule_that_matches_wins(policy):
    rules = book(policy, ["{class: a, when: {cgroup: /x/y}}", "{class: b, when: {cgroup: /x}}"])
    assert winner(rules, "/x/y/z") == ("a", "/x/y")
    assert winner(rules, "/x/w") == ("b", "/x")


def test_a_process_that_no_program_rule_claims_falls_to_what_its_cgroup_says(policy):
    rules = book(
        policy,
        ["{class: a, when: {exe: /usr/bin/ffmpeg}, name: transcoding}", "{class: b, when: {cgroup: /x}}"],
    )
    assert winner(rules, "/x/y", FFMPEG) == ("a", "transcoding")
    assert winner(rules, "/x/y", SHELL) == ("b", "/x")
    assert winner(rules, "/z", SHELL) is None


def test_a_rule_on_the_program_comes_after_one_on_the_cgroup_where_the_file_says_so(policy):
    rules = book(policy, ["{class: b, when: {cgroup: /x}}", "{class: a, when: {comm: ffmpeg}}"])
    assert winner(rules, "/x/y", FFMPEG) == ("b", "/x")
    assert winner(rules, "/z", FFMPEG) == ("a", "rule 2")


def test_the_default_class_is_the_root_group(policy):
    rules = book(policy, ["{class: d, when: {cgroup: /x}}"], d="default: true")
    target = rules.judge(rules.judge_cgroup("/x"), SHELL)
    assert target is not None
    assert target.group == ""


def test_explaining_says_of_each_rule_why_it_did_not_match(policy):
    rules = book(
        policy,
        [
            "{class: a, when: {unit: mysqld.service}}",
            "{class: a, when: {kubernetes: {qos: guaranteed}}}",
            "{class: a, when: {cgroup: /x, user: render}}",
            "{class: a, when: {user: nobody-knows}}",
            "{class: a, when: {cgroup: /x, not: {comm: bash}}}",
            "{class: a, when: {cgroup: /x, not: {cgroup: /x/y}}}",
            "{class: b, when: {cgroup: /x}, name: mine}",
            "{class: c, when: {cgroup: /}}",
        ],
    )
    trials = rules.explain("/x/y", SHELL)
    assert [trial.reasons for trial in trials] == [
        ("unit is not mysqld.service (units of /x/y: none)",),
        ("cgroup /x/y is not in a pod",),
        ("user is 0, not render",),
        ("user is 0, not nobody-knows (no such user here: nobody-knows)",),
        (NEGATED,),
        (NEGATED,),
        (),
    ]
    assert trials[-1].rule.label == "mine"
    assert trials[-1].matched


def test_users_that_the_machine_does_not_know_are_named(policy):
    rules = book(policy, ["{class: a, when: {not: {user: [render, ghost]}}}"])
    assert rules.unknown_users == ("ghost",)


def test_a_verdict_is_judged_anew_after_its_cgroup_is_forgotten(policy):
    rules = book(policy, ["{class: a, when: {cgroup: /x}}"])
    first = rules.judge_cgroup("/x")
    assert rules.judge_cgroup("/x") is first
    rules.forget("/x")
    assert rules.judge_cgroup("/x") is not first


@pytest.mark.parametrize(
    ("when", "hidden", "readable"),
    [
        ("exe: /usr/bin/ffmpeg", None, "a"),
        ("exe: /usr/bin/x265", None, None),
        ("not: {exe: /usr/bin/x265}", None, "a"),
        ("comm: ffmpeg, not: {exe: /usr/bin/x265, user: root}", None, "a"),
        ("comm: ffmpeg, user: render", "a", "a"),
        ("comm: ffmpeg, not: {user: root}", "a", "a"),
    ],
)
def test_a_rule_on_a_program_that_may_not_be_read_matches_nothing_negated_or_not(policy, when, hidden, readable):
    rules = book(policy, [f"{{class: a, when: {{{when}}}}}"])
    found = [rules.judge(rules.judge_cgroup("/x"), program) for program in (HIDDEN, FFMPEG)]
    assert [target and target.class_name for target in found] == [hidden, readable]
    reasons = rules.explain("/x", HIDDEN)[0].reasons
    assert reasons == (() if hidden else (EXE_HIDDEN,))
