/*
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Intel RDT and AMD QoS for an emulated x86 processor: what its parts share.
 */
#ifndef I386_RDT_MODEL_H
#define I386_RDT_MODEL_H

#include "cpu.h"

#define MAX_DOMAINS  16  /* an L3 each, one for a socket */
#define MAX_CPUS     64
#define MAX_RMIDS    1024
#define MAX_CLOSIDS  128
#define MAX_COUNTERS 32

/* Events of QM_EVTSEL. */
enum { EVENT_OCCUPANCY = 1, EVENT_TOTAL = 2, EVENT_LOCAL = 3 };

/* Kinds of memory traffic, as AMD's QOS_EVT_CFG numbers them. */
#define TRAFFIC_ALL    0x7f
#define TRAFFIC_LOCAL  0x15 /* reads, non-temporal writes, slow memory: near */
#define TRAFFIC_REMOTE 0x2a /* the same, far */

typedef enum { VENDOR_NONE, VENDOR_INTEL, VENDOR_AMD } Vendor;

/* hardware.py describes the fields: QEMU_RDT_<NAME> in the environment. */
typedef struct Config {
    Vendor vendor;
    unsigned closids;
    unsigned l3_bits;
    uint32_t l3_shareable;
    unsigned l2_bits;
    bool cdp;
    bool sparse_masks;
    bool mba;
    unsigned mba_closids;
    unsigned rmids;
    unsigned events;
    unsigned counter_unit;
    unsigned counter_bits;
    bool bmec;
    unsigned abmc;
    unsigned busy_cpu_mbps;
    int unavailable_rmid; /* -1: none */
    int error_rmid;       /* -1: none */
} Config;

/* One of AMD's assignable counters. */
typedef struct Counter {
    uint32_t enabled;
    uint32_t rmid;
    uint32_t kinds;
    uint32_t unused;
    uint64_t before; /* bytes of that traffic when the counter was set up */
} Counter;

/* Registers and what the model remembers: all of this is in a snapshot. */
typedef struct State {
    uint64_t l3_cdp[MAX_DOMAINS];
    uint64_t l2_cdp[MAX_DOMAINS];
    uint64_t l3_mask[MAX_DOMAINS][MAX_CLOSIDS];
    uint64_t l2_mask[MAX_DOMAINS][MAX_CLOSIDS];
    uint64_t throttle[MAX_DOMAINS][MAX_CLOSIDS];
    uint64_t event_select[MAX_CPUS];
    uint64_t association[MAX_CPUS];
    uint64_t bytes[MAX_DOMAINS][MAX_RMIDS];     /* memory traffic so far */
    uint64_t occupancy[MAX_DOMAINS][MAX_RMIDS]; /* bytes in the L3 */
    uint64_t assignable[MAX_DOMAINS];           /* bit 0: counters are */
    uint64_t assignment[MAX_DOMAINS];           /* as last written */
    uint64_t event_kinds[MAX_DOMAINS][2];       /* of total and local */
    Counter counter[MAX_DOMAINS][MAX_COUNTERS];
} State;

extern Config rdt_config;
extern State rdt_state;

/* AMD's value for a class that is not throttled, in 1/8 GB/s. */
#define AMD_UNTHROTTLED 0x800

unsigned rdt_cpu(CPUX86State *env);
unsigned rdt_domain(CPUX86State *env);

/*
 * Charge what the CPU did since the last call to the group that it is
 * associated with; to be called before that, or what a class may, changes.
 */
void rdt_account_cpu(CPUX86State *env);
void rdt_account_domain(unsigned domain);

/* The account was of threads of another process. */
void rdt_account_anew(void);

/* What QM_CTR says for the CPU's QM_EVTSEL. */
uint64_t rdt_count(CPUX86State *env);

void rdt_assign_counter(unsigned domain, unsigned id, uint64_t assignment);

#endif
