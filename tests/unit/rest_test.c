/* SPDX-License-Identifier: MIT
 *
 * rest: which part of a thread's stack goes to the resolver, on made-up memory in which each
 * address has a byte of its own, so that what comes is checked by where it claims to be from.
 */
#include <errno.h>

#include "unit.h"

#include <stdlib.h>

#include "capture/reader_int.h"

enum {
	COPIED = 0x400, /* bytes that came with a sample, where a row says nothing else */
	RESERVE = 4096, /* above the outermost activation, if it is not known where the root is
			 */
	BLIND = 16 << 10, /* of a thread without Python; and below an activation that is far */
	NEVER = 0x1000000,
};
static const raddr SP = 0x7f0000001230;

/* What can't be read: from @at, @n bytes. */
static struct {
	raddr at;
	uint64_t n;
} hole;

static unsigned char byte_at(raddr at)
{
	return (unsigned char)(at * 0x9e3779b97f4a7c15u >> 56);
}

static int made_up(struct rmem *m, raddr at, void *buf, size_t n)
{
	(void)m;
	if (at < hole.at + hole.n && hole.at < at + n)
		return -EFAULT;
	for (size_t i = 0; i < n; i++)
		((unsigned char *)buf)[i] = byte_at(at + i);
	return 0;
}

static const struct rmem_ops ops = { "made up", made_up, NULL };

struct fix {
	struct reader_config c;
	struct reader r;
	unsigned char stack[REST_BYTES], regs[8 * ARCH_MAX_REGS];
	_Alignas(8) unsigned char queued[sizeof(struct q_sample) + 8 * ARCH_MAX_REGS +
					 3 * REST_BYTES];
};

/* A sample; what its walk found; what can't be read; and what goes to the resolver. Addresses
 * are relative to SP. */
struct row {
	const char *what;
	uint64_t copied;   /* 0: COPIED */
	int64_t sp;	   /* of the sample, where the walk read for another of its thread */
	const char *flags; /* p: Python, n: native off, r: no registers, h: not held, w: a wait,
			    * of which nothing was copied */
	int n_anchors;
	int64_t anchors[3], root; /* NEVER: 0; absolute below 64 KiB with flag a */
	int64_t hole, hole_n;
	int64_t from, to; /* the stack */
	int64_t far_from, far_to;
};

