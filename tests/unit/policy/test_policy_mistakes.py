"""Each mistake is found where it is: a ``«`` stands just before the character that the message points at."""

import pytest

from agent.policy.problem import Severity

HEAD = "version: 1\n"
ONE_RULE = "classes: {batch: {l3: 30%}}\nrules:\n"

MISTAKES = {
    # The document
    "version missing": ("«classes: {}\n", '"version" is missing'),
    "version of another kind": ("version: «2\n", "version must be 1, not 2"),
    "version in quotes": ('version: «"1"\n', 'version must be 1, not "1"'),
    "version in hex": ("version: «0x1\n", "version must be 1, not 0x1"),
    "version left out": ("«version:\n", "version must be 1, not nothing"),
    "nothing": ("«~\n", '"version" is missing'),
    "only comments": ("«# nothing yet\n", '"version" is missing'),
    "a list": ("«- version: 1\n", "policy must be a mapping of keys to values, not a list"),
    "a word": ("«version\n", 'policy must be a mapping of keys to values, not "version"'),
    "unknown section": (HEAD + "«clases: {}\n", 'policy: unknown key "clases"'),
    "section twice": (HEAD + "classes: {}\n«classes: {}\n", '"classes" is given twice, first at policy.yaml:2:1'),
    "a key that is a list": (HEAD + "? «[a]\n: 1\n", "a key must be a single word, not a list"),
    "no YAML": (HEAD + "classes: {a: [«}\n", "not YAML"),
    "bracket that is never closed": (HEAD + "classes: «{a: {}\n", "not YAML"),
    "quote that is never closed": (HEAD + 'classes: «"a\n', "not YAML"),
    "tab": (HEAD + "classes:\n«\tbatch: {}\n", "not YAML"),
    "value in a value": (HEAD + "classes: a«: b\n", "not YAML: mapping values are not allowed"),
    "second document": (HEAD + "«---\nversion: 1\n", "a second YAML document begins here"),
    "tag": (HEAD + "classes: «!!python/object:os.system {}\n", "no use for the YAML tag"),
    "alias to nothing": (HEAD + "classes: «*none\n", "the alias *none refers to nothing before it"),
    "alias to itself": (HEAD + "classes: &c {a: «*c}\n", "the alias *c stands inside what it refers to"),
    "merge key": (HEAD + "classes:\n  a: &a {l3: 30%}\n  b: {«<<: *a}\n", 'class "b": unknown key "<<"'),
    "control character": (HEAD + "classes: {a: «\x1b[31m}\n", "the character U+001B cannot be in YAML"),
    # The resctrl section
    "resctrl as a word": (HEAD + "resctrl: «cdp\n", 'resctrl must be a mapping of keys to values, not "cdp"'),
    "unknown resctrl key": (HEAD + "resctrl: {«cpd: [l3]}\n", 'resctrl: unknown key "cpd"'),
    "cdp of what has none": (HEAD + "resctrl: {cdp: [l3, «l4]}\n", 'resctrl: cdp must be "l2" or "l3", not "l4"'),
    "cdp as a word": (HEAD + "resctrl: {cdp: «l3}\n", 'resctrl: cdp must be a list, not "l3"'),
    "unknown unit": (
        HEAD + "resctrl: {bandwidth: «mbps}\n",
        'resctrl: bandwidth must be "percent" or "MBps", not "mbps"',
    ),
    "capacity in per cent": (HEAD + "resctrl: {bandwidth_capacity: «50%}\n", 'bandwidth_capacity "50%" is not a rate'),
    # Partitions
    "partition without a cache": (HEAD + "partitions: {p: «{}}\n", 'partition "p" slices no cache'),
    "partition of bandwidth": (HEAD + "partitions: {p: {l3: 50%, «mb: 50%}}\n", 'partition "p": unknown key "mb"'),
    "partition with a place": (HEAD + "partitions: {p: {l3: «10-50%}}\n", 'partition "p": l3 "10-50%" says where'),
    "partitions that take too much": (
        HEAD + "partitions: {p: {l3: 60%}, q: {l3: «50%}}\n",
        'partition "q": with this l3 the partitions take 110 %',
    ),
    "halves that take too much": (
        HEAD + "partitions: {p: {l3: 60%}, q: {l3code: 10%, l3data: «50%}}\n",
        'partition "q": with this l3data the partitions take 110 %',
    ),
    "partition with a strange name": (HEAD + "partitions: {«a/b: {l3: 50%}}\n", 'partition "a/b": this is not a name'),
    # Classes
    "class as a word": (
        HEAD + "classes:\n  batch: «30%\n",
        'class "batch" must be a mapping of keys to values, not "30%"',
    ),
    "classes as a list": (HEAD + "classes:\n  «- batch\n", "classes must be a mapping of keys to values, not a list"),
    "unknown key": (HEAD + "classes:\n  batch:\n    «l4: 30%\n", 'class "batch": unknown key "l4"'),
    "class twice": (
        HEAD + "classes:\n  batch: {}\n  latency: {}\n  «batch: {}\n",
        'classes: "batch" is given twice, first at policy.yaml:3:3',
    ),
    "key twice": (
        HEAD + "classes:\n  batch: {l3: 30%, mb: 20%, «l3: 40%}\n",
        'class "batch": "l3" is given twice, first at policy.yaml:3:11',
    ),
    "too much cache": (HEAD + "classes:\n  batch:\n    l3: «130%\n", 'class "batch": l3 "130%" is more than 100 %'),
    "octal-looking ways": (HEAD + "classes: {batch: {l3: «010}}\n", 'class "batch": l3 "010" has no unit'),
    "list for an amount": (HEAD + "classes: {batch: {l3: «[30%]}}\n", 'class "batch": l3 must be a text, not a list'),
    "nothing for an amount": (HEAD + "classes: {batch: {«l3: }}\n", 'class "batch": l3 must be a text, not nothing'),
    "truth for an amount": (HEAD + "classes: {batch: {mb: «true}}\n", 'class "batch": mb must be a text, not true'),
    "too much for one domain": (
        HEAD + "classes: {batch: {l3: {default: 30%, 1: «130%}}}\n",
        'class "batch": l3 of domain 1 "130%" is more than 100 %',
    ),
    "too much by default": (
        HEAD + "classes: {batch: {mb: {default: «130%}}}\n",
        'class "batch": mb default "130%" is more than 100 %',
    ),
    "no domain": (HEAD + "classes: {batch: {l3: «{}}}\n", 'class "batch": l3 names no cache id'),
    "domain twice": (
        HEAD + 'classes: {batch: {l3: {"0-3": 30%, «2: 40%}}}\n',
        'class "batch": l3: cache id 2 is given twice, first at policy.yaml:2:24',
    ),
    "domain that is a word": (
        HEAD + "classes: {batch: {l3: {«defualt: 30%}}}\n",
        'class "batch": l3: cache id "defualt" is not a list of numbers',
    ),
    "domains backwards": (
        HEAD + "classes: {batch: {l3: {«8-3: 30%}}}\n",
        'cache id "8-3" has a range that ends before',
    ),
    "two sources (field report 7, runtime-spec#1196)": (
        HEAD + "classes: {batch: {l3: 30%, «l3code: 20%}}\n",
        'class "batch": l3code says again what l3 says at policy.yaml:2:19',
    ),
    "two sources, the half first": (
        HEAD + "classes: {batch: {l2data: 30%, «l2: 20%}}\n",
        'class "batch": l2 says again what l2data says at policy.yaml:2:19',
    ),
    "unknown mode": (
        HEAD + "classes: {batch: {l3: 30%, mode: «exclusiv}}\n",
        'mode must be "shareable" or "exclusive"',
    ),
    "exclusive without ways": (
        HEAD + "classes: {batch: {mode: «exclusive}}\n",
        'class "batch" is exclusive but has the',
    ),
    "exclusive default": (
        HEAD + "classes: {system: {default: true, l3: 30%, mode: «exclusive}}\n",
        'class "system": the default class cannot be exclusive',
    ),
    "CPUs of the default class": (
        HEAD + "classes: {system: {default: true, «cpus: 1}}\n",
        'class "system": the default class has the CPUs that no other class takes',
    ),
    "no CPUs": (HEAD + "classes: {batch: {cpus: «all}}\n", 'class "batch": cpus "all" is not a list of numbers'),
    "CPU in two classes": (
        HEAD + "classes:\n  a: {cpus: 0-3}\n  b: {cpus: «3-5}\n",
        'class "b": CPU 3 belongs to class "a" at policy.yaml:3:13',
    ),
    "truth that is a word": (HEAD + "classes: {batch: {adopt: «yes}}\n", 'adopt must be true or false, not "yes"'),
    "optional what is no amount": (
        HEAD + "classes: {batch: {optional: [«cpus]}}\n",
        'class "batch": optional must be "l3"',
    ),
    "two defaults": (
        HEAD + "classes:\n  a: {default: true}\n  «b: {default: true}\n",
        'class "b" is the default, as is "a" at policy.yaml:3:3',
    ),
    "no such partition": (
        HEAD + "partitions: {shared: {l3: 40%}}\nclasses: {batch: {partition: «share}}\n",
        'class "batch": there is no partition "share"',
    ),
    "mask in a partition": (
        HEAD + "partitions: {p: {l3: 40%}}\nclasses: {batch: {partition: p, l3: {1: «0xf}}}\n",
        'class "batch": l3 "0xf" is a mask, which cannot be relative',
    ),
    "mask for half of a partition": (
        HEAD + "partitions: {p: {l3: 40%}}\nclasses: {batch: {partition: p, l3code: «0xf}}\n",
        'class "batch": l3code "0xf" is a mask',
    ),
    # Rules
    "rules as a mapping": (HEAD + "rules: «{class: batch}\n", "rules must be a list, not a mapping"),
    "rule as a word": (HEAD + ONE_RULE + "- «batch\n", 'rule 1 must be a mapping, not "batch"'),
    "rule without class": (HEAD + ONE_RULE + "- «when: {comm: x}\n", 'rule 1 has no "class"'),
    "rule without when": (HEAD + ONE_RULE + "- «{class: batch, name: all}\n", 'rule "all" has no "when"'),
    "no such class": (HEAD + ONE_RULE + "- {class: «bach, when: {comm: x}}\n", 'rule 1: there is no class "bach"'),
    "unknown rule key": (HEAD + ONE_RULE + "- {class: batch, when: {comm: x}, «if: y}\n", 'rule 1: unknown key "if"'),
    "empty when": (HEAD + ONE_RULE + "- {class: batch, when: «{}}\n", "rule 1: when asks nothing"),
    "when left out": (HEAD + ONE_RULE + "- class: batch\n  «when:\n", "rule 1: when asks nothing"),
    "empty not": (HEAD + ONE_RULE + "- {class: batch, when: {not: «{}}}\n", "rule 1: not asks nothing"),
    "unknown condition": (
        HEAD + ONE_RULE + "- {class: batch, when: {«units: x}}\n",
        'rule 1: when: unknown key "units"',
    ),
    "unknown condition under not": (
        HEAD + ONE_RULE + "- {class: batch, when: {not: {«pid: 1}}}\n",
        'rule 1: not: unknown key "pid"',
    ),
    "empty list": (HEAD + ONE_RULE + "- {class: batch, when: {comm: «[]}}\n", "rule 1: comm is an empty list"),
    "list in a list": (HEAD + ONE_RULE + "- {class: batch, when: {comm: [a, «[b]]}}\n", "rule 1: comm must be a text"),
    "truth for a name": (
        HEAD + ONE_RULE + "- {class: batch, when: {comm: «true}}\n",
        "rule 1: comm must be a text, not true",
    ),
    "newline in a name": (
        HEAD + ONE_RULE + "- class: batch\n  when:\n    comm: «|\n      x\n",
        "has the character U+000A",
    ),
    "relative cgroup": (
        HEAD + ONE_RULE + "- {class: batch, when: {cgroup: [/a, «kubepods]}}\n",
        'rule 1: cgroup "kubepods" does not begin with a slash',
    ),
    "cgroup in the file system": (
        HEAD + ONE_RULE + "- {class: batch, when: {cgroup: «/sys/fs/cgroup/x}}\n",
        'rule 1: cgroup "/sys/fs/cgroup/x" is a path of the file system',
    ),
    "cgroup with dots": (
        HEAD + ONE_RULE + "- {class: batch, when: {cgroup: «/a/../b}}\n",
        "can never match: a path has no",
    ),
    "unit without a suffix": (
        HEAD + ONE_RULE + "- {class: batch, when: {unit: «mysqld}}\n",
        'rule 1: unit "mysqld" can',
    ),
    "unit that is a path": (
        HEAD + ONE_RULE + "- {class: batch, when: {unit: «/a.slice}}\n",
        'unit "/a.slice" is a path',
    ),
    "pattern without quotes": (HEAD + ONE_RULE + "- {class: batch, when: {unit: *«.service}}\n", "not YAML"),
    "program without a path": (
        HEAD + ONE_RULE + "- {class: batch, when: {exe: «ffmpeg}}\n",
        'exe "ffmpeg" does not begin',
    ),
    "user that is none": (HEAD + ONE_RULE + "- {class: batch, when: {user: «-1}}\n", 'rule 1: user "-1" is neither'),
    "user id too high": (HEAD + ONE_RULE + "- {class: batch, when: {user: «4294967295}}\n", "is not a user id"),
    "unknown QoS class": (
        HEAD + ONE_RULE + "- {class: batch, when: {kubernetes: {qos: «best-effort}}}\n",
        'rule 1: kubernetes: qos must be "guaranteed"',
    ),
    "pods and nothing more": (
        HEAD + ONE_RULE + "- {class: batch, when: {kubernetes: «{}}}\n",
        "rule 1: kubernetes asks nothing",
    ),
    "unknown pod fact": (
        HEAD + ONE_RULE + "- {class: batch, when: {kubernetes: {«namespace: x}}}\n",
        'rule 1: kubernetes: unknown key "namespace"',
    ),
    "pod uid with underscores": (
        HEAD + ONE_RULE + "- {class: batch, when: {kubernetes: {pod_uid: «ab_cd}}}\n",
        'kubernetes: pod_uid "ab_cd" can never match',
    ),
}


