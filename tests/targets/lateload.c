/* SPDX-License-Identifier: MIT
 *
 * A program without Python until a line comes on stdin: then a thread loads the libpython that is named and works in it. With
 * TURNS it does so that often, and unloads it after each turn: it lies elsewhere in the next one. The last turn does not end.
 * lateload LIBPYTHON [TURNS] */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACE = 64 << 20 };

static const char script[] = "import time\n"
			     "def leaf():\n"
			     "    x = 0\n"
			     "    for i in range(3000):\n"
			     "        x += i * i\n"
			     "def call(end):\n"
			     "    while time.perf_counter() < end:\n"
			     "        leaf()\n"
			     "call(time.perf_counter() + %d)\n";

static const char *path;
static int turns = 1;

static void work(int seconds)
{
	void *python = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	char code[sizeof(script) + 16];
	int (*run)(const char *);
	void (*finalize)(void);
	void (*init)(int);

	if (!python)
		exit(1);
	*(void **)&init = dlsym(python, "Py_InitializeEx");
	*(void **)&run = dlsym(python, "PyRun_SimpleString");
	*(void **)&finalize = dlsym(python, "Py_Finalize");
	snprintf(code, sizeof(code), script, seconds);
	init(0);
	run(code);
	finalize();
	dlclose(python);
	/* Where it lay another one can't. */
	mmap(NULL, PLACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *work_in_turns(void *unused)
{
	while (--turns > 0)
		work(1);
	work(300);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 2)
		return 1;
	path = argv[1];
	if (argc > 2)
		turns = atoi(argv[2]);
	alarm(300);
	puts("READY {}");
	fflush(stdout);
	if (getchar() == EOF || pthread_create(&thread, NULL, work_in_turns, NULL))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
