/*
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Intel RDT and AMD QoS for an emulated x86 processor: what QEMU calls.
 *
 * Enough of both for Linux's resctrl: CPUID says what there is, the registers
 * of classes and monitoring keep what is written to them, and the counters
 * follow a model of what the CPUs do. Nothing is partitioned or throttled.
 *
 * Sources: Intel 64 and IA-32 Architectures Software Developer's Manual,
 * volume 3B, "Intel Resource Director Technology Monitoring Features" and
 * "... Allocation Features"; AMD64 Technology Platform Quality of Service
 * Extensions (publication 56375).
 */
#ifndef I386_RDT_H
#define I386_RDT_H

#include "cpu.h"

/* Before the first CPU asks for anything; later calls do nothing. */
void rdt_init(void);

/* Amends what QEMU itself answers for one leaf of CPUID. */
void rdt_cpuid(CPUX86State *env, uint32_t leaf, uint32_t subleaf,
               uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx);

typedef enum RDTAccess {
    RDT_NOT_OURS, /* some other register: QEMU goes on as without us */
    RDT_DONE,
    RDT_FAULT,    /* general protection fault */
} RDTAccess;

RDTAccess rdt_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value);
RDTAccess rdt_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *value);

#endif
