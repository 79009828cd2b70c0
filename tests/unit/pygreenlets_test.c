/* SPDX-License-Identifier: MIT
 *
 * pygreenlets: parked greenlets among the garbage collector's objects of a made-up CPython.
 */
#include <errno.h>
#include <stdlib.h>

#include "unit.h"
#include "offsets/debug_offsets.h"
#include "python/pygreenlets.h"
#include "damage.h"
#include "debug_offsets_fixtures.h"
#include "pytasks_made.h"

enum {
	KEPT = 256,   /* bytes of what a greenlet keeps elsewhere */
	MANY = 5000,  /* objects, more than are looked at before the clock is */
	DEEPEST = 16, /* bases of a type that are looked at */
	FROZEN = 3,   /* the list of what gc.freeze() set aside */
	/* Words of _Py_DebugOffsets, in 3.14. */
	INTERP_SIZE_3_14 = 6,
	GC_3_14 = 11,
	GC_SIZE_3_14 = 81,
	GC_COLLECTING_3_14,
};

/* What is known of a version's collector. From 3.13 on its process tells. */
struct build {
	uint16_t version;
	bool of_runtime;
	uint16_t lists; /* from the runtime or interpreter on */
	const uint64_t *told;
	size_t n;
	uint64_t gc_size; /* told instead, where it is not 0 */
};

#define TOLD(words) .told = (words), .n = sizeof(words)

static const struct build builds[] = {
	{ .version = 0x0308, .of_runtime = true, .lists = 368 },
	{ .version = 0x0309, .lists = 640 },
	{ .version = 0x030a, .lists = 640 },
	{ .version = 0x030b, .lists = 672 },
	{ .version = 0x030c, .lists = 136 },
	{ .version = 0x030d, .lists = 7424, TOLD(offsets_3_13_0) },
	{ .version = 0x030e, .lists = 7432, TOLD(offsets_3_14_10) },
	{ .version = 0x030e, .lists = 7432, TOLD(offsets_3_14_10), .gc_size = 240 },
	{ .version = 0x030f, .lists = 7408, TOLD(offsets_3_15_2) },
};

struct fix {
	struct made m;
	const struct build *build;
	raddr interp, greenlet, frame; /* types */
};

/* The @i-th list, of an interpreter or the runtime. The last one has a word before it up to
 * 3.13. */
static raddr list_of(const struct fix *f, raddr interp, int i)
{
	return (f->build->of_runtime ? f->m.w->runtime : interp) + f->build->lists +
	       24u * (raddr)i + (i == FROZEN && f->build->version < 0x030e ? 8 : 0);
}

static void tell(struct fix *f, size_t word, uint64_t v)
{
	put(f->m.w, f->m.w->runtime + 8 * word, v, 8);
}

static void make_lists_of(struct fix *f, raddr interp)
{
	for (int i = 0; i <= FROZEN; i++) {
		put(f->m.w, list_of(f, interp, i), list_of(f, interp, i), 8);
		put(f->m.w, list_of(f, interp, i) + 8, list_of(f, interp, i), 8);
	}
}

static void import_greenlet(struct fix *f, raddr interp, const char *name)
{
	raddr dict = a_dict(&f->m, 1, (const char *[]){ "x" }, (raddr[]){ WORLD_NOWHERE });

	import(&f->m, interp, name, a_module(&f->m, dict));
}

static size_t index_of(uint16_t version)
{
	size_t i = 0;

	while (versions[i] != version)
		i++;
	return i;
}

static void fix_init(struct fix *f, const struct build *b)
{
	struct world *w;

	f->build = b;
	make_bare(&f->m, index_of(b->version));
	w = f->m.w;
	if (b->told)
		memcpy(world_mem(w, w->runtime), b->told, b->n);
	if (b->gc_size)
		tell(f, GC_SIZE_3_14, b->gc_size);
	f->greenlet = a_type(w, "greenlet.greenlet", 40, 0);
	f->frame = a_type(w, "frame", 56, 0);
	f->interp = world_interp(w);
	make_lists_of(f, f->interp);
	import_greenlet(f, f->interp, "greenlet._greenlet");
}

