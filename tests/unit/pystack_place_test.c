/* SPDX-License-Identifier: MIT
 *
 * pystack_place: does a thread state run on this thread? By stacks of which some pages can't
 * be read: the thread's own, others', and those that a fork has copied.
 */
#include <errno.h>
#include <stdlib.h>

#include "unit.h"
#include "arch/arch.h"
#include "python/pystack_int.h"

enum {
	PID = 70,
	TID = 71,
	INNER = 7, /* the thread's number there */
	OTHER = 9, /* another's */
	PAGE = 4096,
	STACK = 150 * PAGE, /* more than are asked for at once */
	DEEP = 64 << 10,    /* so far a stack is looked through */
};
/* Three stacks, behind each a page that can't be read. At their ends: what the C library has
 * of a thread, or where the first thread began. */
static const raddr MAIN = 0x7ffe00000000, OWN = 0x7f0000000000, THEIRS = OWN + STACK + PAGE;
static const raddr ROOT = MAIN + STACK - 64, PTHREAD = OWN + STACK - 2304,
		   THEIR_PTHREAD = THEIRS + STACK - 2304;

struct fix {
	struct rmem base;
	struct pystack *p;
	struct pystack_target t;
	struct thread th;
	struct states states;
	raddr gone; /* a page of a stack that can't be read */
	int reads;
	raddr word_at; /* what is there, ... */
	uint64_t word; /* ... else 0 */
	uint64_t regs[2];
};

static bool is_on(raddr stack, raddr at, size_t n)
{
	return at >= stack && at + n <= stack + STACK;
}

static int stacks_read(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct fix *f = container_of(m, struct fix, base);
	uint32_t number = at > THEIRS ? OTHER : INNER;

	f->reads++;
	if (!is_on(MAIN, at, n) && !is_on(OWN, at, n) && !is_on(THEIRS, at, n))
		return -EFAULT;
	if (f->gone && at / PAGE == f->gone / PAGE)
		return -EFAULT;
	memset(buf, 0, n);
	if (n == 4 && (at == PTHREAD + arch_host->pthread_tid[0] ||
		       at == THEIR_PTHREAD + arch_host->pthread_tid[0]))
		memcpy(buf, &number, 4);
	if (n >= 8 && f->word_at >= at && f->word_at + 8 <= at + n)
		memcpy((char *)buf + (f->word_at - at), &f->word, 8);
	return 0;
}

static const struct rmem_ops stacks_ops = { "stacks", stacks_read, NULL };

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->base.ops = &stacks_ops;
	f->p = pystack_create(16, NULL, NULL);
	f->p->mem = &f->base;
	f->t.root = ROOT;
	f->th = (struct thread){ .pid = PID, .tid = TID };
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	pystack_destroy(f->p);
	free(f);
	return 0;
}

/* The thread stands at @sp, and nothing is known of its stack from before. */
static void stands_at(struct fix *f, raddr sp)
{
	f->p->place = (struct pystack_place){ .sp = sp };
	f->th.stack_lo = f->th.stack_hi = f->th.hole = 0;
}

/* Whose is a state that bears @number, bound by the thread of @pthread, with something at
 * @at? */
static enum place place(struct fix *f, pid_t number, raddr pthread, raddr at)
{
	const struct state_row s = { .number = (uint64_t)number, .pthread = pthread };

	return place_of(f->p, &f->t, &f->th, &s, at, INNER);
}

/* --- the state bears the thread's number --- */

static void ours_by_number(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN + 100 * 8);
	assert_int_equal(place(f, INNER, PTHREAD, 0), PLACE_OURS); /* it has nothing there */
	assert_int_equal(place(f, INNER, PTHREAD, OWN + 9 * PAGE), PLACE_OURS);
	assert_int_equal(f->th.stack_lo, OWN + 100 * 8);
	assert_int_equal(f->th.stack_hi, OWN + 9 * PAGE + 8);
	/* Where the C library has what it knows of a thread is not known. */
	assert_int_equal(place(f, INNER, 0, THEIRS + PAGE), PLACE_OURS);
	assert_int_equal(place(f, INNER, PTHREAD, THEIRS + PAGE), PLACE_OTHERS);
}

