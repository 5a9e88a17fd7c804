"""Machines for unit tests: those whose untouched trees were captured from a running kernel, and a few odd ones."""

from dataclasses import replace

from agent.emulator.machines import (
    ALL_EVENTS,
    Bandwidth,
    Cache,
    Machine,
    Monitoring,
    amd_bandwidth,
    intel_bandwidth,
)

_MIB = 1 << 20
_DOMAINS = (0, 1)

INTEL_12WAY = Machine(
    "intel-12way",
    cpus=4,
    l3=Cache(3, _DOMAINS, ways=12, size=16 * _MIB, num_closids=16),
    mb=intel_bandwidth(_DOMAINS, 16),
    monitoring=Monitoring(_DOMAINS, 256, ALL_EVENTS, counter_unit=65536, threshold_limit=16 * _MIB),
)
AMD = Machine(
    "amd",
    cpus=4,
    l3=Cache(3, _DOMAINS, ways=16, size=16 * _MIB, num_closids=16, min_cbm_bits=0, sparse_masks=True),
    mb=amd_bandwidth(_DOMAINS, 16),
    monitoring=Monitoring(_DOMAINS, 256, ALL_EVENTS, counter_unit=64, threshold_limit=_MIB // 2),
)
CDP = replace(INTEL_12WAY, name="cdp", mount_options=frozenset({"cdp"}))
HASWELL = Machine("haswell", cpus=4, l3=Cache(3, (0,), 20, 20 * _MIB, num_closids=4, min_cbm_bits=2, cdp=False))
EVERYTHING = replace(
    AMD,
    name="everything",
    l2=Cache(2, (0, 1, 2, 3), ways=8, size=_MIB, num_closids=16),
    smba=Bandwidth(_DOMAINS, 16, 0, 2048, 1, linear=False, throttle_mode=None, width=4),
)
ABMC = replace(
    AMD,
    name="abmc",
    monitoring=Monitoring(
        _DOMAINS, 256, ALL_EVENTS, counter_unit=64, threshold_limit=_MIB // 2, configurable=True, assignable_counters=4
    ),
)
