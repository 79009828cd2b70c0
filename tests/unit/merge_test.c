/* SPDX-License-Identifier: MIT
 *
 * Stacks as letters, innermost first. Native: 'n' a frame, 'E' one that holds an anchor, 'e'
 * the evaluation loop without one, 'G' greenlet's, 'H' greenlet's with an anchor in it; a
 * blank ends a run. Anchors: how many Python frames each runs; '-' before one that lies in no
 * frame; 'o' that each evaluation loop runs one frame, 'O' two. Merged: n, g for native
 * frames, E for an activation, digits for Python frames, '!' where native frames are missing,
 * 'c' for a coroutine's root, 'l' for the end of what was read, '?' before unplaced ones.
 */
#include <stdlib.h>

#include "unit.h"
#include "base/base.h"
#include "stacks/merge.h"
#include "any.h"

enum { FRAME = 64, NOWHERE = 8 };

struct picture {
	struct unwind_frame frame[64];
	enum merge_hint hint[64];
	struct merge_run run[8];
	struct pystack_anchor anchor[16];
	struct merge_input in;
	uint64_t holder[16]; /* where the anchors lie */
	size_t n_holders;
};

static void draw_native(struct picture *p, const char *native, enum unwind_end end)
{
	uint64_t sp = 0x1000;
	uint32_t n = 0;

	for (const char *c = native; *c; c++) {
		if (*c == ' ') {
			p->run[p->in.n_runs++] = (struct merge_run){ n, UNWIND_NO_CFI };
			sp += FRAME; /* what could not be unwound */
			continue;
		}
		p->frame[n] = (struct unwind_frame){ .pc = 1, .sp = sp, .cfa = sp + FRAME };
		p->hint[n++] = *c == 'G' || *c == 'H' ? MERGE_IS_COROUTINE :
			       *c == 'E' || *c == 'e' ? MERGE_IS_EVAL :
							MERGE_PLAIN;
		if (*c == 'E' || *c == 'H')
			p->holder[p->n_holders++] = sp + FRAME / 2;
		sp += FRAME;
	}
	p->run[p->in.n_runs++] = (struct merge_run){ n, end };
}

static void draw_anchors(struct picture *p, const char *anchors)
{
	uint32_t total = 0;
	size_t holder = 0;

	for (const char *c = anchors; *c; c++) {
		struct pystack_anchor *a = &p->anchor[p->in.n_anchors++];
		bool nowhere = *c == '-', loop = *c == 'o' || *c == 'O';

		c += nowhere;
		total += *c == 'o' ? 1 : *c == 'O' ? 2 : (uint32_t)(*c - '0');
		*a = (struct pystack_anchor){ .n = total };
		a->at = loop ? PYSTACK_IN_LOOP : nowhere ? NOWHERE : p->holder[holder++];
	}
	p->in.n_python = total;
}

static void letters(const struct picture *p, const struct merge_item *item, size_t n, char *to)
{
	for (size_t i = 0; i < n; i++) {
		switch (item[i].kind) {
		case MERGE_NATIVE:
			*to++ = p->hint[item[i].i] == MERGE_IS_COROUTINE ? 'g' : 'n';
			break;
		case MERGE_EVAL:
			*to++ = 'E';
			break;
		case MERGE_PYTHON:
			*to++ = (char)('0' + item[i].i);
			break;
		case MERGE_END:
			*to++ = item[i].i == UNWIND_COROUTINE ? 'c' :
				item[i].i == UNWIND_LIMIT     ? 'l' :
								'!';
			break;
		case MERGE_UNPLACED:
			*to++ = '?';
			break;
		}
	}
	*to = '\0';
}

/* The items of @p. What is behind them is nothing to go by. */
static size_t merged(const struct picture *p, struct merge_item *item, size_t cap)
{
	for (size_t i = 0; i < cap; i++)
		item[i] = (struct merge_item){ .kind = MERGE_END };
	return merge(&p->in, item);
}

/* @p: what else is known. @more: Python frames beyond the last anchor. */
static void check_picture(struct picture p, const char *native, enum unwind_end end,
			  const char *anchors, uint32_t more, const char *want)
{
	struct merge_item item[128];
	char got[129];

	p.in.frame = p.frame;
	p.in.hint = p.hint;
	p.in.run = p.run;
	p.in.anchor = p.anchor;
	draw_native(&p, native, end);
	draw_anchors(&p, anchors);
	p.in.n_python += more;
	letters(&p, item, merged(&p, item, ARRAY_SIZE(item)), got);
	assert_string_equal(got, want);
}

