"""The policy that is installed, and the examples."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from agent.policy import load
from agent.policy.model import Conditions, KubernetesConditions
from agent.policy.render import as_text
from agent.reconcile.desired import resolve
from agent.resctrl.machine import read_machine
from agent.resctrl.schemata import parse
from agent.resources import resource

DEFAULT = resource("config/policy.yaml")
EXAMPLES = sorted(resource("config/examples").glob("*.yaml"))
MACHINES = Path(__file__).parents[2] / "machines"
SCHEMA = resource("config/policy.schema.json")


@pytest.mark.parametrize("path", [DEFAULT, *EXAMPLES], ids=lambda path: path.name)
def test_it_is_good_and_needs_no_warning(path):
    assert [as_text(warning) for warning in load(path, insecure=True).warnings] == []


@pytest.mark.parametrize("path", [DEFAULT, *EXAMPLES], ids=lambda path: path.name)
def test_its_first_line_leads_editors_to_the_schema(path: Path):
    first = path.read_text().splitlines()[0]
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    assert (path.parent / first.removeprefix(prefix)).resolve() == SCHEMA.resolve()


@pytest.mark.parametrize("path", [DEFAULT, *EXAMPLES], ids=lambda path: path.name)
def test_the_schema_takes_it(path: Path):
    text_keys = yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but texts
    text_keys["version"] = int(text_keys["version"])
    for spec in text_keys["classes"].values():
        if isinstance(spec, dict) and "default" in spec:
            spec["default"] = spec["default"] == "true"
    jsonschema.Draft202012Validator(yaml.safe_load(SCHEMA.read_text())).validate(text_keys)


def test_there_are_examples_for_the_usual_kinds_of_machine():
    assert {path.stem for path in EXAMPLES} >= {
        "kubernetes-node", "database-server", "packet-processing", "amd-rates", "render-farm"
    }  # fmt: skip


def test_the_default_fits_any_machine():
    classes = load(DEFAULT, insecure=True).policy.classes
    for spec in classes.values():
        assert {*spec.caches, *spec.bandwidths} <= spec.optional
    assert load(DEFAULT, insecure=True).policy.mount.bandwidth_capacity, "per cents need it on AMD"


@pytest.mark.parametrize(
    "machine", sorted(path for path in MACHINES.iterdir() if path.is_dir()), ids=lambda path: path.name
)
def test_the_default_is_possible_on_every_machine_that_can_divide_anything(machine):
    if not (machine / "schemata").is_file() or not (machine / "schemata").read_text():
        pytest.skip("nothing can be divided here")
    root = parse((machine / "schemata").read_text())
    desired = resolve(load(DEFAULT, insecure=True).policy, read_machine(machine), root)
    assert [as_text(problem) for problem in desired.errors] == []


def test_the_default_keeps_batch_work_and_latency_apart_in_the_cache():
    machine = MACHINES / "xeon-11way"
    root = parse((machine / "schemata").read_text())
    groups = resolve(load(DEFAULT, insecure=True).policy, read_machine(machine), root).groups
    assert groups["batch"].schemata["L3"] == {0: 0x00F, 1: 0x00F}
    assert groups["latency"].schemata["L3"] == {0: 0x7F0, 1: 0x7F0}
    assert groups["batch"].schemata["MB"] == {0: 40, 1: 40}


def test_the_default_places_pods_by_quality_of_service():
    rules = load(DEFAULT, insecure=True).policy.rules
    by_qos = {rule.when.kubernetes.qos: rule.class_name for rule in rules if rule.when.kubernetes}
    assert by_qos == {("besteffort",): "batch", ("guaranteed",): "latency"}
    assert rules[0].when == Conditions(kubernetes=KubernetesConditions(qos=("besteffort",)))


def test_what_the_default_has_commented_out_is_good_too(tmp_path):
    lines = DEFAULT.read_text().splitlines()
    start = lines.index("  # - class: latency")
    examples = [line.replace("  # ", "  ", 1) for line in lines if line.startswith(("  # -", "  #   when"))]
    policy = tmp_path / "policy.yaml"
    policy.write_text("\n".join(lines[: start - 1] + examples) + "\n")
    assert len(load(policy, insecure=True).policy.rules) == len(load(DEFAULT, insecure=True).policy.rules) + 4
