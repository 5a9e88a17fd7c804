/*
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Intel RDT and AMD QoS for an emulated x86 processor: the counters.
 *
 * A model, since there is neither a cache nor a memory bus to watch. A CPU that
 * is busy makes a fixed traffic, less what its class's throttle takes off, three
 * quarters of it local. While it runs a group fills the class's part of the L3,
 * half of it in some 35 ms, and displaces what others left there.
 *
 * Busy is the processor time of the CPU's thread on the host: a guest that idles
 * counts nothing, and a busy host does not change the sums.
 */
#include "qemu/osdep.h"
#include <math.h>
#include "qemu/units.h"
#include "cpu.h"
#include "hw/core/cpu.h"
#include "target/i386/tcg/sysemu/rdt_model.h"

#define FILLING_NS    50e6            /* for 1 - 1/e of the way */
#define DISPLACING_NS (20 * FILLING_NS) /* by groups with room elsewhere */

#define QM_ERROR       (1ull << 63)
#define QM_UNAVAILABLE (1ull << 62)
#define QM_EXTENDED    (1u << 31) /* AMD: a counter's number, not an RMID */

static int64_t accounted_ns[MAX_CPUS];

void rdt_account_anew(void)
{
    memset(accounted_ns, 0, sizeof(accounted_ns));
}

/* Processor time of the CPU's thread since the last call, in ns. */
static uint64_t busy_ns(CPUX86State *env)
{
    CPUState *cpu = env_cpu(env);
    int64_t *accounted = &accounted_ns[rdt_cpu(env)];
    int64_t now, before = *accounted;
    struct timespec time;
    clockid_t clock;

    if (!cpu->thread || pthread_getcpuclockid(cpu->thread->thread, &clock) ||
        clock_gettime(clock, &time)) {
        return 0;
    }
    now = time.tv_sec * 1000000000ll + time.tv_nsec;
    *accounted = now;
    return before && now > before ? now - before : 0;
}

static uint64_t traffic_of(unsigned domain, unsigned closid, uint64_t ns)
{
    uint64_t throttle = rdt_state.throttle[domain][closid];
    uint64_t bytes = (double)ns * rdt_config.busy_cpu_mbps / 1000;

    if (rdt_config.vendor == VENDOR_INTEL) {
        return bytes * (100 - MIN(throttle, 99)) / 100;
    }
    if (throttle >= AMD_UNTHROTTLED) {
        return bytes;
    }
    return MIN(bytes, (uint64_t)(ns * (throttle / 8.0))); /* GB/s: bytes a ns */
}

static uint64_t l3_size(CPUX86State *env)
{
    CPUCacheInfo *l3 = rdt_config.vendor == VENDOR_AMD
                       ? env->cache_info_amd.l3_cache
                       : env->cache_info_cpuid4.l3_cache;

    return l3 && l3->size ? l3->size : 16 * MiB;
}

/* Bytes of the L3 that a class may fill. */
static uint64_t share(CPUX86State *env, unsigned domain, unsigned closid)
{
    /* With CDP class n has masks 2n, for data, and 2n + 1, for code. */
    bool divided = rdt_state.l3_cdp[domain] & 1;
    unsigned index = MIN(divided ? 2 * closid : closid, MAX_CLOSIDS - 1);

    if (!rdt_config.l3_bits) {
        return l3_size(env);
    }
    return l3_size(env) * ctpop64(rdt_state.l3_mask[domain][index]) /
           rdt_config.l3_bits;
}

/* A full cache has room for one only where others go. */
static void displace(uint64_t *occupancy, unsigned rmid, uint64_t size)
{
    uint64_t total = 0;
    double left;
    unsigned each;

    for (each = 0; each < rdt_config.rmids; each++) {
        total += occupancy[each];
    }
    if (total <= size) {
        return;
    }
    left = (double)(size - occupancy[rmid]) / (total - occupancy[rmid]);
    for (each = 0; each < rdt_config.rmids; each++) {
        if (each != rmid) {
            occupancy[each] *= left;
        }
    }
}

