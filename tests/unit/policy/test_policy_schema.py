"""policy.schema.json and the decoder take the same documents."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.policy import classes, decode, model, names, rules
from agent.policy.decode import decode_files
from agent.policy.nodes import Source
from agent.policy.problem import PolicyRefusedError
from agent.resources import resource

SCHEMA: dict[str, Any] = json.loads(resource("config/policy.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
DEFS = SCHEMA["$defs"]
TOP = SCHEMA["properties"]

Document = Any


def schema_takes(document: Document) -> bool:
    return bool(VALIDATOR.is_valid(document))


def decoder_takes(document: Document) -> bool:
    # JSON is YAML, and says of every text that it is text.
    try:
        decode_files((Source("policy.yaml", json.dumps(document)),))
    except PolicyRefusedError:
        return False
    return True


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_everything_in_the_schema_that_an_editor_shows_is_described():
    shown = [TOP, TOP["resctrl"]["properties"], DEFS["class"]["properties"], DEFS["rule"]["properties"]]
    for properties in (*shown, DEFS["conditions"]["properties"], DEFS["kubernetes"]["properties"]):
        for key, schema in properties.items():
            assert "description" in schema or "description" in DEFS[schema["$ref"].rpartition("/")[2]], key


@pytest.mark.parametrize(
    ("keys", "properties"),
    [
        (decode.TOP_KEYS, TOP),
        (classes.MOUNT_KEYS, TOP["resctrl"]["properties"]),
        (model.CACHE_KEYS, TOP["partitions"]["additionalProperties"]["properties"]),
        (classes.CLASS_KEYS, DEFS["class"]["properties"]),
        (rules.RULE_KEYS, DEFS["rule"]["properties"]),
        (rules.CONDITION_KEYS, DEFS["conditions"]["properties"]),
        (rules.KUBERNETES_KEYS, DEFS["kubernetes"]["properties"]),
    ],
)
def test_keys_are_the_same(keys, properties):
    assert sorted(keys) == sorted(properties)


def test_words_are_the_same():
    assert TOP["resctrl"]["properties"]["cdp"]["items"]["enum"] == list(classes.CDP_CACHES)
    assert TOP["resctrl"]["properties"]["bandwidth"]["enum"] == list(classes.BANDWIDTH_UNITS)
    assert DEFS["class"]["properties"]["mode"]["enum"] == [mode.value for mode in model.Mode]
    assert DEFS["class"]["properties"]["optional"]["items"]["enum"] == [*model.CACHE_KEYS, *model.BANDWIDTH_KEYS]
    assert DEFS["qos"]["enum"] == list(rules.QOS_SPELLINGS)
    assert DEFS["name"]["not"]["enum"] == sorted(names.KERNEL_FILES)
    assert DEFS["name"]["pattern"] == f"^{names.NAME_PATTERN}$"
    assert TOP["classes"]["maxProperties"] == classes.MAX_CLASSES
    assert TOP["version"]["const"] == int(decode.VERSION)


REPLACED = [None, True, 5, 2.5, "x", "", [], ["x"], [5], [[]], {}, {"x": 1}]
"""Values of every kind, to put in the place of each value of a good document."""

GOOD: list[Document] = [
    {"version": 1},
    {"version": 1, "resctrl": None, "partitions": None, "classes": None, "rules": None},
    {
        "version": 1,
        "resctrl": {"cdp": ["l2", "l3"], "bandwidth": "MBps", "bandwidth_capacity": "160GB/s"},
        "partitions": {"p": {"l3": "60%", "l2code": "2 ways"}, "q": {"l3code": "40%", "l3data": "12.5%"}},
        "classes": {
            "latency": {"partition": "p", "l3": "20-60%", "l2data": "max", "mb": "40%"},
            "batch": {
                "l3": {"default": "30%", "1": "0xf0", "8-15": "4 ways"},
                "mb": {"default": "max", "0": "8GB/s"},
                "smba": "2GiB/s",
                "mode": "exclusive",
                "cpus": "2-3,8",
                "optional": ["l3", "mb"],
                "adopt": False,
                "monitor": "workload",
                "default": False,
            },
            "nothing": None,
            "system": {"default": True},
        },
        "rules": [
            {"class": "latency", "when": {"unit": "a.service"}},
            {
                "class": "batch",
                "name": "some",
                "when": {
                    "cgroup": ["/a/**", "/b"],
                    "unit": ["x*", "y.slice"],
                    "kubernetes": {"qos": ["BestEffort"], "pod_uid": "a-*"},
                    "exe": "/bin/x",
                    "comm": ["x", "y"],
                    "user": 1000,
                    "not": {"kubernetes": {"qos": "burstable"}, "not": {"comm": "z"}},
                },
            },
        ],
    },
]


@pytest.mark.parametrize("document", GOOD)
def test_good_documents_are_good_to_both(document):
    assert schema_takes(document)
    assert decoder_takes(document)


def places(document: Document, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [at, *(place for key, value in inner for place in places(value, (*at, key)))]


def changed(document: Document, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Document:
    copy = json.loads(json.dumps(document))
    container = copy
    for key in place[:-1]:
        container = container[key]
    change(container, place[-1])
    return copy


def is_the_same_to_both(document: Document) -> bool:
    return schema_takes(document) == decoder_takes(document)


def only_the_decoder_knows(place: tuple[Any, ...], value: Document) -> bool:
    """What no schema can say: whether a name exists, is the only default, or a number was written as a mask."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    elsewhere = place[-1] in ("class", "partition", "default", "classes", "partitions") or place[0] == "partitions"
    return elsewhere or (place[0] == "classes" and is_number)


