/*
 * forkers THREADS CHILDREN: once it has read something, each of its threads forks that many children as fast as it can.
 * All of them stay.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int children;

static void *fork_them(void *unused)
{
	for (int number = 0; number < children; number++)
		if (fork() == 0)
			break;
	for (;;)
		pause();
	return unused;
}

int main(int count, char **arguments)
{
	pthread_t thread;
	char go;

	if (count != 3 || read(STDIN_FILENO, &go, 1) != 1)
		return 2;
	children = atoi(arguments[2]);
	for (int number = 1; number < atoi(arguments[1]); number++)
		if (pthread_create(&thread, NULL, fork_them, NULL) != 0)
			return 1;
	fork_them(NULL);
}