static void fill(uint64_t *occupancy, unsigned rmid, uint64_t target, double ns)
{
    double stays = exp(-ns / FILLING_NS);
    double others_stay = exp(-ns / DISPLACING_NS);
    unsigned each;

    for (each = 0; each < rdt_config.rmids; each++) {
        if (each != rmid) {
            occupancy[each] *= others_stay;
        }
    }
    occupancy[rmid] = target + ((double)occupancy[rmid] - target) * stays;
}

void rdt_account_cpu(CPUX86State *env)
{
    uint64_t association = rdt_state.association[rdt_cpu(env)];
    unsigned rmid = association & (MAX_RMIDS - 1);
    unsigned closid = MIN(association >> 32, MAX_CLOSIDS - 1);
    unsigned domain = rdt_domain(env);
    uint64_t *occupancy = rdt_state.occupancy[domain];
    uint64_t ns = busy_ns(env);

    if (ns) {
        rdt_state.bytes[domain][rmid] += traffic_of(domain, closid, ns);
        fill(occupancy, rmid, share(env, domain, closid), ns);
        displace(occupancy, rmid, l3_size(env));
    }
}

void rdt_account_domain(unsigned domain)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        CPUX86State *env = &X86_CPU(cpu)->env;

        if (rdt_domain(env) == domain) {
            rdt_account_cpu(env);
        }
    }
}

/* An RMID's traffic of these kinds so far, in bytes. */
static uint64_t traffic(unsigned domain, unsigned rmid, uint32_t kinds)
{
    uint64_t all = rdt_state.bytes[domain][MIN(rmid, MAX_RMIDS - 1)];
    uint64_t remote = all / 4;

    return (kinds & TRAFFIC_LOCAL ? all - remote : 0) +
           (kinds & TRAFFIC_REMOTE ? remote : 0);
}

/* Bandwidth counters start again at 0 when they are full. */
static uint64_t counted(uint64_t bytes)
{
    return bytes / rdt_config.counter_unit &
           MAKE_64BIT_MASK(0, rdt_config.counter_bits);
}

static uint64_t count_assigned(unsigned domain, unsigned event, unsigned id)
{
    const Counter *counter = &rdt_state.counter[domain][id];

    if (event != 1 || id >= rdt_config.abmc) { /* 1: L3CacheABMC */
        return QM_ERROR;
    }
    if (!counter->enabled) {
        return QM_UNAVAILABLE;
    }
    rdt_account_domain(domain);
    return counted(traffic(domain, counter->rmid, counter->kinds) -
                   counter->before);
}

static uint64_t count_event(unsigned domain, unsigned event, unsigned rmid)
{
    bool known = event >= EVENT_OCCUPANCY && event <= EVENT_LOCAL &&
                 rdt_config.events & 1 << (event - 1);

    if (!known || rmid >= rdt_config.rmids ||
        (int)rmid == rdt_config.error_rmid) {
        return QM_ERROR;
    }
    if ((int)rmid == rdt_config.unavailable_rmid) {
        return QM_UNAVAILABLE;
    }
    rdt_account_domain(domain);
    if (event == EVENT_OCCUPANCY) {
        return rdt_state.occupancy[domain][rmid] / rdt_config.counter_unit;
    }
    return counted(traffic(domain, rmid,
                           rdt_state.event_kinds[domain][event - EVENT_TOTAL]));
}

uint64_t rdt_count(CPUX86State *env)
{
    uint64_t selected = rdt_state.event_select[rdt_cpu(env)];
    unsigned domain = rdt_domain(env);
    unsigned event = selected & 0xff;
    unsigned subject = selected >> 32;

    if (rdt_config.abmc && selected & QM_EXTENDED) {
        return count_assigned(domain, event, subject);
    }
    return count_event(domain, event, subject);
}

void rdt_assign_counter(unsigned domain, unsigned id, uint64_t assignment)
{
    Counter *counter = &rdt_state.counter[domain][id];

    rdt_account_domain(domain);
    counter->enabled = extract64(assignment, 62, 1);
    counter->rmid = extract64(assignment, 32, 12);
    counter->kinds = assignment & TRAFFIC_ALL;
    counter->before = traffic(domain, counter->rmid, counter->kinds);
}
