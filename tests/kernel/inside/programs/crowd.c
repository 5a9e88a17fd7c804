/*
 * crowd THREADS FORKERS PAUSE_US: so many threads that stay, the first few of which have a child every now and then,
 * which ends at once.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static useconds_t pause_us;

static void *fork_now_and_then(void *unused)
{
	for (;;) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		if (child > 0)
			waitpid(child, NULL, 0);
		usleep(pause_us);
	}
	return unused;
}

static void *stay(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int count, char **arguments)
{
	int threads = count > 1 ? atoi(arguments[1]) : 1;
	int forkers = count > 2 ? atoi(arguments[2]) : 0;
	pthread_attr_t small;
	pthread_t thread;

	pause_us = count > 3 ? atoi(arguments[3]) : 0;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 * 1024);
	for (int number = 1; number < threads; number++)
		if (pthread_create(&thread, &small, number > threads - 1 - forkers ? fork_now_and_then : stay, NULL))
			exit(1);
	stay(NULL);
}
