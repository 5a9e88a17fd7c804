/*
 * worker THREADS CHILDREN [daemon]: what a service or a container runs.
 *
 * The first thing it does is to look in which resctrl group it is and to take that for its name: `in:batch`, or `in:`
 * for the root group. So anybody can read in /proc/PID/comm where it was when it began. Then it makes children, each
 * process its threads, and all of them stay. A daemon leaves its place to a child, as services of Type=forking do.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void take_name_of_group(void)
{
	char text[256] = "", name[16];
	int file = open("/proc/self/cpu_resctrl_groups", O_RDONLY);

	if (file < 0 || read(file, text, sizeof(text) - 1) < 0 || strncmp(text, "res:", 4) != 0)
		exit(1);
	close(file);
	text[strcspn(text, "\n")] = '\0';
	snprintf(name, sizeof(name), "in:%.12s", text[4] == '/' ? text + 5 : text + 4);
	prctl(PR_SET_NAME, name);
}

static void *stay(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int count, char **arguments)
{
	pthread_t thread;

	take_name_of_group();
	if (count < 3)
		return 2;
	if (count > 3 && fork() != 0)
		return 0;
	for (int child = 0; child < atoi(arguments[2]); child++)
		if (fork() == 0)
			break;
	for (int number = 1; number < atoi(arguments[1]); number++)
		if (pthread_create(&thread, NULL, stay, NULL) != 0)
			return 1;
	stay(NULL);
}
