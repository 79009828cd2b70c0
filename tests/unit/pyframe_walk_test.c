/* SPDX-License-Identifier: MIT
 *
 * pyframe_walk: stacks and thread lists drawn as letters (pyworld.h), in the layouts
 * of 3.11 (_PyCFrame, entry frames), 3.12 (_PyCFrame, shims), 3.14 (shims) and 3.15
 * (tagged code, a base frame).
 */
#include <errno.h>

#include "unit.h"
#include "damage.h"

static struct world *world(uint16_t version)
{
	return world_create(pylayout_find(version));
}

/*
 * Walks. What comes out is drawn like what went in, then how it ended:
 *   | the whole stack   ! a fault   + no room for more   ~ in mid-update
 */

struct walk_row {
	uint16_t version;
	const char *in, *out;
	uint32_t cap;
};

static const struct walk_row walk_rows[] = {
	/* whole */
	{ 0x030b, "e", "e|", 9 },
	{ 0x030b, "ffe", "ffe|", 9 },
	{ 0x030b, "fefee", "fefee|", 9 },
	{ 0x030c, "fs", "fs|", 9 },
	{ 0x030c, "ffsfsffs", "ffsfsffs|", 9 },
	{ 0x030e, "ffsfs", "ffsfs|", 9 },
	{ 0x030f, "fffb", "fffs|", 9 },
	{ 0x030f, "fsfsb", "fsfss|", 9 },
	/* a thread without frames */
	{ 0x030b, "", "|", 9 },
	{ 0x030c, "", "|", 9 },
	{ 0x030f, "b", "s|", 9 },
	/* generators on top and between */
	{ 0x030b, "gfe", "gfe|", 9 },
	{ 0x030b, "Gffe", "Gffe|", 9 },
	{ 0x030b, "fGgfe", "fGgfe|", 9 },
	{ 0x030c, "ggsfs", "ggsfs|", 9 },
	{ 0x030f, "gfgsfb", "gfgsfs|", 9 },
	/* cut by --max-frames */
	{ 0x030b, "fffe", "ff+", 2 },
	{ 0x030c, "ffs", "f+", 1 },
	{ 0x030f, "ffb", "+", 0 },
	{ 0x030c, "ffs", "ffs|", 3 },
	/* a frame that can't be read, or is none */
	{ 0x030b, "ff?", "ff!", 9 },
	{ 0x030c, "?", "!", 9 },
	{ 0x030c, "fs?", "fs!", 9 },
	{ 0x030f, "ff/", "ff!", 9 },
	/* caught in mid-update: ends where no whole stack ends */
	{ 0x030b, "ff", "ff~", 9 },
	{ 0x030b, "fef", "fef~", 9 },
	{ 0x030b, "g", "g~", 9 },
	{ 0x030b, "G", "G~", 9 }, /* returns: unlinked before the thread moves on */
	{ 0x030b, "fG", "fG~", 9 },
	{ 0x030c, "ff", "ff~", 9 },
	{ 0x030c, "fsg", "fsg~", 9 },
	{ 0x030e, "sf", "sf~", 9 },
	{ 0x030f, "gf", "gf~", 9 },
	/* a circle is as deep as there is room */
	{ 0x030b, "fe@", "fefefe+", 6 },
	{ 0x030f, "s@", "sss+", 3 },
};

static char letter_of(const struct pyframe *f)
{
	if (f->frame & PYFRAME_SHIM)
		return 's';
	if (f->frame & PYFRAME_GENERATOR)
		return f->frame & PYFRAME_ENTRY ? 'G' : 'g';
	return f->frame & PYFRAME_ENTRY ? 'e' : 'f';
}

/* --- one word that is another --- */

static struct damage damaged_walks, damaged_finds;

/* A walk of the thread at @ts, or a search for the one that bears @tid. */
struct search {
	struct world *w;
	raddr ts;
	uint64_t tid;
	uint32_t max;
};

/* Its end, and whether it came as far as before. */
static int look_at_walk(void *arg)
{
	struct search *s = arg;
	struct pyframe f[16];
	struct pywalk r = pyframe_walk(&s->w->base, &s->w->walk, s->ts, f, s->max);

	return (int)r.end + (r.n == s->tid ? 0 : 4);
}

