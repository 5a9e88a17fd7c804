// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What tasks.bpf.c does, for kernels without BTF: the fields are those that tracefs describes, which are fewer. It cannot
 * tell which cgroup a task was cloned into or is in, nor that a fork raced with a move.
 */
#include <agent/record.h>

BPF_RINGBUF_OUTPUT(events, RING_PAGES);
BPF_F_TABLE("array", int, u64, words, WORDS, BPF_F_MMAPABLE);
/* A record with a path is too long for the stack. All that use this run under the kernel's trace_cgroup_path_lock. */
BPF_PERCPU_ARRAY(scratch, struct record, 1);

static inline void send(void *record, u64 size)
{
	int index = LOST;
	u64 *lost;

	if (!events.ringbuf_output(record, size, 0))
		return;
	lost = words.lookup(&index);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

static inline int send_with_path(u32 kind, u64 cgroup_id, void *path, u32 tid)
{
	struct record *record;
	int zero = 0;
	int length;

	record = scratch.lookup(&zero);
	if (!record)
		return 0;
	record->header.time_ns = bpf_ktime_get_ns();
	record->header.cgroup_id = cgroup_id;
	record->header.tid = tid;
	record->header.kind = kind;
	length = bpf_probe_read_kernel_str(record->path, PATH_BYTES, path);
	if (length < 0)
		length = 0;
	/* The mask is what every verifier understands. It leaves no path of one that fills the scratch: cut short. */
	send(record, sizeof(struct header) + (length & (PATH_BYTES - 1)));
	return 0;
}

static inline int send_of_task(u32 kind, u32 tid)
{
	struct header header = {
		.time_ns = bpf_ktime_get_ns(),
		.tid = tid,
		.kind = kind,
	};

	send(&header, sizeof(header));
	return 0;
}

/* Where a text field lies in the tracepoint's record; the upper half of the word is its length. */
#define TEXT(field) ((void *)args + (args->data_loc_##field & 0xffff))

TRACEPOINT_PROBE(cgroup, cgroup_mkdir)
{
	if (args->root != HIERARCHY_ID)
		return 0;
	return send_with_path(CGROUP_MADE, args->id, TEXT(path), 0);
}

TRACEPOINT_PROBE(cgroup, cgroup_rmdir)
{
	if (args->root != HIERARCHY_ID)
		return 0;
	return send_with_path(CGROUP_REMOVED, args->id, TEXT(path), 0);
}

TRACEPOINT_PROBE(cgroup, cgroup_attach_task)
{
	if (args->dst_root != HIERARCHY_ID)
		return 0;
	return send_with_path(ATTACHED, args->dst_id, TEXT(dst_path), args->pid);
}

#if HIERARCHY_ID == 0
/* Such a child enters its cgroup without an attach event. */
TRACEPOINT_PROBE(task, task_newtask)
{
	if (!(args->clone_flags & CLONE_INTO_CGROUP))
		return 0;
	return send_of_task(CLONED_INTO, args->pid);
}
#else
TRACEPOINT_PROBE(cgroup, cgroup_rename)
{
	if (args->root != HIERARCHY_ID)
		return 0;
	return send_with_path(CGROUP_RENAMED, args->id, TEXT(path), 0);
}

/* The kernel itself moves tasks out of a v1 cpuset that has lost its last CPU. */
TRACEPOINT_PROBE(cgroup, cgroup_transfer_tasks)
{
	if (args->dst_root != HIERARCHY_ID)
		return 0;
	return send_with_path(ATTACHED, args->dst_id, TEXT(dst_path), args->pid);
}
#endif

TRACEPOINT_PROBE(sched, sched_process_exec)
{
	int index = WATCH_EXECS;
	u64 *watched = words.lookup(&index);

	if (!watched || !*watched)
		return 0;
	return send_of_task(EXECED, args->pid);
}
