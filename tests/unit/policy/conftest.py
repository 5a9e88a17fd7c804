from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent.policy import Loaded, load
from agent.policy.problem import PolicyRefusedError, Problem

Write = Callable[..., Path]
Read = Callable[..., Loaded]
Refuse = Callable[..., tuple[Problem, ...]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes policy.yaml and drop-ins into a folder of the test's own, and returns the policy's path."""

    def write_policy(text: str, drop_ins: Mapping[str, str] | None = None) -> Path:
        policy = tmp_path / "policy.yaml"
        policy.write_text(text)
        policy.chmod(0o644)
        for name, content in (drop_ins or {}).items():
            drop_in = tmp_path / "policy.d" / name
            drop_in.parent.mkdir(exist_ok=True)
            drop_in.write_text(content)
            drop_in.chmod(0o644)
        return policy

    return write_policy


@pytest.fixture
def read(write: Write) -> Read:
    """The policy that a text makes."""
    return lambda text, drop_ins=None: load(write(text, drop_ins))


@pytest.fixture
def refused(write: Write) -> Refuse:
    """The problems for which a text is refused."""

    def problems(text: str, drop_ins: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
        with pytest.raises(PolicyRefusedError) as caught:
            load(write(text, drop_ins))
        return caught.value.problems

    return problems
