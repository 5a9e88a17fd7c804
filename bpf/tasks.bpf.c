// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Cgroups that come and go, tasks that enter them, and programs that start, of one cgroup hierarchy.
 *
 * agent/events/kernel.py compiles this with the offsets of the running kernel's fields (TASK_PID, ...), the hierarchy to
 * follow (HIERARCHY_ID; 0 is cgroup v2) and the size of the ring (RING_PAGES).
 */
#include <agent/fill.h>

#define READ(to, base, offset) bpf_probe_read_kernel(&(to), sizeof(to), (void *)(base) + (offset))

static inline bool followed(void *cgroup)
{
	void *root = 0;
	int id = -1;

	READ(root, cgroup, CGROUP_ROOT);
	READ(id, root, ROOT_HIERARCHY_ID);
	return id == HIERARCHY_ID;
}

static inline u64 cgroup_id(void *cgroup)
{
	void *node = 0;
	u64 id = 0;

	READ(node, cgroup, CGROUP_KN);
	READ(id, node, KERNFS_ID);
	return id;
}

static inline u64 cgroup_id_of_task(void *task)
{
#if HIERARCHY_ID == 0
	void *set = 0, *cgroup = 0;

	READ(set, task, TASK_CGROUPS);
	READ(cgroup, set, CSS_SET_DFL_CGRP);
	return cgroup_id(cgroup);
#else
	return 0;
#endif
}

static inline u32 tid(void *task)
{
	u32 id = 0;

	READ(id, task, TASK_PID);
	return id;
}

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

static inline int send_of_cgroup(u32 kind, void *cgroup, void *path, void *task)
{
	if (!followed(cgroup))
		return 0;
	return send_with_path(kind, cgroup_id(cgroup), path, task ? tid(task) : 0);
}

RAW_TRACEPOINT_PROBE(cgroup_mkdir)
{
	return send_of_cgroup(CGROUP_MADE, (void *)ctx->args[0], (void *)ctx->args[1], 0);
}

RAW_TRACEPOINT_PROBE(cgroup_rmdir)
{
	return send_of_cgroup(CGROUP_REMOVED, (void *)ctx->args[0], (void *)ctx->args[1], 0);
}

RAW_TRACEPOINT_PROBE(cgroup_attach_task)
{
	return send_of_cgroup(ATTACHED, (void *)ctx->args[0], (void *)ctx->args[1], (void *)ctx->args[2]);
}

#if HIERARCHY_ID != 0
RAW_TRACEPOINT_PROBE(cgroup_rename)
{
	return send_of_cgroup(CGROUP_RENAMED, (void *)ctx->args[0], (void *)ctx->args[1], 0);
}

/* The kernel itself moves tasks out of a v1 cpuset that has lost its last CPU. */
RAW_TRACEPOINT_PROBE(cgroup_transfer_tasks)
{
	return send_of_cgroup(ATTACHED, (void *)ctx->args[0], (void *)ctx->args[1], (void *)ctx->args[2]);
}
#endif

#ifdef TASK_CLOSID
/*
 * fork copies the resctrl ids early, and the child cannot be found before it is on the task list. If its creator was
 * moved in between, the child has the old ids and nobody has seen it.
 */
static inline bool raced(void *child)
{
	void *creator = (void *)bpf_get_current_task();
	u32 child_closid = 0, child_rmid = 0, closid = 0, rmid = 0;

	READ(child_closid, child, TASK_CLOSID);
	READ(child_rmid, child, TASK_RMID);
	READ(closid, creator, TASK_CLOSID);
	READ(rmid, creator, TASK_RMID);
	return child_closid != closid || child_rmid != rmid;
}
#endif

#if HIERARCHY_ID == 0 || defined(TASK_CLOSID)
RAW_TRACEPOINT_PROBE(task_newtask)
{
	void *child = (void *)ctx->args[0];

#if HIERARCHY_ID == 0
	/* Such a child enters its cgroup without an attach event. */
	if (ctx->args[1] & CLONE_INTO_CGROUP)
		return send_of_task(CLONED_INTO, cgroup_id_of_task(child), tid(child));
#endif
#ifdef TASK_CLOSID
	if (raced(child))
		return send_of_task(FORK_RACED, cgroup_id_of_task(child), tid(child));
#endif
	return 0;
}
#endif

RAW_TRACEPOINT_PROBE(sched_process_exec)
{
	void *task = (void *)ctx->args[0];

	return watches_execs() ? send_of_task(EXECED, cgroup_id_of_task(task), tid(task)) : 0;
}