static void check_with(const char *native, enum unwind_end end, const char *anchors,
		       uint32_t more, const char *want)
{
	check_picture((struct picture){ 0 }, native, end, anchors, more, want);
}

static void check(const char *native, const char *anchors, const char *want)
{
	check_with(native, UNWIND_BOTTOM, anchors, 0, want);
}

static void test_whole(void **state)
{
	check("n", "", "n");
	check("Enn", "1", "E0nn");
	check("nEnEnn", "12", "nE0nE12nn");
	check("EE", "11", "E0E1");
}

/* An activation that has no frame yet; one whose frame is not linked any more. */
static void test_edges(void **state)
{
	check("nEnEn", "01", "nEnE0n");
	check("nnnEn", "2", "nnnE01n");
}

/* What was found again further out stands behind a mark. */
static void test_broken(void **state)
{
	check("nn En", "2", "nn!E01n");
	check("n E En", "11", "n!E0!E1n");
	check_with("nEn", UNWIND_CUT, "12", 0, "nE0n!12");
	check_with("n", UNWIND_NO_CFI, "", 2, "n!01");
}

/* An anchor that no frame holds leaves its Python frames to the next; never lost. */
static void test_unplaced(void **state)
{
	check("nEn", "-12", "nE012n");
	check("nEn", "1-1", "nE0n?1");
	check("nn", "-1", "nn?0");
}

/* Up to 3.10 each activation runs one Python frame: an anchor each, whether it is the CFrame
 * of 3.10 or, where there is none, the place of an evaluation loop that was counted. */
static void test_counted_loops(void **state)
{
	check("enenn", "oo", "E0nE1nn");
	check("nenen", "o", "nnnE0n");	/* the newest has no frame yet, or none any more */
	check("eenen", "o", "nnnnn?0"); /* which one? */
	check("nen", "oo", "nnn?01");
	check("nenen", "oO", "nE0nE12n"); /* throw() has linked one to the outer one's */
	check_with("nene", UNWIND_CUT, "ooo", 0, "nE0nE1!2");
}

/* The loops beyond a greenlet's root run others' frames, however many those are. */
static void test_counted_loops_of_a_coroutine(void **state)
{
	check("nenGnen", "o", "nE0ngc");
	check("nenGnenen", "o", "nE0ngc");
	check("neneGGnenen", "oo", "nE0nE1gc");
	check("neneGnen", "o", "nnnE0gc");	  /* the newest has no frame yet */
	check("neneGnenGnen", "oo", "nE0nE1gc");  /* one that another one began */
	check("GnenGnen", "o", "g!0"); /* as it switches away: these may be another one's */
	check("GnenGnen", "oo", "g!01");
	check("neneneGnen", "o", "nnnnnngnnn?0"); /* which one? */
	check_with("nenGnen", UNWIND_CUT, "o", 0, "nE0ngc");
}

static void test_one_frame_each(void **state)
{
	check("EEnE", "111", "E0E1nE2");
	check("enEE", "11", "nnE0E1"); /* one that has not begun, or has ended */
	check("nE EnE", "111", "nE0!E1nE2");
	check_with("EnE", UNWIND_CUT, "11", 1, "E0nE1!2"); /* more frames than loops */
}

static void check_truncated(const char *native, const char *anchors, const char *want)
{
	check_picture((struct picture){ .in.truncated = true }, native, UNWIND_BOTTOM, anchors, 0,
		      want);
}

/* The innermost loops run those that were read, however many there are further out. */
static void test_cut_python_of_counted_loops(void **state)
{
	(void)state;
	check_truncated("enenen", "oo", "E0nE1nEl");
	check_truncated("enenenen", "oo", "E0nE1nEl");
	check_truncated("eneneGnen", "o", "E0nEl");
	check_picture((struct picture){ .in.truncated = true }, "nenenen", UNWIND_BOTTOM, "o", 1,
		      "nE0nE1l"); /* throw() has linked one to nothing */
	check_truncated("nen", "oo", "nnn?01");
}

/* Python frames that --max-frames cut: who runs them is not known, nor is what follows. */
static void test_cut_python(void **state)
{
	check_truncated("nEnen", "1", "nE0nEl");
	check_with("nEnEnen", UNWIND_BOTTOM, "11", 2, "nE0nE1nE23l");
	check_with("nenn", UNWIND_BOTTOM, "", 2, "nE01l");
	check_with("nn", UNWIND_BOTTOM, "", 2, "nn?01"); /* no loop to be seen */
}