/* It stands on a stack of its own making: what lies on the one it began on is its own too. */
static void ours_from_elsewhere(void **state)
{
	struct fix *f = *state;

	stands_at(f, MAIN + PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, OWN + 9 * PAGE), PLACE_OURS);
	assert_int_equal(f->th.stack_lo, OWN + 9 * PAGE);
	assert_int_equal(f->th.stack_hi, OWN + 9 * PAGE + 8);
	/* What lies further in is the same stack: what was known of it stays known. */
	assert_int_equal(place(f, INNER, PTHREAD, OWN + 4 * PAGE), PLACE_OURS);
	assert_int_equal(f->th.stack_lo, OWN + 4 * PAGE);
	assert_int_equal(f->th.stack_hi, OWN + 9 * PAGE + 8);
	stands_at(f, MAIN + PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, PTHREAD), PLACE_UNKNOWN);
	assert_int_equal(place(f, INNER, PTHREAD, THEIRS + 9 * PAGE), PLACE_UNKNOWN);
	stands_at(f, MAIN + PAGE);
	f->gone = OWN + 20 * PAGE; /* it is two stacks */
	assert_int_equal(place(f, INNER, PTHREAD, OWN + 9 * PAGE), PLACE_UNKNOWN);
	assert_int_equal(place(f, INNER, PTHREAD, OWN + 21 * PAGE), PLACE_OURS);
}

/* It stands at home, or nobody knows where, and what the state has lies elsewhere. */
static void others_stack(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN + PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, MAIN + PAGE), PLACE_OTHERS);
	stands_at(f, OWN + 9 * PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, THEIRS + PAGE), PLACE_OTHERS);
	stands_at(f, 0);
	assert_int_equal(place(f, INNER, PTHREAD, THEIRS + PAGE), PLACE_UNKNOWN);
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_OURS);
	/* What is below its stack pointer is left over, but on its own stack. */
	stands_at(f, OWN + 9 * PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_OURS);
}

/* --- the process's first thread --- */

static void first_thread(void **state)
{
	struct fix *f = *state;

	f->th.tid = PID;
	stands_at(f, MAIN + PAGE);
	assert_int_equal(place(f, INNER, 0, MAIN + 9 * PAGE), PLACE_OURS);
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_OTHERS);
	stands_at(f, THEIRS + PAGE);
	assert_int_equal(place(f, INNER, 0, MAIN + 9 * PAGE), PLACE_OURS);
	stands_at(f, THEIRS + PAGE);
	assert_int_equal(place(f, INNER, 0, ROOT), PLACE_OURS);
	stands_at(f, THEIRS + PAGE);
	assert_int_equal(place(f, INNER, 0, ROOT + 8), PLACE_UNKNOWN);
	f->t.root = 0; /* not known */
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_OURS);
}

/* Another thread than the first has forked it: it goes on on a copy of that one's stack. */
static void first_thread_of_a_copy(void **state)
{
	struct fix *f = *state;

	f->th.tid = PID;
	stands_at(f, OWN + 9 * PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_OURS);
	stands_at(f, OWN + 9 * PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, THEIRS + PAGE), PLACE_OTHERS);
	assert_int_equal(place(f, INNER, THEIR_PTHREAD, THEIRS + PAGE), PLACE_UNKNOWN);
	f->gone = OWN + 5 * PAGE;
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_OTHERS);
	f->gone = OWN + 10 * PAGE;
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_UNKNOWN);
	f->gone = 0;
	stands_at(f, PTHREAD + 8);
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_UNKNOWN);
	stands_at(f, OWN + 9 * PAGE);
	f->t.root = OWN + STACK - 8; /* it began on that one itself */
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_OURS);
	/* One that stands on the stack it began on has nothing to seek on another's. */
	f->t.root = ROOT;
	stands_at(f, MAIN + 9 * PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, OWN + PAGE), PLACE_OTHERS);
}

/* Until PyOS_AfterFork_Child() the state bears the number of who forked it. */
static void number_of_the_forker(void **state)
{
	struct fix *f = *state;

	f->th.tid = PID;
	stands_at(f, THEIRS + PAGE);
	assert_int_equal(place(f, OTHER, 0, MAIN + PAGE), PLACE_OTHERS);
	f->p->place.forker = OTHER;
	assert_int_equal(place(f, OTHER, 0, MAIN + PAGE), PLACE_OURS);
	assert_true(place_is_number(f->p, &f->th, OTHER, INNER));
	assert_true(place_is_number(f->p, &f->th, INNER, INNER));
	assert_false(place_is_number(f->p, &f->th, OTHER + 1, INNER));
	f->p->place.forker = 0;
	assert_false(place_is_number(f->p, &f->th, 0, INNER));
	f->p->place.forker = OTHER;
	f->th.tid = TID; /* others than the first are not there in a child */
	assert_false(place_is_number(f->p, &f->th, OTHER, INNER));
}

/* --- the state bears another's number --- */

/* It stands above where the thread stands: what a thread left that ended in this place. */
static void others_number(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN + PAGE);
	assert_int_equal(place(f, OTHER, 0, 0), PLACE_OTHERS);
	assert_int_equal(place(f, OTHER, THEIR_PTHREAD, OWN + 9 * PAGE), PLACE_OURS);
	assert_int_equal(place(f, OTHER, 0, OWN + 9 * PAGE), PLACE_OURS);
	assert_int_equal(place(f, OTHER, PTHREAD, OWN + 9 * PAGE), PLACE_OTHERS);
	assert_int_equal(place(f, OTHER, 0, THEIRS + 9 * PAGE), PLACE_OTHERS);
	stands_at(f, 0);
	assert_int_equal(place(f, OTHER, 0, OWN + 9 * PAGE), PLACE_OTHERS);
}

static void others_number_in_the_first_thread(void **state)
{
	struct fix *f = *state;

	f->th.tid = PID;
	stands_at(f, OWN + PAGE);
	assert_int_equal(place(f, OTHER, PTHREAD, OWN + 9 * PAGE), PLACE_OURS);
	assert_int_equal(place(f, OTHER, 0, OWN + 9 * PAGE), PLACE_OURS);
	assert_int_equal(place(f, OTHER, PTHREAD, OWN), PLACE_OTHERS);
	/* Without a stack pointer: fork() has made the struct pthread its own, ... */
	stands_at(f, 0);
	assert_int_equal(place(f, OTHER, PTHREAD, MAIN + PAGE), PLACE_OURS);
	stands_at(f, 0);
	assert_int_equal(place(f, OTHER, THEIR_PTHREAD, MAIN + PAGE), PLACE_OTHERS);
	assert_int_equal(place(f, OTHER, 0, MAIN + PAGE), PLACE_OTHERS);
	assert_int_equal(place(f, OTHER, PTHREAD, THEIRS + PAGE), PLACE_OTHERS);
}

static void numbers_of_pthreads(void **state)
{
	struct fix *f = *state;

	assert_true(place_is_pthread(f->p, PTHREAD, INNER));
	assert_false(place_is_pthread(f->p, PTHREAD, OTHER));
	assert_true(place_is_pthread(f->p, THEIR_PTHREAD, OTHER));
	assert_false(place_is_pthread(f->p, 0, 0));
	assert_false(place_is_pthread(f->p, OWN, INNER));
}

/* --- what is known of a stack --- */

static bool on_stack(struct fix *f, raddr at)
{
	return place(f, OTHER, 0, at) == PLACE_OURS;
}

