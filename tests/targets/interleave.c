/* SPDX-License-Identifier: MIT
 *
 * interleave - the C half of interleave.py: notes each of its own functions and each Python
 * function that says so as they are entered and left. Needs no CPython headers.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern void *PyObject_CallNoArgs(void *f);

static const char *path[256];
static int depth;
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
