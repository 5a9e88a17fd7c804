import json
import stat

import pytest

from tests.unit.cli.conftest import MACHINES

FINE = """\
version: 1
classes:
  latency: {l3: 30-100%, mb: max}
  batch: {l3: 0-30%, mb: 25%}
rules:
  - {class: latency, when: {unit: "mysqld.service"}}
  - {class: batch, when: {cgroup: /batch}}
"""


def test_a_policy_without_a_machine_is_checked_by_itself_and_that_is_said(command, policy, nothing_mounted):
    ran = command("check", "--policy", policy(FINE), "--proc", nothing_mounted)
    assert (ran.status, ran.out) == (0, "policy.yaml: fine: 2 classes, 2 rules\n")
    assert ran.err.startswith("note: resctrl is not mounted here, so only the policy itself was checked")
    assert "systemctl start sys-fs-resctrl.mount" in ran.err


def test_without_a_machine_nothing_is_resolved(command, policy, nothing_mounted):
    ran = command("check", "--policy", policy(FINE), "--proc", nothing_mounted, "--output", "json")
    assert json.loads(ran.out) == {"ok": True, "problems": [], "resolved": None}


def test_a_place_that_was_named_and_is_no_resctrl_fails(command, policy, nothing_mounted, tmp_path):
    ran = command("check", "--policy", policy(FINE), "--proc", nothing_mounted, "--resctrl", tmp_path)
    assert (ran.status, ran.out) == (1, "")
    assert f"resctrl-agent: error: {tmp_path} is no mount of resctrl" in ran.err


@pytest.mark.parametrize("machine", [MACHINES / "xeon-11way", "xeon-2s"])
def test_a_machine_is_a_saved_description_or_an_emulated_one(command, policy, machine):
    ran = command("check", "--policy", policy(FINE), "--machine", machine, "--output", "json")
    shown = json.loads(ran.out)
    assert ran.status == 0
    assert shown["ok"]
    assert shown["resolved"] == {
        "latency": {"MB": {"0": "100", "1": "100"}, "L3": {"0": "7f0", "1": "7f0"}},
        "batch": {"MB": {"0": "30", "1": "30"}, "L3": {"0": "f", "1": "f"}},
    }
    assert [(problem["line"], problem["column"], problem["severity"]) for problem in shown["problems"]] == [
        (4, 26, "note")
    ]


def test_what_would_be_written_is_shown_with_the_map_of_ways(command, policy):
    ran = command("check", "--policy", policy(FINE), "--machine", MACHINES / "xeon-11way")
    assert ran.out == (
        "policy.yaml: fine: 2 classes, 2 rules\n"
        "\n"
        "CLASS    MB        L3\n"
        "latency  0–1: 100  0–1: 7f0\n"
        "batch    0–1: 30   0–1: f\n"
        "\n"
        "L3, domains 0–1\n"
        "                    8    4    0\n"
        "                  HH\n"
        "  latency         ███ ████ ····  7f0\n"
        "  batch           ··· ···· ████  f\n"
        "  the root group  ▒▒▒ ▒▒▒▒ ▒▒▒▒  7ff\n"
        "\n"
        "█ no other group, the root group aside   ▒ another group too   · not to be used\n"
        "H used by other hardware (I/O) too\n"
    )


def test_a_default_class_stands_for_the_root_group(command, policy):
    text = FINE.replace("rules:", "  system: {default: true, l3: 0-30%}\nrules:")
    ran = command("check", "--policy", policy(text), "--machine", MACHINES / "xeon-11way")
    assert "  system   ··· ···· ▒▒▒▒  f\n" in ran.out
    assert "the root group" not in ran.out


@pytest.mark.parametrize(
    ("machine", "amounts"), [("epyc-2s", "8 GB/s (64)"), ("mba-mbps", "7630 MiB/s"), ("xeon-2s", "10")]
)
def test_rates_have_their_unit_and_cpus_a_column_where_a_class_has_some(command, policy, machine, amounts):
    text = FINE.replace("mb: 25%", "mb: 8GB/s, cpus: 2-3")
    file = policy(text.replace("classes:", "resctrl: {bandwidth_capacity: 100GB/s}\nclasses:"))
    lines = command("check", "--policy", file, "--machine", machine).out.splitlines()
    header, latency, batch = (line.split() for line in lines[2:5])
    assert header[:3] == ["CLASS", "CPUS", "MB"]
    assert latency[1] == "-"
    assert batch[1] == "2-3"
    assert f": {amounts} " in lines[4]
    assert (": max " in lines[3]) is (machine != "xeon-2s")


def test_rounding_is_shown_below_the_line_that_asks_for_it(command, policy):
    ran = command("check", "--policy", policy(FINE), "--machine", MACHINES / "xeon-11way")
    first, quoted, caret = ran.err.splitlines()
    assert first.startswith('policy.yaml:4:26: note: class "batch": mb "25%": asked 25 %')
    assert quoted.strip() == "batch: {l3: 0-30%, mb: 25%}"
    assert quoted[caret.index("^") :] == "25%}"