@pytest.mark.parametrize(("marked", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_found_where_it_is(marked, message, refused):
    before = marked.partition("«")[0]
    problems = refused(marked.replace("«", ""))

    assert [problem.severity for problem in problems] == [Severity.ERROR]
    problem = problems[0]
    assert message in problem.message
    assert str(problem.position) == f"policy.yaml:{before.count(chr(10)) + 1}:{len(before.rpartition(chr(10))[2]) + 1}"
    assert problem.source_line == marked.replace("«", "").split("\n")[problem.position.line - 1]


@pytest.mark.parametrize(
    "name",
    [
        "info", "mon_data", "mon_groups", "tasks", "cpus", "cpus_list", "schemata", "mode", "size", "mba_MBps_event",
        "mbm_L3_assignments", "mon_hw_id", "ctrl_hw_id", ".", "..", "a/b", '"a\\nb"', '"a\\0b"', '""', "a" * 256,
        '" a"', '"a "', "a b", "-a", "é", "~",
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_a_group_is_refused(name, refused):
    (problem,) = refused(f"version: 1\nclasses:\n  {name}: {{default: true}}\n")
    assert str(problem.position) == "policy.yaml:3:3"
    assert "class" in problem.message
    assert problem.message.isprintable()


@pytest.mark.parametrize("name", ["a", "A.b-c_1", "0", "a" * 255, "true", "default", "mon", "l3"])
def test_any_other_name_is_taken(name, read):
    assert list(read(f"version: 1\nclasses: {{{name}: {{default: true}}}}\n").policy.classes) == [name]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("classes: {batch: {l3s: 30%}}", 'did you mean "l3"?'),
        ("classes: {batch: {L3: 30%}}", 'did you mean "l3"?'),
        ("classes: {batch: {memory: 30%}}", "known keys are l3, l3code"),
        ("classes: {batch: {l3: 30%, mb:40%}}", 'a colon needs a space after it: "mb: 40%"'),
        ("resctrl: {cdp: l3}", 'write "[l3]"'),
        ("resctrl: {cdp: yes}", 'write "[l2]"'),
        ("clases: {}", 'did you mean "classes"?'),
        ("classes: {batch: {adopt: true}}\nrules: [{class: bach, when: {comm: x}}]", 'did you mean "batch"?'),
        ("classes: {b: {}}\nrules: [{class: zzz, when: {comm: x}}]", "classes are b"),
        ("rules: [{class: zzz, when: {comm: x}}]", "the policy defines no classes"),
        ("classes: {a: {l3: 30%, mode: exclusiv}}", 'did you mean "exclusive"?'),
        ("classes: {a: &a {}, b: {<<: *a}}", "merge keys are not read"),
        ("classes: {b: {}}\nrules: [{class: b, when: {unit: mysqld}}]", 'write "mysqld.service"'),
        ("classes: {b: {}}\nrules: [{class: b, when: {exe: ffmpeg}}]", 'write "/**/ffmpeg", or comm: ffmpeg'),
        ("classes: {b: {}}\nrules: [{class: b, when: {cgroup: /sys/fs/cgroup/x.slice}}]", '"/x.slice"'),
        ("classes: {b: {}}\nrules: [{class: b, when: {unit: *.service}}]", "must be in quotes"),
        ("classes: {b: {}}\nrules: [{class: b, when: {comm: *worker}}]", 'for the text "*worker", put it in quotes'),
        ("classes: {b: {}}\nrules: [{class: b, when: {kubernetes: {pod_uid: a_b}}}]", 'write "a-b"'),
        ("classes:\n\tb: {}", "there is a tab"),
    ],
)
def test_a_mistake_comes_with_what_would_help(text, hint, refused):
    (problem,) = refused(f"version: 1\n{text}\n")
    assert hint in (problem.hint or "")


def test_all_mistakes_are_found_at_once_and_in_the_order_of_the_file(refused):
    problems = refused(
        """\
version: 2
rules:
- {class: batch, when: {}}
- {class: none, when: {comm: x}, nmae: y}
classes:
  batch:
    l3: 130%
    mb: fast
    cpu: 3
  a/b: {}
"""
    )
    assert [(problem.position.line, problem.position.column) for problem in problems] == [
        (1, 10), (3, 24), (4, 11), (4, 34), (7, 9), (8, 9), (9, 5), (10, 3)
    ]  # fmt: skip


def test_a_mistake_behind_an_alias_is_told_of_each_that_uses_it(refused):
    problems = refused("version: 1\nclasses:\n  a: {l3: &share 130%}\n  b: {l3: *share}\n")
    assert [(str(p.position), p.message[:9]) for p in problems] == [
        ("policy.yaml:3:11", 'class "a"'),
        ("policy.yaml:3:11", 'class "b"'),
    ]


def test_a_long_or_strange_text_stays_readable_in_messages(refused):
    (problem,) = refused(f'version: 1\nclasses: {{b: {{l3: "\\e[31m{"x" * 3000}"}}}}\n')
    assert len(problem.message) < 200
    assert problem.message.isprintable()


def test_a_text_of_more_than_a_path_is_refused(refused):
    (problem,) = refused(f"version: 1\nclasses: {{b: {{}}}}\nrules: [{{class: b, when: {{comm: {'x' * 5000}}}}}]\n")
    assert "is longer than 4096 characters" in problem.message
