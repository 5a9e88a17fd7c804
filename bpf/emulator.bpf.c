// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which emulated group each thread is in: inherited from the thread that creates it, as the kernel's CLOSID and RMID are.
 *
 * agent/emulator/bpf_membership.py compiles this with the offsets of the running kernel's fields and writes the map when
 * it moves a thread. A thread without an entry is in the root group. An entry speaks of the thread that has the id now
 * if it was written after that thread was born.
 */

/* bpf_membership.py reads and writes these; keep both alike. */
struct member {
	u32 group; /* by the number that agent/emulator/groups.py gives it; 0 is the root group */
	u32 unused;
	u64 written_ns; /* CLOCK_MONOTONIC, as task_struct.start_time */
	u64 exited;     /* the task that had the entry when it exited; 0 if none has since the entry was written */
};

BPF_F_TABLE("hash", u32, struct member, members, MEMBERS, BPF_F_NO_PREALLOC);

#define READ(to, base, offset) bpf_probe_read_kernel(&(to), sizeof(to), (void *)(base) + (offset))

static inline u32 tid_of(void *task)
{
	u32 tid = 0;

	READ(tid, task, TASK_PID);
	return tid;
}

static inline void put(u32 tid, u32 group)
{
	struct member entry = {.group = group, .written_ns = bpf_ktime_get_ns()};

	members.update(&tid, &entry);
}

RAW_TRACEPOINT_PROBE(task_newtask)
{
	void *child = (void *)ctx->args[0];
	u32 creator = bpf_get_current_pid_tgid();
	u32 tid = tid_of(child);
	struct member *entry = members.lookup(&tid);
	u64 born = 0;

	READ(born, child, TASK_START_TIME);
	/* The child could be seen, and moved, before this tracepoint. */
	if (entry && entry->written_ns >= born)
		return 0;
	if (entry)
		members.delete(&tid);
	entry = members.lookup(&creator);
	if (entry && entry->group) {
		struct member inherited = {.group = entry->group, .written_ns = bpf_ktime_get_ns()};

		/* Does nothing where somebody was quicker. */
		members.insert(&tid, &inherited);
	}
	return 0;
}

/*
 * A thread that execs and is not the leader takes the leader's id, and keeps its own group. The leader has exited by
 * then; an entry that was written later is about the thread that has its id now.
 */
RAW_TRACEPOINT_PROBE(sched_process_exec)
{
	u32 tid = bpf_get_current_pid_tgid();
	u32 former = ctx->args[1];
	struct member *own, *kept;

	if (former == tid)
		return 0;
	own = members.lookup(&tid);
	if (!own || own->exited) {
		kept = members.lookup(&former);
		put(tid, kept ? kept->group : 0);
	}
	members.delete(&former);
	return 0;
}

RAW_TRACEPOINT_PROBE(sched_process_exit)
{
	void *task = (void *)ctx->args[0];
	u32 tid = tid_of(task);
	struct member *entry = members.lookup(&tid);

	if (entry)
		entry->exited = (u64)task;
	return 0;
}

/* Zombies stay where they are until they are reaped. */
RAW_TRACEPOINT_PROBE(sched_process_free)
{
	void *task = (void *)ctx->args[0];
	u32 tid = tid_of(task);
	struct member *entry = members.lookup(&tid);

	if (entry && entry->exited == (u64)task)
		members.delete(&tid);
	return 0;
}
