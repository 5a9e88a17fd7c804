/*
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Intel RDT and AMD QoS for an emulated x86 processor: what there is, and what
 * registers hold at reset.
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "hw/i386/topology.h"
#include "migration/vmstate.h"
#include "target/i386/tcg/sysemu/rdt.h"
#include "target/i386/tcg/sysemu/rdt_model.h"

Config rdt_config;
State rdt_state;

static Vendor vendor(void)
{
    const char *name = getenv("QEMU_RDT_VENDOR");

    if (!name) {
        return VENDOR_NONE;
    }
    return strcmp(name, "amd") ? VENDOR_INTEL : VENDOR_AMD;
}

static long number(const char *field, long otherwise)
{
    g_autofree char *name = g_strdup_printf("QEMU_RDT_%s", field);
    const char *value = getenv(name);

    return value ? strtol(value, NULL, 0) : otherwise;
}

/* The host gives every field of hardware.py; 0 where it says nothing. */
static void configure(Config *config)
{
    config->vendor = vendor();
    config->closids = MIN(number("CLOSIDS", 0), MAX_CLOSIDS);
    config->l3_bits = number("L3_BITS", 0);
    config->l3_shareable = number("L3_SHAREABLE", 0);
    config->l2_bits = number("L2_BITS", 0);
    config->cdp = number("CDP", 0);
    config->sparse_masks = number("SPARSE_MASKS", 0);
    config->mba = number("MBA", 0);
    config->mba_closids = MIN(number("MBA_CLOSIDS", 0), 64);
    config->rmids = MIN(number("RMIDS", 0), MAX_RMIDS);
    config->events = config->rmids ? number("EVENTS", 0) & 7 : 0;
    config->counter_unit = MAX(number("COUNTER_UNIT", 0), 1);
    config->counter_bits = number("COUNTER_BITS", 24);
    config->busy_cpu_mbps = number("BUSY_CPU_MBPS", 0);
    config->unavailable_rmid = number("UNAVAILABLE_RMID", -1);
    config->error_rmid = number("ERROR_RMID", -1);
    if (config->vendor == VENDOR_AMD) {
        config->bmec = number("BMEC", 0);
        config->abmc = MIN(number("ABMC", 0), MAX_COUNTERS);
    }
}

/* Every class may use everything. */
static void reset(const Config *config, State *state)
{
    unsigned domain, closid;

    for (domain = 0; domain < MAX_DOMAINS; domain++) {
        for (closid = 0; closid < MAX_CLOSIDS; closid++) {
            state->l3_mask[domain][closid] = (1ull << config->l3_bits) - 1;
            state->l2_mask[domain][closid] = (1ull << config->l2_bits) - 1;
            state->throttle[domain][closid] =
                config->vendor == VENDOR_AMD ? AMD_UNTHROTTLED : 0;
        }
        state->event_kinds[domain][0] = TRAFFIC_ALL;
        state->event_kinds[domain][1] = TRAFFIC_LOCAL;
    }
}

static int restored(void *opaque, int version)
{
    rdt_account_anew();
    return 0;
}

static const VMStateDescription vmstate_rdt = {
    .name = "rdt",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = restored,
    .fields = (VMStateField[]) {
        /* The buffer begins with this field and is all of the structure. */
        VMSTATE_BUFFER_UNSAFE(l3_cdp, State, 0, sizeof(State)),
        VMSTATE_END_OF_LIST()
    }
};

void rdt_init(void)
{
    static gsize done;

    if (g_once_init_enter(&done)) {
        configure(&rdt_config);
        reset(&rdt_config, &rdt_state);
        vmstate_register(NULL, 0, &vmstate_rdt, &rdt_state);
        g_once_init_leave(&done, 1);
    }
}

unsigned rdt_cpu(CPUX86State *env)
{
    return MIN(env_cpu(env)->cpu_index, MAX_CPUS - 1);
}

unsigned rdt_domain(CPUX86State *env)
{
    CPUState *cpu = env_cpu(env);
    X86CPUTopoInfo topology = {
        .dies_per_pkg = env->nr_dies,
        .cores_per_die = cpu->nr_cores,
        .threads_per_core = cpu->nr_threads,
    };
    unsigned socket = env_archcpu(env)->apic_id >> apicid_die_offset(&topology);

    return MIN(socket, MAX_DOMAINS - 1);
}