/* What it finds: the same, another one, none, too many, or no memory; and if nothing is sure. */
static int look_for_thread(void *arg)
{
	struct search *s = arg;
	struct pyframe_met_row rows[16];
	struct pyframe_met met = { .row = rows, .cap = ARRAY_SIZE(rows) };
	uint64_t unique = 0;
	raddr ts;
	int r = pyframe_find_thread(&s->w->base, &s->w->walk, s->tid, s->max, &met, &ts, &unique);

	if (r == 0)
		return ts == s->ts ? 0 : 1;
	return r == -ESRCH ? (unique ? 2 : 3) : r == -ELOOP ? 4 : 5 + met.all;
}

/* Of more states than there is room for only as many are told of. */
static void more_than_can_be_met(void **state)
{
	enum { STATES = 6 };
	struct pyframe_met_row rows[STATES];

	for (uint32_t cap = 1; cap <= STATES; cap++) {
		struct world *w = world(0x030c);
		struct pyframe_met met = { .row = rows, .cap = cap };
		raddr interp = world_interp(w), ts;
		uint64_t unique;

		for (uint64_t i = 1; i <= STATES - 1; i++)
			world_thread(w, interp, i, true);
		assert_int_equal(pyframe_find_thread(&w->base, &w->walk, 99, 100, &met, &ts,
						     &unique),
				 -ESRCH);
		assert_int_equal(met.n, MIN(cap, STATES - 1));
		assert_int_equal(met.all, cap >= STATES - 1);
		free(w);
	}
}

static void check_walk(const struct walk_row *row)
{
	struct world *w = world(row->version);
	raddr ts = world_thread(w, world_interp(w), 7, true);
	uint32_t depth = (uint32_t)strcspn(row->in, "?/@");
	struct pyframe f[16];
	char out[32] = "";
	struct pywalk r;

	world_stack(w, ts, row->in, NULL, NULL);
	r = pyframe_walk(&w->base, &w->walk, ts, f, row->cap);
	for (uint32_t i = 0; i < r.n; i++) {
		out[i] = letter_of(&f[i]);
		assert_int_equal(f[i].frame & ~(raddr)PYFRAME_BITS, w->frame[i % depth]);
		assert_int_equal(f[i].code, (i % depth + 1) << 12); /* tags are gone */
		assert_int_equal(f[i].instr, f[i].code + 16);
	}
	out[r.n] = "|!+~"[r.end];
	if (strcmp(out, row->out))
		fail_msg("%x \"%s\": \"%s\", not \"%s\"", row->version, row->in, out,
			 row->out);
	assert_int_equal(r.first, depth ? w->frame[0] : world_end_of(row->in));
	if (r.end == PYWALK_LIMIT)
		assert_int_equal(r.next, w->frame[r.n % depth]);
	if (r.end == PYWALK_FAULT)
		assert_int_equal(r.next, world_end_of(row->in));
	assert_int_equal(r.cframe, pyoff_has(w->l.tstate.cframe) ?
					   world_get(w, ts, w->l.tstate.cframe) :
					   0);
	damage_reads(&damaged_walks, w, look_at_walk,
		     &(struct search){ w, ts, r.n, row->cap });
	free(w);
}

static void walks(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(walk_rows); i++)
		check_walk(&walk_rows[i]);
	damage_expect(&damaged_walks,
		      (uint64_t[DAMAGE_ENDS]){ 5075, 792, 530, 1566, 104, 1640, 1, 172 });
}

static void deepest_walk(void **state)
{
	struct pyframe *f = calloc(PYWALK_MAX_FRAMES + 1, sizeof(*f));
	struct world *w = world(0x030c);
	raddr ts = world_thread(w, world_interp(w), 7, true);
	struct pywalk r;

	world_stack(w, ts, "fff@", NULL, NULL);
	r = pyframe_walk(&w->base, &w->walk, ts, f, UINT32_MAX);
	assert_int_equal(r.n, PYWALK_MAX_FRAMES);
	assert_int_equal(r.end, PYWALK_LIMIT);
	assert_int_equal(f[PYWALK_MAX_FRAMES].code, 0);
	free(f);
	free(w);
}

static void thread_state_that_is_gone(void **state)
{
	for (uint16_t v = 0x030b; v <= 0x030f; v++) {
		struct world *w = world(v);
		raddr ts = world_thread(w, world_interp(w), 7, true);
		struct pyframe f[4];
		struct pywalk r;

		world_stack(w, ts, "ffb", NULL, NULL);
		r = pyframe_walk(&w->base, &w->walk, WORLD_NOWHERE, f, 4);
		assert_int_equal(r.end, PYWALK_FAULT);
		assert_int_equal(r.n, 0);
		assert_int_equal(r.first, 0);
		if (pyoff_has(w->l.tstate.cframe)) {
			world_put(w, ts, w->l.tstate.cframe, WORLD_NOWHERE, 8);
			r = pyframe_walk(&w->base, &w->walk, ts, f, 4);
			assert_int_equal(r.end, PYWALK_FAULT);
			assert_int_equal(r.n, 0);
		}
		free(w);
	}
}