static void each(void (*test)(struct fix *f))
{
	for (size_t i = 0; i < ARRAY_SIZE(builds); i++) {
		struct fix f = { 0 };

		fix_init(&f, &builds[i]);
		test(&f);
		free(f.m.w);
	}
}

/* An object of @type at the end of a list; the lowest bits of its links mean other things. */
static raddr put_object(struct fix *f, raddr list, raddr type)
{
	struct world *w = f->m.w;
	raddr at = of_type(w, take(w, 64), type), node = at - 16;
	raddr last = load_u64(world_mem(w, list + 8)) & ~(raddr)7;

	put(w, last, node | (last == list ? 0 : 3), 8);
	put(w, node, list, 8);
	put(w, node + 8, last | 5, 8);
	put(w, list + 8, node, 8);
	return at;
}

static int find(struct fix *f, uint64_t until_ns, struct pygreenlets *ret)
{
	return pygreenlets_find(&f->m.w->base, &f->m.w->l, f->m.w->runtime, until_ns, ret);
}

static struct damage damaged_lists, damaged_greenlets;

/* How many that there are. */
struct known {
	struct fix *f;
	size_t n;
	const raddr *at;
};

static int look_at_lists(void *arg)
{
	struct known *k = arg;
	struct pygreenlets g;
	int r = find(k->f, UINT64_MAX, &g);
	bool same = g.n == k->n && !memcmp(g.at, k->at, g.n * sizeof(*g.at));

	if (r == 0)
		r = (same ? 0 : g.n < k->n ? 1 : 2) + (g.cut ? 3 : 0);
	else
		r = r == -EBADMSG ? 6 : 7;
	pygreenlets_deinit(&g);
	return r;
}

/* They are these, ascending, and no other. */
static void expect(struct fix *f, size_t n, const raddr want[], bool cut)
{
	struct pygreenlets g;

	assert_int_equal(find(f, UINT64_MAX, &g), 0);
	assert_int_equal(g.n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(g.at[i], want[i]);
	assert_int_equal(g.cut, cut);
	pygreenlets_deinit(&g);
	assert_null(g.at);
	if (n && f->m.w->next < WORLD_AT + WORLD_BYTES / 4)
		damage_reads(&damaged_lists, f->m.w, look_at_lists,
			     &(struct known){ f, n, want });
}

/* --- which there are --- */

static void are_in_each_generation(struct fix *f)
{
	raddr derived = a_type(f->m.w, "Hub", 64, f->greenlet), want[40];
	size_t n = 0;

	put(f->m.w, derived + 32, 128, 8);
	expect(f, 0, NULL, false);
	for (int i = 0; i < 40; i++) {
		raddr list = list_of(f, f->interp, 3 - i % 4);

		put_object(f, list, f->m.none);
		want[n++] = put_object(f, list, i % 2 ? derived : f->greenlet);
		put_object(f, list, f->m.str);
	}
	expect(f, n, want, false);
	import_greenlet(f, f->interp, "greenlet");
	expect(f, 0, NULL, false); /* nobody imported it */
}

/* Only where modules and the collector's lists are found. */
static void are_known(struct fix *f)
{
	struct pylayout l = f->m.w->l;

	assert_true(pygreenlets_known(&l));
	l.free_threaded = true;
	assert_false(pygreenlets_known(&l));
	l = f->m.w->l;
	l.attrs = PY_ATTRS_NONE;
	assert_false(pygreenlets_known(&l));
	l = f->m.w->l;
	l.version = 0x0306;
	assert_false(pygreenlets_known(&l));
}

static void expect_no_lists(struct fix *f)
{
	struct pygreenlets g;

	assert_int_equal(find(f, UINT64_MAX, &g), -ENODATA);
	assert_int_equal(g.n, 0);
	pygreenlets_deinit(&g);
}

/* Where all of three lists lead elsewhere from the head on they are none; of one that is
 * collected the rest is missing. */
static void have_heads(struct fix *f)
{
	raddr at[3];

	for (int i = 0; i < 3; i++) {
		raddr list = list_of(f, f->interp, i);

		at[i] = put_object(f, list, f->greenlet);
		put_object(f, list, f->m.none);
	}
	expect(f, 3, at, false);
	put(f->m.w, at[2] - 8, 4, 8);
	expect(f, 2, at, true);
	put(f->m.w, at[1] - 8, 4, 8);
	expect(f, 1, at, true);
	put(f->m.w, at[0] - 8, 4, 8);
	expect_no_lists(f);
	for (int i = 0; i < 3; i++) {
		raddr list = list_of(f, f->interp, i);

		put(f->m.w, list, list, 8);
		put(f->m.w, list + 8, i ? WORLD_NOWHERE : list, 8);
	}
	expect(f, 0, NULL, true);
	put(f->m.w, list_of(f, f->interp, 0) + 8, 0, 8);
	expect_no_lists(f); /* by the one that is frozen nothing is proven */
	make_lists_of(f, f->interp);
	put(f->m.w, list_of(f, f->interp, FROZEN), WORLD_NOWHERE, 8);
	expect(f, 0, NULL, true);
}

/* Of what the process tells of its collector: of another one nothing is known. */
static void are_told(struct fix *f)
{
	static const struct {
		size_t word;
		int64_t more;
	} others[] = {
		{ 0, 1 },		     { 1, 1 << 16 },
		{ INTERP_SIZE_3_14, -219000 }, { GC_3_14, 4 },
		{ GC_3_14, 1 << 24 },	     { GC_3_14, 225864 },
		{ GC_SIZE_3_14, 8 },	     { GC_COLLECTING_3_14, 8 },
	};

	if (f->build->version != 0x030e)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		uint64_t was = load_u64(world_mem(f->m.w, f->m.w->runtime + 8 * others[i].word));

		tell(f, others[i].word, was + (uint64_t)others[i].more);
		expect_no_lists(f);
		tell(f, others[i].word, was);
		expect(f, 0, NULL, false);
	}
	tell(f, 0, 0);
	import_greenlet(f, f->interp, "greenlet");
	expect(f, 0, NULL, false); /* nobody imported it */
}

/* They are where the process says. */
static void are_elsewhere(struct fix *f)
{
	raddr at;

	if (f->build->version != 0x030e)
		return;
	tell(f, GC_3_14, 7408 - 2048);
	expect_no_lists(f);
	at = put_object(f, list_of(f, f->interp, 0), f->greenlet);
	tell(f, GC_3_14, 7408);
	expect(f, 1, &at, false);
}

/* A look at a world that is not all of it. */
struct view {
	struct rmem base;
	struct fix *f;
	raddr list; /* that leads out of it */
	int reads;
};

/* Behind the world, as many greenlets as one likes. */
static int read_endless(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct view *v = container_of(m, struct view, base);
	uint64_t node[8] = { at + 64, at == WORLD_NOWHERE ? v->list : at - 64 };

	if (at < WORLD_NOWHERE)
		return rmem_read(&v->f->m.w->base, at, buf, n);
	node[2 + pyoff_get(v->f->m.w->l.object.type) / 8] = v->f->greenlet;
	memcpy(buf, node, n);
	return 0;
}

/* No more of them are kept than there may be; that there were more is told. */
static void are_too_many(struct fix *f)
{
	static const struct rmem_ops ops = { "endless", read_endless, NULL };
	struct view v = { .base.ops = &ops, .f = f, .list = list_of(f, f->interp, 0) };
	struct pygreenlets g;

	put(f->m.w, v.list, WORLD_NOWHERE, 8);
	assert_int_equal(pygreenlets_find(&v.base, &f->m.w->l, f->m.w->runtime, UINT64_MAX, &g),
			 0);
	assert_int_equal(g.n, PYGREENLETS_MAX);
	assert_int_equal(g.at[0], WORLD_NOWHERE + 16);
	assert_true(g.cut);
	pygreenlets_deinit(&g);
}

