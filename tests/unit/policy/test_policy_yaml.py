"""The YAML layer: what is refused before it is walked, and that no text does harm."""

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.policy import nodes
from agent.policy.classes import CLASS_KEYS, MOUNT_KEYS
from agent.policy.decode import TOP_KEYS, decode_files
from agent.policy.nodes import MAX_DEPTH, MAX_NODES, NotReadableError, Source, compose
from agent.policy.problem import PolicyRefusedError
from agent.policy.render import as_json, as_text
from agent.policy.rules import CONDITION_KEYS, KUBERNETES_KEYS, RULE_KEYS


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def loader(request, monkeypatch):
    monkeypatch.setattr(nodes, "_Loader", getattr(yaml, request.param))


def refusal(text: str) -> NotReadableError:
    with pytest.raises(NotReadableError) as caught:
        compose(Source("policy.yaml", text))
    return caught.value


def test_an_alias_bomb_is_refused_before_it_is_walked():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    error = refusal("\n".join(lines))
    assert error.message == f"more than {MAX_NODES} keys and values"
    assert error.hint == "aliases count as if they were written out"
    assert error.position.line == 5


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused(opening):
    error = refusal(opening * 100_000)
    assert error.message == f"nested more than {MAX_DEPTH} levels deep"
    assert error.position.line == 1


def test_deep_nesting_through_aliases_is_refused():
    lines = ["- &a0 [x]"] + [f"- &a{n} [*a{n - 1}]" for n in range(1, 1000)]
    assert refusal("\n".join(lines)).position.line == MAX_DEPTH - 1


def test_the_deepest_that_is_allowed_is_read():
    depth = MAX_DEPTH - 1
    assert compose(Source("policy.yaml", "[" * depth + "x" + "]" * depth)) is not None


def test_a_file_with_too_many_values_is_refused():
    assert refusal(f"[{'x,' * MAX_NODES}]").message == f"more than {MAX_NODES} keys and values"


def test_lines_are_counted_as_yaml_counts_them():
    error = refusal("a: 1\r\nb: 2\rc: 3\nd: e: f\n")
    assert str(error.position) == "policy.yaml:4:5"
    assert Source("policy.yaml", "a\r\nb\rc\x85d\u2028e").lines == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        ("classes:\n  a:\n    l3: 30%\n    mb:40%\n    optional: [mb]\n", "4:8", '"mb: 40%"'),
        ("classes:\n  a:\n    mb:40%\n    # half\n    l3: 30%\n", "3:8", '"mb: 40%"'),
        ("classes:\n  a:\n    mb: 40%\n    l3:30%\n", "4:8", '"l3: 30%"'),
        ("rules:\n  - class:batch\n    when: {exe: /a}\n", "2:11", '"class: batch"'),
    ],
)
def test_a_colon_without_its_space_is_pointed_out_where_it_stands(text, at, hint):
    error = refusal(text)
    assert str(error.position) == f"policy.yaml:{at}"
    assert error.hint == f"a colon needs a space after it: {hint}"


def test_columns_are_counted_in_characters():
    assert str(refusal('"é\U0001f600": *x').position) == "policy.yaml:1:7"


keys = st.sampled_from(
    [*TOP_KEYS, *MOUNT_KEYS, *CLASS_KEYS, *RULE_KEYS, *CONDITION_KEYS, *KUBERNETES_KEYS, "a", "b", "1", "8-15", "<<"]
)
values = (
    st.sampled_from(
        ["1", "30%", "0x7f0", "4 ways", "max", "8GB/s", "/a", "a.service", "a", "true", "exclusive", "~", "l3"]
    )
    | st.text(max_size=8)
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.dates()
)
documents = st.recursive(
    values, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6), max_leaves=40
)


def judge(text: str) -> None:
    try:
        decode_files((Source("policy.yaml", text),))
    except PolicyRefusedError as error:
        lines = Source("policy.yaml", text).lines
        for problem in error.problems:
            assert 1 <= problem.position.line <= len(lines) + 1
            assert as_text(problem).encode()
            assert as_json(problem)["message"]


@pytest.mark.parametrize(
    "start", ["", "version: 1\nclasses: ", "version: 1\nclasses: {a: {}}\nrules: [{class: a, when: "]
)
@settings(max_examples=150, deadline=None)
@given(
    text=st.text(alphabet="ab1: \n\t-[]{},&*!|>'\"%@`#?\\<~.0x/\x85\u2028é\ud7ff", max_size=80) | st.text(max_size=60)
)
@example(text="&a [*a]")
@example(text="? ? a")
@example(text='{"\\ud800": "\\0"}')
@example(text="%YAML 9.9\n---\n")
def test_no_text_does_harm(start, text):
    judge(start + text)


@settings(max_examples=300, deadline=None)
@given(documents, st.booleans())
def test_no_document_does_harm(document, flow):
    judge(yaml.safe_dump(document, default_flow_style=flow))


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(
        {"version": st.just(1)},
        optional={"resctrl": documents, "partitions": documents}
        | {
            "classes": st.dictionaries(st.sampled_from(["a", "b"]), documents, max_size=2),
            "rules": st.lists(documents, max_size=4),
        },
    )
)
def test_no_policy_does_harm(document):
    judge(yaml.safe_dump(document))
