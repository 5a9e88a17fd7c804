from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.emulated.emulated_resctrl import emulated_resctrl

Emulated = Callable[..., Path]


@pytest.fixture
def emulated() -> Iterator[Emulated]:
    """``emulated(machine="xeon-2s", kernel="6.12", *mount_options)`` mounts one until the test ends."""
    with ExitStack() as mounts:

        def mount(machine: str = "xeon-2s", kernel: str = "6.12", *mount_options: str) -> Path:
            return mounts.enter_context(emulated_resctrl(machine, kernel, *mount_options))

        yield mount
