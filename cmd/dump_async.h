/* SPDX-License-Identifier: MIT
 *
 * dump_async - dump --async: the asyncio tasks of a process, each with the frames of its await
 * chain, or of the thread that runs it.
 */
#ifndef CMD_DUMP_ASYNC_H
#define CMD_DUMP_ASYNC_H

#include "python/pytasks.h"
#include "stacks/assemble.h"

struct pyproc;

/* One task. Borrowed. */
struct dump_task {
	const char *name;      /* NULL: it has none, or it can't be had */
	const char *coroutine; /* NULL: it can't be had */
	enum pytask_state state;
	struct stack stack; /* innermost first; none if it is done */
};

/* Who asks, and whom to ask. */
struct dump_async {
	const struct pyproc *process;
	struct rmem *m;
	const struct pystack_target *target;
	struct pystack *stacks;
	struct assembler *assembler;
	/* Read the stack of the process's @i'th thread by @stacks; end is PYSTACK_OK if it was
	 * so at one moment. False: there are no more threads. */
	bool (*thread)(void *arg, size_t i, struct pystack_result *ret);
	/* Called for each task, ordered by their names. */
	void (*found)(void *arg, const struct dump_task *task);
	void *arg;
};

/* What came of it. */
struct dump_async_end {
	bool known;	/* in this build tasks can be read */
	bool whole;	/* else some may be missing */
	size_t strange; /* tasks of which nothing could be read */
	size_t unseen;	/* that there was no time to look at */
	size_t gone;	/* that ended between the list and their turn: others may have begun */
};

/* Find the tasks, and tell each to @found. */
struct dump_async_end dump_async(const struct dump_async *d);

const char *dump_async_state(enum pytask_state s);

#endif
