"""Where guests get their packages: this machine's mirror, as apt tells it."""

import pytest

from tests.kernel.lab import external, mirror
from tests.kernel.lab.errors import LabError

CONFIGURED = """\
http://mirror.example/debian-security/ bookworm-security
http://mirror.example/debian/ bookworm
http://mirror.example/debian/ bookworm-updates
http://vendor.example/apt/ stable
"""


@pytest.fixture(autouse=True)
def apt(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RESCTRL_LAB_MIRROR", "RESCTRL_LAB_SECURITY_MIRROR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(external, "output_of", lambda _command: CONFIGURED)


def addresses(*suites: str) -> list[str]:
    return [line.split()[2] for line in mirror.sources("deb", suites).splitlines()]


def test_security_updates_come_from_their_own_archive() -> None:
    assert addresses("trixie", "trixie-updates", "trixie-security") == [
        "http://mirror.example/debian/",
        "http://mirror.example/debian/",
        "http://mirror.example/debian-security/",
    ]


def test_an_address_that_is_given_comes_before_apts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESCTRL_LAB_MIRROR", "http://other.example/debian")
    assert addresses("sid", "trixie-security") == [
        "http://other.example/debian",
        "http://mirror.example/debian-security/",
    ]


def test_without_a_debian_archive_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "output_of", lambda _command: "http://ubuntu.example/ubuntu/ noble\n")
    with pytest.raises(LabError, match="no Debian archive that has sid: set RESCTRL_LAB_MIRROR"):
        addresses("sid")
