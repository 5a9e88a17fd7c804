"""Where the files that travel with the package are: eBPF sources, the default policy, the units."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def resource(relative: str) -> Path:
    """The path of a file such as ``bpf/tasks.bpf.c`` or ``config/policy.yaml``.

    An installed package carries them below ``agent/share``; in a source tree they lie beside ``agent``.
    Raises FileNotFoundError, naming both places, when neither has it.
    """
    candidates = (_PACKAGE / "share" / relative, _PACKAGE.parent / relative)
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise FileNotFoundError(
        f"{relative} is in neither {candidates[0]} nor {candidates[1]}: the installation is incomplete"
    )
