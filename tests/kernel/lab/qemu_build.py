"""QEMU with the model of RDT and AMD QoS in it, built from Debian's source package."""

from collections.abc import Iterator
from pathlib import Path

from . import cache, external, mirror, stages

SOURCES = Path(__file__).with_name("qemu")
SUITE = "bookworm"
"""Debian 12's QEMU 7.2, whatever this machine runs: the hooks are a patch to that."""

CONFIGURATION = (
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--enable-tcg",
    "--enable-attr",
    "--enable-cap-ng",
    "--enable-virtfs",
    "--disable-docs",
    "--disable-tools",
    "--disable-werror",
    "--meson=/usr/bin/meson",
    "--extra-cflags=-O2",
)

FIRMWARE = (
    Path("/usr/share/seabios/bios-256k.bin"),
    Path("/usr/share/qemu/linuxboot_dma.bin"),
    Path("/usr/share/qemu/kvmvapic.bin"),
)
"""Copied, since an upgrade of the machine's own must not change what snapshots were made with."""


def made_from() -> str:
    return stages.digest(SOURCES, SUITE, *CONFIGURATION)


def build() -> None:
    """Make the cache's QEMU, some minutes of compiling; nothing if it is there. Raises LabError."""
    with stages.alone(cache.qemu()):
        if stages.is_current(cache.qemu(), made_from()):
            return
        log = cache.logs() / "qemu.log"
        log.unlink(missing_ok=True)
        with stages.rebuilt(cache.qemu(), made_from()) as fresh:
            work = fresh / "build"
            work.mkdir()
            tree = _sources(work, log)
            _add_model(tree, log)
            external.run(["./configure", *CONFIGURATION], log, directory=tree)
            external.run(["ninja", "-C", tree / "build", "qemu-system-x86_64"], log)
            external.run(["install", "-s", "-t", fresh, tree / "build/qemu-system-x86_64"], log)
            external.run(["install", "-m", "0644", "-t", fresh, *FIRMWARE], log)
            external.run(["rm", "-rf", work], log)


def _sources(work: Path, log: Path) -> Path:
    """Unpacks the source package, with Debian's patches, below ``work``. apt's own lists stay as they are."""
    (work / "lists/partial").mkdir(parents=True)
    (work / "sources.list").write_text(mirror.sources("deb-src", (SUITE,)))
    apt = ("apt-get", "-q", *_options(work))
    external.run([*apt, "update"], log, directory=work)
    external.run([*apt, "source", "qemu"], log, directory=work)
    return next(work.glob("qemu-*/"))


def _options(work: Path) -> Iterator[str]:
    own = (f"Dir::Etc::SourceList={work}/sources.list", "Dir::Etc::SourceParts=-", f"Dir::State::Lists={work}/lists")
    for option in (*own, *mirror.FROZEN, "APT::Sandbox::User=root"):
        yield from ("-o", option)


def _add_model(tree: Path, log: Path) -> None:
    model = sorted(SOURCES.glob("rdt*.[ch]"))
    external.run(["install", "-m", "0644", "-t", tree / "target/i386/tcg/sysemu", *model], log)
    external.run(["patch", "-p1", "--fuzz=0", "-i", SOURCES / "hooks.patch"], log, directory=tree)
