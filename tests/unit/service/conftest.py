from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.service.journald import Journald


@pytest.fixture
def journald(tmp_path: Path) -> Iterator[Journald]:
    listening = Journald(tmp_path / "journal-socket")
    yield listening
    listening.close()
