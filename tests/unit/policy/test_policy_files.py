"""Which files make a policy, and which are refused before anything in them counts."""

import os
from pathlib import Path

import pytest

from agent.policy import load
from agent.policy.problem import PolicyRefusedError, Problem, Severity

GOOD = "version: 1\nclasses: {a: {default: true}}\n"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def problems_of(path: Path, *, insecure: bool = False) -> tuple[Problem, ...]:
    with pytest.raises(PolicyRefusedError) as caught:
        load(path, insecure=insecure)
    return caught.value.problems


def only_error(path: Path, *, insecure: bool = False) -> str:
    (problem,) = problems_of(path, insecure=insecure)
    assert problem.severity is Severity.ERROR
    assert (problem.position.line, problem.position.column) == (0, 0)
    assert str(problem.position) == problem.position.file
    return f"{problem.position.file}: {problem.message}"


def test_a_policy_that_is_missing_is_refused(tmp_path):
    assert only_error(tmp_path / "policy.yaml") == f"policy.yaml: {tmp_path}/policy.yaml does not exist"


def test_a_policy_in_a_missing_directory_is_refused(tmp_path):
    assert "does not exist" in only_error(tmp_path / "none" / "policy.yaml")


def test_a_policy_below_a_file_is_refused(write):
    assert "cannot be opened: Not a directory" in problems_of(write(GOOD) / "policy.yaml")[0].message


def test_a_directory_in_its_place_is_refused(tmp_path):
    assert "is a directory, not a file" in only_error(tmp_path)


def test_a_fifo_in_its_place_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "policy.yaml")
    assert "is not a regular file" in only_error(tmp_path / "policy.yaml")


def test_a_device_in_its_place_is_refused():
    assert "is not a regular file" in only_error(Path("/dev/zero"))


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "policy.yaml").symlink_to("policy.yaml")
    assert "cannot be opened: Too many levels of symbolic links" in only_error(tmp_path / "policy.yaml")


def test_an_empty_policy_is_refused_since_it_may_be_half_written(write):
    assert "is empty" in only_error(write(""))


def test_a_policy_that_is_not_utf8_is_refused_with_the_line(write):
    policy = write(GOOD)
    policy.write_bytes(GOOD.encode() + b"# caf\xe9\n")
    assert "is not UTF-8: line 3, byte 0xe9" in only_error(policy)


def test_a_policy_in_utf16_is_refused(write):
    policy = write(GOOD)
    policy.write_bytes(GOOD.encode("utf-16"))
    assert "is not UTF-8" in only_error(policy)


def test_a_byte_order_mark_does_no_harm(write):
    assert load(write("\ufeff" + GOOD)).policy.classes.keys() == {"a"}


def test_windows_line_ends_do_no_harm(write):
    policy = write(GOOD)
    policy.write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert load(policy).policy.classes.keys() == {"a"}


def test_a_policy_of_more_than_a_mebibyte_is_refused(write):
    assert "has 2097152 bytes, more than the 1048576" in only_error(write("#" * (2 << 20)))


def test_a_policy_of_a_mebibyte_is_read(write):
    assert load(write(GOOD + "#" * ((1 << 20) - len(GOOD)))).policy.classes.keys() == {"a"}


def test_a_file_that_does_not_tell_its_size_is_cut_off_all_the_same(tmp_path):
    # Files in procfs have a size of 0 and, where they list every symbol of the kernel, far more than 1 MiB.
    symbols = Path("/proc/kallsyms")
    if not symbols.exists() or len(symbols.read_bytes()) <= 1 << 20:
        pytest.skip("this kernel lists few symbols")
    assert "has more than the 1048576 bytes" in only_error(symbols)


@needs_root
def test_a_policy_of_another_user_is_refused(write):
    policy = write(GOOD)
    os.chown(policy, 12345, -1)
    assert "belongs to user 12345, not to root" in only_error(policy)


@pytest.mark.parametrize(("mode", "who"), [(0o664, "its group"), (0o646, "everybody"), (0o666, "everybody")])
def test_a_policy_that_others_can_write_is_refused(mode, who, write):
    policy = write(GOOD)
    policy.chmod(mode)
    assert f"can be written by {who} (mode {mode:04o})" in only_error(policy)


