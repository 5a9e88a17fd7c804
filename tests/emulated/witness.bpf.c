// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What tests hold against the agent: when tasks are born and programs executed, and when each of the agent's write(2)
 * calls returned and what it wrote. The kernel's clock for all, and nothing that the agent says of itself.
 */
#define TEXT 1024 /* a power of two */
#define SYS_write 1 /* x86-64 */

enum { EXEC = 1, WRITE = 2, BIRTH = 3 };

struct witnessed {
	u64 time_ns;
	s64 result; /* of the write; the process of the exec; the thread that is born */
	u32 kind;
	u32 length;
	char text[TEXT]; /* what was written; the program's path */
};

BPF_RINGBUF_OUTPUT(events, 1024);
BPF_HASH(writing, u32, struct witnessed, 64);
BPF_PERCPU_ARRAY(scratch, struct witnessed, 1); /* too long for the stack */

#define READ(to, base, offset) bpf_probe_read_kernel(&(to), sizeof(to), (void *)(base) + (offset))

RAW_TRACEPOINT_PROBE(sys_enter)
{
	u64 id = bpf_get_current_pid_tgid();
	struct witnessed *write;
	void *buffer = 0;
	u64 length = 0;
	u32 tid = id;
	int zero = 0;

	if (id >> 32 != AGENT || ctx->args[1] != SYS_write)
		return 0;
	write = scratch.lookup(&zero);
	if (!write)
		return 0;
	READ(buffer, ctx->args[0], PT_REGS_SI);
	READ(length, ctx->args[0], PT_REGS_DX);
	write->kind = WRITE;
	write->length = length;
	bpf_probe_read_user(&write->text, length & (TEXT - 1), buffer);
	writing.update(&tid, write);
	return 0;
}

RAW_TRACEPOINT_PROBE(sys_exit)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct witnessed *write = writing.lookup(&tid);

	if (!write)
		return 0;
	write->time_ns = bpf_ktime_get_ns();
	write->result = ctx->args[1];
	events.ringbuf_output(write, sizeof(*write), 0);
	writing.delete(&tid);
	return 0;
}

RAW_TRACEPOINT_PROBE(task_newtask)
{
	struct born {
		u64 time_ns;
		s64 tid;
		u32 kind;
		u32 length;
	} born = {.time_ns = bpf_ktime_get_ns(), .kind = BIRTH};
	u32 tid = 0;

	READ(tid, ctx->args[0], TASK_PID);
	born.tid = tid;
	events.ringbuf_output(&born, sizeof(born), 0);
	return 0;
}

RAW_TRACEPOINT_PROBE(sched_process_exec)
{
	struct witnessed *exec = events.ringbuf_reserve(sizeof(struct witnessed));
	void *program = (void *)ctx->args[2];
	char *filename = 0;

	if (!exec)
		return 0;
	exec->time_ns = bpf_ktime_get_ns();
	exec->result = bpf_get_current_pid_tgid() >> 32;
	exec->kind = EXEC;
	READ(filename, program, BPRM_FILENAME);
	exec->length = bpf_probe_read_kernel_str(&exec->text, TEXT, filename);
	events.ringbuf_submit(exec, 0);
	return 0;
}
