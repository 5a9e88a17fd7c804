"""The ``info`` directory: what can be divided and how finely."""

from agent.emulator.controls import BandwidthControl, CacheControl
from agent.emulator.monitoring import EventSettings
from agent.emulator.mounted import Mount
from agent.emulator.overlap import Part
from agent.emulator.tree import Directory, fixed


def fill_info(root: Directory, mount: Mount) -> None:
    """Add ``info`` to the mount's root."""
    info = root.directory("info")
    info.group = None
    info.file("last_cmd_status", lambda _: mount.status.read())
    for control in mount.controls.all:
        if isinstance(control, CacheControl):
            _fill_cache(info.directory(control.name), control, mount)
        else:
            _fill_bandwidth(info.directory(control.name), control)
    if mount.machine.monitoring:
        EventSettings(mount, mount.machine.monitoring).fill(info)


def _fill_cache(directory: Directory, control: CacheControl, mount: Mount) -> None:
    cache = control.cache
    directory.file("num_closids", fixed(f"{control.num_closids}\n"))
    directory.file("cbm_mask", fixed(f"{cache.full_mask:x}\n"))
    directory.file("min_cbm_bits", fixed(f"{cache.min_cbm_bits}\n"))
    directory.file("shareable_bits", fixed(f"{cache.shareable_bits:x}\n"))
    directory.file("bit_usage", lambda _: _bit_usage(mount, control))
    if mount.rules.shows_sparse_masks:
        directory.file("sparse_masks", fixed(f"{cache.sparse_masks:d}\n"))


def _bit_usage(mount: Mount, control: CacheControl) -> str:
    parts = (Part(mount.controls, mount.groups.controls, control, domain) for domain in control.domains)
    return ";".join(f"{part.domain}={part.usage()}" for part in parts) + "\n"


def _fill_bandwidth(directory: Directory, control: BandwidthControl) -> None:
    bandwidth = control.bandwidth
    directory.file("num_closids", fixed(f"{bandwidth.num_closids}\n"))
    directory.file("min_bandwidth", fixed(f"{bandwidth.minimum}\n"))
    directory.file("bandwidth_gran", fixed(f"{bandwidth.granularity}\n"))
    directory.file("delay_linear", fixed(f"{bandwidth.linear:d}\n"))
    if bandwidth.throttle_mode:
        directory.file("thread_throttle_mode", fixed(f"{bandwidth.throttle_mode}\n"))
