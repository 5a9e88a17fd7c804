"""What a policy means on a machine."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.policy.decode import decode_files
from agent.policy.nodes import Source
from agent.policy.problem import Severity
from agent.reconcile.desired import ranges, resolve
from agent.resctrl import schemata
from agent.resctrl.allocation import AllocationError, lay_out_partitions
from tests.unit.reconcile.conftest import MACHINES, machine


def resolved(policy, name, text):
    root = schemata.parse((MACHINES / name / "schemata").read_text())
    return resolve(policy(text), machine(name), root)


def shown(desired, group):
    return {
        resource: {d: schemata.value_text(resource, v) for d, v in values.items()}
        for resource, values in desired.groups[group].schemata.items()
    }


def messages(desired, severity):
    return [p.message for p in desired.problems if p.severity is severity]


@pytest.mark.parametrize(
    ("name", "amounts", "l3", "mb"),
    [
        ("xeon-11way", "l3: 0-30%, mb: 20%", "f", "20"),
        ("xeon-11way", "l3: 30%, mb: 25%", "f", "30"),
        ("xeon-11way", "l3: 30-100%, mb: max", "7f0", "100"),
        ("xeon-11way", "l3: 1%, mb: 1%", "1", "10"),
        ("xeon-11way", "l3: 98-100%, mb: 100%", "400", "100"),
        ("xeon-11way", "l3: 4 ways", "f", "100"),
        ("xeon-11way", "l3: 0x7f0", "7f0", "100"),
        ("xeon-11way", "l3: max", "7ff", "100"),
        ("xeon-11way", "mb: 50%", "7ff", "50"),
        ("intel-12way", "l3: 20-60%", "f8", "100"),
        ("haswell-2bits", "l3: 1%", "3", None),
        ("haswell-2bits", "l3: 99-100%", "c0000", None),
    ],
)
def test_amounts_become_the_masks_and_steps_of_the_machine(policy, name, amounts, l3, mb):
    desired = resolved(policy, name, f"classes: {{x: {{{amounts}}}}}")
    assert not desired.errors
    found = shown(desired, "x")
    assert set(found["L3"].values()) == {l3}
    if mb is not None:
        assert set(found["MB"].values()) == {mb}


def test_what_a_class_leaves_out_is_everything(policy):
    desired = resolved(policy, "xeon-11way", "classes: {x: {}}")
    assert shown(desired, "x") == {"L3": {0: "7ff", 1: "7ff"}, "MB": {0: "100", 1: "100"}}


def test_sparse_ids_are_the_machines_own_as_in_koordinator_1777(policy):
    desired = resolved(policy, "epyc-sparse-ids", "classes: {x: {l3: {default: 50%, 16-17: 0xf000, 7: 25%}}}")
    assert not desired.errors
    masks = shown(desired, "x")["L3"]
    assert list(masks) == [*range(8), *range(16, 24)]
    assert (masks[0], masks[7], masks[16], masks[17], masks[18]) == ("ff", "f", "f000", "f000", "ff")


def test_a_domain_that_is_not_there_is_an_error_that_names_those_that_are(policy):
    desired = resolved(policy, "epyc-sparse-ids", "classes: {x: {l3: {default: max, 8: 50%}}}")
    (problem,) = desired.errors
    assert problem.message == 'class "x": L3 has no domain 8'
    assert problem.hint == "its domains are 0–7, 16–23"


def test_per_cent_of_an_absolute_machine_needs_its_capacity_as_in_koordinator_216(policy):
    desired = resolved(policy, "epyc-sparse-ids", "classes: {x: {mb: 50%}}")
    assert len(desired.errors) == 1
    assert "bandwidth_capacity" in desired.errors[0].message
    told = resolved(policy, "epyc-sparse-ids", "resctrl: {bandwidth_capacity: 160GB/s}\nclasses: {x: {mb: 50%}}")
    assert set(shown(told, "x")["MB"].values()) == {"640"}


def test_a_rate_is_written_in_eighths_of_a_gigabyte_on_amd_as_in_koordinator_1162(policy):
    desired = resolved(policy, "epyc-sparse-ids", "classes: {x: {mb: 8GB/s}, y: {mb: 100MB/s}, z: {mb: max}}")
    values = [set(shown(desired, name)["MB"].values()) for name in "xyz"]
    assert values == [{"64"}, {"1"}, {"2048"}]


def test_code_and_data_are_set_alike_or_each_for_itself_under_cdp(policy):
    desired = resolved(policy, "cdp", "classes: {x: {l3: 50%}, y: {l3code: 25%}}")
    assert not desired.errors
    assert shown(desired, "x")["L3CODE"] == shown(desired, "x")["L3DATA"] == {0: "3f", 1: "3f"}
    assert shown(desired, "y")["L3CODE"] == {0: "7", 1: "7"}
    assert shown(desired, "y")["L3DATA"] == {0: "fff", 1: "fff"}


def test_code_apart_from_data_needs_cdp(policy):
    desired = resolved(policy, "intel-12way", "classes: {x: {l3code: 25%}}")
    assert [p.message for p in desired.errors] == [
        'class "x": l3code: resctrl is mounted without CDP for l3, so code and data have one mask'
    ]


def test_a_resource_that_is_missing_is_an_error_unless_it_is_optional_as_in_intel_cmt_cat_44(policy):
    desired = resolved(policy, "xeon-11way", "classes: {x: {l2: 50%}}")
    assert [p.message for p in desired.errors] == ['class "x": l2: this machine has no L2 allocation']
    spared = resolved(policy, "xeon-11way", "classes: {x: {l2: 50%, optional: [l2]}}")
    assert not spared.errors
    assert messages(spared, Severity.WARNING) == ['class "x": l2: this machine has no L2 allocation']


def test_a_machine_that_can_only_monitor_has_no_room_for_a_class(policy):
    desired = resolved(policy, "monitor-only", "classes: {x: {}, d: {default: true}}")
    assert [p.message for p in desired.errors] == [
        "this machine can only monitor: it has no cache or bandwidth allocation"
    ]


def test_one_class_too_many_is_named_as_in_runc_1878(policy):
    room = machine("xeon-11way").num_closids - 1
    text = "classes:\n" + "".join(f"  c{n}: {{}}\n" for n in range(room + 2))
    (problem,) = resolved(policy, "xeon-11way", text).errors
    assert f'class "c{room}" is one too many' in problem.message
    assert problem.position.line == 2 + room + 1


def test_counting_for_workloads_needs_a_machine_that_can_monitor(policy):
    text = "classes: {batch: {l2: 50%, monitor: workload}}"
    (problem,) = resolved(policy, "l2-only", text).problems
    assert problem.severity is Severity.WARNING
    assert 'class "batch": this machine cannot monitor' in problem.message
    assert not resolved(policy, "xeon-11way", text.replace("l2", "l3")).problems


def test_partitions_are_disjoint_and_relative(policy):
    desired = resolved(
        policy,
        "xeon-11way",
        """
        partitions: {guaranteed: {l3: 60%}, shared: {l3: 40%}}
        classes:
          a: {partition: guaranteed}
          b: {partition: guaranteed, l3: 50%}
          c: {partition: shared, l3: 100%}
          d: {default: true, partition: shared}
        """,
    )
    assert not desired.problems
    assert [set(shown(desired, g)["L3"].values()) for g in ("a", "b", "c", "")] == [{"7f"}, {"f"}, {"780"}, {"780"}]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=5))
def test_partitions_never_meet(shares):
    cache = machine("xeon-11way").cache("L3")
    try:
        slices = lay_out_partitions(cache, [(str(n), Fraction(share, 100)) for n, share in enumerate(shares)])
    except AllocationError:
        return
    assert sum(slices.values()) <= cache.cbm_mask
    assert sum(mask.bit_count() for mask in slices.values()) == (sum(slices.values())).bit_count()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "partitions: {p: {l3: 50%}}\nclasses: {a: {partition: p}, b: {l3: 80%}, d: {default: true, l3: 50-100%}}",
            'class "b" reaches into partition "p" (L3 ways 3f)',
        ),
        (
            "partitions: {p: {l3: 50%}}\nclasses: {a: {partition: p}, d: {default: true}}",
            'class "d" reaches into partition "p" (L3 ways 3f), so everything that no rule names shares it',
        ),
        (
            "partitions: {p: {l3: 50%}}\nclasses: {a: {partition: p}}",
            'the root group reaches into partition "p" (L3 ways 3f), so everything that no rule names shares it',
        ),
    ],
)
def test_reaching_into_a_partition_is_a_warning(policy, text, message):
    desired = resolved(policy, "intel-12way", text)
    assert not desired.errors
    assert messages(desired, Severity.WARNING) == [message]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "intel-12way",
            "classes: {a: {l3: 50%, mode: exclusive}, b: {l3: 25-75%}, d: {default: true, l3: 50-100%}}",
            'class "a" is exclusive and meets class "b" in L3 domain 0, ways 38',
        ),
        (
            "intel-12way",
            "classes: {a: {l3: 50%, mode: exclusive}}",
            'class "a" is exclusive and meets the root group in L3 domain 0, ways 3f',
        ),
        (
            "xeon-11way",
            "classes: {a: {l3: 50-100%, mode: exclusive}, d: {default: true, l3: 50%}}",
            'class "a" is exclusive and includes ways that hardware shares (L3: 600), which the kernel refuses',
        ),
        (
            "cdp",
            """
            classes:
              a: {l3code: 50%, l3data: 50%, mode: exclusive}
              d: {default: true, l3code: 50-100%, l3data: 40-100%}
            """,
            'class "a" is exclusive and meets class "d" in L3 domain 0, ways 20',
        ),
        (
            "mba-only",
            "classes: {a: {l3: 50%, optional: [l3], mode: exclusive}}",
            'class "a": exclusive needs cache allocation, which is not here',
        ),
    ],
)
def test_an_exclusive_class_that_the_kernel_would_refuse_is_an_error(policy, name, text, message):
    assert message in [p.message for p in resolved(policy, name, text).errors]


def test_rounding_is_a_note_as_in_intel_cmt_cat_69(policy):
    desired = resolved(policy, "xeon-11way", "classes: {x: {mb: 35%}}")
    assert not desired.errors
    (note,) = messages(desired, Severity.NOTE)
    assert note.startswith('class "x": mb "35%": ')
    assert "40" in note


def test_a_mount_that_is_not_as_the_policy_asks_is_a_warning_as_in_intel_cmt_cat_276(policy):
    desired = resolved(policy, "intel-12way", "resctrl: {cdp: [l3], bandwidth: MBps}\nclasses: {x: {}}")
    assert not desired.errors
    assert messages(desired, Severity.WARNING) == [
        "resctrl is mounted without CDP for l3, which takes effect at mount only",
        "bandwidth is to be counted in MBps, but resctrl is mounted without mba_MBps",
    ]
    for problem in desired.problems:
        assert "systemctl edit sys-fs-resctrl.mount, with Options=nosuid,nodev,noexec,cdp,mba_MBps " in problem.hint
        assert "systemctl restart sys-fs-resctrl.mount" in problem.hint
        assert problem.hint.endswith("mount -t resctrl -o cdp,mba_MBps resctrl /sys/fs/resctrl")


def test_a_machine_that_counts_in_one_way_only_is_not_to_be_mounted_again(policy):
    desired = resolved(policy, "epyc-sparse-ids", "resctrl: {bandwidth: MBps}\nclasses: {x: {}}")
    (warning,) = desired.problems
    assert "mount -t" not in warning.hint


def test_ways_that_hardware_does_not_fill_are_named_to_an_exclusive_class(policy):
    text = "classes: {a: {l3: 50-100%, mode: exclusive}, d: {default: true, l3: 50%}}"
    (error,) = resolved(policy, "xeon-11way", text).errors
    assert error.hint == "use ways outside 600; those that hardware does not fill are 1ff"


NAMES = sorted(p.name for p in MACHINES.iterdir() if (p / "schemata").is_file())


@given(st.sampled_from(NAMES), st.integers(0, 99), st.integers(1, 100))
def test_every_mask_is_one_that_the_kernel_takes(name, start, length):
    end = min(100, start + length)
    text = f"version: 1\nclasses: {{x: {{l3: {start}-{end}%, l2: {start}-{end}%, optional: [l3, l2]}}}}\n"
    here = machine(name)
    if here.num_closids < 2:
        return
    root = schemata.parse((MACHINES / name / "schemata").read_text())
    desired = resolve(decode_files((Source("policy.yaml", text),)).policy, here, root)
    assert not desired.errors
    for cache in here.caches:
        for resource in cache.schemata_names:
            for mask in desired.groups["x"].schemata[resource].values():
                run = mask >> (mask & -mask).bit_length() - 1
                assert mask & ~cache.cbm_mask == 0
                assert run & (run + 1) == 0, "one run of bits"
                assert mask.bit_count() >= max(1, cache.min_cbm_bits)
                wanted = ceil(cache.ways * end / 100) - ceil(cache.ways * start / 100)
                assert mask.bit_count() == max(wanted, cache.min_cbm_bits, 1)


def test_ids_are_shown_as_ranges():
    assert ranges((0, 1, 2, 16, 18, 19)) == "0–2, 16, 18–19"
