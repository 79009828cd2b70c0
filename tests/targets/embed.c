/* SPDX-License-Identifier: MIT
 *
 * A program that starts and ends Python again and again, and spins in between without it.
 * embed SECONDS */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <time.h>

static const char script[] = "import gtspin\n"
			     "def work():\n"
			     "    gtspin.spin_01()\n"
			     "def many():\n"
			     "    for _ in range(2000): work()\n"
			     "gtspin.calibrate(10)\n"
			     "many()\n";

__attribute__((noinline, visibility("default"))) void outside(void);
void outside(void)
{
	for (long left = 20000000; left; left--)
		__asm__ volatile("");
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);

	puts("READY {}");
	fflush(stdout);
	do {
		Py_InitializeEx(0);
		if (PyRun_SimpleString(script) || Py_FinalizeEx())
			return 1;
		outside();
	} while (time(NULL) < end);
	return 0;
}