/* The header of a frame half of which is not there. */
static void frame_at_a_hole(void **state)
{
	struct world *w = world(0x030e);
	raddr ts = world_thread(w, world_interp(w), 7, true);
	struct pyframe f[4];
	struct pywalk r;

	world_stack(w, ts, "ffs", NULL, NULL);
	world_hole(w, w->frame[1] + w->l.frame.size - 8, 4096);
	r = pyframe_walk(&w->base, &w->walk, ts, f, 4);
	assert_int_equal(r.end, PYWALK_FAULT);
	assert_int_equal(r.n, 0); /* the innermost lies above it, in the hole */
	assert_int_equal(r.next, w->frame[0]);
	world_hole(w, w->frame[1] + w->l.frame.size - 8, 8);
	r = pyframe_walk(&w->base, &w->walk, ts, f, 4);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.next, w->frame[1]);
	free(w);
}

/*
 * Thread lists: a digit is a thread with that number, '*' behind it marks it active (in
 * 3.11, which does not tell: it has a frame), ',' begins another interpreter. Found is
 * the thread's place, counted over all.
 */

struct find_row {
	uint16_t version;
	const char *threads;
	uint64_t tid;
	int ret, at; /* at: with ret 0 */
	uint32_t max;
};

static const struct find_row find_rows[] = {
	{ 0x030b, "1", 1, 0, 0, 99 },
	{ 0x030b, "123", 3, 0, 2, 99 },
	{ 0x030b, "123", 4, -ESRCH, 0, 99 },
	{ 0x030b, "55*", 5, 0, 1, 99 }, /* a new thread's state bears its maker's number */
	{ 0x030b, "5*5", 5, 0, 0, 99 },
	{ 0x030b, "55", 5, 0, 1, 99 },
	{ 0x030b, "1*5,5*", 5, 0, 2, 99 },
	{ 0x030b, "", 5, -ESRCH, 0, 99 },
	{ 0x030c, "1*2*3*", 2, 0, 1, 99 },
	{ 0x030c, "1*23*", 2, 0, 1, 99 }, /* not active, but the only one */
	{ 0x030c, "77*", 7, 0, 1, 99 },
	{ 0x030c, "7*7", 7, 0, 0, 99 },
	{ 0x030c, "7,1*7*", 7, 0, 2, 99 }, /* a thread in two interpreters */
	{ 0x030c, "7*,7", 7, 0, 0, 99 },
	{ 0x030c, "7,7", 7, 0, 1, 99 },
	{ 0x030c, "1*,,,2*", 2, 0, 1, 99 },
	{ 0x030c, "1*,,,2*", 3, -ESRCH, 0, 99 },
	{ 0x030f, "1*2*,3*4*", 4, 0, 3, 99 },
	{ 0x030f, "1*2*,3*4*", 4, 0, 3, 4 },
	{ 0x030f, "1*2*,3*4*", 4, -ELOOP, 0, 3 },
	{ 0x030f, "1*2*,3*4*", 2, 0, 1, 2 },
	{ 0x030f, "1*2*,3*4*", 9, -ESRCH, 0, 4 },
	{ 0x030f, "1*2*,3*4*", 9, -ELOOP, 0, 3 },
};

/* Returns how many threads there are; their states in @ts. */
static size_t draw_threads(struct world *w, const char *p, raddr ts[16])
{
	raddr interp = world_interp(w);
	size_t n = 0;

	w->chunk = 512;
	for (; *p; p++) {
		if (*p == '*' && !w->l.active_bit)
			world_stack(w, ts[n - 1], "e", NULL, NULL);
		else if (*p == ',')
			interp = world_interp(w);
		else if (*p != '*')
			ts[n++] = world_thread(w, interp, (uint64_t)(*p - '0'), p[1] == '*');
		if (*p != '*' && *p != ',')
			world_top(w, ts[n - 1], 0); /* 3.11: a C frame that runs nothing */
	}
	return n;
}

