/*
 * workers PROCESSES THREADS: so many processes with so many threads each, which do nothing. Says the processes' ids in one
 * line when all threads are there, and goes on until its standard input is closed. No process outlives it.
 */
#include <err.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void be_worker(int threads, int ready)
{
	pthread_attr_t small;
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
	for (int n = 1; n < threads; n++)
		if (pthread_create(&thread, &small, idle, 0))
			errx(1, "thread %d of %d cannot be made", n + 1, threads);
	if (write(ready, "", 1) != 1)
		err(1, "pipe");
	idle(0);
}

/* The process, once all its threads are there. */
static pid_t start_worker(int threads)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe(ready))
		err(1, "pipe");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid)
		be_worker(threads, ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		errx(1, "a worker ended before it was ready");
	close(ready[0]);
	return pid;
}

int main(int argc, char **argv)
{
	int processes = argc == 3 ? atoi(argv[1]) : 0;
	pid_t *pids = calloc(processes, sizeof(*pids));
	char byte;

	if (!processes)
		errx(2, "usage: %s PROCESSES THREADS", argv[0]);
	for (int n = 0; n < processes; n++)
		printf("%d ", pids[n] = start_worker(atoi(argv[2])));
	puts("");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	for (int n = 0; n < processes; n++)
		kill(pids[n], SIGKILL);
	while (wait(0) > 0)
		;
	return 0;
}
