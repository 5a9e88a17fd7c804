"""A resctrl filesystem in FUSE that behaves as the kernel does, for machines without the hardware."""
