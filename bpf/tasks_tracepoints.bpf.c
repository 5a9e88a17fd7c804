// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What tasks.bpf.c does, for kernels without BTF: the fields are those that tracefs describes, which are fewer. It cannot
 * tell which cgroup a task was cloned into or is in, nor that a fork raced with a move.
 */
#include <agent/fill.h>

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
	int zero = 0;
	struct record *record = scratch.lookup(&zero);

	if (!record)
		return 0;
	fill_header(&record->header, kind, cgroup_id, tid);
	send(record, fill_path(record, path));
	return 0;
}

static inline int send_of_task(u32 kind, u64 cgroup_id, u32 tid)
{
	struct header header;

	fill_header(&header, kind, cgroup_id, tid);
	send(&header, sizeof(header));
	return 0;
}

static inline bool watches_execs(void)
{
	int index = WATCH_EXECS;
	u64 *watched = words.lookup(&index);

	return watched && *watched;
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
	return send_of_task(CLONED_INTO, 0, args->pid);
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
	return watches_execs() ? send_of_task(EXECED, 0, args->pid) : 0;
}