static void finds(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(find_rows); i++) {
		const struct find_row *row = &find_rows[i];
		struct world *w = world(row->version);
		uint64_t unique;
		raddr ts[16], got = 0;
		int r;

		draw_threads(w, row->threads, ts);
		r = pyframe_find_thread(&w->base, &w->walk, row->tid, row->max, NULL, &got,
				&unique);
		if (r != row->ret || (r == 0 && got != ts[row->at]))
			fail_msg("row %zu \"%s\": %d", i, row->threads, r);
		damage_reads(&damaged_finds, w, look_for_thread,
			     &(struct search){ w, got, row->tid, row->max });
		free(w);
	}
	damage_expect(&damaged_finds,
		      (uint64_t[DAMAGE_ENDS]){ 812, 177, 277, 196, 176, 992, 0, 0 });
}

static int find(struct world *w, uint64_t tid, uint64_t *unique)
{
	raddr ts;

	return pyframe_find_thread(&w->base, &w->walk, tid, 99, NULL, &ts, unique);
}

static void lists_that_can_not_be_read(void **state)
{
	struct world *w = world(0x030e);
	raddr ts[16], interp;
	uint64_t unique;

	assert_int_equal(find(w, 1, &unique), -ESRCH); /* no interpreter yet */
	draw_threads(w, "1*2*3*", ts);
	interp = world_get(w, w->runtime, w->l.runtime.interp_head);
	world_put(w, ts[1], w->l.tstate.next, WORLD_NOWHERE, 8);
	assert_int_equal(find(w, 2, &unique), 0);
	assert_int_equal(find(w, 3, &unique), -EFAULT);
	world_put(w, ts[1], w->l.tstate.next, ts[0], 8); /* a circle */
	assert_int_equal(find(w, 3, &unique), -ELOOP);
	world_put(w, ts[1], w->l.tstate.next, 0, 8);
	world_put(w, interp, w->l.interp.next, interp, 8);
	assert_int_equal(find(w, 3, &unique), -ELOOP);
	assert_int_equal(pyframe_threads_unique(&w->base, &w->walk, &unique), -ELOOP);
	world_put(w, interp, w->l.interp.next, WORLD_NOWHERE, 8);
	assert_int_equal(find(w, 2, &unique), 0);
	assert_int_equal(find(w, 3, &unique), -EFAULT);
	assert_int_equal(pyframe_threads_unique(&w->base, &w->walk, &unique), -EFAULT);
	world_hole(w, w->runtime, 1024);
	assert_int_equal(find(w, 2, &unique), -EFAULT);
	assert_int_equal(pyframe_threads_unique(&w->base, &w->walk, &unique), -EFAULT);
	free(w);
}

/* Where there is little room those that run nothing are left out; then the list is not all,
 * and may be another one soon though no thread was made. */
static void states_that_are_left_out(void **state)
{
	struct world *w = world(0x030e);
	raddr ts[16], got[4], interp;
	uint64_t unique;
	uint32_t n;

	interp = world_interp(w);
	for (int i = 0; i < 3; i++)
		ts[i] = world_thread(w, interp, (uint64_t)i + 1, true);
	assert_int_equal(
		pyframe_all_states(&w->base, &w->walk, 99, got, ARRAY_SIZE(got), &n, &unique),
		0);
	assert_int_equal(n, 2);
	assert_int_equal(unique, 0);
	w->chunk = 512;
	world_stack(w, ts[2], "f", NULL, NULL);
	assert_int_equal(
		pyframe_all_states(&w->base, &w->walk, 99, got, ARRAY_SIZE(got), &n, &unique),
		0);
	assert_int_equal(n, 3);
	assert_int_equal(got[2], ts[2]);
	assert_int_not_equal(unique, 0);
	free(w);
}

