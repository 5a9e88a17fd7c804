"""A guest's packages as a disk image, its kernel, and what the kernel needs to find that disk."""

import zipfile
from pathlib import Path

from . import cache, external, mirror, stages
from .distributions import Distribution

ROOT = "root.ext4"
KERNEL = "vmlinuz"
EARLY = "early.cpio"

CONSTRAINTS = Path(__file__).parents[3] / "constraints.txt"
FROM_PYPI = "inotify-simple"
"""The one module the agent needs that Debian does not package. A version for all guests, from constraints.txt."""

UNREAD = tuple(f"/usr/share/{directory}" for directory in ("doc", "man", "locale", "info"))

DRIVERS_NOT_EMULATED = (
    *("gpu", "media", "infiniband", "scsi", "staging", "usb", "iio", "hid", "net/wireless", "net/ethernet"),
)

EARLY_MODULES = ("virtio_pci", "virtio_blk", "ext4", "overlay", "virtio_console", "9pnet_virtio", "9p", "virtio_rng")
"""The root disk, the overlay on it, the ports of the agent in the guest, the host's directories, and randomness."""

IMAGE_SIZE = "2G"

UNPACKED = {"": ("cat",), ".xz": ("xz", "-dc"), ".zst": ("zstd", "-qdc")}
"""How Debian compresses modules differs between releases; busybox's insmod wants them plain."""


def made_from(distribution: Distribution) -> str:
    """Of this file too: it is the recipe."""
    return stages.digest(repr(distribution), Path(__file__), _pin())


def build(distribution: Distribution) -> None:
    """Make the cache's system of that name, some minutes of downloads; nothing if it is there. Raises LabError."""
    target = cache.guest(distribution.name) / "system"
    with stages.alone(target):
        if stages.is_current(target, made_from(distribution)):
            return
        log = cache.logs() / f"{distribution.name}.log"
        log.unlink(missing_ok=True)
        with stages.rebuilt(target, made_from(distribution)) as fresh:
            root = fresh / "rootfs"
            _install_packages(distribution, root, log)
            _install_from_pypi(fresh / "wheel", root, log)
            _take_kernel(root, fresh, log)
            _trim(root, log)
            _make_image(root, fresh / ROOT, log)
            external.run(["rm", "-rf", root, fresh / "wheel"], log)


def _pin() -> str:
    return next(line for line in CONSTRAINTS.read_text().splitlines() if line.startswith(f"{FROM_PYPI}=="))


def _install_packages(distribution: Distribution, root: Path, log: Path) -> None:
    """The initramfs is our own, so the kernel package must generate none (it would take a minute for each guest)."""
    options = ['APT::Install-Recommends "false"', *(option.replace("=", " ") for option in mirror.FROZEN)]
    bootstrap: list[str | Path] = [
        *("mmdebstrap", "--variant=minbase", "--mode=root", "--format=directory"),
        *(f"--aptopt={option}" for option in options),
        *(f"--dpkgopt=path-exclude={directory}/*" for directory in UNREAD),
        f"--include={','.join(distribution.packages)}",
        *(distribution.suites[0], root, "-"),
    ]
    sources = mirror.sources("deb", distribution.suites)
    external.run(bootstrap, log, environment={"INITRD": "No"}, stdin=sources)


def _install_from_pypi(wheels: Path, root: Path, log: Path) -> None:
    """A wheel of pure Python is a zip file of what goes beside Debian's modules."""
    pip = ("/usr/bin/python3", "-m", "pip", "--disable-pip-version-check", "download", "--no-deps")
    external.run([*pip, "--only-binary=:all:", "--dest", wheels, _pin()], log)
    for wheel in wheels.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(root / "usr/lib/python3/dist-packages")


def _take_kernel(root: Path, target: Path, log: Path) -> None:
    """The kernel, and an archive for its initramfs: modules, their order, and busybox to load them with."""
    (modules,) = (root / "usr/lib/modules").iterdir()
    version = modules.name
    external.run(["depmod", "-b", root, version], log)
    external.run(["install", "-m", "0644", root / f"boot/vmlinuz-{version}", target / KERNEL], log)

    early = target / "early"
    (early / "modules").mkdir(parents=True)
    order = [_unpack(module, early / "modules", log) for module in _with_dependencies(root, version)]
    (early / "modules/order").write_text("".join(f"{name}\n" for name in order))
    external.run(["install", "-D", "-t", early / "bin", root / "usr/bin/busybox"], log)
    external.archive(early, target / EARLY, log)
    external.run(["rm", "-rf", early], log)


def _with_dependencies(root: Path, version: str) -> list[Path]:
    """Files of the early modules in an order in which they load; what is built into the kernel has none."""
    files: dict[Path, None] = {}
    for module in EARLY_MODULES:
        lines = external.output_of(["modprobe", "-d", root, "-S", version, "--show-depends", module]).splitlines()
        files.update((Path(words[1]), None) for words in map(str.split, lines) if words[0] == "insmod")
    return list(files)


def _unpack(module: Path, target: Path, log: Path) -> str:
    name = f"{module.name.partition('.ko')[0]}.ko"
    unpack = " ".join(UNPACKED[module.suffix.replace(".ko", "")])
    external.run(["sh", "-c", f'{unpack} "$1" >"$2"', "sh", module, target / name], log)
    return name


def _trim(root: Path, log: Path) -> None:
    """What no guest looks at: two thirds of the modules, package lists, and devices that devtmpfs brings anyway."""
    (modules,) = (root / "usr/lib/modules").iterdir()
    drivers = [modules / "kernel/drivers" / directory for directory in DRIVERS_NOT_EMULATED]
    unread = [root / directory[1:] for directory in UNREAD]
    kernel = [root / f"boot/vmlinuz-{modules.name}", root / f"boot/System.map-{modules.name}"]
    kept_empty = [root / "var/cache/apt", root / "var/lib/apt/lists", root / "dev"]
    external.run(["rm", "-rf", modules / "kernel/sound", *drivers, *kernel, *unread, *kept_empty], log)
    external.run(["depmod", "-b", root, modules.name], log)
    external.run(["install", "-d", *kept_empty], log)


def _make_image(root: Path, image: Path, log: Path) -> None:
    """Only ever mounted read-only: a journal and checksums would be work for an emulated processor."""
    external.run(["truncate", "-s", IMAGE_SIZE, image], log)
    external.run(["mkfs.ext4", "-q", "-O", "^has_journal,^metadata_csum", "-m", "0", "-d", root, image], log)
