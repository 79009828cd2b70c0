/* SPDX-License-Identifier: MIT
 *
 * A program without Python until a line comes on stdin: then a thread loads the libpython that is named and works in it.
 * lateload LIBPYTHON */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char script[] = "def leaf():\n"
			     "    x = 0\n"
			     "    for i in range(3000):\n"
			     "        x += i * i\n"
			     "def call():\n"
			     "    while True:\n"
			     "        leaf()\n"
			     "call()\n";

static void *work(void *path)
{
	void *python = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void (*init)(int);
	int (*run)(const char *);

	if (!python)
		exit(1);
	*(void **)&init = dlsym(python, "Py_InitializeEx");
	*(void **)&run = dlsym(python, "PyRun_SimpleString");
	init(0);
	run(script);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 2)
		return 1;
	alarm(300);
	puts("READY {}");
	fflush(stdout);
	if (getchar() == EOF || pthread_create(&thread, NULL, work, argv[1]))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
