/* SPDX-License-Identifier: MIT
 *
 * A program that maps CPython long after its start.
 * latepython LIBPYTHON SCRIPT: spins in without_python() until a line comes, then loads the
 * library and runs the script. */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>

__attribute__((noinline, visibility("default"))) void without_python(void);
void without_python(void)
{
	struct pollfd fd = { .fd = 0, .events = POLLIN };

	while (poll(&fd, 1, 0) == 0)
		for (long left = 5000000; left; left--)
			__asm__ volatile("");
}

int main(int argc, char **argv)
{
	void (*begin)(int);
	int (*run)(const char *);
	void *lib;

	if (argc < 3)
		return 2;
	puts("READY {}");
	fflush(stdout);
	without_python();
	lib = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	begin = (void (*)(int))dlsym(lib, "Py_InitializeEx");
	run = (int (*)(const char *))dlsym(lib, "PyRun_SimpleString");
	begin(0);
	return run(argv[2]);
}
