/*
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Intel RDT and AMD QoS for an emulated x86 processor: the registers.
 */
#include "qemu/osdep.h"
#include "qemu/lockable.h"
#include "cpu.h"
#include "target/i386/tcg/sysemu/rdt.h"
#include "target/i386/tcg/sysemu/rdt_model.h"

#define MSR_L3_QOS_CFG  0xc81 /* bit 0: CDP */
#define MSR_L2_QOS_CFG  0xc82
#define MSR_QM_EVTSEL   0xc8d /* 7:0 event, 63:32 RMID */
#define MSR_QM_CTR      0xc8e
#define MSR_PQR_ASSOC   0xc8f /* 31:0 RMID, 63:32 class */

#define MSR_AMD_ABMC_CFG       0xc00003fd
#define MSR_AMD_L3_QOS_EXT_CFG 0xc00003ff /* bit 0: counters are assignable */
#define MSR_AMD_QOS_EVT_CFG    0xc0000400 /* total, and in the next one local */

/* One register for each class. */
typedef struct ClassRegisters {
    uint32_t first;
    unsigned room; /* numbers set aside for them */
    unsigned used; /* classes that there are */
    uint64_t (*values)[MAX_CLOSIDS];
    bool (*allows)(uint64_t value);
} ClassRegisters;

/* CPUs run in threads of their own, and counters are of all in a socket. */
static QemuMutex lock;

static void __attribute__((constructor)) init_lock(void)
{
    qemu_mutex_init(&lock);
}

/* Intel wants one run of ones unless it says otherwise, AMD takes anything. */
static bool is_mask(uint64_t value, unsigned bits)
{
    if (value >> bits) {
        return false;
    }
    if (rdt_config.vendor == VENDOR_AMD) {
        return true;
    }
    if (!value || rdt_config.sparse_masks) {
        return value;
    }
    value >>= ctz64(value);
    return !(value & (value + 1));
}

static bool is_l3_mask(uint64_t value)
{
    return is_mask(value, rdt_config.l3_bits);
}

static bool is_l2_mask(uint64_t value)
{
    return is_mask(value, rdt_config.l2_bits);
}

static bool is_delay(uint64_t value)
{
    return value <= 90;
}

static bool is_bandwidth(uint64_t value)
{
    return value <= 0xfff;
}

/* Where the register is among those of all classes; false if it is not. */
static bool find(uint32_t msr, ClassRegisters *found)
{
    const Config *config = &rdt_config;
    State *state = &rdt_state;
    bool amd = config->vendor == VENDOR_AMD;
    const ClassRegisters all[] = {
        { 0xc90, 128, config->l3_bits ? config->closids : 0,
          state->l3_mask, is_l3_mask },
        { 0xd10, 64, config->l2_bits ? config->closids : 0,
          state->l2_mask, is_l2_mask },
        { 0xd50, 64, config->mba && !amd ? config->mba_closids : 0,
          state->throttle, is_delay },
        { 0xc0000200, 64, config->mba && amd ? config->mba_closids : 0,
          state->throttle, is_bandwidth },
    };
    size_t each;

    for (each = 0; each < ARRAY_SIZE(all); each++) {
        if (msr >= all[each].first && msr - all[each].first < all[each].room) {
            *found = all[each];
            return true;
        }
    }
    return false;
}

static RDTAccess write_class(const ClassRegisters *registers, unsigned domain,
                             unsigned closid, uint64_t value)
{
    if (closid >= registers->used || !registers->allows(value)) {
        return RDT_FAULT;
    }
    rdt_account_domain(domain);
    registers->values[domain][closid] = value;
    return RDT_DONE;
}

static RDTAccess associate(CPUX86State *env, uint64_t value)
{
    uint32_t rmid = value, closid = value >> 32;

    if (rmid >= MAX(rdt_config.rmids, 1) || closid >= rdt_config.closids) {
        return RDT_FAULT;
    }
    rdt_account_cpu(env);
    rdt_state.association[rdt_cpu(env)] = value;
    return RDT_DONE;
}

static RDTAccess divide(uint64_t *cdp, uint64_t value)
{
    if (!rdt_config.cdp || value & ~1ull) {
        return RDT_FAULT;
    }
    *cdp = value;
    return RDT_DONE;
}

