/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps of the programs that send records, and filling in what is sent. Each program uses the maps by itself: bcc
 * rewrites such uses in a program's own text only, not in what it includes.
 */
#pragma once

#include <agent/record.h>

BPF_RINGBUF_OUTPUT(events, RING_PAGES);
BPF_F_TABLE("array", int, u64, words, WORDS, BPF_F_MMAPABLE);
/* A record with a path is too long for the stack. All that use this run under the kernel's trace_cgroup_path_lock. */
BPF_PERCPU_ARRAY(scratch, struct record, 1);

static inline void fill_header(struct header *header, u32 kind, u64 cgroup_id, u32 tid)
{
	header->time_ns = bpf_ktime_get_ns();
	header->cgroup_id = cgroup_id;
	header->tid = tid;
	header->kind = kind;
}

/* How many bytes of the record are to be sent. */
static inline u64 fill_path(struct record *record, void *path)
{
	int length = bpf_probe_read_kernel_str(record->path, PATH_BYTES, path);

	if (length < 0)
		length = 0;
	/* The mask is what every verifier understands. It leaves no path of one that fills the scratch: cut short. */
	return sizeof(struct header) + (length & (PATH_BYTES - 1));
}
