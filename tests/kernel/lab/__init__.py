"""A laboratory for the kernel's resctrl: stock Debian guests on emulated RDT or AMD QoS. See tests/kernel/README.md."""
