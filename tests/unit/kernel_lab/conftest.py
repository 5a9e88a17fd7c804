from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test: what the machine has built is not touched."""
    directory = tmp_path / "cache"
    monkeypatch.setenv("RESCTRL_LAB_DIR", str(directory))
    return directory
