/* SPDX-License-Identifier: MIT
 *
 * interleave - the C half of interleave.py: notes each of its own functions and each Python
 * function that says so as they are entered and left. Needs no CPython headers.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern void *PyObject_CallNoArgs(void *f);

static const char *volatile path[256]; /* a signal's handler reads it */
static volatile int depth;
static const char *const names[] = {
#define FIVE(n, a, b, c, d, e) "p_" #n #a, "p_" #n #b, "p_" #n #c, "p_" #n #d, "p_" #n #e
#define TEN(n) FIVE(n, 0, 1, 2, 3, 4), FIVE(n, 5, 6, 7, 8, 9)
	TEN(0), TEN(1), "p_spin"
};

void x_push(int function)
{
	path[depth++] = names[function];
}

void x_pop(void)
{
	depth--;
}

/* The path taken to here, as a line; in one write, for threads must not mix. */
static void tell(const char *last)
{
	char line[4096];
	size_t n = 0;

	for (int i = 0; i < depth; i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s ", path[i]);
	n += (size_t)snprintf(line + n, sizeof(line) - n, "%s\n", last);
	if (write(1, line, n) < 0)
		depth = 0;
}

void x_tell(void)
{
	tell("");
}

/* C calls Python. */
void *x_call(void *f)
{
	void *ret;

	path[depth++] = "x_call";
	ret = PyObject_CallNoArgs(f);
	depth--;
	return ret;
}

/* The same with a large frame whose middle is never touched. */
void *x_hole(void *f)
{
	char hole[32768];
	void *ret;

	path[depth++] = "x_hole";
	__asm__ volatile("" : : "r"(hole) : "memory");
	ret = PyObject_CallNoArgs(f);
	depth--;
	return ret;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned x_work(unsigned v)
{
	for (int i = 0; i < 100000; i++)
		v = v * 1664525u + 1013904223u;
	return v;
}

unsigned x_spin(double seconds)
{
	double end = now() + seconds;
	unsigned v = 1;

	tell("x_spin");
	while (now() < end)
		v = x_work(v);
	return v;
}

/* On a stack for signals, in the midst of whatever the thread does. */
unsigned x_handler_spin(int signal)
{
	double end = now() + 0.02;
	unsigned v = (unsigned)signal;

	tell("x_handler_spin");
	while (now() < end)
		v = x_work(v);
	return v;
}

/* SIGUSR1 at once, or SIGALRM soon. */
int x_signal(int soon)
{
	static char stack[64 << 10];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = (void (*)(int))x_handler_spin,
				    .sa_flags = SA_ONSTACK | SA_RESTART };
	struct itimerval timer = { .it_value.tv_usec = 5000 };
	int r = 0;

	sigaltstack(&other, NULL);
	sigaction(soon ? SIGALRM : SIGUSR1, &action, NULL);
	path[depth++] = "x_signal"; /* on a busy machine the time is over before this ends */
	r = soon ? setitimer(ITIMER_REAL, &timer, NULL) : raise(SIGUSR1);
	depth--;
	return r;
}