/* What one sample has proven is not asked again. */
static void stack_that_is_known(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN + 4 * PAGE);
	assert_true(on_stack(f, OWN + 9 * PAGE));
	f->gone = OWN + 6 * PAGE;
	f->reads = 0;
	assert_true(on_stack(f, OWN + 9 * PAGE));
	assert_true(on_stack(f, OWN + 4 * PAGE));
	assert_int_equal(f->reads, 0);
	/* Further out only what is new is read; ... */
	f->p->place.sp = OWN + 5 * PAGE;
	assert_true(on_stack(f, OWN + 12 * PAGE));
	assert_int_equal(f->th.stack_lo, OWN + 4 * PAGE);
	assert_int_equal(f->th.stack_hi, OWN + 12 * PAGE + 8);
	/* ... further in all of it. */
	f->p->place.sp = OWN + 2 * PAGE;
	assert_false(on_stack(f, OWN + 13 * PAGE));
	f->gone = f->th.hole = 0;
	assert_true(on_stack(f, OWN + 13 * PAGE));
	assert_int_equal(f->th.stack_lo, OWN + 2 * PAGE);
	assert_int_equal(f->th.stack_hi, OWN + 13 * PAGE + 8);
	f->p->place.sp = OWN + PAGE;
	f->gone = OWN + 14 * PAGE;
	assert_false(on_stack(f, OWN + 15 * PAGE));
	assert_int_equal(f->th.stack_lo, OWN + 2 * PAGE);
}

/* It stands on another one by now. */
static void stack_that_was_left(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN + 4 * PAGE);
	assert_true(on_stack(f, OWN + 9 * PAGE));
	f->p->place.sp = THEIRS + PAGE;
	assert_true(on_stack(f, THEIRS + 2 * PAGE));
	assert_int_equal(f->th.stack_lo, THEIRS + PAGE);
	assert_int_equal(f->th.stack_hi, THEIRS + 2 * PAGE + 8);
	/* One that lies lower. */
	f->p->place.sp = OWN + PAGE;
	assert_true(on_stack(f, OWN + 2 * PAGE));
	assert_int_equal(f->th.stack_lo, OWN + PAGE);
	assert_int_equal(f->th.stack_hi, OWN + 2 * PAGE + 8);
	assert_false(on_stack(f, THEIRS + 2 * PAGE));
}

/* A page that can't be read is asked for once. */
static void hole_in_a_stack(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN + PAGE);
	f->gone = OWN + 6 * PAGE;
	assert_false(on_stack(f, OWN + 9 * PAGE));
	assert_int_equal(f->th.hole, OWN + 6 * PAGE);
	f->reads = 0;
	assert_false(on_stack(f, OWN + 8 * PAGE));
	assert_int_equal(f->reads, 0);
	assert_true(on_stack(f, OWN + 6 * PAGE - 8));
	f->p->place.sp = OWN + 7 * PAGE;
	assert_true(on_stack(f, OWN + 9 * PAGE));
}

/* No stack is so large; nor is one asked for in vain. */
static void far_away(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN + PAGE);
	assert_false(on_stack(f, MAIN + PAGE));
	assert_int_equal(f->reads, 0);
	assert_false(on_stack(f, OWN + 8));
	assert_int_equal(f->reads, 0);
}

/* The bytes that came with the sample need not be there. */
static void bytes_of_the_sample(void **state)
{
	static const unsigned char bytes[2 * PAGE];
	struct fix *f = *state;

	stands_at(f, OWN + PAGE);
	f->gone = OWN + 2 * PAGE;
	f->p->stack_at = OWN + PAGE;
	f->p->stack = (struct bytes){ bytes, sizeof(bytes) };
	assert_true(on_stack(f, OWN + 9 * PAGE));
	stands_at(f, OWN + PAGE);
	f->gone = OWN + 3 * PAGE;
	assert_false(on_stack(f, OWN + 9 * PAGE));
	/* They are another stack's. */
	stands_at(f, OWN + PAGE);
	f->gone = OWN + 2 * PAGE;
	f->p->stack_at = OWN + PAGE + 8;
	assert_false(on_stack(f, OWN + 9 * PAGE));
}

