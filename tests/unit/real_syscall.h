/* SPDX-License-Identifier: MIT
 *
 * real_syscall - what a test's own syscall(2) has in common: its arguments, and libc's.
 */
#ifndef REAL_SYSCALL_H
#define REAL_SYSCALL_H

#include <dlfcn.h>
#include <stdarg.h>

enum { SYSCALL_ARGS = 6 };

static inline void syscall_args(va_list ap, long a[SYSCALL_ARGS])
{
	for (int i = 0; i < SYSCALL_ARGS; i++)
		a[i] = va_arg(ap, long);
}

static inline long real_syscall(long nr, const long a[SYSCALL_ARGS])
{
	long (*f)(long, ...) = dlsym(RTLD_NEXT, "syscall");

	return f(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif
