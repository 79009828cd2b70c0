/* SPDX-License-Identifier: MIT
 *
 * thread_names - which of the names that are told of a thread outputs get. Pure; the
 * resolver's.
 *
 * What the program calls a thread counts more than what the kernel does. It is read a while
 * after the thread began, so it is dated back to the look before: if the thread began
 * meanwhile, its name is given once more behind its fork.
 */
#ifndef THREAD_NAMES_H
#define THREAD_NAMES_H

#include "base/idmap.h"
#include "sample/sample.h"

enum { THREAD_NAMES_RECENT = 64, THREAD_NAMES_BYTES = 128 };

struct thread_names {
	struct idmap named; /* threads that the program has named */
	struct {
		pid_t pid, tid;
		uint64_t from, until;
		char name[THREAD_NAMES_BYTES];
	} recent[THREAD_NAMES_RECENT];
	uint32_t n; /* names so far; the newest are kept */
};

void thread_names_deinit(struct thread_names *t);

/* Shall outputs get @s? Records come in time order. If one is to be given behind it, that is
 * *@then, which borrows from @t until the next call, and *@more is true. A new thread or
 * process has its parent's name, but not what the program calls the thread that made it: in
 * its fork the parent's process stands for such a thread. */
bool thread_names_side(struct thread_names *t, struct side *s, struct side *then, bool *more);

#endif