/* Each C library keeps a thread's number elsewhere: where there is none it may be the other's. */
static void number_of_a_pthread(void **state)
{
	enum { PID_TOP = 1 << 22, FIRST = 16, SECOND = 64 };
	static const struct {
		uint16_t at[2];
		uint32_t first, second;
		uint64_t number; /* 0: not found */
	} rows[] = {
		{ { FIRST, SECOND }, 7, 8, 7 },
		{ { FIRST, SECOND }, 0, 8, 8 },
		{ { FIRST, SECOND }, PID_TOP, 8, PID_TOP },
		{ { FIRST, SECOND }, PID_TOP + 1, 8, 8 },
		{ { FIRST, SECOND }, 0, PID_TOP + 1, 0 },
		{ { FIRST, SECOND }, 0, 0, 0 },
		{ { 0, SECOND }, 7, 8, 8 },
		{ { FIRST, 0 }, 0, 8, 0 },
	};
	struct world *w = world(0x030c);
	raddr at = world_take(w, 128);
	uint64_t number = 99;

	world_put(w, at, (pyoff)AT(0), 5, 4); /* a place 0 is none */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		world_put(w, at, (pyoff)AT(FIRST), rows[i].first, 4);
		world_put(w, at, (pyoff)AT(SECOND), rows[i].second, 4);
		assert_int_equal(pyframe_pthread_number(&w->base, rows[i].at, at, &number),
				 rows[i].number ? 0 : -ESRCH);
		if (rows[i].number)
			assert_int_equal(number, rows[i].number);
	}
	assert_int_equal(pyframe_pthread_number(&w->base, rows[0].at, 0, &number), -ESRCH);
	assert_int_equal(pyframe_pthread_number(&w->base, rows[0].at, WORLD_NOWHERE, &number),
			 -ESRCH);
	world_hole(w, at + FIRST, 4);
	assert_int_equal(pyframe_pthread_number(&w->base, rows[0].at, at, &number), 0);
	assert_int_equal(number, 8);
	free(w);
}

static uint64_t digest(struct world *w)
{
	uint64_t unique;

	assert_int_equal(pyframe_threads_unique(&w->base, &w->walk, &unique), 0);
	return unique;
}

/* "None" stays true while no thread is made, and the digest says so. */
static void digest_tells_of_new_threads(void **state)
{
	struct world *w = world(0x030d);
	raddr first = world_interp(w), second = world_interp(w), ts;
	uint64_t none, before, now;

	ts = world_thread(w, first, 1, true);
	world_thread(w, first, 2, true);
	assert_int_equal(find(w, 9, &none), -ESRCH);
	assert_int_equal(digest(w), none);
	assert_int_equal(find(w, 8, &now), -ESRCH);
	assert_int_equal(now, none);
	/* One that ends changes nothing. */
	world_put(w, first, w->l.interp.threads_head, world_get(w, ts, w->l.tstate.next), 8);
	assert_int_equal(digest(w), none);
	before = none;
	world_thread(w, first, 9, true);
	assert_int_not_equal(digest(w), before);
	assert_int_equal(find(w, 9, &now), 0);
	/* In the other interpreter, and one more interpreter. */
	before = digest(w);
	world_thread(w, second, 9, true);
	assert_int_not_equal(digest(w), before);
	before = digest(w);
	world_interp(w);
	assert_int_not_equal(digest(w), before);
	free(w);
}

/* A state that no thread owns yet may become any thread's without a trace; in 3.11 none
 * can be told from others. */
static void nothing_is_sure(void **state)
{
	static const struct {
		uint16_t version;
		const char *threads;
		bool sure;
	} rows[] = {
		{ 0x030c, "1*2*", true }, { 0x030c, "1*0", false },  { 0x030c, "0,1*", false },
		{ 0x030f, "1*,2", true }, { 0x030f, "1*,0", false }, { 0x030b, "1*2*", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct world *w = world(rows[i].version);
		uint64_t unique;
		raddr ts[16];

		draw_threads(w, rows[i].threads, ts);
		assert_int_equal(find(w, 9, &unique), -ESRCH);
		assert_int_equal(unique != 0, rows[i].sure);
		assert_true(!rows[i].sure || unique == digest(w));
		free(w);
	}
}

/* One made here and one there are not the same as two here. */
static void digest_knows_interpreters_apart(void **state)
{
	struct world *a = world(0x030c), *b = world(0x030c);
	raddr ts[16];

	draw_threads(a, "11,2", ts);
	draw_threads(b, "1,22", ts);
	assert_int_not_equal(digest(a), digest(b));
	free(a);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_than_can_be_met),
		cmocka_unit_test(number_of_a_pthread),
		cmocka_unit_test(walks),
		cmocka_unit_test(deepest_walk),
		cmocka_unit_test(thread_state_that_is_gone),
		cmocka_unit_test(frame_at_a_hole),
		cmocka_unit_test(finds),
		cmocka_unit_test(lists_that_can_not_be_read),
		cmocka_unit_test(states_that_are_left_out),
		cmocka_unit_test(digest_tells_of_new_threads),
		cmocka_unit_test(nothing_is_sure),
		cmocka_unit_test(digest_knows_interpreters_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