@pytest.mark.parametrize(
    ("change", "at", "message"),
    [
        pytest.param(("0-30%", "0-130%"), "4:15", "is more than 100 %", id="of-the-policy"),
        pytest.param(("0-30%", "0xfff"), "4:15", "out of range: this machine has 11 ways", id="of-the-machine"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_status_78(command, policy, change, at, message):
    ran = command("check", "--policy", policy(FINE.replace(*change)), "--machine", MACHINES / "xeon-11way")
    assert (ran.status, ran.out) == (78, "")
    assert f"policy.yaml:{at}: error: " in ran.err
    assert message in ran.err
    lines = ran.err.splitlines()
    caret = next(number for number, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1][lines[caret].index("^") :].startswith(change[1])
    assert lines[-1].startswith("policy.yaml: refused: 1 error")


def test_every_mistake_is_in_the_json_of_a_refused_policy(command, policy):
    text = FINE.replace("0-30%", "0xfff").replace("30-100%", "12 ways")
    ran = command("check", "--policy", policy(text), "--machine", MACHINES / "xeon-11way", "--output", "json")
    shown = json.loads(ran.out)
    assert (ran.status, ran.err) == (78, "")
    assert (shown["ok"], shown["resolved"]) == (False, None)
    errors = [problem for problem in shown["problems"] if problem["severity"] == "error"]
    assert [(problem["file"], problem["line"], problem["column"]) for problem in errors] == [
        ("policy.yaml", 3, 17),
        ("policy.yaml", 4, 15),
    ]
    assert all(set(problem) == {"file", "line", "column", "severity", "message", "hint"} for problem in errors)


def test_warnings_alone_do_not_refuse(command, policy):
    text = FINE.replace("rules:", "  idle: {l3: 1 ways}\nrules:")
    ran = command("check", "--policy", policy(text), "--machine", "xeon-2s")
    assert ran.status == 0
    assert 'warning: class "idle" has no rule' in ran.err


def test_a_mistake_in_a_drop_in_is_quoted_from_there(command, policy, tmp_path):
    policy(FINE)
    drop_in = tmp_path / "policy.d/more.yaml"
    drop_in.parent.mkdir()
    drop_in.write_text("classes:\n  wide: {l3: 0xfff}\nrules:\n  - {class: wide, when: {comm: wide}}\n")
    drop_in.chmod(0o644)
    ran = command("check", "--policy", tmp_path / "policy.yaml", "--machine", "xeon-2s")
    assert ran.status == 78
    assert "policy.d/more.yaml:2:14: error: " in ran.err
    assert "\n      wide: {l3: 0xfff}\n" in ran.err


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_policy_that_does_not_exist_is_refused(command, tmp_path, output):
    ran = command("check", "--policy", tmp_path / "none.yaml", "--output", output)
    assert ran.status == 78
    assert "none.yaml does not exist" in ran.out + ran.err


def test_a_policy_that_others_can_write_needs_the_option(command, policy):
    file = policy(FINE)
    file.chmod(file.stat().st_mode | stat.S_IWOTH)
    assert command("check", "--policy", file, "--machine", "xeon-2s").status == 78
    assert command("--insecure-policy", "check", "--policy", file, "--machine", "xeon-2s").status == 0


def test_a_machine_that_is_neither_lists_those_that_are(command, policy, tmp_path):
    ran = command("check", "--policy", policy(FINE), "--machine", tmp_path / "nowhere")
    assert ran.status == 1
    assert "nowhere is no directory with a description" in ran.err
    assert "xeon-2s, " in ran.err


def test_a_directory_that_describes_nothing_fails(command, policy, tmp_path):
    ran = command("check", "--policy", policy(FINE), "--machine", tmp_path)
    assert ran.status == 1
    assert ran.err.startswith(f"resctrl-agent: error: {tmp_path} is not a resctrl filesystem")


def test_domains_above_128_and_with_gaps_are_merged_where_equal(command, policy):
    """Field report 1: ids 0–7 and 16–23 (koordinator#1777)."""
    text = "version: 1\nclasses:\n  a: {l3: {default: 50%, 16: 25%}}\nrules:\n  - {class: a, when: {comm: a}}\n"
    ran = command("check", "--policy", policy(text), "--machine", MACHINES / "epyc-sparse-ids")
    assert ran.status == 0
    assert "0–7, 17–23: ff; 16: f" in ran.out


def test_a_machine_that_can_only_monitor_refuses_classes_and_takes_none(command, policy):
    """Field report 15: monitoring alone still works."""
    refused = command("check", "--policy", policy(FINE), "--machine", "monitor-only")
    assert refused.status == 78
    fine = command("check", "--policy", policy("version: 1\n"), "--machine", "monitor-only")
    assert (fine.status, fine.out) == (0, "policy.yaml: fine: 0 classes, 0 rules\n")


def test_a_default_class_that_was_not_limited_shares_every_way(command, policy):
    text = FINE.replace("rules:", "  system: {default: true}\nrules:")
    ran = command("check", "--policy", policy(text), "--machine", MACHINES / "xeon-11way")
    assert "  batch    ··· ···· ▒▒▒▒  f\n" in ran.out


def test_ids_that_are_not_there_are_one_mistake(command, policy):
    text = FINE.replace("l3: 0-30%", "l3: {16-23: 30%}")
    ran = command("check", "--policy", policy(text), "--machine", MACHINES / "xeon-11way")
    assert ran.status == 78
    assert 'error: class "batch": L3 has no domains 16–23\n' in ran.err
    assert ran.err.count("error:") == 1
