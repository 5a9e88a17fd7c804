"""A guest's initramfs: what its system needs early, and the laboratory's own files.

The files are not in the disk image, so that a change to them costs a second and not a new installation.
"""

import shutil
from pathlib import Path

from . import cache, external, guest_system, stages
from .distributions import Distribution

FILES = Path(__file__).with_name("guest_files")
INITRAMFS = "initramfs"

MASKED = (
    *("systemd-timesyncd.service", "systemd-networkd.service", "systemd-resolved.service"),
    *("systemd-networkd-wait-online.service", "systemd-update-utmp.service", "systemd-journal-flush.service"),
    *("systemd-firstboot.service", "systemd-hwdb-update.service", "systemd-random-seed.service"),
    *("systemd-pstore.service", "systemd-tpm2-setup.service", "systemd-tpm2-setup-early.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer"),
    *("e2scrub_reap.service", "fstrim.timer", "getty.target", "ldconfig.service", "containerd.service"),
)
"""Units that a guest of some seconds without network, log-in or hardware of its own has no use for. ldconfig alone
takes longer than the rest of booting."""


def made_from(distribution: Distribution) -> str:
    return stages.digest(guest_system.made_from(distribution), FILES, *MASKED)


def build(distribution: Distribution) -> None:
    """Make the cache's initramfs of that name, within a second; nothing if it is there. Raises LabError."""
    target = cache.guest(distribution.name) / "boot"
    with stages.alone(target):
        if stages.is_current(target, made_from(distribution)):
            return
        log = cache.logs() / f"{distribution.name}-boot.log"
        log.unlink(missing_ok=True)
        with stages.rebuilt(target, made_from(distribution)) as fresh:
            files = fresh / "files"
            shutil.copytree(FILES, files, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            _mask(files / "root/etc/systemd/system")
            external.run(["chmod", "-R", "u=rwX,go=rX", files], log)  # whatever the umask of this checkout
            external.archive(files, fresh / "files.cpio", log)
            system = cache.guest(distribution.name) / "system"
            _join([system / guest_system.EARLY, fresh / "files.cpio"], fresh / INITRAMFS)
            external.run(["rm", "-rf", files, fresh / "files.cpio"], log)


def _mask(units: Path) -> None:
    for unit in MASKED:
        (units / unit).symlink_to("/dev/null")


def _join(archives: list[Path], initramfs: Path) -> None:
    """The kernel unpacks archives that follow each other into one tree."""
    initramfs.write_bytes(b"".join(archive.read_bytes() for archive in archives))
