"""The Debian mirror that this machine's apt is configured with serves the guests too."""

import os
from collections.abc import Sequence
from pathlib import Path

from . import external
from .errors import LabError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

FROZEN = ("Acquire::Check-Valid-Until=false",)
"""A mirror that was frozen serves release files past their date; their signatures are checked all the same."""


def sources(kind: str, suites: Sequence[str]) -> str:
    """Lines of a sources.list, of ``kind`` deb or deb-src. Raises LabError if apt knows no mirror to take them from."""
    return "".join(f"{kind} [signed-by={KEYRING}] {_archive_of(suite)} {suite} main\n" for suite in suites)


def _archive_of(suite: str) -> str:
    """Security updates have an archive of their own, everything else is beside the release."""
    security = suite.endswith("-security")
    variable = "RESCTRL_LAB_SECURITY_MIRROR" if security else "RESCTRL_LAB_MIRROR"
    if given := os.environ.get(variable):
        return given
    for address, known in _configured():
        if known.endswith("-security") == security and "debian" in address:
            return address
    raise LabError(f"apt is configured with no Debian archive that has {suite}: set {variable} to one's address")


def _configured() -> list[tuple[str, str]]:
    """Address and suite of each archive that apt is configured with; of those without lists yet, too."""
    query = ["apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI) $(RELEASE)"]
    lines = external.output_of(query).splitlines()
    return [(address, suite) for address, suite in (line.split(" ", 1) for line in sorted(set(lines)))]
