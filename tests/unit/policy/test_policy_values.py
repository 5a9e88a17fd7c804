"""What a good policy means."""

from fractions import Fraction

import pytest

from agent.policy.model import (
    BandwidthPercent,
    BandwidthRate,
    Conditions,
    KubernetesConditions,
    Mode,
    Monitor,
    MountPolicy,
    Position,
    Unlimited,
    WayCount,
    WayMask,
    WayRange,
)

WHOLE = """\
version: 1
resctrl: {cdp: [l3], bandwidth: MBps, bandwidth_capacity: 160GB/s}
partitions:
  guaranteed: {l3: 60%}
  shared: {l3: 40%, l2: 4 ways}
classes:
  latency: {partition: guaranteed, l3: 100%, mb: max}
  render:
    l3: {default: 0-50%, 1: 0xf0, 8-15: 25%}
    l2: 4 ways
    mb: 8GB/s
    smba: 10%
    mode: exclusive
    cpus: 2-3,8
    optional: [l2, smba]
    adopt: true
    monitor: workload
  system: {default: true}
rules:
- {class: latency, when: {unit: "mysqld.service"}}
- class: render
  name: transcoding
  when:
    cgroup: [/a/**, /b]
    kubernetes: {qos: [BestEffort, burstable], pod_uid: 12345678-*}
    exe: /usr/bin/ffmpeg
    comm: [ffmpeg, 7z]
    user: [render, 1000]
    not: {unit: "x*.slice", not: {comm: y}}
"""


def test_the_resctrl_section_says_how_to_mount(read):
    assert read(WHOLE).policy.mount == MountPolicy(
        frozenset({"l3"}), "MBps", 160_000_000_000, Position("policy.yaml", 2, 1)
    )


def test_partitions_keep_the_order_of_the_file(read):
    partitions = read(WHOLE).policy.partitions
    assert list(partitions) == ["guaranteed", "shared"]
    assert {key: written.amount for key, written in partitions["shared"].caches.items()} == {
        "l3": WayRange(Fraction(0), Fraction(40)),
        "l2": WayCount(4),
    }


def test_a_class_has_amounts_by_domain_with_their_text_and_place(read):
    l3 = read(WHOLE).policy.classes["render"].caches["l3"]
    assert l3.default is not None
    assert l3.default.amount == WayRange(Fraction(0), Fraction(50))
    assert l3.domains[1].amount == WayMask(0xF0)
    assert l3.domains[1].text == "0xf0"
    assert l3.domains[1].position == Position("policy.yaml", 9, 29)
    assert sorted(l3.domains) == [1, *range(8, 16)]
    assert l3.domains[12] == l3.domains[8]


def test_a_class_has_one_amount_for_all_domains(read):
    render = read(WHOLE).policy.classes["render"]
    amounts = {key: amount.default.amount for key, amount in render.bandwidths.items() if amount.default}
    assert amounts == {"mb": BandwidthRate(8_000_000_000), "smba": BandwidthPercent(Fraction(10))}


def test_a_class_has_its_other_properties(read):
    render = read(WHOLE).policy.classes["render"]
    assert render.mode is Mode.EXCLUSIVE
    assert render.cpus is not None
    assert render.cpus.amount == {2, 3, 8}
    assert render.optional == {"l2", "smba"}
    assert render.adopt
    assert render.monitor is Monitor.WORKLOAD
    assert not render.default
    assert render.position == Position("policy.yaml", 8, 3)


def test_max_is_no_limit(read):
    mb = read(WHOLE).policy.classes["latency"].bandwidths["mb"]
    assert mb.default is not None
    assert mb.default.amount == Unlimited()


def test_the_default_class_is_the_root_group(read):
    policy = read(WHOLE).policy
    assert policy.default_class is policy.classes["system"]
    assert policy.classes["system"].group == ""


def test_rules_keep_their_order_and_their_conditions(read):
    first, second = read(WHOLE).policy.rules
    assert (first.index, first.label, first.class_name) == (1, "rule 1", "latency")
    assert first.when == Conditions(unit=("mysqld.service",))
    assert (second.index, second.label, second.class_name) == (2, "transcoding", "render")
    assert second.position == Position("policy.yaml", 21, 3)
    assert second.class_position == Position("policy.yaml", 21, 10)
    assert second.when == Conditions(
        cgroup=("/a/**", "/b"),
        kubernetes=KubernetesConditions(("besteffort", "burstable"), ("12345678-*",)),
        exe=("/usr/bin/ffmpeg",),
        comm=("ffmpeg", "7z"),
        user=("render", "1000"),
        negated=Conditions(unit=("x*.slice",), negated=Conditions(comm=("y",))),
    )


@pytest.mark.parametrize(
    "text", ["version: 1\n", "version: 1\nclasses:\nrules:\npartitions:\nresctrl:\n", "{version: 1}"]
)
def test_a_policy_may_say_nothing_yet(text, read):
    policy = read(text).policy
    assert (policy.mount.cdp, dict(policy.classes), policy.rules) == (frozenset(), {}, ())


def test_an_empty_list_of_caches_under_cdp_is_none(read):
    assert read("version: 1\nresctrl: {cdp: []}\n").policy.mount.cdp == frozenset()


def test_a_class_that_says_nothing_is_not_limited(read):
    spec = read("version: 1\nclasses:\n  system: {default: true}\n  a:\nrules: [{class: a, when: {comm: x}}]\n").policy
    assert (spec.classes["a"].caches, spec.classes["a"].bandwidths) == ({}, {})


def test_half_of_a_cache_may_be_given_alone(read):
    spec = read("version: 1\nclasses: {a: {default: true, l3code: 30%}}\n").policy.classes["a"]
    assert list(spec.caches) == ["l3code"]


def test_a_mask_may_stand_where_the_partition_does_not_reach(read):
    text = "version: 1\npartitions: {p: {l3: 50%}}\nclasses: {a: {default: true, partition: p, l2: 0xf}}\n"
    l2 = read(text).policy.classes["a"].caches["l2"]
    assert l2.default is not None
    assert l2.default.amount == WayMask(0xF)


def test_partitions_may_take_all_of_the_cache_and_no_more(read):
    text = "version: 1\npartitions: {p: {l3: 60%}, q: {l3code: 40%, l3data: 12.5%}, r: {l3data: 27.5%, l2: max}}\n"
    assert list(read(text).policy.partitions) == ["p", "q", "r"]


def test_an_alias_stands_for_what_it_refers_to(read):
    text = "version: 1\nclasses: {a: &x {l3: 30%}, b: *x}\n"
    classes = read(text).policy.classes
    assert classes["a"].caches == classes["b"].caches
    assert classes["b"].name == "b"


def test_words_that_yaml_would_turn_into_something_else_stay_text(read):
    comms = "[yes, on, 010, 1e3, 12:30:00, 2001-01-01, 0x1f]"
    text = f"version: 1\nclasses: {{a: {{}}}}\nrules: [{{class: a, when: {{comm: {comms}}}}}]\n"
    assert read(text).policy.rules[0].when.comm == ("yes", "on", "010", "1e3", "12:30:00", "2001-01-01", "0x1f")


def test_the_policy_knows_whether_programs_must_be_watched(read):
    head = "version: 1\nclasses: {a: {}}\nrules: [{class: a, when: %s}]\n"
    assert read(head % "{cgroup: /a, not: {user: root}}").policy.judges_programs
    assert not read(head % "{cgroup: /a, not: {unit: a.slice}}").policy.judges_programs
