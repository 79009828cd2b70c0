/* SPDX-License-Identifier: MIT
 *
 * real_syscall - a test's own syscall(2), fake_syscall(), and libc's.
 */
#ifndef REAL_SYSCALL_H
#define REAL_SYSCALL_H

#include <dlfcn.h>
#include <stdarg.h>

enum { SYSCALL_ARGS = 6 };

/* The test's. */
static long fake_syscall(long nr, const long a[SYSCALL_ARGS]);

/* Instead of the C library's. */
long syscall(long nr, ...)
{
	long a[SYSCALL_ARGS];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < SYSCALL_ARGS; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	return fake_syscall(nr, a);
}

static inline long real_syscall(long nr, const long a[SYSCALL_ARGS])
{
	long (*f)(long, ...) = dlsym(RTLD_NEXT, "syscall");

	return f(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif
