/*
 * forkers THREADS: threads that fork all the time, each keeping its last eight children, until SIGUSR1. After that
 * nothing is born and nothing ends any more.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT 8

static volatile sig_atomic_t done;

static void finish(int signal)
{
	done = signal;
}

static void *fork_all_the_time(void *unused)
{
	pid_t children[KEPT] = { 0 };

	for (int next = 0; !done; next = (next + 1) % KEPT) {
		pid_t child = fork();

		if (child == 0)
			for (;;)
				pause();
		if (children[next] > 0) {
			kill(children[next], SIGKILL);
			waitpid(children[next], NULL, 0);
		}
		children[next] = child;
	}
	for (;;)
		pause();
	return unused;
}

int main(int count, char **arguments)
{
	pthread_t thread;

	signal(SIGUSR1, finish);
	for (int number = 1; count == 2 && number < atoi(arguments[1]); number++)
		if (pthread_create(&thread, NULL, fork_all_the_time, NULL) != 0)
			return 1;
	fork_all_the_time(NULL);
}