def test_an_insecure_policy_is_read_where_that_is_asked_for(write):
    policy = write(GOOD)
    policy.chmod(0o666)
    if os.geteuid() == 0:
        os.chown(policy, 12345, -1)
    assert load(policy, insecure=True).policy.classes.keys() == {"a"}


def test_a_broken_policy_stays_refused_where_insecure_is_asked_for(tmp_path):
    assert "is a directory" in only_error(tmp_path, insecure=True)


def test_drop_ins_are_read_after_the_policy_in_lexical_order(write):
    rule = "rules: [{class: a, when: {comm: %s}}]\n"
    drop_ins = {"20-b.yaml": rule % "second", "10-z.yaml": rule % "first", "100.yaml": "version: 1\n" + rule % "zeroth"}
    policy = load(write(GOOD + rule % "main", drop_ins)).policy
    assert policy.files == ("policy.yaml", "policy.d/10-z.yaml", "policy.d/100.yaml", "policy.d/20-b.yaml")
    assert [rule.when.comm[0] for rule in policy.rules] == ["main", "first", "zeroth", "second"]
    assert [rule.index for rule in policy.rules] == [1, 2, 3, 4]
    assert str(policy.rules[1].position) == "policy.d/10-z.yaml:1:9"


@pytest.mark.parametrize(
    "name", [".hidden.yaml", ".#10.yaml", "10.yaml~", "10.yaml.swp", "4913", "#10.yaml#", "README"]
)
def test_what_editors_leave_is_no_drop_in(name, write):
    loaded = load(write(GOOD, {name: "certainly: [not a policy"}))
    assert (loaded.policy.files, loaded.warnings) == (("policy.yaml",), ())


def test_a_file_that_looks_like_a_drop_in_but_is_not_read_is_pointed_out(write):
    (warning,) = load(write(GOOD, {"10.yml": "version: 1\n"})).warnings
    assert warning.message == "policy.d/10.yml is not read: the name of a drop-in ends in .yaml"


def test_a_class_defined_twice_is_refused_with_both_places(write):
    (problem,) = problems_of(write(GOOD, {"10.yaml": "classes:\n  a: {}\n"}))
    assert str(problem.position) == "policy.d/10.yaml:2:3"
    assert problem.message == 'class "a" is defined twice, first at policy.yaml:2:11'


def test_a_partition_or_section_given_twice_is_refused_with_both_places(write):
    text = "resctrl: {cdp: [l3]}\npartitions: {p: {l3: 5%}}\n"
    messages = [problem.message for problem in problems_of(write("version: 1\n" + text, {"10.yaml": text}))]
    assert messages == [
        "resctrl is given twice, first at policy.yaml:2:1",
        'partition "p" is defined twice, first at policy.yaml:3:14',
    ]


def test_a_drop_in_may_use_the_classes_of_another(write):
    drop_ins = {"10.yaml": "rules: [{class: b, when: {comm: x}}]\n", "20.yaml": "classes: {b: {l3: 30%}}\n"}
    assert load(write(GOOD, drop_ins)).policy.rules[0].class_name == "b"


def test_a_drop_in_may_not_be_of_another_version(write):
    (problem,) = problems_of(write(GOOD, {"10.yaml": "version: 2\n"}))
    assert str(problem.position) == "policy.d/10.yaml:1:10"


def test_mistakes_are_told_in_the_order_in_which_files_are_read(write):
    bad = "classes: {%s: {l3: 130%%}}\n"
    drop_ins = {"20.yaml": bad % "d", "10.yaml": bad % "c"}
    files = [problem.position.file for problem in problems_of(write("version: 1\n" + bad % "b", drop_ins))]
    assert files == ["policy.yaml", "policy.d/10.yaml", "policy.d/20.yaml"]


def test_a_broken_file_does_not_blame_the_others_for_what_it_defines(write):
    drop_ins = {"10.yaml": "classes: {b: [", "20.yaml": "rules: [{class: b, when: {comm: x}}]\n"}
    problems = problems_of(write(GOOD, drop_ins))
    assert [problem.position.file for problem in problems] == ["policy.d/10.yaml"]


def test_a_file_that_cannot_be_read_does_not_blame_the_others_either(write):
    policy = write(GOOD, {"10.yaml": "classes: {b: {}}\n", "20.yaml": "rules: [{class: b, when: {comm: x}}]\n"})
    (policy.parent / "policy.d" / "10.yaml").chmod(0o666)
    assert [problem.position.file for problem in problems_of(policy)] == ["policy.d/10.yaml"]


