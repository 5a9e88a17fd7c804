"""The policy file: text → typed values, each with file, line and column. Never touches the machine."""

from pathlib import Path

from agent.policy.decode import Loaded, decode_files
from agent.policy.read import read_policy_files

__all__ = ["Loaded", "load"]


def load(path: Path, *, insecure: bool = False) -> Loaded:
    """The policy in ``path`` and the drop-ins in ``policy.d`` beside it.

    Files must belong to root or to whoever runs this, and be writable by nobody else, unless ``insecure``. Raises
    PolicyRefusedError with all problems, warnings too, whether a file cannot be read or says what cannot be.
    """
    files = read_policy_files(path, insecure=insecure)
    return decode_files(files.sources, files.problems)
