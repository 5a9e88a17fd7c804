// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What placing costs at the least, for the agent to be held against: the same ring of events, the same readings of a
 * cgroup's threads, the same writes to a group's tasks, and nothing else. No rules, no second group, no log.
 *
 * baseline RING CGROUP-MOUNT THREADS-FILE PREFIX TASKS: RING is the descriptor of the ring of bpf/tasks.bpf.c; threads of
 * cgroups whose path begins with PREFIX go to the file TASKS. Says "ready" and goes on until it is killed.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
#include "../../bpf/include/agent/record.h"

/* Of bpf/libbpf.h, whose package is not needed for the few calls that are made. */
struct ring_buffer *ring_buffer__new(int, int (*)(void *, void *, size_t), void *, const void *);
int ring_buffer__poll(struct ring_buffer *, int);

#define PID_MAX_LIMIT (1 << 22)
#define LONGEST_WRITE 4096

static const char *mount, *threads_file, *prefix;
static int tasks;

static char listing[1 << 16];

static int read_threads(const char *path)
{
	char name[PATH_BYTES + 256];
	ssize_t length = 0, more;
	int file;

	snprintf(name, sizeof(name), "%s%s/%s", mount, path, threads_file);
	file = open(name, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -1;
	while ((more = read(file, listing + length, sizeof(listing) - 1 - length)) > 0)
		length += more;
	close(file);
	listing[length] = 0;
	return more;
}

static void put(const char *tids, size_t length)
{
	if (length && write(tasks, tids, length) < 0)
		warn("%.*s", (int)length, tids);
}

/* Writes those threads of the listing that this pass over the cgroup has not written yet; how many there were. */
static int place_unseen(u32 pass)
{
	static u32 seen_in[PID_MAX_LIMIT];
	char list[LONGEST_WRITE];
	size_t length = 0;
	int number = 0;

	for (char *next = listing; *next; next = strchr(next, '\n') + 1) {
		u32 tid = strtoul(next, 0, 10);

		if (seen_in[tid] == pass)
			continue;
		seen_in[tid] = pass;
		number++;
		if (length > sizeof(list) - sizeof(",4194304")) {
			put(list, length);
			length = 0;
		}
		length += sprintf(list + length, length ? ",%u" : "%u", tid);
	}
	put(list, length);
	return number;
}

static int on_record(void *unused, void *bytes, size_t size)
{
	static u32 pass;
	const struct record *record = bytes;

	if (record->header.kind != ATTACHED || strncmp(record->path, prefix, strlen(prefix)))
		return 0;
	pass++;
	while (!read_threads(record->path) && place_unseen(pass))
		;
	return 0;
}

int main(int argc, char **argv)
{
	struct ring_buffer *ring;

	if (argc != 6)
		errx(2, "usage: %s RING CGROUP-MOUNT THREADS-FILE PREFIX TASKS", argv[0]);
	mount = argv[2];
	threads_file = argv[3];
	prefix = argv[4];
	tasks = open(argv[5], O_WRONLY);
	if (tasks < 0)
		err(1, "%s", argv[5]);
	ring = ring_buffer__new(atoi(argv[1]), on_record, 0, 0);
	if (!ring)
		err(1, "ring buffer of map descriptor %s", argv[1]);
	puts("ready");
	fflush(stdout);
	while (ring_buffer__poll(ring, -1) >= 0)
		;
	err(1, "reading the ring buffer");
}
