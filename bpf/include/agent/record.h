/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs send to agent/events/kernel.py, which takes it apart. */
#pragma once

enum kind {
	CGROUP_MADE = 1,
	CGROUP_REMOVED = 2,
	CGROUP_RENAMED = 3,
	ATTACHED = 4,
	CLONED_INTO = 5,
	FORK_RACED = 6,
	EXECED = 7,
};

struct header {
	u64 time_ns;
	u64 cgroup_id; /* 0: not known to the program */
	u32 tid;       /* 0: the record is of no task */
	u32 kind;
};

/* A power of two. The kernel gives its tracepoints no path longer than 1023 bytes; this leaves it room to grow. */
#define PATH_BYTES 4096

/* As much of the path is sent as there is, with its NUL. Records without a path are a header only. */
struct record {
	struct header header;
	char path[PATH_BYTES];
};

/* Words of the array that the daemon has mapped: it needs no bpf(2) to read the one and write the other. */
enum word {
	LOST,
	WATCH_EXECS,
	WORDS,
};

#define CLONE_INTO_CGROUP 0x200000000ULL