/* The further interpreter's are found too; in 3.8 the lists are the same. */
static void are_in_each_interpreter(struct fix *f)
{
	raddr second = world_interp(f->m.w), want[2];
	bool one = list_of(f, f->interp, 0) == list_of(f, second, 0);

	if (!one)
		make_lists_of(f, second);
	want[0] = put_object(f, list_of(f, f->interp, 1), f->greenlet);
	want[1] = put_object(f, list_of(f, second, 2), f->greenlet);
	import_greenlet(f, second, "other");
	expect(f, one ? 2 : 1, want, false);
	import_greenlet(f, second, "greenlet._greenlet");
	expect(f, 2, want, false);
}

/* Not all interpreters are looked at, and where there are more that is told. */
static void are_in_many_interpreters(struct fix *f)
{
	for (int n = 1; n <= PYNAMES_INTERPS + 1; n++) {
		raddr interp = n == 1 ? f->interp : world_interp(f->m.w);
		struct pygreenlets g;

		make_lists_of(f, interp);
		if (n > 1)
			import_greenlet(f, interp, "greenlet._greenlet");
		put_object(f, list_of(f, interp, 0), f->greenlet);
		assert_int_equal(find(f, UINT64_MAX, &g), 0);
		assert_int_equal(g.n, f->build->of_runtime ? 1 : MIN(n, PYNAMES_INTERPS));
		assert_int_equal(g.cut, n > PYNAMES_INTERPS);
		pygreenlets_deinit(&g);
	}
}

/* Its layout is not known, or what is no greenlet has a type that looks like one's. */
static void have_strange_types(struct fix *f)
{
	raddr list = list_of(f, f->interp, 0), deep = f->greenlet, own, known;
	struct pygreenlets g;

	for (int i = 1; i < DEEPEST; i++)
		deep = a_type(f->m.w, "D", 40, deep);
	known = put_object(f, list, deep);
	expect(f, 1, &known, false);
	put_object(f, list, a_type(f->m.w, "D", 40, deep));
	own = a_type(f->m.w, "Own", 40, 0);
	put(f->m.w, own + 256, own, 8);
	put_object(f, list, own);
	put_object(f, list, a_type(f->m.w, "N", 40, WORLD_NOWHERE));
	put_object(f, list, WORLD_NOWHERE);
	put_object(f, list, a_type(f->m.w, "greenlet.greenlets", 40, 0));
	expect(f, 1, &known, false);
	put_object(f, list, a_type(f->m.w, "greenlet.greenlet", 48, 0));
	assert_int_equal(find(f, UINT64_MAX, &g), -ENOTSUP);
	pygreenlets_deinit(&g);
}

/* Where the list leads elsewhere what was met counts, and the rest is missing, but for what
 * other lists have. */
static void lose_their_place(struct fix *f)
{
	raddr list = list_of(f, f->interp, 1), at[3], other;
	struct world *w = f->m.w;

	for (int i = 0; i < 3; i++)
		at[i] = put_object(f, list, f->greenlet);
	put(w, at[1] - 8, at[2], 8);
	expect(f, 1, at, true);
	put(w, at[1] - 8, at[0] - 16, 8);
	expect(f, 3, at, false);
	put(w, at[1] - 16, WORLD_NOWHERE, 8);
	expect(f, 2, at, true);
	other = put_object(f, list_of(f, f->interp, 2), f->greenlet);
	expect(f, 3, (raddr[]){ at[0], at[1], other }, true);
}

/* One that was moved meanwhile is met twice. */
static void are_met_twice(struct fix *f)
{
	raddr first = list_of(f, f->interp, 0), second = list_of(f, f->interp, 1);
	raddr at = put_object(f, first, f->greenlet);
	raddr other = put_object(f, second, f->greenlet);
	struct world *w = f->m.w;

	/* From the second list's object back to the first's, which does not know it. */
	put(w, other - 16, at - 16, 8);
	put(w, at - 8, other - 16, 8);
	put(w, first, other - 16, 8);
	put(w, other - 8, first, 8);
	put(w, second, other - 16, 8);
	expect(f, 2, (raddr[]){ at, other }, true);
}