#define RED (-RED_BYTES)
static const struct row rows[] = {
	/* Whom Python tells how far its stack goes. */
	{ "an activation",
	  0,
	  0,
	  "p",
	  1,
	  { 0x2000 },
	  NEVER,
	  0,
	  0,
	  RED,
	  0x2000 + RESERVE,
	  0,
	  0 },
	{ "the outermost counts, first",
	  0,
	  0,
	  "p",
	  3,
	  { 0x3000, 0x2000, 0x800 },
	  NEVER,
	  0,
	  0,
	  RED,
	  0x3000 + RESERVE,
	  0,
	  0 },
	{ "the outermost counts, last",
	  0,
	  0,
	  "p",
	  3,
	  { 0x800, 0x2000, 0x3000 },
	  NEVER,
	  0,
	  0,
	  RED,
	  0x3000 + RESERVE,
	  0,
	  0 },
	{ "only what is counted",
	  0,
	  0,
	  "p",
	  2,
	  { 0x800, 0x2000, 0x3000 },
	  NEVER,
	  0,
	  0,
	  RED,
	  0x2000 + RESERVE,
	  0,
	  0 },
	{ "one at the stack pointer is none",
	  0,
	  0,
	  "p",
	  2,
	  { 0, 8 },
	  NEVER,
	  0,
	  0,
	  RED,
	  8 + RESERVE,
	  0,
	  0 },
	{ "one below it is none",
	  0,
	  0,
	  "p",
	  2,
	  { -0x2000, 0x800 },
	  NEVER,
	  0,
	  0,
	  RED,
	  0x800 + RESERVE,
	  0,
	  0 },
	{ "one as far as can be",
	  0,
	  0,
	  "p",
	  2,
	  { 0x800, REST_BYTES - 8 },
	  NEVER,
	  0,
	  0,
	  RED,
	  COPIED + REST_BYTES,
	  0,
	  0 },
	{ "one that is further is none",
	  0,
	  0,
	  "p",
	  2,
	  { 0x800, REST_BYTES },
	  NEVER,
	  0,
	  0,
	  RED,
	  0x800 + RESERVE,
	  0,
	  0 },
	/* Where the root is known, up to there. */
	{ "root", 0, 0, "p", 1, { 0x2000 }, 0x2100, 0, 0, RED, 0x2100, 0, 0 },
	{ "root much higher", 0, 0, "p", 1, { 0x2000 }, 0x8000, 0, 0, RED, 0x8000, 0, 0 },
	{ "root at the activation is another's",
	  0,
	  0,
	  "p",
	  1,
	  { 0x2000 },
	  0x2000,
	  0,
	  0,
	  RED,
	  0x2000 + RESERVE,
	  0,
	  0 },
	{ "root below it too",
	  0,
	  0,
	  "p",
	  1,
	  { 0x2000 },
	  0x1000,
	  0,
	  0,
	  RED,
	  0x2000 + RESERVE,
	  0,
	  0 },
	{ "root as far as can be",
	  0,
	  0,
	  "p",
	  1,
	  { 0x2000 },
	  REST_BYTES,
	  0,
	  0,
	  RED,
	  REST_BYTES,
	  0,
	  0 },
	{ "root further",
	  0,
	  0,
	  "p",
	  1,
	  { 0x2000 },
	  REST_BYTES + 8,
	  0,
	  0,
	  RED,
	  0x2000 + RESERVE,
	  0,
	  0 },
	/* Up to 3.10 the root alone tells; without it nothing does. */
	{ "in a loop", 0, 0, "pl", 1, { 0 }, 0x1800, 0, 0, RED, 0x1800, 0, 0 },
	{ "in a loop, root below", 0, 0, "pl", 1, { 0 }, 0, 0, 0, RED, COPIED + BLIND, 0, 0 },
	{ "in a loop, no root", 0, 0, "pl", 1, { 0 }, NEVER, 0, 0, RED, COPIED + BLIND, 0, 0 },
	{ "not even that", 0, 0, "pz", 1, { 0 }, 0x1800, 0, 0, RED, COPIED + BLIND, 0, 0 },
	{ "no activations",
	  0,
	  0,
	  "p",
	  0,
	  { 0x2000 },
	  0x1800,
	  0,
	  0,
	  RED,
	  COPIED + BLIND,
	  0,
	  0 },
	{ "no Python", 0, 0, "", 1, { 0x2000 }, 0x1800, 0, 0, RED, COPIED + BLIND, 0, 0 },
	/* What the kernel copied already, and no more of it than is wanted. */
	{ "all of it copied",
	  0x2000,
	  0,
	  "p",
	  1,
	  { 0x800 },
	  NEVER,
	  0,
	  0,
	  RED,
	  0x800 + RESERVE,
	  0,
	  0 },
	{ "just all of it", 0x1800, 0, "p", 1, { 0x800 }, NEVER, 0, 0, RED, 0x1800, 0, 0 },
	{ "all but one byte", 0x17ff, 0, "p", 1, { 0x800 }, NEVER, 0, 0, RED, 0x1800, 0, 0 },
	{ "no Python, much copied",
	  0x8000,
	  0,
	  "",
	  0,
	  { 0 },
	  NEVER,
	  0,
	  0,
	  RED,
	  0x8000 + BLIND,
	  0,
	  0 },
	/* A hole ends it, page by page; the red zone may be in one. */
	{ "hole", 0, 0, "p", 1, { 0x4000 }, NEVER, 0x2dd0, 1, RED, 0x2dd0, 0, 0 },
	{ "hole in a page", 0, 0, "p", 1, { 0x4000 }, NEVER, 0x2dd8, 8, RED, 0x2dd0, 0, 0 },
	{ "hole at once", 0, 0, "p", 1, { 0x4000 }, NEVER, COPIED, 8, RED, COPIED, 0, 0 },
	{ "hole in the last page",
	  0,
	  0,
	  "",
	  0,
	  { 0 },
	  NEVER,
	  COPIED + BLIND - 8,
	  8,
	  RED,
	  0x3dd0,
	  0,
	  0 },
	{ "hole behind the last byte",
	  0,
	  0,
	  "",
	  0,
	  { 0 },
	  NEVER,
	  COPIED + BLIND,
	  8,
	  RED,
	  COPIED + BLIND,
	  0,
	  0 },
	{ "no red zone",
	  0,
	  0,
	  "p",
	  1,
	  { 0x2000 },
	  NEVER,
	  -0x1000,
	  0x1000,
	  0,
	  0x2000 + RESERVE,
	  0,
	  0 },
	{ "a byte of the red zone",
	  0,
	  0,
	  "p",
	  1,
	  { 0x2000 },
	  NEVER,
	  RED,
	  1,
	  0,
	  0x2000 + RESERVE,
	  0,
	  0 },
	{ "what is below it",
	  0,
	  0,
	  "p",
	  1,
	  { 0x2000 },
	  NEVER,
	  RED - 8,
	  8,
	  RED,
	  0x2000 + RESERVE,
	  0,
	  0 },
	/* All activations elsewhere: what the innermost one called, as far as it is there. */
	{ "far below",
	  0,
	  0,
	  "p",
	  1,
	  { -0x100000 },
	  NEVER,
	  0,
	  0,
	  RED,
	  COPIED,
	  -0x100000 - BLIND,
	  -0x100000 + RESERVE },
	{ "far above",
	  0,
	  0,
	  "p",
	  2,
	  { 0x200000, 0x201000 },
	  NEVER,
	  0,
	  0,
	  RED,
	  COPIED,
	  0x200000 - BLIND,
	  0x201000 + RESERVE },
	{ "far, with a root",
	  0,
	  0,
	  "p",
	  1,
	  { 0x200000 },
	  0x200800,
	  0,
	  0,
	  RED,
	  COPIED,
	  0x200000 - BLIND,
	  0x200800 },
	{ "far and odd",
	  0,
	  0,
	  "p",
	  1,
	  { 0x200007 },
	  NEVER,
	  0,
	  0,
	  RED,
	  COPIED,
	  0x200000 - BLIND,
	  0x200007 + RESERVE },
	{ "far, outer ones further still",
	  0,
	  0,
	  "p",
	  2,
	  { 0x200000, 0x22bff8 },
	  NEVER,
	  0,
	  0,
	  RED,
	  COPIED,
	  0x200000 - BLIND,
	  0x200000 - BLIND + REST_BYTES },
	{ "far, a hole 16 KiB below",
	  0,
	  0,
	  "p",
	  1,
	  { 0x200000 },
	  NEVER,
	  0x200000 - BLIND,
	  8,
	  RED,
	  COPIED,
	  0x200000 - 0x800,
	  0x200000 + RESERVE },
	{ "far, a hole 2 KiB below",
	  0,
	  0,
	  "p",
	  1,
	  { 0x200e00 },
	  NEVER,
	  0x1fcdd0,
	  0x4000,
	  RED,
	  COPIED,
	  0x200e00 - 0x20,
	  0x200e00 + RESERVE },
	{ "far, and all a hole",
	  0,
	  0,
	  "p",
	  1,
	  { 0x200000 },
	  NEVER,
	  0x100000,
	  0x200000,
	  RED,
	  COPIED,
	  0,
	  0 },
	/* Another sample of the thread, with a stack of its own. */
	{ "another, to where the first ended",
	  COPIED,
	  -0x100,
	  "p",
	  1,
	  { 0x2000 },
	  NEVER,
	  0,
	  0,
	  -0x100,
	  COPIED - 0x100,
	  0,
	  0 },
	{ "another, far",
	  COPIED,
	  -0x100,
	  "p",
	  1,
	  { 0x200000 },
	  NEVER,
	  0,
	  0,
	  -0x100,
	  COPIED - 0x100,
	  0,
	  0 },
	/* Who is not held gets nothing of a later moment; who wants nothing gets nothing. */
	{ "not held", 0, 0, "ph", 1, { 0x100 }, 0x180, 0, 0, 0, COPIED, 0, 0 },
	{ "not held, far", 0, 0, "ph", 1, { 0x200000 }, NEVER, 0, 0, 0, COPIED, 0, 0 },
	/* Of who sleeps all is read. */
	{ "a wait", 0, 0, "pw", 1, { 0x2000 }, NEVER, 0, 0, RED, 0x2000 + RESERVE, 0, 0 },
	{ "a wait, no Python", 0, 0, "w", 0, { 0 }, NEVER, 0, 0, RED, BLIND, 0, 0 },
	{ "a wait, far",
	  0,
	  0,
	  "pw",
	  1,
	  { 0x200000 },
	  NEVER,
	  0,
	  0,
	  RED,
	  0,
	  0x200000 - BLIND,
	  0x200000 + RESERVE },
	{ "a wait, not held", 0, 0, "pwh", 1, { 0x100 }, 0x180, 0, 0, 0, 0, 0, 0 },
	{ "no registers", 0, 0, "pr", 1, { 0x2000 }, NEVER, 0, 0, -1, -1, 0, 0 },
	{ "not native", 0, 0, "pn", 1, { 0x2000 }, NEVER, 0, 0, -1, -1, 0, 0 },
};

