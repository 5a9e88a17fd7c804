/*
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Intel RDT and AMD QoS for an emulated x86 processor: CPUID.
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "target/i386/tcg/sysemu/rdt.h"
#include "target/i386/tcg/sysemu/rdt_model.h"

typedef struct Registers {
    uint32_t *eax, *ebx, *ecx, *edx;
} Registers;

static void clear(Registers out)
{
    *out.eax = *out.ebx = *out.ecx = *out.edx = 0;
}

/* Leaf 7: there is monitoring (PQM), there is allocation (PQE). */
static void features(const Config *config, Registers out)
{
    if (config->events) {
        *out.ebx |= 1u << 12;
    }
    if (config->l3_bits || config->l2_bits || config->mba) {
        *out.ebx |= 1u << 15;
    }
}

/* Leaf 0xf: RMIDs, and events of the L3. */
static void monitoring(const Config *config, uint32_t subleaf, Registers out)
{
    clear(out);
    if (!config->events) {
        return;
    }
    if (subleaf == 0) {
        *out.ebx = config->rmids - 1;
        *out.edx = 1 << 1;
    } else if (subleaf == 1) {
        *out.eax = config->counter_bits - 24;
        *out.ebx = config->counter_unit;
        *out.ecx = config->rmids - 1;
        *out.edx = config->events;
    }
}

static uint32_t cache_properties(const Config *config)
{
    return (config->cdp ? 1 << 2 : 0) | (config->sparse_masks ? 1 << 3 : 0);
}

/*
 * Leaf 0x10: what can be allocated. AMD has the same for caches, but tells of
 * its bandwidth, which is another unit, in leaf 0x80000020.
 */
static void allocation(const Config *config, uint32_t subleaf, Registers out)
{
    bool percents = config->mba && config->vendor == VENDOR_INTEL;

    clear(out);
    if (subleaf == 0) {
        *out.ebx = (config->l3_bits ? 1 << 1 : 0) |
                   (config->l2_bits ? 1 << 2 : 0) |
                   (percents ? 1 << 3 : 0);
    } else if (subleaf == 1 && config->l3_bits) {
        *out.eax = config->l3_bits - 1;
        *out.ebx = config->l3_shareable;
        *out.ecx = cache_properties(config);
        *out.edx = config->closids - 1;
    } else if (subleaf == 2 && config->l2_bits) {
        *out.eax = config->l2_bits - 1;
        *out.ecx = cache_properties(config);
        *out.edx = config->closids - 1;
    } else if (subleaf == 3 && percents) {
        *out.eax = 90 - 1;   /* throttles by 90 % at most */
        *out.ecx = 1 << 2;   /* linearly: Linux knows no other */
        *out.edx = config->mba_closids - 1;
    }
}

/* Leaf 0x80000020: what AMD has beyond what it shares with Intel. */
static void amd_extensions(const Config *config, uint32_t subleaf, Registers out)
{
    clear(out);
    if (subleaf == 0) {
        *out.ebx = (config->mba ? 1 << 1 : 0) | (config->bmec ? 1 << 3 : 0) |
                   (config->abmc ? 1 << 5 : 0);
    } else if (subleaf == 1 && config->mba) {
        *out.eax = 11; /* bits of a bandwidth; the 12th lifts the limit */
        *out.edx = config->mba_closids - 1;
    } else if (subleaf == 3 && (config->bmec || config->abmc)) {
        *out.ebx = 2;  /* events that can be configured: total and local */
        *out.ecx = TRAFFIC_ALL;
    } else if (subleaf == 5 && config->abmc) {
        *out.ebx = config->abmc - 1;
    }
}

static void amd_leaf(const Config *config, uint32_t leaf, uint32_t subleaf,
                     Registers out)
{
    switch (leaf) {
    case 0x80000000: /* highest extended leaf */
        *out.eax = MAX(*out.eax, 0x80000020);
        break;
    case 0x80000001: /* TOPOEXT: Linux takes the L3's ids from 0x8000001d */
        *out.ecx |= 1u << 22;
        break;
    case 0x80000008: /* MBE: there is bandwidth enforcement */
        *out.ebx |= config->mba ? 1u << 6 : 0;
        break;
    case 0x80000020:
        amd_extensions(config, subleaf, out);
        break;
    }
}

void rdt_cpuid(CPUX86State *env, uint32_t leaf, uint32_t subleaf,
               uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx)
{
    const Config *config = &rdt_config;
    Registers out = { eax, ebx, ecx, edx };

    if (config->vendor == VENDOR_NONE) {
        return;
    }
    if (config->vendor == VENDOR_AMD) {
        amd_leaf(config, leaf, subleaf, out);
    }
    switch (leaf) {
    case 0: /* highest leaf */
        *eax = MAX(*eax, 0x10);
        break;
    case 7:
        if (subleaf == 0) {
            features(config, out);
        }
        break;
    case 0xf:
        monitoring(config, subleaf, out);
        break;
    case 0x10:
        allocation(config, subleaf, out);
        break;
    }
}