@pytest.mark.parametrize("place", places(GOOD[2])[1:], ids=str)
def test_a_value_of_another_kind_is_the_same_to_both(place):
    for value in REPLACED:
        document = changed(GOOD[2], place, lambda container, key, value=value: container.__setitem__(key, value))
        if only_the_decoder_knows(place, value):
            assert schema_takes(document) or not decoder_takes(document), value
        else:
            assert is_the_same_to_both(document), value


@pytest.mark.parametrize("place", places(GOOD[2])[1:], ids=str)
def test_what_is_left_out_is_the_same_to_both(place):
    document = changed(GOOD[2], place, lambda container, key: container.pop(key))
    if place[:1] in (("classes",), ("partitions",)):
        assert schema_takes(document)
    else:
        assert is_the_same_to_both(document)


@pytest.mark.parametrize("place", [place for place in places(GOOD[2]) if place and isinstance(place[-1], str)], ids=str)
def test_a_key_with_another_name_is_the_same_to_both(place):
    document = changed(GOOD[2], place, lambda container, key: container.__setitem__(f"{key}x/", container.pop(key)))
    assert not schema_takes(document)
    assert not decoder_takes(document)


@pytest.mark.parametrize(
    ("l3", "other"),
    [("l3", "l3code"), ("l3", "l3data"), ("l2", "l2code"), ("l2", "l2data"), ("l3code", "l3data"), ("l3", "l2")],
)
def test_two_sources_for_one_cache_are_the_same_to_both(l3, other):
    for section in ("classes", "partitions"):
        assert is_the_same_to_both({"version": 1, section: {"a": {l3: "30%", other: "20%"}}})


names_of_classes = st.sampled_from(["a", "b-1", "info", "tasks", "a/b", "..", "", "-a", "A.b", "a b", "é"])
cache = st.sampled_from(
    ["30%", "12.5 %", "20-60%", "20%-60%", "4 ways", "1 way", "0x7f0", "max", "30", "010", "7f0", "Max", "x", ""]
)
bandwidth = st.sampled_from(["40%", "8GB/s", "1.5 GB/s", "500MB/s", "2GiB/s", "max", "8", "8GB", "8gb/s", "x", ""])
domains = st.sampled_from(["default", "0", "8-15", "0,2-3", "x", "-1", "0x1", ""])


def amount(of: st.SearchStrategy[str]) -> st.SearchStrategy[Document]:
    return of | st.dictionaries(domains, of, max_size=1)


def one_or_many(of: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    return of | st.lists(of, max_size=2)


spec = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "l3": amount(cache),
        "l3code": amount(cache),
        "l2": amount(cache),
        "mb": amount(bandwidth),
        "cpus": st.sampled_from(["1", "2-3,8", "", "all", "1,"]),
        "optional": st.lists(st.sampled_from(["l3", "mb", "cpus", "x"]), max_size=2),
        "adopt": st.sampled_from([True, False, "yes", 1]),
        "monitor": st.sampled_from(["class", "workload", "none", "", True]),
        "mb ": bandwidth,
    },
)
paths = st.sampled_from(["/", "/a/**", "a", "", "**/a", 5])
units = st.sampled_from(["a.service", "a", "a*", "a.b", "/a.slice", "x@[0-9].mount", "", 5])
texts = st.sampled_from(["a", "", 5, 1.5, True, None])
conditions = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "cgroup": one_or_many(paths),
            "unit": one_or_many(units),
            "exe": one_or_many(paths),
            "comm": one_or_many(texts),
            "kubernetes": st.fixed_dictionaries(
                {},
                optional={
                    "qos": one_or_many(st.sampled_from(["guaranteed", "BestEffort", "best-effort", "", 1])),
                    "pod_uid": one_or_many(st.sampled_from(["a-b", "a_b", "*", "", 7])),
                },
            ),
            "not": conditions,
        },
    )
)
rule = st.fixed_dictionaries({"class": st.just("c"), "when": conditions}, optional={"name": texts, "x": texts})
policies = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from([1, 1, 1, 2, "1", None]),
        "resctrl": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "cdp": st.lists(st.sampled_from(["l2", "l3", "mb"]), max_size=2),
                "bandwidth": st.sampled_from(["percent", "MBps", "mbps"]),
                "bandwidth_capacity": bandwidth,
            },
        ),
        "classes": st.dictionaries(names_of_classes, spec, max_size=2).map(lambda found: {**found, "c": {}}),
        "rules": st.lists(rule, max_size=2),
    },
)


@settings(max_examples=1500, deadline=None)
@given(policies)
def test_any_document_is_the_same_to_both(document):
    if document.get("rules") and "classes" not in document:
        document["classes"] = {"c": None}
    assert is_the_same_to_both(document), yaml.safe_dump(document)