/* The whole of a stack, of more pages than are asked for at once; and it may end with one. */
static void whole_stack(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN);
	assert_true(on_stack(f, OWN + STACK - 8));
	stands_at(f, OWN);
	f->gone = OWN + 140 * PAGE;
	assert_false(on_stack(f, OWN + STACK - 8));
	f->th.tid = PID;
	f->t.root = MAIN + STACK;
	stands_at(f, THEIRS + PAGE);
	assert_int_equal(place(f, INNER, 0, MAIN + PAGE), PLACE_OURS);
}

/* --- where a state's innermost activation lies --- */

static void with_layout(struct fix *f, uint16_t version)
{
	f->t.layout = *pylayout_find(version);
	pywalk_layout_init(&f->t.walk, &f->t.layout, MAIN);
}

/* Up to 3.12: its _PyCFrame, unless that is the thread state's own. */
static void innermost_cframe(void **state)
{
	struct fix *f = *state;
	raddr ts = 0x5000, last;
	struct pywalk w = { .n = 1, .cframe = OWN + 64 };

	with_layout(f, 0x030c);
	last = ts + f->t.layout.tstate.size - 8;
	assert_int_equal(place_innermost(f->p, &f->t, ts, OWN + 64), OWN + 64);
	assert_int_equal(place_innermost(f->p, &f->t, ts, ts), 0);
	assert_int_equal(place_innermost(f->p, &f->t, ts, last), 0);
	assert_int_equal(place_innermost(f->p, &f->t, ts, last + 8), last + 8);
	assert_int_equal(place_innermost(f->p, &f->t, ts, ts - 8), ts - 8);
	assert_int_equal(place_of_walk(f->p, &f->t, ts, &w), OWN + 64);
	w.cframe = last;
	assert_int_equal(place_of_walk(f->p, &f->t, ts, &w), 0);
	w.cframe = last + 8;
	assert_int_equal(place_of_walk(f->p, &f->t, ts, &w), last + 8);
}

/* From 3.13 on: its newest shim; no other frame is on the C stack. */
static void innermost_shim(void **state)
{
	struct fix *f = *state;
	struct pywalk w = { .n = 3, .cframe = 1 };

	with_layout(f, 0x030d);
	f->p->walked[0].frame = OWN + 64;
	f->p->walked[1].frame = (OWN + 128) | PYFRAME_SHIM;
	f->p->walked[2].frame = (OWN + 256) | PYFRAME_SHIM;
	f->p->walked[3].frame = (OWN + 512) | PYFRAME_SHIM;
	assert_int_equal(place_of_walk(f->p, &f->t, 0x5000, &w), OWN + 128);
	f->p->walked[1].frame = f->p->walked[2].frame = OWN + 128;
	assert_int_equal(place_of_walk(f->p, &f->t, 0x5000, &w), 0);
	w.n = 4;
	assert_int_equal(place_of_walk(f->p, &f->t, 0x5000, &w), OWN + 512);
	assert_int_equal(place_innermost(f->p, &f->t, 0x5000, 0), 0);
	assert_int_equal(place_innermost(f->p, &f->t, 0x5000, 0x6000), 0); /* not there */
}

/* Where frames lead to no shim no more of them are read than there are, or than an activation may
 * have. */