static void test_coroutine(void **state)
{
	check("nEnGGnEn", "1", "nE0ngc");   /* what is further out belongs to others */
	check("nEnGnEn", "10", "nE0ngnEn"); /* not while it runs something further out */
	check("GnEn", "1", "gnE0n");	    /* the main stack, switching away */
	check("nEHn", "11", "nE0g1c");	    /* its own base object is no activation */
}

/* A greenlet that has not begun to run Python, or has ended: what is further out is another's. */
static void check_none(const char *native, enum unwind_end end, const char *want)
{
	check_picture((struct picture){ .in.none = true }, native, end, "", 0, want);
}

/* It copies another C stack over the one of these frames. */
static void test_coroutine_switches(void **state)
{
	(void)state;
	check("nGGnnEnEn", "11", "nggnnE0nE1n"); /* not yet */
	check("nGGnenEnEn", "11", "ngg!01");
	check("nGGneEnEn", "11", "nggnnE0nE1n"); /* a handler that tail calls lead to */
	check("nGGeEneEn", "11", "nggnE0nnE1n");
	check("nGGneenEn", "1", "ngg!0"); /* another loop's */
	check("nGGnee", "-1", "ngg!0");
	check("nGGne En", "1", "ngg!0");
	check("nGGn nEnEn", "11", "ngg!01");
	check("nGG EnEn", "11", "ngg!01");
	check("nGGnen", "-1", "ngg!0");
	check("neGnEn", "1", "nngnE0n"); /* a loop that is being entered calls it */
	check("nGnEnen", "1", "ngnE0nnn");
}

static void test_bare_coroutine(void **state)
{
	(void)state;
	check_none("nGnGGnen", UNWIND_BOTTOM, "ngc");
	check_none("nGn", UNWIND_CUT, "ngc");
	check_none("nG nen", UNWIND_BOTTOM, "ngc");
	check_none("nGGn", UNWIND_BOTTOM, "nggn"); /* it ends with its interpreter */
	check_none("neGnen", UNWIND_BOTTOM, "nngnnn"); /* its own loop: its state was not found */
	check_none("nen", UNWIND_BOTTOM, "nnn");
	check("nGnen", "", "ngnnn");
}

/* A frame owns what lies from its stack pointer up to its caller's, which is not its own. */
static void test_owner(void **state)
{
	static const struct unwind_frame frame[] = { { .sp = 0x100, .cfa = 0x140 },
						     { .sp = 0x140, .cfa = 0x140 },
						     { .sp = 0x140, .cfa = 0x180 } };

	assert_int_equal(3, merge_owner(frame, 0, 3, 0xff));
	assert_int_equal(0, merge_owner(frame, 0, 3, 0x100));
	assert_int_equal(0, merge_owner(frame, 0, 3, 0x13f));
	assert_int_equal(2, merge_owner(frame, 0, 3, 0x140));
	assert_int_equal(3, merge_owner(frame, 0, 3, 0x180));
	assert_int_equal(3, merge_owner(frame, 1, 3, 0x100));
}

/* Two activations in one frame: the compiler may inline the loop that calls itself. */
static void test_two_in_one(void **state)
{
	struct picture p = { 0 };
	struct merge_item item[128];
	char got[129];

	p.in = (struct merge_input){
		.frame = p.frame, .hint = p.hint, .run = p.run, .anchor = p.anchor
	};
	draw_native(&p, "nEn", UNWIND_BOTTOM);
	draw_anchors(&p, "1");
	p.anchor[1] = (struct pystack_anchor){ .at = p.anchor[0].at + 8, .n = 3 };
	p.in.n_anchors = 2;
	p.in.n_python = 3;
	letters(&p, item, merged(&p, item, ARRAY_SIZE(item)), got);
	assert_string_equal(got, "nE012n");
}

/* ---- Many stacks: what must hold of each ---- */

/* Frames of one to three words, gaps between some, in up to three runs. */
static void any_native(struct picture *p)
{
	uint64_t at = 0x1000;
	uint32_t n = 1 + any(7);

	for (uint32_t i = 0; i < n; i++) {
		p->frame[i].sp = at += 8 * (uint64_t)any(2);
		p->frame[i].cfa = at += 8 * (uint64_t)(1 + any(3));
		p->hint[i] = (enum merge_hint)any(3);
		if (p->in.n_runs < 3 && (i == n - 1 || any(4) == 0))
			p->run[p->in.n_runs++] =
				(struct merge_run){ i + 1,
						    any(2) ? UNWIND_BOTTOM : UNWIND_NO_CFI };
	}
}