static void expect_bytes(const char *what, const unsigned char *got, raddr at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (got[i] != byte_at(at + i))
			fail_msg("%s: byte %zu of %zu", what, i, n);
}

static struct perf_sample sample_of(struct fix *f, const struct row *row, raddr sp)
{
	bool wait = strchr(row->flags, 'w');
	uint64_t n = wait ? 0 : row->copied ? row->copied : COPIED;

	for (uint64_t i = 0; i < n; i++)
		f->stack[i] = byte_at(sp + i);
	return (struct perf_sample){ .user_sp = sp,
				     .regs = strchr(row->flags, 'r') ? NULL : f->regs,
				     .stack = { wait ? NULL : f->stack, n } };
}

static struct q_sample *queued(struct fix *f, const struct row *row, struct walk *w)
{
	struct q_sample *q = (void *)f->queued;
	struct pending p = { .held = !strchr(row->flags, 'h') };

	f->c.native = !strchr(row->flags, 'n');
	p.s = sample_of(f, row, SP);
	rest_read(&f->r, &p.s, &f->r.mem.base, w);
	if (row->sp)
		p.s = sample_of(f, row, SP + (raddr)row->sp);
	memset(f->queued, 0xee, sizeof(f->queued));
	memset(q, 0, sizeof(*q));
	rest_size(&f->r, &p, w, q);
	rest_copy(&f->r, &p.s, q);
	for (size_t i = q_bytes(q); i < q_bytes(q) + 64; i++)
		assert_int_equal(0xee, f->queued[i]);
	return q;
}