static void innermost_of_none(void **state)
{
	enum { MOST = 4096 };
	struct fix *f = *state;

	with_layout(f, 0x030d);
	f->reads = 0;
	assert_int_equal(place_innermost(f->p, &f->t, 0x5000, OWN + 64), 0);
	assert_int_equal(f->reads, 1); /* there is none behind it */
	f->word_at = OWN + 64 + f->t.walk.fr_prev;
	f->word = OWN + 64;
	f->reads = 0;
	assert_int_equal(place_innermost(f->p, &f->t, 0x5000, OWN + 64), 0);
	assert_int_equal(f->reads, MOST); /* it is behind itself */
}

/* Behind a walk that was cut: of a deeper recursion nothing is known. */
static void innermost_behind_a_cut(void **state)
{
	enum { MOST = 1024 - 1 };
	struct fix *f = *state;
	struct pywalk w = { .n = 1, .end = PYWALK_LIMIT, .next = OWN + 64 };

	with_layout(f, 0x030d);
	f->p->walked[0].frame = OWN + 512;
	f->reads = 0;
	assert_int_equal(place_of_walk(f->p, &f->t, 0x5000, &w), PLACE_LOST);
	assert_int_equal(f->reads, 1); /* there is none behind it */
	f->word_at = OWN + 64 + f->t.walk.fr_prev;
	f->word = OWN + 64;
	f->reads = 0;
	assert_int_equal(place_of_walk(f->p, &f->t, 0x5000, &w), 0);
	assert_int_equal(f->reads, MOST); /* it is behind itself */
	f->p->walked[0].frame = (OWN + 64) | PYFRAME_GENERATOR;
	f->reads = 0;
	assert_int_equal(place_of_walk(f->p, &f->t, 0x5000, &w), PLACE_LOST);
	assert_int_equal(f->reads, 0); /* those that were walked are behind themselves */
	stands_at(f, OWN + PAGE);
	assert_int_equal(place(f, INNER, PTHREAD, PLACE_LOST), PLACE_UNKNOWN);
	assert_int_equal(place(f, INNER, 0, PLACE_LOST), PLACE_OURS); /* nothing tells of stacks */
	assert_int_equal(place(f, OTHER, PTHREAD, PLACE_LOST), PLACE_OTHERS);
	with_layout(f, 0x030a); /* no frame is on the C stack */
	assert_int_equal(place_of_walk(f->p, &f->t, 0x5000, &w), 0);
}

/* The one below all others is a part of the thread state (3.15). */
static void innermost_base(void **state)
{
	struct fix *f = *state;
	raddr ts = OWN + 64;

	with_layout(f, 0x030f);
	f->word_at = ts + f->t.walk.ts_base;
	f->word = OWN + 512;
	assert_int_equal(place_on_stack(f->p, &f->t, ts, OWN + 512), 0);
	assert_int_equal(place_on_stack(f->p, &f->t, ts, OWN + 256), OWN + 256);
	f->gone = ts;
	assert_int_equal(place_on_stack(f->p, &f->t, ts, OWN + 512), OWN + 512);
	with_layout(f, 0x030d);
	f->gone = 0;
	assert_int_equal(place_on_stack(f->p, &f->t, ts, OWN + 512), OWN + 512);
}

/* --- what the stack names --- */

enum { STATES = 3 };

/* Which of the states 0x5000, 0x6000 and 0x7000 are named: a bit each. */
static unsigned scan(struct fix *f, bool deep)
{
	unsigned seen = 0;

	f->states.n = STATES;
	for (uint32_t i = 0; i < STATES; i++) {
		f->states.at[i] = 0x5000 + 0x1000 * i;
		f->states.seen[i] = true;
	}
	place_scan(f->p, &f->states, deep);
	for (uint32_t i = 0; i < STATES; i++)
		seen |= (unsigned)f->states.seen[i] << i;
	return seen;
}

