/* SPDX-License-Identifier: MIT
 *
 * A program that embeds Python and does to its thread states what servers do: forks in C, so
 * that nobody tells the child's Python that it is one, or hands a state to another thread.
 * Ends with its parent, at the latest after LIFE seconds.
 *
 *   embedfork chain    a child's child runs Python
 *   embedfork thread   the child of a thread that is not the first does
 *   embedfork handed   the first thread's state is run by another one, the first runs C
 *   embedfork stale    in the child a thread runs C alone, on the stack of a thread of the
 *                      parent's that was deep in Python
 *
 * Says READY with the truth, then CHILD and the process to look at. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIFE = 300, HOLE = 64 << 10 };

static const char script[] = "import gtspin, sys, threading, time\n"
			     "def work():\n"
			     "    gtspin.spin_01()\n"
			     "def serve():\n"
			     "    while True: work()\n"
			     "def wait():\n"
			     "    time.sleep(300)\n"
			     "gtspin.calibrate(50)\n";

__attribute__((noinline, visibility("default"))) void outside(void);
void outside(void)
{
	for (long left = 2000000; left; left--)
		__asm__ volatile("");
}

static void call(const char *text)
{
	if (PyRun_SimpleString(text))
		_exit(1);
}

static pid_t forked(void)
{
	pid_t pid = fork();

	if (pid < 0)
		_exit(1);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(LIFE);
	}
	return pid;
}

static void tell(void)
{
	printf("CHILD %d\n", (int)getpid());
	fflush(stdout);
}

static void *forks_and_waits(void *unused)
{
	PyGILState_STATE state = PyGILState_Ensure();
	pid_t pid = forked();

	(void)unused;
	if (!pid) {
		tell();
		call("serve()");
	}
	waitpid(pid, NULL, 0);
	PyGILState_Release(state);
	return NULL;
}

static void *runs(void *state)
{
	PyEval_RestoreThread(state);
	call("serve()");
	return NULL;
}

static void *waits(void *unused)
{
	PyGILState_Ensure();
	call("wait()");
	return unused;
}

/* What lies in the hole stays as it was. */
static void *is_outside(void *unused)
{
	volatile char hole[HOLE];

	for (hole[0] = 0;;)
		outside();
	return unused;
}

static pthread_t thread(void *(*run)(void *), void *arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, run, arg))
		_exit(1);
	return t;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	alarm(LIFE);
	Py_InitializeEx(0);
	call(script);
	puts("READY {\"truth\": {\"spin_01\": [[\"work\", 3], [\"serve\", 5], [\"<module>\", 1]]}}");
	fflush(stdout);
	if (!strcmp(how, "chain")) {
		pid_t pid = forked();

		if (!pid && !(pid = forked())) {
			tell();
			call("serve()");
		}
		waitpid(pid, NULL, 0);
	} else if (!strcmp(how, "thread")) {
		PyThreadState *state = PyEval_SaveThread();

		pthread_join(thread(forks_and_waits, NULL), NULL);
		PyEval_RestoreThread(state);
	} else if (!strcmp(how, "handed")) {
		thread(runs, PyEval_SaveThread());
		tell();
		is_outside(NULL);
	} else if (!strcmp(how, "stale")) {
		PyThreadState *state = PyEval_SaveThread();
		pid_t pid;

		thread(waits, NULL);
		usleep(300000);
		PyEval_RestoreThread(state);
		pid = forked();
		if (!pid) {
			thread(is_outside, NULL);
			tell();
			is_outside(NULL);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}
