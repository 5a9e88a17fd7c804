/*
 * clone_storm CGROUP CHILDREN: starts that many children right in a cgroup (clone3 with CLONE_INTO_CGROUP), as systemd
 * and crun start things.
 *
 * Each child forks eight more and makes a thread as fast as it can; of those eight every second has a child and a thread
 * of its own, and the others end at once. What is left of a child are 1 + 4 + 4 processes of two threads each.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

/* struct clone_args of linux/sched.h, which older headers have without `cgroup`. */
struct arguments {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static void *stay(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void stay_with_a_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, stay, NULL) != 0)
		_exit(1);
	stay(NULL);
}

static void storm(void)
{
	for (int number = 0; number < 8; number++) {
		if (fork() != 0)
			continue;
		if (number % 2)
			_exit(0);
		fork();
		stay_with_a_thread();
	}
	stay_with_a_thread();
}

int main(int count, char **arguments)
{
	struct arguments clone = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	int cgroup = count == 3 ? open(arguments[1], O_RDONLY | O_DIRECTORY) : -1;

	if (cgroup < 0)
		return 2;
	clone.cgroup = cgroup;
	signal(SIGCHLD, SIG_IGN);
	for (int child = 0; child < atoi(arguments[2]); child++) {
		long pid = syscall(SYS_clone3, &clone, sizeof(clone));

		if (pid < 0)
			return 1;
		if (pid == 0)
			storm();
	}
	stay(NULL);
}