def test_drop_ins_of_a_missing_policy_are_judged_too(write):
    policy = write(GOOD, {"10.yaml": "classes: {b: {l4: 30%}}\n"})
    policy.unlink()
    messages = [problem.message for problem in problems_of(policy)]
    assert messages == [f"{policy} does not exist", 'class "b": unknown key "l4"']


def test_a_drop_in_is_subject_to_the_same_checks(write):
    policy = write(GOOD, {"10.yaml": "rules:\n", "20.yaml": "", "30.yaml": "rules:\n"})
    drop_ins = policy.parent / "policy.d"
    (drop_ins / "10.yaml").chmod(0o666)
    (drop_ins / "30.yaml").unlink()
    (drop_ins / "30.yaml").mkdir()
    os.mkfifo(drop_ins / "40.yaml")
    (drop_ins / "50.yaml").symlink_to("/nowhere")
    told = {problem.position.file: problem.message.removeprefix(f"{drop_ins}/") for problem in problems_of(policy)}
    assert told == {
        "policy.d/10.yaml": "10.yaml can be written by everybody (mode 0666)",
        "policy.d/20.yaml": "20.yaml is empty",
        "policy.d/30.yaml": "30.yaml is a directory, not a file",
        "policy.d/40.yaml": "40.yaml is not a regular file",
        "policy.d/50.yaml": "50.yaml is a symbolic link that leads nowhere",
    }


def test_a_drop_in_directory_that_is_a_file_is_refused(write):
    policy = write(GOOD)
    (policy.parent / "policy.d").write_text("")
    assert "policy.d cannot be read: Not a directory" in only_error(policy)


def test_a_drop_in_that_vanishes_while_the_directory_is_read_is_passed_over(write, monkeypatch):
    policy = write(GOOD, {"10.yaml": "classes: {b: {cpus: 1}}\n"})
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listed(path), "05-vanished.yaml"])
    assert load(policy).policy.files == ("policy.yaml", "policy.d/10.yaml")


def test_a_file_that_changes_while_it_is_read_is_refused(write, monkeypatch):
    policy = write(GOOD)
    read = os.read

    def read_while_somebody_writes(descriptor: int, size: int) -> bytes:
        with policy.open("a") as file:
            file.write("# more\n")
        monkeypatch.setattr(os, "read", read)
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", read_while_somebody_writes)
    assert "changed while it was read" in only_error(policy)


def test_a_name_with_strange_bytes_can_be_shown(write):
    policy = write(GOOD, {"10.yaml": "rules:\n"})
    drop_in = policy.parent / "policy.d" / "10.yaml"
    drop_in.rename(drop_in.with_name(os.fsdecode(b"\xff\n.yaml")))
    assert load(policy).policy.files == ("policy.yaml", "policy.d/\\xff\\n.yaml")


def test_a_policy_through_links_as_kubernetes_makes_them_is_read(tmp_path):
    # A mounted ConfigMap: names link through ..data, which links to a directory of one version.
    version = tmp_path / "..2024_01_01"
    version.mkdir()
    (version / "policy.yaml").write_text(GOOD)
    (tmp_path / "..data").symlink_to(version.name)
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    tmp_path.chmod(0o777)
    assert load(tmp_path / "policy.yaml").policy.classes.keys() == {"a"}


def test_drop_ins_through_links_as_kubernetes_makes_them_are_read(write):
    policy = write(GOOD)
    drop_ins = policy.parent / "policy.d"
    (drop_ins / "..2024").mkdir(parents=True)
    (drop_ins / "..2024" / "10.yaml").write_text("classes: {b: {cpus: 1}}\n")
    (drop_ins / "..data").symlink_to("..2024")
    (drop_ins / "10.yaml").symlink_to("..data/10.yaml")
    assert load(policy).policy.files == ("policy.yaml", "policy.d/10.yaml")


def test_drop_ins_are_beside_the_policy_as_its_path_is_given(write, tmp_path):
    policy = write(GOOD, {"10.yaml": "classes: {b: {cpus: 1}}\n"})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "policy.yaml").symlink_to(policy)
    assert load(elsewhere / "policy.yaml").policy.files == ("policy.yaml",)
