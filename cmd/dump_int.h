/* SPDX-License-Identifier: MIT
 *
 * dump_int - what the parts of dump share: dump.c (the command), dump_read.c (a thread's
 * stack), dump_print.c (text and JSON), dump_tasks.c (those of asyncio, by dump_async.c).
 */
#ifndef CMD_DUMP_INT_H
#define CMD_DUMP_INT_H

#include <limits.h>

#include "stacks/assemble.h"
#include "lines/places.h"
#include "python/pygil.h"
#include "python/pynames.h"
#include "python/pystack.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"
#include "base/stats.h"
#include "dump_running.h"
#include "page.h"
#include "process.h"

enum {
	DUMP_FRAMES = 1024,
	DUMP_STACK_BYTES = 256 << 10,
	DUMP_MORE_TRIES = 5000, /* of all threads that run on, together */
};

/* A thread state, and the number of the thread that it says is its own. */
struct dump_state {
	uint64_t number;
	raddr at;
};

/* What the program calls a thread. */
struct dump_called {
	uint32_t number; /* of the thread, for the program itself */
	char name[PYNAME_MAX];
};

struct dump_thread {
	pid_t tid, inner; /* inner: its number for the program itself */
};

/* Of one process. */
struct dump {
	struct pystack_target target;
	struct pystack_others *others; /* or NULL */
	int pidfd;
	struct rmem_live live;
	struct pystack *stacks;
	struct assembler *assembler;
	enum process_native native;
	bool async;	       /* tasks are wanted */
	bool frozen;	       /* by its cgroup */
	struct stats stats;    /* of which only what is unread is told */
	struct places *places; /* NULL: without lines */
	struct file_helper *files;
	struct page page;
	struct proc_maps maps; /* of page.form */
	struct dump_thread *thread;
	size_t n_threads;
	struct dump_state *state; /* by number */
	size_t n_states;
	struct dump_called *called;
	size_t n_called, cap_called;
	uint64_t unique; /* of the lists that they were in */
	struct pygil gils;
	struct pygil_look sampled[PYGIL_MAX]; /* before threads were sampled */
	int more;			      /* of DUMP_MORE_TRIES */
	struct pystack_frame before[DUMP_FRAMES];
	unsigned char stack[DUMP_STACK_BYTES];
};

enum dump_gil { DUMP_GIL_UNKNOWN, DUMP_GIL_NO, DUMP_GIL_YES };

/* One thread as it was found. */
struct dump_found {
	struct pystack_result python;
	bool stable;
	bool asleep; /* in the kernel, as @wait says */
	bool waits; /* it is asleep, and native frames are wanted: @stack is from wait.sp up */
	struct proc_wait wait;
	struct bytes stack;
	enum dump_gil gil;    /* whether it holds the GIL */
	struct running *sampled; /* it ran, and a sample tells its stack */
	char state;	      /* as proc_state(), before all that */
};

/* --- dump_read.c --- */

/* What is read once: thread states, names, GILs. */
void dump_know(struct dump *d);

/* Of those that run, leave in @r those that do not just wake to ask for the GIL again, as who
 * waits for it does every 5 ms. Returns how many. */
size_t dump_leave_running(struct dump *d, struct running *r, size_t n);

/* Before and after the threads that run are sampled: what is true of the GIL then, of
 * @sample's thread @t. */
void dump_before_samples(struct dump *d);
enum dump_gil dump_gil_sampled(struct dump *d, const struct dump_thread *t,
			       const struct running *sample);

/* Its stack, and what it does. */
void dump_find(struct dump *d, const struct dump_thread *t, struct dump_found *ret);

/* True: it sleeps until it gets the GIL. */
bool dump_waits_for_gil(const struct dump *d, const struct dump_found *f);

/* Some stacks lack names where @r says that memory or descriptors ran out. */
void dump_note_short(struct dump *d, int r);

/* What the program calls the thread; NULL: nothing that could be read. */
const char *dump_name(const struct dump *d, pid_t inner);

/* --- dump_print.c --- */

/* What begins, and what ends a process: its tasks, and with JSON what follows them. @several:
 * it is not the first. */
void dump_print_process(struct dump *d, const struct pyproc *p, bool several);
void dump_print_end(struct dump *d, const struct pyproc *p);

/* The file of the program that @pid runs, as /proc tells it, also of one that was deleted. NULL:
 * not to be had. */
const char *dump_exe(pid_t pid, char buf[PATH_MAX]);

/* A thread whose kernel name is @comm. @first: of its process. */
void dump_print_thread(struct dump *d, const struct dump_thread *t, const char *comm,
		       const struct dump_found *f, bool first);

/* --- dump_tasks.c --- */

/* The asyncio tasks; with JSON their key too. */
void dump_print_tasks(struct dump *d, const struct pyproc *p);

/* --- dump_greenlets.c --- */

/* The greenlets that no thread runs; with JSON their key too. */
void dump_print_greenlets(struct dump *d, const struct pyproc *p);

#endif