static void named_by_registers(void **state)
{
	struct fix *f = *state;

	stands_at(f, OWN + PAGE);
	f->p->place.regs = (struct bytes){ (void *)f->regs, 16 };
	assert_int_equal(scan(f, false), 0);
	f->regs[0] = 0x5000;
	f->regs[1] = 0x7000;
	assert_int_equal(scan(f, false), 5);
	f->regs[0] = 0x6000;
	f->regs[1] = 0x5001;
	assert_int_equal(scan(f, false), 2);
	f->regs[0] = 0x4fff;
	f->regs[1] = 0x7001;
	assert_int_equal(scan(f, false), 0);
	f->regs[1] = 0x7000;
	f->p->place.regs.n = 8;
	assert_int_equal(scan(f, false), 0);
	f->p->place.regs.n = 16;
	f->p->place.sp = 0;
	assert_int_equal(scan(f, true), 0);
}

static void named_by_the_sample(void **state)
{
	static _Alignas(8) unsigned char bytes[64];
	static const uint64_t at = 0x6000, last = 0x7000;
	struct fix *f = *state;

	stands_at(f, OWN + PAGE);
	f->p->stack_at = OWN + PAGE;
	f->p->stack = (struct bytes){ bytes, sizeof(bytes) };
	memcpy(bytes + 8, &at, 8);
	memcpy(bytes + 56, &last, 8);
	assert_int_equal(scan(f, false), 6);
	f->p->stack.n = 63;
	assert_int_equal(scan(f, false), 2);
	memmove(bytes + 12, bytes + 8, 8); /* no word, but of a stack that ends oddly */
	assert_int_equal(scan(f, false), 0);
	f->p->place.sp = f->p->stack_at = OWN + PAGE + 4;
	assert_int_equal(scan(f, false), 2);
	f->p->stack_at += 8; /* bytes of elsewhere */
	assert_int_equal(scan(f, false), 0);
}

static void named_further_out(void **state)
{
	static const unsigned char bytes[64];
	struct fix *f = *state;

	stands_at(f, OWN + PAGE + 8);
	f->word = 0x6000;
	f->word_at = OWN + PAGE + 8;
	assert_int_equal(scan(f, false), 0);
	assert_int_equal(scan(f, true), 2);
	f->word_at = OWN + 4 * PAGE - 8;
	assert_int_equal(scan(f, true), 2);
	f->word_at = OWN + PAGE + 8 + DEEP - 8;
	assert_int_equal(scan(f, true), 2);
	f->word_at = OWN + 18 * PAGE;
	assert_int_equal(scan(f, true), 0);
	f->p->place.sp = OWN + PAGE;
	f->word_at = OWN + PAGE + DEEP;
	assert_int_equal(scan(f, true), 0);
	f->p->place.sp = OWN + PAGE + 8;
	f->word_at = OWN + 9 * PAGE;
	f->gone = OWN + 6 * PAGE;
	assert_int_equal(scan(f, true), 0);
	/* What came with the sample is not read again. */
	f->gone = 0;
	f->p->stack_at = f->p->place.sp;
	f->p->stack = (struct bytes){ bytes, sizeof(bytes) };
	assert_int_equal(scan(f, true), 2);
	f->word_at = OWN + PAGE + 16;
	assert_int_equal(scan(f, true), 0);
	f->word_at = f->p->place.sp + 64;
	assert_int_equal(scan(f, true), 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ours_by_number),
		TEST(ours_from_elsewhere),
		TEST(others_stack),
		TEST(first_thread),
		TEST(first_thread_of_a_copy),
		TEST(number_of_the_forker),
		TEST(others_number),
		TEST(others_number_in_the_first_thread),
		TEST(numbers_of_pthreads),
		TEST(stack_that_is_known),
		TEST(stack_that_was_left),
		TEST(hole_in_a_stack),
		TEST(far_away),
		TEST(bytes_of_the_sample),
		TEST(whole_stack),
		TEST(innermost_cframe),
		TEST(innermost_shim),
		TEST(innermost_of_none),
		TEST(innermost_behind_a_cut),
		TEST(innermost_base),
		TEST(named_by_registers),
		TEST(named_by_the_sample),
		TEST(named_further_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