static void any_anchors(struct picture *p, bool loops)
{
	uint32_t total = 0;
	uint64_t at = 0x1000;

	p->in.n_anchors = any(5);
	for (uint32_t a = 0; a < p->in.n_anchors; a++) {
		total += loops ? 1 + (any(4) == 0) : any(3);
		at += 8 * (uint64_t)any(8);
		p->anchor[a].at = loops ? PYSTACK_IN_LOOP : at;
		p->anchor[a].n = total;
	}
	p->in.n_python = total + (any(3) == 0) - (total && any(5) == 0);
	p->in.truncated = any(4) == 0;
}

enum { NOBODY = 99 };

/* How many evaluation loops there are up to a coroutine's root, of which as many as anchors are
 * most likely, then one more; else how many there are. */
static uint32_t loops_within(const struct picture *p, uint32_t n_frames)
{
	uint32_t n = p->in.n_anchors, all = 0, more = 0;

	for (uint32_t i = 0; i < n_frames; i++) {
		all += p->hint[i] == MERGE_IS_EVAL;
		if (p->hint[i] == MERGE_IS_COROUTINE && all == n)
			return n;
		if (p->hint[i] == MERGE_IS_COROUTINE && all == n + 1)
			more = all;
	}
	return more ? more : all;
}

/* Of which frame each anchor is, or NOBODY. */
static void owners(const struct picture *p, uint32_t n_frames, bool whole, uint32_t *owner)
{
	const struct merge_input *in = &p->in;
	uint32_t loop[8], n_loops = 0, lowest = 0, within = loops_within(p, n_frames);
	bool by_loops = in->n_anchors && in->anchor[0].at == PYSTACK_IN_LOOP, entering, cut;

	for (uint32_t i = 0; i < n_frames; i++)
		if (p->hint[i] == MERGE_IS_EVAL)
			loop[n_loops++] = i;
	cut = in->truncated && within > in->n_anchors;
	entering = !cut && within == in->n_anchors + 1;
	for (uint32_t a = 0; a < in->n_anchors; a++) {
		owner[a] = NOBODY;
		for (uint32_t i = lowest; !by_loops && i < n_frames; i++)
			if (in->anchor[a].at >= p->frame[i].sp &&
			    in->anchor[a].at < p->frame[i].cfa)
				owner[a] = lowest = i;
		if (by_loops && (cut || entering || within == in->n_anchors ||
				 (within < in->n_anchors && !whole)))
			owner[a] = a + entering < n_loops ? loop[a + entering] : NOBODY;
	}
}

/* Behind which frame each Python frame belongs: its anchor's, or that of the next which has
 * one; NOBODY. */
static uint32_t home_of(const struct picture *p, const uint32_t *owner, uint32_t python)
{
	for (uint32_t a = 0; a < p->in.n_anchors; a++)
		if (p->anchor[a].n > python && owner[a] != NOBODY)
			return owner[a];
	return NOBODY;
}

static bool is_owned(const struct picture *p, const uint32_t *owner, uint32_t from,
		     uint32_t to)
{
	for (uint32_t a = 0; a < p->in.n_anchors; a++)
		if (owner[a] >= from && owner[a] <= to)
			return true;
	return false;
}

/* The frames that are told of a stack that is being copied over; @n_frames: it is not. */
static uint32_t told_of_switch(const struct picture *p, const uint32_t *owner,
			       uint32_t n_frames)
{
	uint32_t begin = 0, end, first = n_frames;
	bool mixed = false;

	while (begin < n_frames && p->hint[begin] == MERGE_PLAIN)
		begin++;
	for (end = begin; end < n_frames && p->hint[end] == MERGE_IS_COROUTINE;)
		end++;
	for (uint32_t a = p->in.n_anchors; a-- > 0;)
		first = owner[a] != NOBODY ? owner[a] : first;
	for (uint32_t i = end; i < first; i++)
		mixed |= p->hint[i] == MERGE_IS_EVAL &&
			 (i + 1 == n_frames || p->hint[i + 1] != MERGE_IS_EVAL);
	for (uint32_t r = 0; r < p->in.n_runs; r++)
		mixed |= p->run[r].end != UNWIND_BOTTOM && p->run[r].to >= end &&
			 p->run[r].to <= first && p->run[r].to < n_frames;
	mixed |= p->in.n_anchors && p->anchor[0].at == PYSTACK_IN_LOOP;
	return begin < end && mixed && p->in.n_python ? end : n_frames;
}