static void expect(const char *what, const char *of, raddr want, raddr got)
{
	if (want != got)
		fail_msg("%s: %s: %#llx, not %#llx", what, of, (long long)(got - SP),
			 (long long)(want - SP));
}

static void check(struct fix *f, const struct row *row)
{
	struct pystack_anchor anchors[3] = { 0 };
	struct walk w = { .res = { .end = strchr(row->flags, 'p') ? PYSTACK_OK :
								    PYSTACK_NOPYTHON,
				   .root = row->root == NEVER ? 0 : SP + (raddr)row->root,
				   .n_anchors = (uint32_t)row->n_anchors,
				   .anchors = anchors } };
	const struct q_sample *q;

	for (int i = 0; i < 3; i++)
		anchors[i].at = strchr(row->flags, 'l') ? (i ? 0 : PYSTACK_IN_LOOP) :
				strchr(row->flags, 'z') ? 0 :
							  SP + (raddr)row->anchors[i];
	hole.at = SP + (raddr)row->hole;
	hole.n = (uint64_t)row->hole_n;
	q = queued(f, row, &w);
	if (row->to < 0) {
		assert_int_equal(0, q->n_regs + q->n_stack + q->n_far);
		assert_int_equal(0, w.rest.n);
		return;
	}
	assert_int_equal(arch_host->n_regs, q->n_regs);
	for (size_t i = 0; i < 8 * (size_t)q->n_regs; i++)
		assert_int_equal((unsigned char)(i + 1), q_regs(q)[i]);
	expect(row->what, "stack", SP + (raddr)row->from, q->stack_at);
	expect(row->what, "end", SP + (raddr)row->to, q->stack_at + q->n_stack);
	expect_bytes(row->what, q_stack(q), q->stack_at, q->n_stack);
	if (row->far_to)
		expect(row->what, "far", SP + (raddr)row->far_from, q->far_at);
	assert_int_equal(row->far_to - row->far_from, q->n_far);
	expect_bytes(row->what, q_far(q), q->far_at, q->n_far);
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->r.c = &f->c;
	f->r.mem.base.ops = &ops;
	for (size_t i = 0; i < sizeof(f->regs); i++)
		f->regs[i] = (unsigned char)(i + 1);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void what_goes_to_the_resolver(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(*state, &rows[i]);
}

/* What was read goes on where this one's copy ends, though the two begin elsewhere. */
static void a_lower_sample_that_ends_where_the_first_did(void **state)
{
	const struct row row = {
		"lower", COPIED + 0x100, -0x100, "p", 1, { 0x2000 }, NEVER, 0, 0, 0, 0, 0, 0
	};
	struct pystack_anchor anchor = { .at = SP + 0x2000 };
	struct walk w = { .res = { .end = PYSTACK_OK, .n_anchors = 1, .anchors = &anchor } };
	struct fix *f = *state;
	struct pending p = { .held = true };
	struct q_sample *q = (void *)f->queued;
	struct row first = row;

	hole.n = 0;
	f->c.native = true;
	first.copied = COPIED;
	p.s = sample_of(f, &first, SP);
	rest_read(&f->r, &p.s, &f->r.mem.base, &w);
	p.s = sample_of(f, &row, SP - 0x100);
	memset(q, 0, sizeof(*q));
	rest_size(&f->r, &p, &w, q);
	rest_copy(&f->r, &p.s, q);
	expect(row.what, "stack", SP - 0x100, q->stack_at);
	expect(row.what, "end", SP + 0x2000 + RESERVE, q->stack_at + q->n_stack);
	expect_bytes(row.what, q_stack(q), q->stack_at, q->n_stack);
	/* With nothing copied there is nothing to go on from. */
	p.s.stack.n = 0;
	memset(q, 0, sizeof(*q));
	rest_size(&f->r, &p, &w, q);
	assert_int_equal(0, q->n_stack);
	assert_int_equal(arch_host->n_regs, q->n_regs);
}

/* An activation so low that nothing can lie below it tells nothing. */
static void an_activation_near_zero(void **state)
{
	struct fix *f = *state;

	for (int above = 0; above < 2; above++) {
		struct pystack_anchor anchor = { .at = BLIND + 8 * (raddr)above };
		struct walk w = {
			.res = { .end = PYSTACK_OK, .n_anchors = 1, .anchors = &anchor }
		};
		struct perf_sample s = sample_of(f, &(struct row){ .flags = "" }, SP);

		hole.n = 0;
		f->c.native = true;
		rest_read(&f->r, &s, &f->r.mem.base, &w);
		assert_int_equal(above ? 8 : SP + COPIED, w.rest.at);
		assert_int_equal(above ? SP : 0, w.rest.far_sp);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_goes_to_the_resolver, setup, teardown),
		cmocka_unit_test_setup_teardown(a_lower_sample_that_ends_where_the_first_did,
						setup, teardown),
		cmocka_unit_test_setup_teardown(an_activation_near_zero, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