/* After so many objects the clock is looked at. */
static void take_long(struct fix *f)
{
	raddr list = list_of(f, f->interp, 0), first = put_object(f, list, f->greenlet), last;
	struct pygreenlets g;

	for (int i = 0; i < MANY; i++)
		put_object(f, list, f->m.none);
	last = put_object(f, list, f->greenlet);
	expect(f, 2, (raddr[]){ first, last }, false);
	assert_int_equal(find(f, 0, &g), 0);
	assert_true(g.cut);
	assert_int_equal(g.n, 1);
	pygreenlets_deinit(&g);
}

static void test_find(void **state)
{
	each(are_in_each_generation);
	each(are_too_many);
	each(are_known);
	each(have_heads);
	each(are_told);
	each(are_elsewhere);
	each(are_in_each_interpreter);
	each(are_in_many_interpreters);
	each(have_strange_types);
	each(lose_their_place);
	each(are_met_twice);
	each(take_long);
}

/* --- what one stands in --- */

/* A greenlet that is parked in three frames. */
struct parked {
	raddr at, keeps, object; /* object: of its innermost frame */
	raddr frame[3];		 /* innermost first */
};

static struct parked parked(struct fix *f)
{
	struct world *w = f->m.w;
	struct parked p = { .at = of_type(w, take(w, 64), f->greenlet),
			    .keeps = take(w, KEPT) };
	raddr ts = world_thread(w, f->interp, 1, true);

	world_stack(w, ts, w->l.owner_shim || w->l.lasti_unit ? "fff" : "ffe", NULL, NULL);
	memcpy(p.frame, w->frame, sizeof(p.frame));
	p.object = p.frame[0];
	if (!w->l.lasti_unit) {
		p.object = take(w, 64);
		put(w, p.object + 24, p.frame[0], 8);
	}
	of_type(w, p.object, f->frame);
	put(w, p.at + 32, p.keeps, 8);
	put(w, p.keeps + 104, p.object, 8);
	return p;
}

/* Where it is, and how it was read before. */
struct parked_known {
	struct fix *f;
	raddr at;
	struct pyframe ret[PYGREENLET_FRAMES], was[3];
};

static int look_at_parked(void *arg)
{
	struct parked_known *k = arg;
	int r = pygreenlets_read(&k->f->m.w->base, &k->f->m.w->l, &k->f->m.w->walk, k->at,
				 k->ret);

	if (r == 3)
		return memcmp(k->ret, k->was, sizeof(k->was)) ? 1 : 0;
	return r >= 0 ? 2 + (r > 3) : r == -EBADMSG ? 4 : r == -EFAULT ? 5 : 6;
}

static int read_it(struct fix *f, const struct parked *p, struct pyframe *ret)
{
	struct parked_known *k;
	int r = pygreenlets_read(&f->m.w->base, &f->m.w->l, &f->m.w->walk, p->at, ret);

	if (r != 3)
		return r;
	k = calloc(1, sizeof(*k));
	k->f = f;
	k->at = p->at;
	memcpy(k->was, ret, sizeof(k->was));
	damage_reads(&damaged_greenlets, f->m.w, look_at_parked, k);
	free(k);
	return r;
}

static void is_parked(struct fix *f)
{
	struct pyframe *ret = calloc(PYGREENLET_FRAMES, sizeof(*ret));
	struct parked p = parked(f);

	for (uint32_t at = 88; at < 128; at += 8) {
		memset(world_mem(f->m.w, p.keeps), 0, KEPT);
		put(f->m.w, p.keeps + at, p.object, 8);
		assert_int_equal(read_it(f, &p, ret), 3);
		for (int i = 0; i < 3; i++)
			assert_int_equal(ret[i].code, (raddr)(3 - i) << 12);
	}
	for (uint32_t at = 80; at <= 128; at += 48) {
		memset(world_mem(f->m.w, p.keeps), 0, KEPT);
		put(f->m.w, p.keeps + at, p.object, 8);
		assert_int_equal(read_it(f, &p, ret), 0);
	}
	free(ret);
}