/* What a stack of these is, by where each frame's home is. */
struct expected {
	struct merge_item item[64];
	size_t n;
	uint32_t python;
};

static void expect(struct expected *e, enum merge_kind kind, uint32_t i)
{
	e->item[e->n++] = (struct merge_item){ kind, i };
}

static void expect_python(struct expected *e, const struct picture *p, const uint32_t *owner,
			  uint32_t home)
{
	while (e->python < p->in.n_python &&
	       (home == NOBODY || home_of(p, owner, e->python) == home))
		expect(e, MERGE_PYTHON, e->python++);
}

/* False: nothing of what is further out is known. */
static bool expect_frame(struct expected *e, const struct picture *p, const uint32_t *owner,
			 uint32_t i)
{
	const struct merge_input *in = &p->in;
	uint32_t anchored = in->n_anchors ? in->anchor[in->n_anchors - 1].n : 0;
	bool more = is_owned(p, owner, i, NOBODY - 1), mine = is_owned(p, owner, i, i);
	bool coroutine = p->hint[i] == MERGE_IS_COROUTINE;

	if (!more && e->python == anchored && (anchored < in->n_python || in->truncated) &&
	    p->hint[i] == MERGE_IS_EVAL) {
		expect(e, MERGE_EVAL, i);
		expect_python(e, p, owner, NOBODY);
		expect(e, MERGE_END, UNWIND_LIMIT);
		return false;
	}
	expect(e, mine && !coroutine ? MERGE_EVAL : MERGE_NATIVE, i);
	expect_python(e, p, owner, i);
	if (!coroutine || !in->n_anchors || e->python < in->n_python ||
	    is_owned(p, owner, i + 1, NOBODY - 1))
		return true;
	expect(e, MERGE_END, UNWIND_COROUTINE);
	return false;
}

static void expect_all(struct expected *e, const struct picture *p)
{
	uint32_t n_frames = p->run[p->in.n_runs - 1].to, owner[16], told, i = 0;
	bool whole = true, goes_on = true;

	for (uint32_t r = 0; r < p->in.n_runs; r++)
		whole = whole && p->run[r].end == UNWIND_BOTTOM;
	owners(p, n_frames, whole, owner);
	told = told_of_switch(p, owner, n_frames);
	while (told < n_frames && i < told)
		expect(e, MERGE_NATIVE, i++);
	if (told < n_frames) {
		expect(e, MERGE_END, UNWIND_CUT);
		expect_python(e, p, owner, NOBODY);
		return;
	}
	for (uint32_t r = 0; r < p->in.n_runs && goes_on; r++) {
		while (i < p->run[r].to && goes_on)
			goes_on = expect_frame(e, p, owner, i++);
		if (!goes_on)
			break;
		goes_on = p->run[r].end != UNWIND_BOTTOM;
		if (goes_on)
			expect(e, MERGE_END, (uint32_t)p->run[r].end);
		else if (e->python < p->in.n_python)
			expect(e, MERGE_UNPLACED, 0);
	}
	expect_python(e, p, owner, NOBODY);
}

static void test_any(void **state)
{
	for (int k = 0; k < 200000; k++) {
		struct picture p = { 0 };
		struct expected want = { .n = 0 };
		struct merge_item item[64];

		p.in = (struct merge_input){
			.frame = p.frame, .hint = p.hint, .run = p.run, .anchor = p.anchor
		};
		any_native(&p);
		any_anchors(&p, k & 1);
		expect_all(&want, &p);
		assert_int_equal(want.n, merged(&p, item, ARRAY_SIZE(item)));
		for (size_t i = 0; i < want.n; i++) {
			assert_int_equal(want.item[i].kind, item[i].kind);
			assert_int_equal(want.item[i].i, item[i].i);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_unplaced),
		cmocka_unit_test(test_one_frame_each),
		cmocka_unit_test(test_cut_python),
		cmocka_unit_test(test_cut_python_of_counted_loops),
		cmocka_unit_test(test_counted_loops),
		cmocka_unit_test(test_counted_loops_of_a_coroutine),
		cmocka_unit_test(test_coroutine),
		cmocka_unit_test(test_coroutine_switches),
		cmocka_unit_test(test_bare_coroutine),
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_two_in_one),
		cmocka_unit_test(test_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
