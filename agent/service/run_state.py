"""What only the running agent knows, in a small file for ``status``: a fact sheet, never a source of truth."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunState:
    """The daemon's own facts."""

    pid: int
    version: str
    event_source: str
    """``bpf``, or ``scan`` where eBPF cannot be used."""
    started: float
    """Seconds since the epoch."""
    policy: str
    policy_ok: bool
    """Whether the policy as it was read last is the one in force."""
    refused: str | None
    """Why not."""
    contended: tuple[Mapping[str, object], ...]
    """Workloads left to somebody else: workload, class_name, other_group, threads."""
    audit_s: float | None
    """What the last full pass took, in seconds."""


def run_state_path(run: Path, resctrl_root: Path) -> Path:
    """The file for a mount: agents of different mounts do not share one."""
    return run / (str(resctrl_root).strip("/").replace("/", "-") + ".json")


def write_run_state(run: Path, resctrl_root: Path, state: RunState) -> None:
    """Replaces the file. Raises OSError."""
    path = run_state_path(run, resctrl_root)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(state)) + "\n")
    fresh.replace(path)


def forget_run_state(run: Path, resctrl_root: Path) -> None:
    """Removes the file of an agent that stops."""
    with suppress(OSError):
        run_state_path(run, resctrl_root).unlink()


def read_run_state(run: Path, resctrl_root: Path) -> RunState | None:
    """What the agent of this mount wrote last; None where there is nothing that this version understands.

    Whether that agent still runs, ``Resctrl.claimed_by_other`` tells.
    """
    try:
        stored = json.loads(run_state_path(run, resctrl_root).read_text())
        return RunState(**{**stored, "contended": tuple(stored["contended"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