/* What else it keeps is no frame; two different ones can't be. */
static void keeps_others(struct fix *f)
{
	struct pyframe *ret = calloc(PYGREENLET_FRAMES, sizeof(*ret));
	struct parked p = parked(f);
	struct world *w = f->m.w;
	raddr other = of_type(w, take(w, 64), f->frame);
	raddr crooked = of_type(w, take(w, 64) + 4, f->frame);
	raddr strange[] = { WORLD_NOWHERE,
			    1,
			    other + 4,
			    crooked,
			    of_type(w, take(w, 64), f->m.none),
			    of_type(w, take(w, 64), 0),
			    of_type(w, take(w, 64), f->frame + 4),
			    p.object };

	for (size_t i = 0; i < ARRAY_SIZE(strange); i++) {
		put(w, p.keeps + 96, strange[i], 8);
		put(w, p.keeps + 112, strange[i], 8);
		assert_int_equal(read_it(f, &p, ret), 3);
	}
	put(w, p.keeps + 120, other, 8);
	assert_int_equal(read_it(f, &p, ret), -EBADMSG);
	put(w, p.at + 32, WORLD_NOWHERE, 8);
	assert_int_equal(read_it(f, &p, ret), -EFAULT);
	put(w, p.at + 32, 0, 8); /* it has not begun, or has ended */
	assert_int_equal(read_it(f, &p, ret), 0);
	p.at = WORLD_NOWHERE;
	assert_int_equal(read_it(f, &p, ret), -EFAULT);
	free(ret);
}

/* What it keeps can't be read, but nothing else. */
static int read_later(struct rmem *m, raddr at, void *buf, size_t n)
{
	struct view *v = container_of(m, struct view, base);
	bool fails = v->reads++ == 0;

	memset(buf, fails, n);
	return fails ? -EFAULT : 0;
}

/* Nobody knows then whether it is parked. */
static void is_lost(struct fix *f)
{
	static const struct rmem_ops ops = { "later", read_later, NULL };
	struct pyframe *ret = calloc(PYGREENLET_FRAMES, sizeof(*ret));
	struct view v = { .base.ops = &ops, .f = f };

	assert_int_equal(pygreenlets_read(&v.base, &f->m.w->l, &f->m.w->walk, f->interp, ret),
			 -EFAULT);
	free(ret);
}

/* Frames that lead nowhere, or have no end. */
static void is_broken(struct fix *f)
{
	struct pyframe *ret = calloc(PYGREENLET_FRAMES, sizeof(*ret));
	struct parked p = parked(f);
	struct world *w = f->m.w;

	world_put(w, p.frame[2], w->l.frame.previous, p.frame[0], 8);
	assert_int_equal(read_it(f, &p, ret), -EBADMSG);
	world_put(w, p.frame[2], w->l.frame.previous, WORLD_NOWHERE, 8);
	assert_int_equal(read_it(f, &p, ret), -EBADMSG);
	if (!w->l.lasti_unit) {
		put(w, p.object + 24, WORLD_NOWHERE, 8);
		assert_int_equal(read_it(f, &p, ret), -EBADMSG);
	}
	free(ret);
}

static void test_read(void **state)
{
	each(is_parked);
	each(keeps_others);
	each(is_lost);
	each(is_broken);
}

/* Of all looks above. */
static void test_damage(void **state)
{
	damage_expect(&damaged_lists,
		      (uint64_t[DAMAGE_ENDS]){ 83155, 18073, 0, 47211, 25611, 0, 1863, 27057 });
	damage_expect(&damaged_greenlets,
		      (uint64_t[DAMAGE_ENDS]){ 31777, 6747, 5579, 0, 6786, 1131, 0, 0 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