static RDTAccess assign(unsigned domain, uint64_t value)
{
    unsigned id = extract64(value, 48, 5);

    if (id >= rdt_config.abmc) {
        return RDT_FAULT;
    }
    rdt_state.assignment[domain] = value;
    if (value >> 63) { /* else only chosen, to be read */
        rdt_assign_counter(domain, id, value);
    }
    return RDT_DONE;
}

static RDTAccess write_amd(unsigned domain, uint32_t msr, uint64_t value)
{
    State *state = &rdt_state;

    if (rdt_config.abmc && msr == MSR_AMD_L3_QOS_EXT_CFG) {
        state->assignable[domain] = value & 1;
        memset(state->counter[domain], 0, sizeof(state->counter[domain]));
        return RDT_DONE;
    }
    if (rdt_config.abmc && msr == MSR_AMD_ABMC_CFG) {
        return assign(domain, value);
    }
    if (rdt_config.bmec && (msr & ~1u) == MSR_AMD_QOS_EVT_CFG) {
        state->event_kinds[domain][msr & 1] = value & TRAFFIC_ALL;
        return RDT_DONE;
    }
    return RDT_NOT_OURS;
}

static RDTAccess write_msr(CPUX86State *env, uint32_t msr, uint64_t value)
{
    unsigned domain = rdt_domain(env);
    ClassRegisters registers;

    if (find(msr, &registers)) {
        return write_class(&registers, domain, msr - registers.first, value);
    }
    switch (msr) {
    case MSR_PQR_ASSOC:
        return associate(env, value);
    case MSR_QM_EVTSEL:
        rdt_state.event_select[rdt_cpu(env)] = value;
        return RDT_DONE;
    case MSR_QM_CTR:
        return RDT_FAULT;
    case MSR_L3_QOS_CFG:
        return divide(&rdt_state.l3_cdp[domain], value);
    case MSR_L2_QOS_CFG:
        return divide(&rdt_state.l2_cdp[domain], value);
    default:
        return write_amd(domain, msr, value);
    }
}

static const uint64_t *amd_register(unsigned domain, uint32_t msr)
{
    if (rdt_config.abmc && msr == MSR_AMD_L3_QOS_EXT_CFG) {
        return &rdt_state.assignable[domain];
    }
    if (rdt_config.abmc && msr == MSR_AMD_ABMC_CFG) {
        return &rdt_state.assignment[domain];
    }
    if (rdt_config.bmec && (msr & ~1u) == MSR_AMD_QOS_EVT_CFG) {
        return &rdt_state.event_kinds[domain][msr & 1];
    }
    return NULL;
}

/* Where the register's value is kept, NULL if it is not one of ours. */
static const uint64_t *kept(CPUX86State *env, uint32_t msr)
{
    unsigned domain = rdt_domain(env);
    ClassRegisters registers;

    if (find(msr, &registers)) {
        unsigned closid = msr - registers.first;

        return closid < registers.used ? &registers.values[domain][closid]
                                       : NULL;
    }
    switch (msr) {
    case MSR_PQR_ASSOC:
        return &rdt_state.association[rdt_cpu(env)];
    case MSR_QM_EVTSEL:
        return &rdt_state.event_select[rdt_cpu(env)];
    case MSR_L3_QOS_CFG:
        return &rdt_state.l3_cdp[domain];
    case MSR_L2_QOS_CFG:
        return &rdt_state.l2_cdp[domain];
    default:
        return amd_register(domain, msr);
    }
}

RDTAccess rdt_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value)
{
    QEMU_LOCK_GUARD(&lock);

    if (rdt_config.vendor == VENDOR_NONE) {
        return RDT_NOT_OURS;
    }
    return write_msr(env, msr, value);
}

RDTAccess rdt_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *value)
{
    const uint64_t *place;

    QEMU_LOCK_GUARD(&lock);

    if (rdt_config.vendor == VENDOR_NONE) {
        return RDT_NOT_OURS;
    }
    if (msr == MSR_QM_CTR) {
        *value = rdt_count(env);
        return RDT_DONE;
    }
    place = kept(env, msr);
    if (!place) {
        return RDT_NOT_OURS;
    }
    *value = *place;
    return RDT_DONE;
}
