/* SPDX-License-Identifier: MIT
 *
 * pystack: one thread's stack with code identities, in every layout: names once, old
 * addresses with new code, torn ends, and how many calls a read takes.
 */
#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"
#include "damage.h"
#include "pystack_scenes.h"

/*
 * Before each read below: what a reader that knows nothing says if one word is another
 */

enum { WORDS = 4, READS = 6 }; /* of each read; of each target */

static struct damage damaged;

static struct another {
	struct pystack *p;
	struct pystack_target t;
	const struct fix *f;
	uint64_t sum; /* of what it says if no word is another */
	uint32_t random;
} another;

static bool any_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	return true;
}

/* Of where its frames and activations are. */
static uint64_t sum_of(const struct pystack_result *r)
{
	uint64_t sum = r->truncated + 2u * r->switching;

	for (uint32_t i = 0; i < r->n; i++)
		sum = 31 * sum + r->frames[i].lasti + (r->frames[i].flags << 20);
	for (uint32_t i = 0; i < r->n_anchors; i++)
		sum = 31 * sum + r->anchors[i].at + r->anchors[i].n;
	return sum;
}

/* As another program, of which is known what kind of functions it has. */
static struct pystack_result read_anew(struct another *a)
{
	const struct pystack *p = a->f->p;
	struct pycompiled compiled = *pystack_compiled(a->f->p, a->f->t.program);

	a->t.program += PYSTACK_SEVERAL;
	if (compiled.program == a->f->t.program)
		compiled.program = a->t.program;
	*pystack_compiled(a->p, a->t.program) = compiled;
	a->p->max_frames = p->max_frames;
	pystack_know(a->p, p->known_at, p->known);
	pystack_stands(a->p, &p->place);
	return pystack_read(a->p, &a->t, &a->f->w->base, TID, INNER);
}

/* By enum pystack_end, of which PYSTACK_END_N is another stack. */
static int look_anew(void *arg)
{
	struct another *a = arg;
	struct pystack_result r = read_anew(a);

	return r.end == PYSTACK_OK && sum_of(&r) != a->sum ? PYSTACK_END_N : (int)r.end;
}

static void damage_some(struct fix *f)
{
	struct pystack_result r;
	int program = another.t.program;

	if (++f->reads > READS)
		return;
	if (!another.p)
		another.p = pystack_create(PYWALK_MAX_FRAMES, any_code, NULL);
	another.f = f;
	another.t = f->t;
	another.t.program = program;
	r = read_anew(&another);
	another.sum = sum_of(&r);
	damage_any(&damaged, f->w, look_anew, &another, WORDS, &another.random);
}

static void names_once(struct fix *f)
{
	stack(f, "abcba", (const int[]){ 2, 3, 4, 5, 6 });
	assert_string_equal(read_stack(f), "a2 b3 c4 b5 a6");
	assert_int_equal(f->last_id, 3);
	assert_string_equal(read_stack(f), "a2 b3 c4 b5 a6");
	stack(f, "ba", NULL);
	assert_string_equal(read_stack(f), "b3 a3");
	assert_int_equal(f->last_id, 3);
	stack(f, "da", NULL);
	assert_string_equal(read_stack(f), "d3 a3");
	assert_int_equal(f->last_id, 4);
}

static void code_is_copied_once(void **state)
{
	in_every_layout(names_once);
}

struct ageing {
	struct fix *f;
	unsigned n;	/* codes that were kept */
	char forgotten; /* the one that can't be kept */
};

static bool keep(void *arg, uint64_t id, uint64_t was)
{
	struct ageing *a = arg;

	assert_true(was <= a->f->last_id && id > a->f->last_id && id < MAX_IDS);
	if (a->f->name[was] == a->forgotten)
		return false;
	a->f->name[id] = a->f->name[was];
	a->f->last_id = id;
	a->n++;
	return true;
}

/* Each code that is remembered is found by its place in the index, and nothing else is. */
static void expect_codes(const struct fix *f, uint32_t n)
{
	uint32_t found = 0;

	assert_int_equal(f->p->n_codes, n);
	for (uint32_t i = 0; i < N_CODES; i++) {
		found += f->p->code_index[i] != 0;
		assert_in_range(f->p->code_index[i], 0, n);
	}
	assert_int_equal(found, n);
}

/* Function a is made anew for each sample, until codes are forgotten; all numbers are new
 * then. */
static void grow_old(struct fix *f, struct ageing *a)
{
	uint64_t below, before, aged = f->p->aged_id;

	stack(f, "ab", NULL);
	do {
		put_code_again(f, 'a');
		assert_string_equal(read_stack(f), "a3 b3");
		before = f->last_id;
		below = pystack_age_codes(f->p, keep, a);
	} while (!below);
	assert_int_equal(below, aged + CODES_AGE);
	expect_codes(f, (uint32_t)(f->last_id - before));
	assert_int_equal(below, before + 1);
	assert_int_equal(pystack_age_codes(f->p, keep, a), 0);
	before = f->last_id;
	assert_string_equal(read_stack(f), "a3 b3");
	assert_true(read_result(f).frames[1].code_id >= below);
	assert_int_equal(f->last_id, before + (a->forgotten != 0)); /* nothing copied again */
}

/* Who compiles all the time gets no more numbers than it has code. */
static void codes_are_forgotten(void **state)
{
	struct fix *f = fix_create(0x030c);
	struct ageing a = { .f = f };
	uint64_t before;

	assert_int_equal(pystack_age_codes(f->p, keep, &a), 0);
	stack(f, "abcd", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3 d3");
	grow_old(f, &a);
	assert_int_equal(a.n, 4); /* c and d were met since the beginning */
	a.n = 0;
	grow_old(f, &a);
	assert_int_equal(a.n, 2); /* that the stack was deeper once is not met again */
	before = f->last_id;
	stack(f, "da", NULL);
	assert_string_equal(read_stack(f), "d3 a3");
	assert_int_equal(f->last_id, before + 1);
	a.forgotten = 'b'; /* is copied anew when it is met */
	grow_old(f, &a);
	fix_destroy(f);
}

static bool keep_each(void *arg, uint64_t id, uint64_t was)
{
	return true;
}

/* Many codes are looked through after twice as many copies. Names of tasks are codes, too, and
 * are given anew. */
static void many_codes_are_forgotten_later(void **state)
{
	enum { MANY = CODES_AGE, NEXT = 10 * MANY };
	struct fix *f = fix_create(0x030c);
	struct pystack *p = f->p;

	for (uint32_t i = 0; i < MANY; i++)
		p->codes[i] = (struct code){ .at = 8 * (raddr)i, .id = i + 1, .met = 1 };
	p->n_codes = MANY;
	p->next_id = NEXT;
	p->stamp = 2;
	p->join->label[JOIN_LABELS - 1].id = 7;
	assert_int_equal(pystack_age_codes(p, keep_each, NULL), NEXT);
	expect_codes(f, MANY);
	assert_int_equal(p->join->label[JOIN_LABELS - 1].id, 0);
	p->next_id = NEXT + 2 * MANY - 1;
	assert_int_equal(pystack_age_codes(p, keep_each, NULL), 0);
	p->next_id++;
	assert_int_equal(pystack_age_codes(p, keep_each, NULL), NEXT + 2 * MANY);
	expect_codes(f, 0);
	fix_destroy(f);
}

/* The cache is full: of what was in it nothing is used again. */
static void codes_are_forgotten_at_once(void **state)
{
	struct fix *f = fix_create(0x030c);

	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "a3 b3");
	f->p->n_codes = N_CODES / 2;
	assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->last_id, 2);
	memset(f->p->code_index, 1, N_CODES * sizeof(*f->p->code_index));
	f->p->n_codes = N_CODES / 2 + 1;
	assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->last_id, 4);
	expect_codes(f, 2);
	fix_destroy(f);
}

/* Freed, and other code at the same address. */
static void replaced(struct fix *f)
{
	uint64_t id;

	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "a3 b3");
	id = f->last_id;
	put_code(f, code_of(f, 'a'), 'z');
	assert_string_equal(read_stack(f), "z3 b3");
	assert_int_equal(f->last_id, id + 1);
	put_code(f, code_of(f, 'a'), 'a');
	assert_string_equal(read_stack(f), "a3 b3");
	assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->last_id, id + 2);
}

static void replaced_code_is_another(void **state)
{
	in_every_layout(replaced);
}

/* Other contents where the code's @field points to, which is a str. */
static void put_letter(struct fix *f, char code, pyoff field, char letter)
{
	raddr str = world_get(f->w, code_of(f, code), field);

	*(char *)world_mem(f->w, str + f->w->l.str.ascii_data) = letter;
}

/* Without a counter even the same pointers may hold other contents, in whichever frame. */
static void replaced_contents(void **state)
{
	struct fix *f = fix_create(0x030b);
	const struct pylayout *l = &f->w->l;

	stack(f, "abcde", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3 d3 e3");
	assert_int_equal(f->last_id, 5);
	put_letter(f, 'a', l->code.qualname, 'y');
	assert_string_equal(read_stack(f), "y3 b3 c3 d3 e3");
	put_letter(f, 'e', l->code.qualname, 'x');
	assert_string_equal(read_stack(f), "y3 b3 c3 d3 x3");
	assert_int_equal(f->last_id, 7);
	for (const char *code = "abcde"; *code; code++)
		put_letter(f, *code, l->code.filename, 'f');
	assert_string_equal(read_stack(f), "y3 b3 c3 d3 x3");
	assert_int_equal(f->last_id, 12);
	fix_destroy(f);
}

/* A function of code @letter, in the @i'th frame. */
static raddr a_function(struct fix *f, uint32_t i, char letter, uint32_t version)
{
	const struct pylayout *l = &f->w->l;
	raddr at = world_take(f->w, 256);

	world_take(f->w, 8192);
	world_put(f->w, at, l->func.code, code_of(f, letter), 8);
	world_put(f->w, at, l->func.version, version, 4);
	world_put(f->w, f->w->frame[i], l->frame.func, at, 8);
	return at;
}

/* Is the name of a() not looked at? */
static bool is_believed(struct fix *f)
{
	static char letter = 'A';
	char *was = strdup(read_stack(f));
	bool same;

	letter = letter == 'Z' ? 'A' : (char)(letter + 1);
	put_letter(f, 'a', f->w->l.code.qualname, letter);
	same = !strcmp(read_stack(f), was);
	free(was);
	return same;
}

/* 3.11: what still is the very same function still has the same code. */
static void held_by_functions(void **state)
{
	struct fix *f = fix_create(0x030b);
	const struct pylayout *l = &f->w->l;
	raddr a;

	stack(f, "ab", NULL);
	assert_false(is_believed(f));
	a = a_function(f, 0, 'a', 5);
	a_function(f, 1, 'b', 5);
	assert_true(is_believed(f));
	read_stack(f);
	assert_int_equal(f->w->calls, 1); /* all of it was planned */
	put_letter(f, 'a', l->code.qualname, 'n');
	world_put(f->w, a, l->func.version, 6, 4);
	assert_string_equal(read_stack(f), "n3 b3");
	assert_true(is_believed(f));
	a_function(f, 0, 'a', 6); /* another one of that number */
	put_letter(f, 'a', l->code.qualname, 'm');
	assert_string_equal(read_stack(f), "m3 b3");
	assert_true(is_believed(f));
	a_function(f, 0, 'b', 7); /* that has other code */
	assert_false(is_believed(f));
	world_put(f->w, f->w->frame[0], l->frame.func, WORLD_NOWHERE, 8);
	assert_false(is_believed(f));
	world_put(f->w, f->w->frame[0], l->frame.func, 0, 8);
	assert_false(is_believed(f));
	fix_destroy(f);
}

/* One that was changed has no number, and is not asked for it again for some time. */
static void told_by_no_function(void **state)
{
	struct fix *f = fix_create(0x030b);
	raddr a;

	stack(f, "ab", NULL);
	a = a_function(f, 0, 'a', 0);
	assert_false(is_believed(f));
	world_put(f->w, a, f->w->l.func.version, 5, 4);
	for (uint32_t i = 0; i < FUNC_SKIP / 2 - 1; i++)
		assert_false(is_believed(f));
	for (uint32_t i = 0; i < 4; i++)
		read_stack(f);
	assert_true(is_believed(f));
	fix_destroy(f);
}

/*
 * The target's count of code objects: while it stands still none is looked at
 */

static void put_count(struct fix *f, uint32_t n)
{
	world_put(f->w, f->t.code_versions, (pyoff)AT(0), n, 4);
}

static void counted(struct fix *f)
{
	f->count = f->t.code_versions = world_take(f->w, 16);
	stack(f, "ab", NULL);
	for (int i = 0; i < 20; i++)
		assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->w->calls, 1);
	put_code(f, code_of(f, 'a'), 'z');
	assert_string_equal(read_stack(f), "z3 b3");
	assert_string_equal(read_stack(f), "z3 b3");
	stack(f, "abc", NULL);
	assert_string_equal(read_stack(f), "z3 b3 c3");
	put_code(f, code_of(f, 'b'), 'y');
	put_count(f, 0); /* it would have overflowed: nothing is told any more */
	assert_string_equal(read_stack(f), "z3 y3 c3");
	f->count = 0;
	put_code(f, code_of(f, 'b'), 'x');
	assert_string_equal(read_stack(f), "z3 x3 c3");
}

/* The interpreter of the thread is another now, and its count is the same. */
static void counted_elsewhere(struct fix *f)
{
	const uint32_t at = 4096;
	raddr other = world_interp(f->w);

	f->t.layout.interp.code_versions = (pyoff)AT(at);
	f->t.layout.interp.code_versions_global = false;
	f->t.code_versions = f->interp + at;
	stack(f, "ab", NULL);
	put_count(f, 100);
	f->t.code_versions = other + at;
	put_count(f, 100);
	f->t.code_versions = 0;
	for (int i = 0; i < 3; i++)
		assert_string_equal(read_stack(f), "a3 b3");
	put_code(f, code_of(f, 'a'), 'z');
	world_put(f->w, f->ts, f->w->l.tstate.interp, other, 8);
	assert_string_equal(read_stack(f), "z3 b3");
}

/* An interpreter has ended, and the next one lies where it lay and has counted as far: its codes
 * may have the same numbers, too. @count: where the count is known. @again: it is the main one
 * once more, with the same number. */
static void counted_anew(struct fix *f, bool count, bool again)
{
	const uint32_t at = 4096;
	raddr code = code_of(f, 'a');
	uint64_t name;

	f->t.layout.interp.code_versions = count ? (pyoff)AT(at) : (pyoff){ 0 };
	f->t.layout.interp.code_versions_global = false;
	world_put(f->w, f->interp, (pyoff)AT(at), 100, 4);
	stack(f, "ab", NULL);
	for (int i = 0; i < 3; i++)
		assert_string_equal(read_stack(f), "a3 b3");
	name = world_get(f->w, code, f->w->l.code.qualname);
	*(char *)world_mem(f->w, name + f->w->l.str.ascii_data) = 'z';
	world_put(f->w, f->interp, again ? f->w->l.interp.modules : f->w->l.interp.id, 5, 8);
	for (int i = 0; i < 3; i++)
		assert_string_equal(read_stack(f), "z3 b3");
	assert_int_equal(f->last_id, 4);
}

static void counted_with_count(struct fix *f)
{
	counted_anew(f, true, false);
}

static void counted_without_count(struct fix *f)
{
	counted_anew(f, false, false);
}

static void counted_by_the_main_one_again(struct fix *f)
{
	counted_anew(f, true, true);
}

/* The main one once more, and all that is compared is as it was. But its count was met on its way. */
static void counted_once_more(struct fix *f)
{
	const pyoff count = (pyoff)AT(4096);
	raddr name;
	uint64_t id;

	f->t.layout.interp.code_versions = count;
	f->t.layout.interp.code_versions_global = false;
	world_put(f->w, f->interp, count, 100, 4);
	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "a3 b3");
	world_put(f->w, f->interp, count, 101, 4); /* it goes on */
	assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->last_id, 2);
	name = world_get(f->w, code_of(f, 'a'), f->w->l.code.qualname);
	*(char *)world_mem(f->w, name + f->w->l.str.ascii_data) = 'z';
	world_put(f->w, f->interp, count, 50, 4);
	stack(f, "b", NULL);
	assert_string_equal(read_stack(f), "b3");
	/* Other programs take all places where that is noted. */
	for (int i = 0; i < 200; i++) {
		f->t.program += i < 199 ? 1 : -199;
		assert_string_equal(read_stack(f), "b3");
	}
	id = f->last_id;
	world_put(f->w, f->interp, count, 101, 4);
	stack(f, "ab", NULL);
	for (int i = 0; i < 3; i++)
		assert_string_equal(read_stack(f), "z3 b3");
	assert_int_equal(f->last_id, id + 1);
}

/* As above, and the code of the next one can't be copied: it does not become the old one's. */
static void counted_anew_and_no_code(struct fix *f)
{
	pyoff name = f->w->l.object.type_name;
	uint64_t was = world_get(f->w, f->w->type, name);

	f->t.layout.interp.code_versions_global = false;
	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "a3 b3");
	world_put(f->w, f->w->type, name, WORLD_NOWHERE, 8);
	world_put(f->w, f->interp, f->w->l.interp.id, 5, 8);
	for (int i = 0; i < 3; i++)
		assert_string_equal(read_stack(f), "badcode");
	world_put(f->w, f->w->type, name, was, 8);
	assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->last_id, 4); /* each was copied anew */
}

/* What lies there is no count: a code object's own number is above it. */
static void miscounted(struct fix *f)
{
	f->t.code_versions = world_take(f->w, 16);
	put_count(f, 1);
	stack(f, "ab", NULL);
	for (int i = 0; i < 3; i++)
		assert_string_equal(read_stack(f), "a3 b3");
	put_code(f, code_of(f, 'a'), 'z');
	assert_string_equal(read_stack(f), "z3 b3");
	/* Nothing readable at all. */
	f->t.code_versions = WORLD_NOWHERE;
	put_code(f, code_of(f, 'a'), 'y');
	assert_string_equal(read_stack(f), "y3 b3");
}

/* The same where it was believed for the frame above: from the next read on for none. */
static void miscounted_for_some(struct fix *f)
{
	f->t.code_versions = world_take(f->w, 16);
	put_count(f, 2);
	stack(f, "ab", NULL); /* of numbers 1 and 2 */
	assert_string_equal(read_stack(f), "a3 b3");
	put_code(f, code_of(f, 'a'), 'z');
	assert_string_equal(read_stack(f), "z3 b3");
}

static void in_every_layout_with_numbers(void (*test)(struct fix *f))
{
	for (uint16_t v = 0x030c; v <= 0x030f; v++) {
		struct fix *f = fix_create(v);

		test(f);
		fix_destroy(f);
	}
}

static void count_of_codes(void **state)
{
	in_every_layout_with_numbers(counted);
	in_every_layout_with_numbers(miscounted_for_some);
	in_every_layout_with_numbers(counted_elsewhere);
	in_every_layout_with_numbers(counted_with_count);
	in_every_layout_with_numbers(counted_without_count);
	in_every_layout_with_numbers(counted_by_the_main_one_again);
	in_every_layout_with_numbers(counted_anew_and_no_code);
	in_every_layout_with_numbers(counted_once_more);
	in_every_layout_with_numbers(miscounted);
}

/*
 * Without the GIL, 3.14 on, threads run copies of the bytecode
 */

/* A list of so many copies, of which the last is there, and no other. */
static raddr copy_of(struct fix *f, char letter, uint64_t n)
{
	raddr list = world_copies(f->w, code_of(f, letter), n),
	      at = world_take(f->w, 2 * UNITS);

	world_put(f->w, list + 8 * n, (pyoff)AT(0), at, 8);
	return at;
}

/* The @i'th frame of the last stack stands at @instr, in copy @index. */
static void stand_at(struct fix *f, uint32_t i, int32_t index, raddr instr)
{
	world_put(f->w, f->w->frame[i], f->w->l.frame.instr, instr, 8);
	world_put(f->w, f->w->frame[i], f->w->l.frame.tlbc_index, (uint32_t)index, 4);
}

static void in_copies(struct fix *f)
{
	raddr copy;

	stack(f, "ab", (const int[]){ 5, 3 });
	assert_string_equal(read_stack(f), "a5 b3");
	copy = copy_of(f, 'a', 3);
	stand_at(f, 0, 2, copy + 2 * 4);
	assert_string_equal(read_stack(f), "a4 b3");
	stand_at(f, 0, 2, copy + 2 * 7);
	stand_at(f, 1, 1, copy_of(f, 'b', 2) + 2 * 6);
	assert_string_equal(read_stack(f), "a7 b6");
	assert_string_equal(read_stack(f), "a7 b6");
	read_stack(f);
	assert_int_equal(f->w->calls, 1); /* all of it was planned */
	stand_at(f, 0, 2, copy + 2);	  /* before what is traced: its caller's line runs */
	assert_string_equal(read_stack(f), "b6");
	copy = copy_of(f, 'a', 40); /* the list has grown, and lies elsewhere */
	stand_at(f, 0, 39, copy + 2 * 3);
	assert_string_equal(read_stack(f), "a3 b6");
}

/* How many calls the first read takes of a stack whose first @n frames stand in copies. */
static size_t calls_for_copies(uint16_t version, uint32_t n)
{
	static const char codes[] = "abcdef";
	struct fix *f = fix_create_for(pylayout_find_free_threaded(version), 100);
	size_t calls;

	stack(f, codes, NULL);
	for (uint32_t i = 0; i < n; i++)
		stand_at(f, i, 2, copy_of(f, codes[i], 3) + 2 * 4);
	read_stack(f);
	calls = f->w->calls;
	fix_destroy(f);
	return calls;
}

static void copies_of_many_frames_take_as_many_calls_as_of_one(void **state)
{
	for (uint16_t v = 0x030e; v <= 0x030f; v++)
		assert_int_equal(calls_for_copies(v, 1), calls_for_copies(v, 6));
}

/* The index is stored before the instruction: the first one in the copy, RESUME, follows. */
static void copy_just_begun(struct fix *f)
{
	stack(f, "ab", NULL);
	copy_of(f, 'a', 3);
	stand_at(f, 0, 2, code_of(f, 'a') + f->w->l.code.size + 2 * 2);
	assert_string_equal(read_stack(f), "a2 b3");
}

/* Where it stands in no copy of its own the frame is not believed. */
static void outside_of_copies(struct fix *f)
{
	raddr copy, list;

	stack(f, "ab", NULL);
	copy = copy_of(f, 'a', 3);
	list = world_get(f->w, code_of(f, 'a'), f->w->l.code.tlbc);
	stand_at(f, 0, 2, copy + 2 * UNITS);
	assert_string_equal(read_stack(f), "badcode");
	stand_at(f, 0, 2, copy - 2);
	assert_string_equal(read_stack(f), "badcode");
	stand_at(f, 0, 1, copy + 4); /* another thread's, and there is none */
	assert_string_equal(read_stack(f), "badcode");
	stand_at(f, 0, 0, copy + 4);
	assert_string_equal(read_stack(f), "badcode");
	stand_at(f, 0, 3, copy + 4);
	assert_string_equal(read_stack(f), "badcode");
	/* What lies behind the list is none of it, whatever it looks like. */
	world_put(f->w, list + 8 + 8 * 3, (pyoff)AT(0), copy, 8);
	assert_string_equal(read_stack(f), "badcode");
	stand_at(f, 0, -1, copy + 4);
	assert_string_equal(read_stack(f), "badcode");
	stand_at(f, 0, INT32_MAX, copy + 4);
	world_put(f->w, list, (pyoff)AT(0), UINT64_MAX, 8);
	assert_string_equal(read_stack(f), "badcode");
	stand_at(f, 0, 2, copy + 4);
	assert_string_equal(read_stack(f), "a2 b3");
	world_put(f->w, code_of(f, 'a'), f->w->l.code.tlbc, WORLD_NOWHERE, 8);
	assert_string_equal(read_stack(f), "badcode");
	world_put(f->w, code_of(f, 'a'), f->w->l.code.tlbc, 0, 8);
	assert_string_equal(read_stack(f), "badcode");
}

static void copies_of_bytecode(void **state)
{
	void (*const tests[])(struct fix *) = { in_copies, copy_just_begun,
						outside_of_copies };

	for (uint16_t v = 0x030e; v <= 0x030f; v++)
		for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
			struct fix *f = fix_create_for(pylayout_find_free_threaded(v), 100);

			tests[i](f);
			fix_destroy(f);
		}
}

/* TRACED is 2: below it a frame is not there yet. UNITS is 8. */
struct lasti_row {
	const char *codes;
	int unit[3];
	const char *want;
};

static const struct lasti_row lasti_rows[] = {
	{ "ab", { 0, 3 }, "b3" },
	{ "ab", { 1, 2 }, "b2" },
	{ "ab", { 3, 1 }, "a3" },
	{ "abc", { 3, 1, 4 }, "a3 c4" }, /* _Py_InitCleanup between __init__ and caller */
	{ "abc", { 0, 0, 0 }, "nopython" },
	{ "ab", { -1, 3 }, "b3" }, /* prev_instr before the first instruction */
	{ "ab", { 3, -1 }, "a3" },
	{ "ab", { -2, 3 }, "badcode" },
	{ "ab", { 7, 7 }, "a7 b7" },
	{ "ab", { 8, 3 }, "badcode" },
	{ "ab", { 3, 8 }, "badcode" },
	{ "ab", { 3, 1 << 30 }, "badcode" },
};

static void lasti_rules(struct fix *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(lasti_rows); i++) {
		const struct lasti_row *row = &lasti_rows[i];

		stack(f, row->codes, row->unit);
		if (strcmp(read_stack(f), row->want))
			fail_msg("%x row %zu: \"%s\"", f->w->l.version, i, read_stack(f));
	}
}

static void frames_that_are_not_there_yet(void **state)
{
	in_every_layout(lasti_rules);
}

/* Frames of @codes, outermost first, each at its unit. */
static const char *parked(struct fix *f, const char *codes, const int *unit, uint32_t n)
{
	struct pyframe frame[8] = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		frame[i].frame = world_take(f->w, 256);
		frame[i].code = code_of(f, codes[i]);
		frame[i].instr = frame[i].code + f->w->l.code.size + 2 * (raddr)unit[i];
	}
	return text_of(f, pystack_read_parked(f->p, &f->t, &f->w->base, frame, n));
}

static void frames_of_no_thread(struct fix *f)
{
	static const int unit[] = { 2, 3, 4 }, begins[] = { 3, 0 }, beyond[] = { 3, UNITS };

	assert_string_equal(parked(f, "cba", unit, 3), "a4 b3 c2");
	assert_string_equal(parked(f, "a", unit, 1), "a2");
	assert_string_equal(parked(f, "ab", begins, 2), "a3");
	assert_string_equal(parked(f, "ab", beyond, 2), "badcode");
	assert_string_equal(parked(f, "", unit, 0), "nopython");
	/* A thread's stack is read as before. */
	stack(f, "ba", NULL);
	assert_string_equal(read_stack(f), "b3 a3");
}

static void frames_of_no_thread_are_read_as_if_one_stood_in_the_last(void **state)
{
	in_every_layout(frames_of_no_thread);
}

/* The outermost ones are left out. */
static void more_frames_of_no_thread_than_are_wanted(void **state)
{
	static const int unit[] = { 2, 3, 4 };
	struct fix *f = fix_create_for(pylayout_find(0x030c), 2);
	struct pystack_result r;
	struct pyframe frame[3];

	for (uint32_t i = 0; i < 3; i++) {
		raddr code = code_of(f, (char)('a' + i));

		frame[i] = (struct pyframe){ .frame = world_take(f->w, 256),
					     .code = code,
					     .instr = code + f->w->l.code.size +
						      2 * (raddr)unit[i] };
	}
	r = pystack_read_parked(f->p, &f->t, &f->w->base, frame, 2);
	assert_false(r.truncated);
	r = pystack_read_parked(f->p, &f->t, &f->w->base, frame, 3);
	assert_true(r.truncated);
	assert_string_equal(text_of(f, r), "c4 b3");
	fix_destroy(f);
}

static void without_frames(struct fix *f)
{
	world_stack(f->w, f->ts, "", NULL, NULL);
	assert_string_equal(read_stack(f), "nopython");
	if (f->w->l.owner_shim) {
		world_stack(f->w, f->ts, "ss", NULL, NULL);
		assert_string_equal(read_stack(f), "nopython");
	}
	stack(f, "a", NULL);
	assert_string_equal(read_stack(f), "a3");
}

static void no_frames_is_no_python(void **state)
{
	in_every_layout(without_frames);
}

/* What a complete search told holds, for a few reads, until a thread is made. */
static void without_thread(struct fix *f)
{
	stack(f, "a", NULL);
	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 1, 8);
	assert_string_equal(read_stack(f), "nopython");
	assert_string_equal(read_stack(f), "nopython");
	if (f->w->l.version > 0x030b) /* there it is never sure */
		assert_in_range(f->w->calls, 1, 4);
	f->ts = world_thread(f->w, f->interp, INNER, true);
	stack(f, "b", NULL);
	assert_string_equal(read_stack(f), "b3");
}

static void no_thread_is_no_python(void **state)
{
	in_every_layout(without_thread);
}

/* The state is made before the thread that will own it: "none" is not for long. */
static void unbound_thread(struct fix *f)
{
	bool tells = f->w->l.version > 0x030b;

	stack(f, "a", NULL);
	world_put(f->w, f->ts, f->w->l.tstate.native_tid, tells ? 0 : 5, 8);
	assert_string_equal(read_stack(f), "nopython");
	assert_string_equal(read_stack(f), "nopython");
	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER, 8);
	assert_string_equal(read_stack(f), "a3");
}

static void thread_starts_later_than_its_state(void **state)
{
	in_every_layout(unbound_thread);
}

/* The thread's state is freed, another thread's lies there, ours elsewhere. */
static void moved_thread(struct fix *f)
{
	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "a3 b3");
	world_put(f->w, f->ts, f->w->l.tstate.native_tid, 99, 8);
	f->ts = world_thread(f->w, f->interp, INNER, true);
	stack(f, "c", NULL);
	assert_string_equal(read_stack(f), "c3");
}

/* The thread's state is in no list any more and bears its number yet, but for that its memory is
 * another's: ours is elsewhere. */
static void freed_thread(struct fix *f)
{
	static const char *const left[] = { "ff?", "fg", "ff", "" };
	const pyoff made = f->w->l.interp.threads_unique;

	if (!pyoff_has(made))
		return; /* nobody counts states */
	world_put(f->w, f->interp, made, 1, 8);
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		const pyoff next = f->w->l.tstate.next;
		raddr old = f->ts, at = world_get(f->w, f->interp, f->w->l.interp.threads_head);

		stack(f, "ab", NULL);
		assert_string_equal(read_stack(f), "a3 b3");
		f->ts = world_thread(f->w, f->interp, INNER, true);
		while (world_get(f->w, at, next) != old)
			at = world_get(f->w, at, next);
		world_put(f->w, at, next, f->ts, 8);
		world_put(f->w, f->interp, made, 2 + i, 8);
		stack(f, "c", NULL);
		world_stack(f->w, old, left[i], NULL, NULL);
		assert_string_equal(read_stack(f), "c3");
	}
}

static void thread_state_is_checked(void **state)
{
	in_every_layout(moved_thread);
	in_every_layout(freed_thread);
}

/*
 * Torn
 */

static void torn_walks(struct fix *f)
{
	world_stack(f->w, f->ts, "ff?", NULL, NULL);
	assert_string_equal(read_stack(f), "fault");
	world_stack(f->w, f->ts, "ff/", NULL, NULL);
	assert_string_equal(read_stack(f), "fault");
	world_stack(f->w, f->ts, "ff", NULL, NULL);
	assert_string_equal(read_stack(f), "broken");
	world_stack(f->w, f->ts, "fg", NULL, NULL);
	assert_string_equal(read_stack(f), "broken");
	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "a3 b3"); /* and it recovers */
	assert_int_equal(f->last_id, 2);
}

static void torn_codes(struct fix *f)
{
	raddr b, type = world_take(f->w, 512);

	stack(f, "ab", NULL);
	b = code_of(f, 'b');
	f->code['b'] = b + 4; /* not aligned */
	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "badcode");
	f->code['b'] = WORLD_NOWHERE;
	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "badcode");
	f->code['b'] = b;
	world_put(f->w, type, f->w->l.object.type_name, world_take(f->w, 8), 8);
	world_put(f->w, b, f->w->l.object.type, type, 8);
	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "badcode");
	world_put(f->w, b, f->w->l.object.type, f->w->type, 8);
	assert_string_equal(read_stack(f), "a3 b3");
	world_put(f->w, b, f->w->l.code.qualname, WORLD_NOWHERE, 8);
	assert_string_equal(read_stack(f), "badcode");
}

static void torn_search(struct fix *f)
{
	stack(f, "ab", NULL);
	world_put(f->w, f->w->runtime, f->w->l.runtime.interp_head, WORLD_NOWHERE, 8);
	assert_string_equal(read_stack(f), "fault");
	world_put(f->w, f->w->runtime, f->w->l.runtime.interp_head, f->interp, 8);
	assert_string_equal(read_stack(f), "a3 b3");
	/* Once found, a thread is found without the lists. */
	world_put(f->w, f->w->runtime, f->w->l.runtime.interp_head, WORLD_NOWHERE, 8);
	assert_string_equal(read_stack(f), "a3 b3");
}

/* Whole stacks, all of them, but not the thread's. */
static void stale_walks(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	raddr cframe, before;

	if (!pyoff_has(l->tstate.cframe))
		return;
	stack(f, "ab", NULL);
	assert_string_equal(read_stack(f), "a3 b3");
	put_top(f, f->w->frame[0] + 16);
	assert_string_equal(read_stack(f), "broken"); /* above the data stack's top */
	put_top(f, f->w->frame[0]);
	assert_string_equal(read_stack(f), l->owner_shim ? "broken" : "a3 b3");
	put_top(f, f->w->stack + 4096);
	assert_string_equal(read_stack(f), "a3 b3"); /* one was pushed, and not linked yet */
	cframe = world_get(f->w, f->ts, l->tstate.cframe);
	before = world_get(f->w, cframe, l->cframe.previous);
	world_put(f->w, before, l->cframe.current_frame, f->w->frame[1], 8);
	assert_string_equal(read_stack(f), "broken"); /* below it lies another */
	world_put(f->w, cframe, l->cframe.previous, WORLD_NOWHERE, 8);
	assert_string_equal(read_stack(f), "broken");
	world_put(f->w, cframe, l->cframe.previous, before, 8);
	world_put(f->w, code_of(f, 'd'), l->code.nlocalsplus, 1, 4);
	stack(f, "cd", NULL);
	assert_string_equal(read_stack(f), "broken"); /* a gap between the two */
}

/* C called a; between it and c a frame lies that is not linked. */
static void unlinked_frame(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	bool shims = l->owner_shim;
	const char *letters = shims ? "fsffs" : "effe", *names = shims ? "a.bc." : "abcd";
	const char *want = shims ? "a3 c3" : "a3 c3 d3";
	raddr code[6] = { 0 }, instr[6] = { 0 }, cframe, *frame = f->w->frame;

	if (!pyoff_has(l->tstate.cframe))
		return;
	for (size_t i = 0; letters[i]; i++) {
		code[i] = letters[i] == 's' ? 0 : code_of(f, names[i]);
		instr[i] = code[i] + l->code.size + 6;
	}
	world_stack(f->w, f->ts, letters, code, instr);
	world_put(f->w, frame[shims], l->frame.previous, frame[shims + 2], 8);
	cframe = world_get(f->w, f->ts, l->tstate.cframe);
	cframe = world_get(f->w, cframe, l->cframe.previous);
	world_put(f->w, cframe, l->cframe.current_frame, frame[shims + 2], 8);
	assert_string_equal(read_stack(f), want);
	world_put(f->w, code[shims + 1], l->code.nlocalsplus, 1, 4);
	assert_string_equal(read_stack(f), "broken"); /* no frame of that size */
}

static void torn_ends(void **state)
{
	in_every_layout(torn_walks);
	in_every_layout(stale_walks);
	in_every_layout(unlinked_frame);
	in_every_layout(torn_codes);
	in_every_layout(torn_search);
}

/*
 * The first instructions of an activation: it is published, and not filled in
 */

static void enters(struct fix *f)
{
	struct entered e = entered(f);
	const raddr left[] = { WORLD_NOWHERE, 0, 1, e.frame, f->w->frame[0], f->w->frame[1] };
	struct pystack_result r;

	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		put_cframe(f, e.cframe, left[i], e.before);
		assert_string_equal(read_stack(f), "a3 b3");
	}
	r = read_result(f);
	assert_int_equal(r.anchors[0].at, e.cframe);
	assert_int_equal(r.anchors[0].n, 0);
	assert_int_equal(r.anchors[1].n, 2);
	if (!f->w->l.owner_shim)
		assert_int_equal(r.anchors[1].at, e.before);
}

/* As many frames as there is room for: the caller's stack is cut, and proven all the same. */
static void enters_with_little_room(void **state)
{
	for (uint16_t v = 0x030b; v <= 0x030c; v++) {
		struct fix *f = fix_create_for(pylayout_find(v), 1);
		struct entered e = entered(f);
		struct pystack_result r;

		put_cframe(f, e.cframe, WORLD_NOWHERE, e.before);
		r = read_result(f);
		assert_string_equal(text_of(f, r), "a3");
		assert_true(r.truncated);
		fix_destroy(f);
	}
}

/* Words of the stack are no _PyCFrame whose predecessor would lie where no stack reaches. */
static void enters_from_far(void **state)
{
	enum { FAR = 64 << 20 };

	for (uint16_t v = 0x030b; v <= 0x030c; v++) {
		struct fix *f = fix_create_for(pylayout_find(v), 1);
		struct entered e = entered(f);
		struct bytes stack = { world_mem(f->w, e.cframe), e.before + 64 - e.cframe };

		put_cframe(f, e.cframe, WORLD_NOWHERE, WORLD_NOWHERE);
		for (raddr by = FAR; by <= FAR + 8; by += 8) {
			put_cframe(f, e.before, f->w->frame[0], e.before + by);
			pystack_know(f->p, e.cframe, stack);
			assert_string_equal(read_stack(f), by == FAR ? "a3" : "fault");
		}
		fix_destroy(f);
	}
}

/* Not even the previous one is known. */
static void enters_from_somewhere(struct fix *f)
{
	struct entered e = entered(f);
	struct bytes stack = { world_mem(f->w, e.cframe), e.before + 64 - e.cframe };

	put_cframe(f, e.cframe, WORLD_NOWHERE, WORLD_NOWHERE);
	assert_string_equal(read_stack(f), "fault");
	pystack_know(f->p, e.cframe, stack);
	assert_string_equal(read_stack(f), "a3 b3");
	put_cframe(f, e.cframe, WORLD_NOWHERE, e.cframe);
	pystack_know(f->p, e.cframe, stack);
	assert_string_equal(read_stack(f), "a3 b3");
	stack.n = 16;
	stack.at = memcpy(malloc(stack.n), stack.at, stack.n); /* of that size, for ASan */
	pystack_know(f->p, e.cframe, stack);
	assert_string_equal(read_stack(f), "fault");
	free((void *)(uintptr_t)stack.at);
}

static void enters_generator(struct fix *f)
{
	struct entered e = entered(f);

	entered_generator(f, &e);
	assert_string_equal(read_stack(f), "fault"); /* maybe a callee of its that has ended */
	put_cframe(f, e.cframe, e.gen_frame, e.before);
	assert_string_equal(read_stack(f), "a3 b3");
	put_cframe(f, e.cframe, f->w->frame[1], e.before);
	assert_string_equal(read_stack(f), "a3 b3");
	world_put(f->w, e.gen_frame, f->w->l.frame.previous, WORLD_NOWHERE, 8);
	put_cframe(f, e.cframe, e.gen_frame, e.before);
	assert_string_equal(read_stack(f), "fault");
	world_put(f->w, e.frame, f->w->l.frame.previous, e.gen_frame, 8);
	put_cframe(f, e.cframe, e.frame, e.before);
	assert_string_equal(read_stack(f), "fault");
}

/* What a reads with a's address in a register. */
static struct pystack_result read_with_a(struct fix *f)
{
	const raddr regs[] = { 0, f->w->frame[1], f->w->frame[0], 0 };

	pystack_stands(f->p, &(struct pystack_place){ .regs = { (const void *)regs, sizeof(regs) } });
	return read_result(f);
}

/* 3.12: the innermost activation, a's, publishes a generator that has no predecessor. */
static struct entered runs_generator_of_a(struct fix *f)
{
	struct entered e = entered(f);

	world_put(f->w, f->ts, f->w->l.tstate.cframe, e.before, 8);
	world_put(f->w, e.before, f->w->l.cframe.current_frame, e.gen_frame, 8);
	put_top(f, e.frame);
	return e;
}

/* a runs a generator in its own activation, which begins, has begun, or has yielded. */
static void runs_generator(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	struct entered e = runs_generator_of_a(f);
	struct pystack_result r;

	assert_string_equal(read_stack(f), "broken"); /* nobody says who may run it */
	r = read_with_a(f);
	if (!l->owner_shim) {
		assert_string_equal(text_of(f, r), "broken");
		return;
	}
	assert_string_equal(text_of(f, r), "a3 b3");
	assert_int_equal(r.n_anchors, 1);
	assert_int_equal(r.anchors[0].n, 2);
	put_exc(f, e.gen);
	assert_string_equal(text_of(f, read_with_a(f)), "a3 b3");
	world_put(f->w, e.gen_frame, l->frame.owner, 0, 1);
	assert_string_equal(text_of(f, read_with_a(f)), "broken"); /* no generator's */
	world_put(f->w, e.gen_frame, l->frame.owner, l->owner_generator, 1);
	put_top(f, f->w->stack);
	assert_string_equal(text_of(f, read_with_a(f)), "broken"); /* a frame more is alive */
	put_top(f, e.frame);
	world_put(f->w, f->w->frame[0], l->frame.stacktop, 2, 4);
	assert_string_equal(text_of(f, read_with_a(f)), "broken"); /* a may have returned */
	world_put(f->w, f->w->frame[0], l->frame.stacktop, UINT32_MAX, 4);
	assert_string_equal(text_of(f, read_with_a(f)), "a3 b3");
	world_put(f->w, e.before, l->cframe.previous, e.before, 8);
	assert_string_equal(text_of(f, read_with_a(f)), "broken"); /* not a's activation */
}

/* The same, run by another generator, which exc_info tells. */
static void generator_runs_generator(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	struct entered e = runs_generator_of_a(f);
	raddr gen = world_take(f->w, 256), exc = gen + pyoff_get(l->gen.exc_state);
	raddr frame = gen + pyoff_get(l->gen.frame);

	if (!l->owner_shim)
		return;
	world_frame(f->w, frame, 'g', code_of(f, 'c'), world_instr(f->w, code_of(f, 'c'), 3),
		    f->w->frame[0]);
	world_put(f->w, gen, l->gen.exc_previous, f->ts + 16, 8);
	assert_string_equal(text_of(f, read_with_a(f)), "a3 b3");
	put_exc(f, exc);
	assert_string_equal(read_stack(f), "c3 a3 b3");
	assert_string_equal(text_of(f, read_with_a(f)), "c3 a3 b3");
	put_exc(f, e.gen);
	world_put(f->w, e.gen - pyoff_get(l->gen.exc_state), l->gen.exc_previous, exc, 8);
	assert_string_equal(read_stack(f), "c3 a3 b3");
	put_exc(f, WORLD_NOWHERE);
	assert_string_equal(text_of(f, read_with_a(f)), "broken");
}

/* What does not prove that a's stack is all. */
static void enters_unproven(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	struct entered e = entered(f);

	assert_string_equal(read_stack(f), "a3 b3");
	put_exc(f, e.gen); /* a generator runs on top of a */
	assert_string_equal(read_stack(f), "fault");
	put_exc(f, f->ts + 16);
	put_top(f, f->w->stack + 120); /* a frame more is alive */
	assert_string_equal(read_stack(f), "fault");
	put_top(f, f->w->stack);
	world_put(f->w, e.frame, l->frame.instr, world_instr(f->w, code_of(f, 'e'), TRACED),
		  8);
	assert_string_equal(read_stack(f), "fault"); /* it runs */
	world_put(f->w, e.frame, l->frame.instr, world_instr(f->w, code_of(f, 'e'), 0), 8);
	assert_string_equal(read_stack(f), "a3 b3");
	world_put(f->w, e.frame, l->frame.owner, l->owner_generator, 1);
	assert_string_equal(read_stack(f), "fault"); /* a generator's, which lies elsewhere */
	world_put(f->w, e.frame, l->frame.owner, 0, 1);
	put_chunk(f, f->w->stack - CHUNK_MAX - 8); /* no data stack is so large */
	assert_string_equal(read_stack(f), "fault");
	put_chunk(f, f->w->stack - CHUNK_MAX);
	assert_string_equal(read_stack(f), "a3 b3");
	put_cframe(f, e.before, f->w->frame[1], 0); /* b's may be what called */
	assert_string_equal(read_stack(f), "fault");
	world_put(f->w, f->ts, l->tstate.exc_info, WORLD_NOWHERE, 8);
	assert_string_equal(read_stack(f), "fault");
}

/* The thread's first activation. */
static void enters_first(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	struct entered e = entered(f);
	raddr chunk = world_get(f->w, f->ts, l->tstate.datastack_chunk);

	world_put(f->w, chunk, (pyoff)AT(0), 0, 8);
	world_frame(f->w, chunk + 32, 'f', code_of(f, 'e'),
		    world_instr(f->w, code_of(f, 'e'), 0) - 2, 0);
	put_top(f, chunk + 32 + 120);
	put_cframe(f, e.cframe, WORLD_NOWHERE, WORLD_NOWHERE);
	assert_string_equal(read_stack(f), "nopython");
	world_put(f->w, chunk, (pyoff)AT(0), WORLD_AT, 8); /* there are more below */
	assert_string_equal(read_stack(f), "fault");
}

/* greenlet's own _PyCFrame, while a greenlet has not begun or has ended: no frame is alive. */
static void bare_greenlet(struct fix *f)
{
	struct entered e = entered(f);
	raddr chunk = world_get(f->w, f->ts, f->w->l.tstate.datastack_chunk);

	put_cframe(f, e.cframe, 0, e.before);
	world_put(f->w, e.before, f->w->l.cframe.current_frame, 0, 8);
	assert_string_equal(read_stack(f), "broken");
	world_put(f->w, chunk, (pyoff)AT(0), 0, 8);
	put_top(f, chunk + 32);
	assert_string_equal(read_stack(f), "nopython");
	world_put(f->w, chunk, (pyoff)AT(0), WORLD_AT, 8); /* there are more below */
	assert_string_equal(read_stack(f), "broken");
	put_top(f, 0);
	put_chunk(f, 0);
	assert_string_equal(read_stack(f), "nopython");
	put_exc(f, e.gen); /* a generator runs */
	assert_string_equal(read_stack(f), "broken");
	put_exc(f, f->ts + 16);
	*pystack_compiled(f->p, PROGRAM) = (struct pycompiled){ .program = PROGRAM, .type = 16 };
	assert_string_equal(read_stack(f), "broken");
}

/* 3.13 for aarch64: e's frame is published, the shim behind it is left over. */
static void enters_before_its_shim(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	raddr shim = world_take(f->w, 128), words = world_take(f->w, 64), e;
	struct bytes stack_bytes = { world_mem(f->w, words), 64 };
	struct pystack_result r;

	was_walked(f);
	stack(f, "abc", NULL);
	e = enter_by(f, shim);
	world_frame(f->w, shim, 's', 0, 0, f->w->frame[0]);
	assert_string_equal(read_stack(f), "a3 b3 c3");
	world_put(f->w, shim, l->frame.previous, f->w->frame[1], 8); /* another stack, whole */
	assert_string_equal(read_stack(f), "broken");
	world_put(f->w, words, (pyoff)AT(8), f->w->frame[1], 8);
	world_put(f->w, words, (pyoff)AT(24), f->w->frame[0], 8);
	pystack_know(f->p, words, stack_bytes);
	assert_string_equal(read_stack(f), "a3 b3 c3");
	/* Functions that are compiled to C are not on the data stack: then that proves nothing. */
	*pystack_compiled(f->p, PROGRAM) = (struct pycompiled){ .program = PROGRAM, .type = 16 };
	pystack_know(f->p, words, stack_bytes);
	assert_string_equal(read_stack(f), "broken");
	*pystack_compiled(f->p, PROGRAM) = (struct pycompiled){ 0 }; /* not known yet */
	pystack_know(f->p, words, stack_bytes);
	assert_string_equal(read_stack(f), "broken");
	was_walked(f);
	world_put(f->w, shim, l->frame.previous, WORLD_NOWHERE, 8);
	world_put(f->w, shim, l->frame.owner, 0, 1);
	pystack_know(f->p, words, stack_bytes);
	assert_string_equal(read_stack(f), "a3 b3 c3");
	world_put(f->w, e, l->frame.instr, world_instr(f->w, code_of(f, 'e'), TRACED), 8);
	pystack_know(f->p, words, stack_bytes);
	r = read_result(f);
	assert_string_equal(text_of(f, r),
			    "e2 a3 b3 c3"); /* it is there: its first line runs */
	assert_int_equal(r.anchors[0].at, shim);
	assert_int_equal(r.anchors[0].n, 1);
	assert_int_equal(r.anchors[1].n, 4);
	world_put(f->w, f->w->frame[0], l->frame.stacktop, 2, 4); /* a has returned */
	pystack_know(f->p, words, stack_bytes);
	assert_string_equal(read_stack(f), "fault");
	world_put(f->w, f->w->frame[0], l->frame.stacktop, UINT32_MAX, 4);
	put_exc(f, words); /* a generator runs */
	pystack_know(f->p, words, stack_bytes);
	assert_string_equal(read_stack(f), "fault");
}

/* The same, where the shim leads nowhere. */
static void enter_before_its_shim(struct fix *f)
{
	raddr shim = world_take(f->w, 128), words = world_take(f->w, 64);

	was_walked(f);
	stack(f, "abc", NULL);
	enter_by(f, shim);
	world_frame(f->w, shim, 'f', 0, 0, WORLD_NOWHERE);
	world_put(f->w, words, (pyoff)AT(24), f->w->frame[0], 8);
	pystack_know(f->p, words, (struct bytes){ world_mem(f->w, words), 64 });
}

/* Who calls is proven only where it is known how long frames are, where generators have theirs
 * and which one runs. */
static void enters_where_less_is_known(void **state)
{
	static const size_t fields[] = { offsetof(struct pylayout, code.stacksize),
					 offsetof(struct pylayout, gen.frame),
					 offsetof(struct pylayout, tstate.exc_info) };

	for (size_t i = 0; i <= ARRAY_SIZE(fields); i++) {
		struct fix *f = fix_create(0x030d);

		enter_before_its_shim(f);
		if (i < ARRAY_SIZE(fields))
			memset((char *)&f->t.layout + fields[i], 0, sizeof(pyoff));
		assert_string_equal(read_stack(f), i < ARRAY_SIZE(fields) ? "fault" :
									    "a3 b3 c3");
		fix_destroy(f);
	}
}

/* More words than are tried look like frames, and are none of the caller's place. */
static void enters_among_other_words(struct fix *f)
{
	enum { OTHERS = 40 };
	raddr shim = world_take(f->w, 128), words = world_take(f->w, 8 * (OTHERS + 1));

	was_walked(f);
	stack(f, "abc", NULL);
	enter_by(f, shim);
	world_frame(f->w, shim, 's', 0, 0, f->w->frame[1]);
	for (uint32_t i = 0; i < OTHERS; i++)
		world_put(f->w, words, (pyoff)AT(8 * i), f->w->frame[1 + i % 2], 8);
	world_put(f->w, words, (pyoff)AT(8 * OTHERS), f->w->frame[0], 8);
	pystack_know(f->p, words, (struct bytes){ world_mem(f->w, words), 8 * (OTHERS + 1) });
	assert_string_equal(read_stack(f), "a3 b3 c3");
}

/* A call that began a new chunk of the data stack: its caller's frame ends the one before. */
static void called_into_a_new_chunk(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	raddr old, chunk = world_take(f->w, 1024), e = chunk + 24;

	was_walked(f);
	stack(f, "ab", NULL);
	old = world_get(f->w, f->ts, l->tstate.datastack_chunk);
	put_exc(f, f->ts + 16);
	world_frame(f->w, e, 'f', code_of(f, 'e'), world_instr(f->w, code_of(f, 'e'), 0),
		    f->w->frame[0]);
	world_put(f->w, chunk, (pyoff)AT(0), old, 8);
	world_put(f->w, old, (pyoff)AT(16), (f->w->stack - old - 24) / 8, 8);
	put_chunk(f, chunk);
	put_top(f, e + 120);
	world_top(f->w, f->ts, e);
	assert_string_equal(read_stack(f), "a3 b3"); /* e has not begun */
	world_put(f->w, old, (pyoff)AT(16), (f->w->stack - old - 24) / 8 + 1, 8);
	assert_string_equal(read_stack(f), "broken"); /* another one lies there */
}

/* The first call of a thread: its frame lies where the first chunk begins. */
static void called_by_nobody(struct fix *f)
{
	raddr chunk = world_take(f->w, 1024), shim = world_take(f->w, 128);
	raddr begin = world_instr(f->w, code_of(f, 'e'), 0);

	was_walked(f);
	put_exc(f, f->ts + 16);
	world_frame(f->w, shim, 's', 0, 0, 0);
	world_frame(f->w, chunk + 32, 'f', code_of(f, 'e'), begin, shim);
	put_chunk(f, chunk);
	put_top(f, chunk + 32 + 120);
	world_top(f->w, f->ts, chunk + 32);
	assert_string_equal(read_stack(f), "nopython"); /* it has not begun */
	world_frame(f->w, chunk + 40, 'f', code_of(f, 'e'), begin, shim);
	put_top(f, chunk + 40 + 120);
	world_top(f->w, f->ts, chunk + 40);
	assert_string_equal(read_stack(f), "broken"); /* something lies before it */
}

/* What e is called by is a generator on b, and e's shim is left over. */
static void called_by_a_generator(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	raddr gen = world_take(f->w, 256), shim = world_take(f->w, 128);
	raddr frame = gen + pyoff_get(l->gen.frame);

	was_walked(f);
	stack(f, "b", NULL);
	world_frame(f->w, frame, 'g', code_of(f, 'g'), world_instr(f->w, code_of(f, 'g'), 3),
		    f->w->frame[0]);
	world_put(f->w, gen, l->gen.exc_previous, f->ts + 16, 8);
	put_exc(f, gen + pyoff_get(l->gen.exc_state));
	world_frame(f->w, shim, 's', 0, 0, f->w->frame[0]);
	enter_by(f, shim);
	assert_string_equal(read_stack(f), "g3 b3");
	world_put(f->w, frame, l->frame.stacktop, 2, 4); /* it has returned */
	assert_string_equal(read_stack(f), "broken");
}

/* C resumes a generator: it is published, and its shim, which leads to @caller, is left over. */
static raddr resume(struct fix *f, raddr caller)
{
	raddr gen = world_take(f->w, 256) + pyoff_get(f->w->l.gen.frame);
	raddr shim = world_take(f->w, 128);

	world_frame(f->w, gen, 'g', code_of(f, 'g'), world_instr(f->w, code_of(f, 'g'), 3),
		    shim);
	world_put(f->w, gen, f->w->l.frame.stacktop, 2, 4); /* it does not execute yet */
	world_frame(f->w, shim, 's', 0, 0, caller);
	world_top(f->w, f->ts, gen);
	return gen;
}

/* a resumes it, and the shim may lead past a. */
static void resumes_before_its_shim(struct fix *f)
{
	const pyoff stacktop = f->w->l.frame.stacktop;
	raddr gen, shim, a;

	was_walked(f);
	stack(f, "abc", NULL);
	a = f->w->frame[0];
	gen = resume(f, a);
	shim = world_get(f->w, gen, f->w->l.frame.previous);
	assert_string_equal(read_stack(f), "g3 a3 b3 c3");
	for (int i = 1; i < 3; i++) { /* b, c */
		world_put(f->w, shim, f->w->l.frame.previous, f->w->frame[i], 8);
		assert_string_equal(read_stack(f), "broken");
	}
	/* One that does not execute is not there yet, or any more: C called from b. */
	world_put(f->w, shim, f->w->l.frame.previous, f->w->frame[1], 8);
	world_put(f->w, a, stacktop, 2, 4);
	assert_string_equal(read_stack(f), "g3 b3 c3");
	world_put(f->w, a, stacktop, UINT32_MAX, 4);
	/* Once it executes it has its shim. */
	world_put(f->w, gen, stacktop, UINT32_MAX, 4);
	assert_string_equal(read_stack(f), "g3 b3 c3");
	world_put(f->w, gen, stacktop, 2, 4);
	assert_string_equal(read_stack(f), "broken");
	/* a has ended. */
	put_top(f, f->w->frame[1] + 120);
	assert_string_equal(read_stack(f), "g3 b3 c3");
	world_put(f->w, shim, f->w->l.frame.previous, a, 8);
	assert_string_equal(read_stack(f), "broken");
}

/* What is left over says that nothing was called before. */
static void resumes_as_if_first(struct fix *f)
{
	raddr chunk = world_take(f->w, 1024), a = chunk + 32, gen, shim = world_take(f->w, 128);

	was_walked(f);
	world_frame(f->w, shim, 's', 0, 0, 0);
	world_frame(f->w, a, 'f', code_of(f, 'a'), world_instr(f->w, code_of(f, 'a'), 3), shim);
	put_chunk(f, chunk);
	put_top(f, a + 120);
	gen = resume(f, a);
	assert_string_equal(read_stack(f), "g3 a3");
	shim = world_get(f->w, gen, f->w->l.frame.previous);
	world_put(f->w, shim, f->w->l.frame.previous, 0, 8);
	assert_string_equal(read_stack(f), "broken");
	put_top(f, a); /* nothing was */
	assert_string_equal(read_stack(f), "g3");
}

/* Where it is not known which generator runs, a frame that has not begun is called by whom its
 * link names. */
static void called_where_less_is_known(struct fix *f)
{
	raddr shim = world_take(f->w, 128);

	was_walked(f);
	stack(f, "abc", NULL);
	world_frame(f->w, shim, 's', 0, 0, f->w->frame[0]);
	enter_by(f, shim);
	put_exc(f, WORLD_NOWHERE);
	assert_string_equal(read_stack(f), "broken");
	f->t.layout.tstate.exc_info = (pyoff){ 0 };
	assert_string_equal(read_stack(f), "a3 b3 c3");
}

static void entries_of_3_13(void **state)
{
	void (*const tests[])(struct fix *) = { enters_before_its_shim,
						enters_among_other_words,
						called_into_a_new_chunk, called_by_nobody,
						called_by_a_generator,
						resumes_before_its_shim,
						resumes_as_if_first,
						called_where_less_is_known };

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		struct fix *f = fix_create(0x030d);

		tests[i](f);
		fix_destroy(f);
	}
}

static void entries(void **state)
{
	static void (*const tests[])(struct fix *) = {
		enters,		  bare_greenlet,  enters_from_somewhere,   enters_generator,
		enters_unproven, enters_first, runs_generator, generator_runs_generator
	};

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		for (uint16_t v = 0x030b; v <= 0x030c; v++) {
			struct fix *f = fix_create(v);

			tests[i](f);
			fix_destroy(f);
		}
}

/* As greenlet leaves the frames that it switches away from: without shims, and with frame
 * objects. */
static void exposed(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	raddr object = world_take(f->w, 128), last, ends_at;

	if (!l->owner_shim)
		return;
	stack(f, "ab", NULL);
	last = f->w->frame[1];
	world_put(f->w, last, l->frame.previous, 0, 8);
	put_exc(f, f->ts + 16);
	assert_string_equal(read_stack(f), "broken");
	world_put(f->w, last, l->frame.object, object, 8);
	assert_string_equal(read_stack(f), "broken"); /* another's object */
	world_put(f->w, object, (pyoff)AT(pyoff_get(l->object.type) + 16), last, 8);
	assert_string_equal(read_stack(f), "a3 b3");
	assert_true(read_result(f).switching);
	if (!pyoff_has(l->tstate.cframe))
		return;
	ends_at = f->w->stack;
	put_top(f,
		ends_at + 120); /* not the newest frame: what is copied over the _PyCFrame */
	assert_string_equal(read_stack(f), "broken");
	put_top(f, ends_at);
	put_exc(f, object);
	assert_string_equal(read_stack(f), "broken");
}

static void switches(void **state)
{
	in_every_layout(exposed);
}

static raddr type_named(struct fix *f, const char *name)
{
	raddr type = world_take(f->w, 1024), at = world_take(f->w, 32);

	memcpy(world_mem(f->w, at), name, strlen(name) + 1);
	world_put(f->w, type, f->w->l.object.type_name, at, 8);
	return type;
}

/* The frame at @last is one of a frame object of @type, at @object, and has none below. */
static void own_by_object(struct fix *f, raddr last, raddr object, raddr type)
{
	const struct pylayout *l = &f->w->l;
	const uint32_t head = pyoff_get(l->object.type) - 8;

	world_put(f->w, last, l->frame.previous, 0, 8);
	world_put(f->w, last, l->frame.owner, l->owner_generator, 1);
	world_put(f->w, last, l->frame.object, object, 8);
	world_put(f->w, object, (pyoff)AT(head), 2, 8);
	world_put(f->w, object, (pyoff)AT(head + 8), type, 8);
	world_put(f->w, object, (pyoff)AT(head + 24), last, 8);
}

/* As Nuitka links frames: none is below the outermost one, which its own frame object owns. */
static void compiled(struct fix *f)
{
	const struct pylayout *l = &f->w->l;
	const uint32_t head = pyoff_get(l->object.type) - 8;
	raddr object = world_take(f->w, 128), last, other = type_named(f, "frame"),
	      type = type_named(f, "compiled_frame");
	struct pystack_result r;

	stack(f, "ab", NULL);
	last = f->w->frame[1];
	world_put(f->w, last, l->frame.previous, 0, 8);
	world_put(f->w, last, l->frame.owner, l->owner_generator, 1);
	put_exc(f, f->ts + 16);
	assert_string_equal(read_stack(f), "broken");
	own_by_object(f, last, object, other);
	assert_string_equal(read_stack(f), "broken"); /* of another type */
	world_put(f->w, object, (pyoff)AT(head + 8), type, 8);
	if (l->free_threaded) {
		assert_string_equal(read_stack(f), "broken");
		return;
	}
	assert_string_equal(read_stack(f), "a3 b3");
	r = read_result(f);
	assert_false(r.frames[0].flags & PYSTACK_COMPILED);
	assert_true(r.frames[1].flags & PYSTACK_COMPILED);
	world_put(f->w, object, (pyoff)AT(head), 1, 8); /* not linked whole */
	assert_string_equal(read_stack(f), "broken");
	world_put(f->w, object, (pyoff)AT(head), 2, 8);
	world_put(f->w, object, (pyoff)AT(head + 24), last + 8, 8); /* another's */
	assert_string_equal(read_stack(f), "broken");
	world_put(f->w, object, (pyoff)AT(head + 24), last, 8);
	world_put(f->w, object, (pyoff)AT(head + 8), other, 8); /* as before */
	assert_string_equal(read_stack(f), "broken");
}

static void compiled_to_c(void **state)
{
	in_every_layout(compiled);
}

static void truncated(void **state)
{
	struct fix *f = fix_create_for(pylayout_find(0x030c), 3);
	struct pystack_result r;

	stack(f, "abcd", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3");
	r = read_result(f);
	assert_true(r.truncated);
	world_stack(f->w, f->ts, "ffsffs",
		    (raddr[]){ code_of(f, 'a'), code_of(f, 'b'), 0, code_of(f, 'c'),
			       code_of(f, 'd'), 0 },
		    (raddr[]){ world_instr(f->w, code_of(f, 'a'), 3),
			       world_instr(f->w, code_of(f, 'b'), 3), 0,
			       world_instr(f->w, code_of(f, 'c'), 3),
			       world_instr(f->w, code_of(f, 'd'), 3), 0 });
	assert_string_equal(read_stack(f), "a3 b3"); /* cut behind the first activation */
	assert_false(read_result(f).switching);
	stack(f, "ab", NULL); /* and a shim */
	r = read_result(f);
	assert_int_equal(r.n, 2);
	assert_false(r.truncated);
	fix_destroy(f);
}

/*
 * Calls
 */

/* In every version: where code has no counter, its contents are planned, too. */
static void second_read(struct fix *f)
{
	stack(f, "abcabcabc", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3 a3 b3 c3 a3 b3 c3");
	for (int i = 0; i < 20; i++) {
		read_stack(f);
		assert_int_equal(f->w->calls, 1);
	}
	/* One frame more, and one less: the plan has some slack. */
	stack(f, "aabcabcabc", NULL);
	assert_string_equal(read_stack(f), "a3 a3 b3 c3 a3 b3 c3 a3 b3 c3");
	assert_int_equal(f->w->calls, 1);
	stack(f, "bc", NULL);
	assert_string_equal(read_stack(f), "b3 c3");
	assert_int_equal(f->w->calls, 1);
}

static void second_read_is_one_call(void **state)
{
	in_every_layout(second_read);
}

static void deep(struct fix *f)
{
	char codes[1001] = "";

	memset(codes, 'a', 1000);
	stack(f, codes, NULL);
	assert_int_equal(strlen(read_stack(f)), 1000 * 3 - 1);
	assert_in_range(f->w->calls, 1, 30); /* also the search and the first copy */
	assert_int_equal(strlen(read_stack(f)), 1000 * 3 - 1);
	assert_in_range(f->w->calls, 1, 3);
}

static void deep_stacks_take_few_calls(void **state)
{
	in_every_layout(deep);
}

/* The plan is an optimisation: what it wants may be gone. */
static void plan_of_what_is_gone(void **state)
{
	struct fix *f = fix_create(0x030e);
	raddr gone;

	stack(f, "ab", NULL);
	code_of(f, 'c');
	world_take(f->w, 16384); /* far from everything */
	gone = world_take(f->w, 128);
	world_frame(f->w, gone, 'g', code_of(f, 'c'), world_instr(f->w, code_of(f, 'c'), 4),
		    f->w->frame[0]);
	world_top(f->w, f->ts, gone);
	assert_string_equal(read_stack(f), "c4 a3 b3");
	world_top(f->w, f->ts, f->w->frame[0]);
	world_hole(f->w, gone, 128);
	for (int i = 0; i < 12; i++)
		assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->w->calls, 1); /* it is forgotten by now */
	fix_destroy(f);
}

/*
 * The rest
 */

static void second_look(struct fix *f)
{
	struct pystack_result r;

	stack(f, "ab", NULL);
	r = read_result(f);
	assert_int_equal(r.end, PYSTACK_OK);
	assert_true(pystack_unchanged(&r, &f->w->base));
	world_top(f->w, f->ts, f->w->frame[1]);
	assert_false(pystack_unchanged(&r, &f->w->base));
	world_top(f->w, f->ts, f->w->frame[0]);
	assert_true(pystack_unchanged(&r, &f->w->base));
	world_hole(f->w, f->ts, f->w->l.tstate.size);
	assert_false(pystack_unchanged(&r, &f->w->base));
}

static void second_look_sees_change(void **state)
{
	in_every_layout(second_look);
}

static void forgotten_is_copied_again(void **state)
{
	struct fix *f = fix_create(0x030d);

	stack(f, "ab", NULL);
	read_stack(f);
	pystack_forget_codes(f->p, PROGRAM + 1);
	read_stack(f);
	assert_int_equal(f->last_id, 2);
	pystack_forget_codes(f->p, PROGRAM);
	assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->last_id, 4);
	fix_destroy(f);
}

/* Two processes with the same addresses are two. */
static void processes_are_apart(void **state)
{
	struct fix *f = fix_create(0x030d);

	stack(f, "ab", NULL);
	read_stack(f);
	f->t.program = PROGRAM + 1;
	put_code(f, code_of(f, 'a'), 'x');
	assert_string_equal(read_stack(f), "x3 b3");
	assert_int_equal(f->last_id, 4);
	fix_destroy(f);
}

/* What lies lowest on the C stack is innermost, whichever state is the active one and
 * wherever it stands in the lists. */
static void nested(struct fix *f)
{
	raddr outer = enter_another(f), inner = f->ts, third;
	struct pystack_result r;

	stack(f, "ab", NULL); /* made first, so lowest */
	f->ts = outer;
	stack(f, "cd", NULL);
	enter_another(f); /* and has no frame */
	third = f->ts;
	r = read_result(f);
	assert_string_equal(text_of(f, r), "a3 b3 c3 d3");
	read_result(f);
	assert_in_range(f->w->calls, 1, 18); /* which states there are is known by now */
	assert_int_equal(r.anchors[r.n_anchors - 1].n, 4);
	assert_int_equal(r.tstate, inner);
	stack(f, "e", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3 d3 e3");
	f->ts = inner;
	stack(f, "", NULL);
	assert_string_equal(read_stack(f), "c3 d3 e3");
	world_put(f->w, third, f->w->l.tstate.native_tid, INNER + 1, 8);
	assert_string_equal(read_stack(f), "c3 d3");
	stack(f, "abab", NULL);
	assert_string_equal(read_stack(f), "a3 b3 a3 b3 c3 d3");
}

/* A CPython may have the thread's number before all else that is read of its state. */
static void nested_by_a_number_in_front(void)
{
	struct pylayout l = *pylayout_find(0x030d);
	struct fix *f;

	l.tstate.native_tid = l.tstate.prev; /* which no walk reads */
	f = fix_create_for(&l, PYWALK_MAX_FRAMES);
	nested(f);
	fix_destroy(f);
}

/* One of its states is the first of all in memory. */
static void nested_in_the_first(struct fix *f)
{
	raddr first = world_get(f->w, f->interp, f->w->l.interp.threads_head);

	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 1, 8);
	world_put(f->w, first, f->w->l.tstate.native_tid, INNER, 8);
	f->ts = first;
	enter_another(f);
	stack(f, "ab", NULL);
	f->ts = first;
	stack(f, "cd", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3 d3");
}

/* "a" in another interpreter, on "b"; then it is left, and its state looks as it did. */
static void enter_and_leave(struct fix *f)
{
	raddr outer = enter_another(f), inner = f->ts;

	stack(f, "a", NULL);
	f->ts = outer;
	stack(f, "b", NULL);
	assert_string_equal(read_stack(f), "a3 b3");
	f->ts = inner;
	stack(f, "", NULL);
}

/* The state that a thread was found by is freed. */
static void left(struct fix *f)
{
	raddr other;

	enter_and_leave(f);
	other = f->w->last_interp;
	world_put(f->w, f->interp, f->w->l.interp.next, 0, 8);
	world_put(f->w, other, f->w->l.interp.threads_head, 0, 8);
	assert_string_equal(read_stack(f), "b3");
}

/* The inner interpreter is freed, and another one that made as many threads runs elsewhere. */
static void made_anew(struct fix *f)
{
	enter_and_leave(f);
	f->w->last_interp = f->interp;
	enter_another(f);
	stack(f, "cd", NULL); /* made later, so higher */
	assert_string_equal(read_stack(f), "b3 c3 d3");
}

/* The inner interpreter's thread enters an activation, in which nothing is left over. */
static void entered_in_an_interpreter(struct fix *f)
{
	raddr outer = f->ts, interp = world_interp(f->w);
	struct entered e;

	if (!pyoff_has(f->w->l.tstate.cframe))
		return;
	f->ts = world_thread(f->w, interp, INNER, false);
	e = entered(f);
	put_cframe(f, e.cframe, 0, e.before);
	f->ts = outer;
	stack(f, "cd", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3 d3");
}

/* A list that could not be read to its end is read again, however few threads were made. */
static void seen_in_part(struct fix *f)
{
	raddr outer = enter_another(f), inner = f->ts, interp = f->w->last_interp;

	stack(f, "ab", NULL);
	f->ts = outer;
	stack(f, "cd", NULL);
	world_put(f->w, inner, f->w->l.tstate.next, WORLD_NOWHERE, 8);
	assert_string_equal(read_stack(f), "fault");
	world_put(f->w, inner, f->w->l.tstate.next, 0, 8);
	world_put(f->w, interp, f->w->l.interp.threads_head, inner, 8);
	assert_string_equal(read_stack(f), "a3 b3 c3 d3");
}

/* From 3.13 on each activation stands on a shim. A state that has none is caught in between:
 * nothing tells where it runs, unless it is another thread's. */
static void without_shim(struct fix *f)
{
	raddr outer = enter_another(f), inner = f->ts, code = code_of(f, 'a'),
	      instr = code + f->w->l.code.size + 6;

	if (!f->w->l.owner_shim || pyoff_has(f->w->l.tstate.cframe))
		return;
	world_stack(f->w, inner, "f", &code, &instr);
	f->ts = outer;
	stack(f, "cd", NULL);
	assert_string_equal(read_stack(f), "broken");
	world_put(f->w, inner, f->w->l.tstate.native_tid, INNER + 1, 8);
	assert_string_equal(read_stack(f), "c3 d3");
}

/* A JIT may run the innermost frame of all, from 3.13 on with a GIL, and none of the others. */
static void may_be_jitted(struct fix *f)
{
	const bool may = f->w->l.version >= 0x030d && !f->w->l.free_threaded;
	const uint32_t jit = may ? PYSTACK_MAY_BE_JITTED : 0;
	const uint32_t calls = jit ? PYSTACK_CALLS : 0;
	raddr outer = enter_another(f);
	struct pystack_result r;

	stack(f, "ab", NULL);
	f->ts = outer;
	stack(f, "cd", NULL);
	r = read_result(f);
	assert_string_equal(text_of(f, r), "a3 b3 c3 d3");
	for (uint32_t i = 0; i < r.n; i++)
		assert_int_equal(r.frames[i].flags, i ? 0 : jit);
	stack(f, "cd", (const int[]){ 0, 3 }); /* c has not begun, but it is not the innermost */
	r = read_result(f);
	assert_string_equal(text_of(f, r), "a3 b3 d3");
	assert_int_equal(r.frames[0].flags, jit);
	f->ts = world_get(f->w, f->w->last_interp, f->w->l.interp.threads_head);
	stack(f, "ab", (const int[]){ 0, 3 });
	r = read_result(f);
	assert_int_equal(r.frames[0].flags, jit | calls);
	f->t.no_jit = true;
	r = read_result(f);
	assert_int_equal(r.frames[0].flags, 0);
}

/* The C library puts what it has of a thread where its stack ends; that of a process's first
 * thread is the kernel's. */
static void stacks_end(struct fix *f)
{
	const raddr pthread = WORLD_AT + 4096, root = WORLD_AT + 8192;
	struct pystack_result r;

	world_put(f->w, f->ts, f->w->l.tstate.thread_id, pthread, 8);
	stack(f, "ab", NULL);
	r = read_result(f);
	assert_int_equal(r.root, pthread);
	f->t.root = root;
	assert_int_equal(read_result(f).root, pthread);
	r = pystack_read(f->p, &f->t, &f->w->base, PID, INNER);
	assert_int_equal(r.root, root);
	f->t.root = 0;
	assert_int_equal(pystack_read(f->p, &f->t, &f->w->base, PID, INNER).root, 0);
}

static const char *read_forked(struct fix *f, pid_t tid, pid_t forker)
{
	struct pystack_place place = { .forker = forker };

	f->t.program++;
	pystack_stands(f->p, &place);
	return text_of(f, pystack_read(f->p, &f->t, &f->w->base, tid, INNER + 1));
}

/* The state of a child's first thread bears the number of who forked it, for a while. */
static void forked(struct fix *f)
{
	stack(f, "ab", NULL);
	assert_string_equal(read_forked(f, PID, INNER), "a3 b3");
	assert_string_equal(read_forked(f, PID, INNER + 2), "nopython");
	assert_string_equal(read_forked(f, PID, 0), "nopython");
	assert_string_equal(read_forked(f, TID, INNER), "nopython");
}

/* Or it stays so, where nobody calls PyOS_AfterFork_Child(): fork() itself has made the struct
 * pthread that the state keeps the child's. Nobody knows where the thread stands. */
static void forked_without_python(struct fix *f)
{
	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 2, 8);
	world_put(f->w, f->ts, f->w->l.tstate.thread_id, world_pthread(f->w, INNER + 1), 8);
	stack(f, "ab", NULL);
	f->t.root = world_take(f->w, 64);
	if (pyoff_has(f->w->l.tstate.base_frame)) /* it has nothing on the C stack */
		return;
	assert_string_equal(read_forked(f, PID, 0), "a3 b3");
	assert_string_equal(read_forked(f, TID, 0), "nopython");
}

static void number_of_the_forker(void **state)
{
	in_every_layout(forked);
	in_every_layout(forked_without_python);
}

static void what_is_told_of_a_stack(void **state)
{
	in_every_layout(may_be_jitted);
	in_every_layout(stacks_end);
}

static void several_interpreters(void **state)
{
	in_every_layout(without_shim);
	in_every_layout(seen_in_part);
	in_every_layout(entered_in_an_interpreter);
	in_every_layout(nested);
	nested_by_a_number_in_front();
	in_every_layout(nested_in_the_first);
	in_every_layout(made_anew);
	in_every_layout(left);
}

static const char *read_all(struct fix *f, const struct pystack_others *o)
{
	f->w->calls = 0;
	return text_of(f, pystack_read_all(f->p, &f->t, o, &f->w->base, TID, INNER));
}

/* Frames of two runtimes on one C stack: what lies lowest is innermost. */
static void in_two_runtimes(struct fix *f)
{
	raddr first = f->ts, second;
	struct pystack_others o, none = { 0 };
	struct pystack_result r;

	if (pyoff_has(f->w->l.tstate.base_frame)) /* it has nothing on the C stack */
		return;
	f->t.program = PYSTACK_SEVERAL;
	second = another_runtime(f, &o, true);
	f->ts = second;
	stack(f, "", NULL);
	f->ts = first;
	stack(f, "", NULL);
	assert_string_equal(read_all(f, &o), "nopython");
	f->ts = second;
	stack(f, "ab", NULL); /* made first, so lowest */
	assert_string_equal(read_all(f, &o), "a3 b3");
	f->ts = first;
	stack(f, "cd", NULL);
	assert_string_equal(read_all(f, &none), "c3 d3"); /* the one that was read last is gone */
	r = pystack_read_all(f->p, &f->t, &o, &f->w->base, TID, INNER);
	assert_string_equal(text_of(f, r), "a3 b3 c3 d3");
	assert_int_equal(r.n_anchors, 2);
	assert_int_equal(r.anchors[0].n, 2);
	assert_int_equal(r.anchors[1].n, 4);
	assert_int_equal(r.tstate, second);
	assert_ptr_equal(r.of, &o.of[0].target);
	/* What befell one of them is told. */
	for (const char *letter = "ac"; *letter; letter++) {
		raddr at = code_of(f, *letter);
		pyoff type = f->w->l.object.type;
		uint64_t was = world_get(f->w, at, type);

		pystack_forget_codes(f->p, f->t.program);
		world_put(f->w, at, type, WORLD_NOWHERE, 8);
		assert_string_equal(read_all(f, &o), "badcode");
		world_put(f->w, at, type, was, 8);
		assert_string_equal(read_all(f, &o), "a3 b3 c3 d3");
	}
	f->ts = second;
	stack(f, "", NULL);
	assert_string_equal(read_all(f, &o), "c3 d3");
	assert_string_equal(read_all(f, NULL), "c3 d3");
}

/* What is told of the thread, what is known of it and what is wanted besides holds for each
 * runtime: one that has no frames leaves it to the others. */
static void told_to_two_runtimes(struct fix *f)
{
	static const uint64_t bytes = 4711;
	raddr first = f->ts, at[2];
	struct pystack_others o;
	uint64_t word;

	world_take(f->w, 8192);
	at[0] = world_take(f->w, 8192);
	at[1] = world_take(f->w, 8192);
	f->t.program = PYSTACK_SEVERAL;
	f->ts = another_runtime(f, &o, true);
	stack(f, "ab", NULL);
	f->ts = first;
	stack(f, "", NULL);
	for (int i = 0; i < 2; i++) {
		pystack_stands(f->p, &(struct pystack_place){ .forker = INNER });
		pystack_know(f->p, at[0], (struct bytes){ (const void *)&bytes, 8 });
		pystack_want(f->p, at[1], 8);
		assert_string_equal(text_of(f, pystack_read_all(f->p, &f->t, &o, &f->w->base, PID,
								INNER + 1)),
				    "a3 b3");
		f->w->calls = 0;
		for (size_t k = 0; k < ARRAY_SIZE(at); k++) {
			assert_int_equal(rmem_read_u64(pystack_memory(f->p), at[k], &word), 0);
			assert_int_equal(word, k ? 0 : bytes);
		}
		assert_int_equal(f->w->calls, 0);
	}
}

/* Where their frames have no place on it nothing tells which are the inner ones. */
static void in_two_without_a_place(struct fix *f)
{
	raddr first = f->ts;
	struct pystack_others o;

	if (!pyoff_has(f->w->l.tstate.base_frame))
		return;
	f->t.program = PYSTACK_SEVERAL;
	f->ts = another_runtime(f, &o, true);
	stack(f, "ab", NULL);
	f->ts = first;
	stack(f, "cd", NULL);
	assert_string_equal(read_all(f, &o), "broken");
}

/* A code that was not taken is told, whichever of them has it. */
static void lost_in_two_runtimes(struct fix *f)
{
	raddr first = f->ts;
	struct pystack_others o;

	if (pyoff_has(f->w->l.tstate.base_frame))
		return;
	f->t.program = PYSTACK_SEVERAL;
	f->ts = another_runtime(f, &o, true);
	stack(f, "a", NULL);
	f->ts = first;
	stack(f, "b", NULL);
	for (f->refused = 'a'; f->refused <= 'c'; f->refused++) {
		struct pystack_result r =
			pystack_read_all(f->p, &f->t, &o, &f->w->base, TID, INNER);

		assert_string_equal(text_of(f, r), "a3 b3");
		assert_int_equal(r.code_lost, f->refused < 'c');
		pystack_forget_codes(f->p, f->t.program);
	}
}

/* Where one of them does not end, it is not known what stands below it. */
static void cut_in_two_runtimes(void **state)
{
	for (uint16_t v = 0x030b; v <= 0x030e; v++) {
		struct fix *f = fix_create_for(pylayout_find(v), 2);
		raddr first = f->ts;
		struct pystack_others o;

		f->t.program = PYSTACK_SEVERAL;
		f->ts = another_runtime(f, &o, true);
		stack(f, "abc", NULL);
		f->ts = first;
		stack(f, "d", NULL);
		assert_string_equal(read_all(f, &o), "broken");
		fix_destroy(f);
	}
}

/* All runtimes together have as many frames as one stack may have, and not more. */
static void as_many_frames_as_one_may_have(void **state)
{
	enum { EACH = PYWALK_MAX_FRAMES / PYSTACK_SEVERAL };

	for (size_t more = 0; more < 2; more++) {
		struct fix *f = fix_create(0x030d);
		struct pystack_others o = { 0 }, one;
		char codes[EACH + 2] = "";
		struct pystack_result r;

		f->t.program = PYSTACK_SEVERAL;
		memset(codes, 'a', EACH + more);
		stack(f, codes, NULL);
		while (o.n < ARRAY_SIZE(o.of)) {
			raddr ts = another_runtime(f, &one, true);

			o.of[o.n++] = one.of[0];
			world_top(f->w, ts, f->w->frame[0]); /* the same ones */
			world_datastack(f->w, ts,
					world_get(f->w, f->ts, f->w->l.tstate.datastack_chunk));
		}
		r = pystack_read_all(f->p, &f->t, &o, &f->w->base, TID, INNER);
		assert_int_equal(r.end, more ? PYSTACK_BROKEN : PYSTACK_OK);
		assert_int_equal(r.n, more ? 0 : PYWALK_MAX_FRAMES);
		fix_destroy(f);
	}
}

/* Also where it is cut between two activations, each of which is whole. */
static void cut_between_activations(void **state)
{
	for (uint16_t v = 0x030c; v <= 0x030e; v++) {
		struct fix *f = fix_create_for(pylayout_find(v), 3);
		raddr a = code_of(f, 'a'), b = code_of(f, 'b'), first = f->ts;
		raddr ia = world_instr(f->w, a, 3), ib = world_instr(f->w, b, 3);
		struct pystack_others o;

		f->t.program = PYSTACK_SEVERAL;
		f->ts = another_runtime(f, &o, true);
		world_stack(f->w, f->ts, "ffsffs", (raddr[]){ a, b, 0, a, b, 0 },
			    (raddr[]){ ia, ib, 0, ia, ib, 0 });
		f->ts = first;
		stack(f, "", NULL);
		assert_string_equal(read_all(f, &o), "a3 b3");
		stack(f, "d", NULL);
		assert_string_equal(read_all(f, &o), "broken");
		fix_destroy(f);
	}
}

/* Functions that are compiled to C have no place on the C stack: neither where a runtime runs none
 * but those, nor where one (b) has called into an activation (of a). */
static void compiled_in_two_runtimes(struct fix *f)
{
	const char *const all[] = { "ff", f->w->l.owner_shim ? "fsf" : "ef" };
	raddr a = code_of(f, 'a'), b = code_of(f, 'b'), first = f->ts, second, type;
	raddr ia = world_instr(f->w, a, 3), ib = world_instr(f->w, b, 3);
	struct pystack_others o;

	if (f->w->l.free_threaded)
		return;
	f->t.program = PYSTACK_SEVERAL;
	type = type_named(f, "compiled_frame");
	second = another_runtime(f, &o, true);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		bool shim = all[i][1] == 's';

		f->ts = first;
		stack(f, "", NULL);
		world_stack(f->w, second, all[i], (raddr[]){ a, shim ? 0 : b, b },
			    (raddr[]){ ia, shim ? 0 : ib, ib });
		own_by_object(f, f->w->frame[strlen(all[i]) - 1], world_take(f->w, 128), type);
		assert_string_equal(read_all(f, &o), "a3 b3");
		stack(f, "c", NULL);
		assert_string_equal(read_all(f, &o), "broken");
	}
}

/* One that runs and is not proven, or can't be read at all, leaves nothing sure. */
static void beside_an_unproven_runtime(struct fix *f)
{
	struct pystack_others o;
	raddr head;

	stack(f, "", NULL);
	another_runtime(f, &o, false);
	head = o.of[0].target.walk.interp_head;
	assert_int_equal(pystack_read_all(f->p, &f->t, &o, &f->w->base, TID, INNER).end,
			 PYSTACK_UNPROVEN);
	memset(world_mem(f->w, head), 0, 8); /* it has not begun */
	assert_string_equal(read_all(f, &o), "nopython");
	o.n = 0;
	o.refused = true;
	assert_string_equal(read_all(f, &o), "elsewhere");
	stack(f, "ab", NULL);
	assert_string_equal(read_all(f, &o), "a3 b3");
}

static void several_runtimes(void **state)
{
	in_every_layout(in_two_runtimes);
	in_every_layout(told_to_two_runtimes);
	in_every_layout(in_two_without_a_place);
	in_every_layout(lost_in_two_runtimes);
	in_every_layout(compiled_in_two_runtimes);
	in_every_layout(beside_an_unproven_runtime);
}

/* The state bears another thread's number; the thread stands at @sp, and a register names it.
 */
static const char *read_placed(struct fix *f, raddr sp)
{
	struct pystack_place place = { .sp = sp, .regs = { (void *)&f->ts, 8 } };

	pystack_stands(f->p, &place);
	return read_stack(f);
}

/* Where the innermost activation lies of a stack of @n frames. */
static raddr innermost(struct fix *f, size_t n)
{
	const struct pylayout *l = &f->w->l;

	return pyoff_has(l->tstate.cframe) ? world_get(f->w, f->ts, l->tstate.cframe) :
					     f->w->frame[n];
}

static void placed(struct fix *f)
{
	raddr sp = world_take(f->w, 64); /* what is made later is above */

	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 1, 8);
	stack(f, "ab", NULL);
	if (pyoff_has(f->w->l.tstate.base_frame)) /* it has nothing on the C stack */
		return;
	assert_string_equal(read_stack(f), "nopython");
	assert_string_equal(read_placed(f, innermost(f, 2) + 64), "nopython");
	assert_string_equal(read_placed(f, sp), "a3 b3");
	assert_string_equal(read_placed(f, sp), "a3 b3"); /* known by now */
	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 2, 8);
	assert_string_equal(read_placed(f, sp), "a3 b3");
	stack(f, "", NULL);
	assert_string_equal(read_placed(f, sp), "nopython");
}

/* Between the thread's stack pointer and the activation a page can't be read. */
static void on_another_stack(struct fix *f)
{
	raddr sp, hole;

	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 1, 8);
	code_of(f, 'a');
	sp = world_take(f->w, 4096);
	hole = world_take(f->w, 3 * 4096) + 4096;
	stack(f, "a", NULL);
	world_hole(f->w, hole & ~(raddr)4095, 4096);
	assert_string_equal(read_placed(f, sp), "nopython");
}

/* The page behind the activation, which is its stack's last, can't be read either. */
static void on_its_stacks_last_page(struct fix *f)
{
	raddr sp;

	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 1, 8);
	code_of(f, 'a');
	sp = world_take(f->w, 64);
	stack(f, "a", NULL);
	if (pyoff_has(f->w->l.tstate.base_frame))
		return;
	world_hole(f->w, (innermost(f, 1) & ~(raddr)4095) + 4096, 4096);
	assert_string_equal(read_placed(f, sp), "a3");
}

/* The bytes that came with the sample need no memory any more. */
static void on_a_stack_that_was_copied(struct fix *f)
{
	raddr sp, hole;

	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 1, 8);
	code_of(f, 'a');
	sp = world_take(f->w, 4096);
	hole = world_take(f->w, 3 * 4096) + 4096;
	stack(f, "a", NULL);
	if (pyoff_has(f->w->l.tstate.base_frame))
		return;
	hole &= ~(raddr)4095;
	pystack_know(f->p, sp, (struct bytes){ world_mem(f->w, sp), hole + 4096 - sp });
	world_hole(f->w, hole, 4096);
	assert_string_equal(read_placed(f, sp), "a3");
}

/* Two stacks with a hole between them: on the lower one, where the thread stands at @sp, "a"
 * of a state that bears another's number; on the upper one "b" of the state that bears the
 * thread's. */
struct apart {
	raddr sp, hole, own, other, low_pthread, high_pthread;
};

static struct apart two_stacks(struct fix *f)
{
	struct apart a = { .own = f->ts,
			   .other = world_thread(f->w, f->interp, INNER + 1, true) };

	a.sp = world_take(f->w, 64);
	f->ts = a.other;
	stack(f, "a", NULL);
	a.low_pthread = world_pthread(f->w, INNER);
	a.hole = (world_take(f->w, 3 * 4096) + 4096) & ~(raddr)4095;
	f->ts = a.own;
	stack(f, "b", NULL);
	a.high_pthread = world_pthread(f->w, INNER);
	world_hole(f->w, a.hole, 4096);
	return a;
}

/* What is read, where the C library keeps what it knows of the thread at @pthread. */
static const char *read_apart(struct fix *f, const struct apart *a, raddr pthread)
{
	struct pystack_place place = { .sp = a->sp };

	world_put(f->w, a->own, f->w->l.tstate.thread_id, pthread, 8);
	f->t.program++;
	pystack_stands(f->p, &place);
	return text_of(f, read_result(f));
}

/* Only what lies on the thread's own stack is the thread's, whatever number it bears. */
static void apart(struct fix *f)
{
	struct apart a = two_stacks(f);

	if (pyoff_has(f->w->l.tstate.base_frame)) /* it has nothing on the C stack */
		return;
	assert_string_equal(read_apart(f, &a, 0), "b3"); /* nothing tells of stacks */
	assert_string_equal(read_apart(f, &a, a.low_pthread), "a3");
	assert_string_equal(read_apart(f, &a, a.high_pthread), "b3");
	/* It began on neither. */
	assert_string_equal(read_apart(f, &a, a.hole + 4096), "a3");
}

/* The thread has nothing on the stack that it stands on. */
static void apart_and_alone(struct fix *f)
{
	struct apart a = two_stacks(f);

	if (pyoff_has(f->w->l.tstate.base_frame))
		return;
	f->ts = a.other;
	stack(f, "", NULL);
	f->ts = a.own;
	assert_string_equal(read_apart(f, &a, a.low_pthread), "nopython");
	assert_string_equal(read_apart(f, &a, a.hole + 4096), "elsewhere");
	stack(f, "", NULL);
	assert_string_equal(read_apart(f, &a, a.low_pthread), "nopython");
	assert_string_equal(read_apart(f, &a, a.hole + 4096), "nopython");
}

/* The state that bears its number has no frame; one that the stack names has. */
static void apart_and_named(struct fix *f)
{
	struct apart a = two_stacks(f);
	struct pystack_place place = { .sp = a.sp, .regs = { (void *)&a.other, 8 } };

	if (pyoff_has(f->w->l.tstate.base_frame))
		return;
	stack(f, "", NULL);
	assert_string_equal(read_apart(f, &a, a.low_pthread), "nopython");
	pystack_stands(f->p, &place);
	assert_string_equal(read_stack(f), "a3");
}

/* Two frames of a stack are read. Its activation, which lies behind the third, is on another stack
 * than the thread's: that stack is not the thread's, whatever number the state bears. */
static void cut_apart(struct fix *f)
{
	const bool base = pyoff_has(f->w->l.tstate.base_frame); /* "a" has nothing on the C stack */
	struct apart a = two_stacks(f);

	put_letters(f, "fffsb", "bcd");
	assert_string_equal(read_apart(f, &a, a.high_pthread), "b3 c3");
	assert_string_equal(read_apart(f, &a, a.low_pthread), base ? "nopython" : "a3");
	f->ts = a.other;
	stack(f, "", NULL);
	f->ts = a.own;
	assert_string_equal(read_apart(f, &a, a.low_pthread), "nopython");
	assert_string_equal(read_apart(f, &a, a.hole + 4096), "elsewhere");
	/* Nor can it be found. */
	world_put(f->w, f->w->frame[2], f->w->l.frame.previous, WORLD_NOWHERE, 8);
	assert_string_equal(read_apart(f, &a, a.low_pthread), "elsewhere");
	assert_string_equal(read_apart(f, &a, a.high_pthread), "elsewhere");
	assert_string_equal(read_apart(f, &a, 0), "b3 c3"); /* nothing tells of stacks */
}

/* The same of a state that bears the number of another thread, to which it was handed back. */
static void cut_and_handed_back(struct fix *f)
{
	raddr below = world_take(f->w, 128), sp = world_take(f->w, 64);

	world_put(f->w, f->ts, f->w->l.tstate.native_tid, INNER + 1, 8);
	put_letters(f, "fffsb", "abc");
	assert_string_equal(read_placed(f, sp), "a3 b3");
	assert_string_equal(read_placed(f, sp), "a3 b3"); /* known by now */
	world_frame(f->w, below, 's', 0, 0, f->w->frame[4]);
	world_put(f->w, f->w->frame[2], f->w->l.frame.previous, below, 8);
	assert_string_equal(read_placed(f, sp), "nopython");
}

/* Functions that are compiled to C have nothing on the C stack. */
static void cut_above_a_compiled_one(struct fix *f)
{
	struct apart a = two_stacks(f);

	put_letters(f, "fff", "bcd");
	assert_string_equal(read_apart(f, &a, a.low_pthread), "elsewhere");
	own_by_object(f, f->w->frame[2], world_take(f->w, 128),
		      type_named(f, "compiled_frame"));
	assert_string_equal(read_apart(f, &a, a.low_pthread),
			    f->w->l.free_threaded ? "elsewhere" : "b3 c3");
}

/* From 3.13 on, where the walk itself meets what lies on the C stack. */
static void cut_before_the_place_is_known(void **state)
{
	void (*const tests[])(struct fix *) = { cut_apart, cut_and_handed_back,
						cut_above_a_compiled_one };

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		for (uint16_t v = 0x030d; v <= 0x030f; v++)
			for (int t = 0; t < 2; t++) {
				struct fix *f = fix_create_for(
					t ? pylayout_find_free_threaded(v) : pylayout_find(v),
					2);

				tests[i](f);
				fix_destroy(f);
			}
}

/* Read a thread that stands at @sp. */
static const char *read_at(struct fix *f, raddr sp, pid_t tid)
{
	struct pystack_place place = { .sp = sp };

	f->t.program++;
	pystack_stands(f->p, &place);
	return text_of(f, pystack_read(f->p, &f->t, &f->w->base, tid, INNER));
}

/* In a process with very many threads only states that bear the thread's number are looked at,
 * or that its stack names, or, of a first thread, whose struct pthread a fork has made its. */
static void among_many(struct fix *f)
{
	enum { MANY = 140 };
	raddr outer = enter_another(f), inner = f->ts, sp;

	if (pyoff_has(f->w->l.tstate.base_frame)) /* it has nothing on the C stack */
		return;
	for (uint64_t i = 0; i < MANY; i++)
		world_thread(f->w, f->interp, 100 + i, false);
	sp = world_take(f->w, 256);
	stack(f, "ab", NULL); /* made first, so lowest */
	f->ts = outer;
	stack(f, "cd", NULL);
	assert_string_equal(read_at(f, sp, TID), "a3 b3 c3 d3");
	world_put(f->w, inner, f->w->l.tstate.native_tid, INNER + 1, 8);
	assert_string_equal(read_at(f, sp, TID), "c3 d3");
	assert_string_equal(read_at(f, 0, TID), "c3 d3");
	world_put(f->w, sp, (pyoff)AT(128), inner, 8);
	assert_string_equal(read_at(f, sp, TID), "a3 b3 c3 d3");
	world_put(f->w, sp, (pyoff)AT(128), 0, 8);
	world_put(f->w, inner, f->w->l.tstate.thread_id, world_pthread(f->w, INNER), 8);
	assert_string_equal(read_at(f, sp, TID), "c3 d3");
	assert_string_equal(read_at(f, sp, PID), "a3 b3 c3 d3");
	world_put(f->w, inner, f->w->l.tstate.thread_id, world_pthread(f->w, INNER + 1), 8);
	assert_string_equal(read_at(f, sp, PID), "c3 d3");
}

/* The last of more states than are read at once is freed; its memory is as it was. */
static void freed_among_many(struct fix *f)
{
	raddr outer = f->ts;

	for (uint64_t i = 0; i < RMEM_MAX_VEC; i++)
		world_thread(f->w, f->interp, 100 + i, false);
	enter_another(f);
	stack(f, "ab", NULL);
	f->ts = outer;
	stack(f, "cd", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3 d3");
	world_put(f->w, f->w->last_interp, f->w->l.interp.threads_head, 0, 8);
	f->t.program++;
	assert_string_equal(read_stack(f), "c3 d3");
}

/* In a process with @n threads: its thread runs a state that bears another thread's number, and
 * that its stack does not name. */
static const char *among(struct fix *f, uint64_t n)
{
	raddr outer = enter_another(f), inner = f->ts, sp;

	for (uint64_t i = 3; i < n; i++)
		world_thread(f->w, f->interp, 100 + i, false);
	sp = world_take(f->w, 256);
	stack(f, "ab", NULL);
	f->ts = outer;
	stack(f, "cd", NULL);
	world_put(f->w, inner, f->w->l.tstate.native_tid, INNER + 1, 8);
	return read_at(f, sp, TID);
}

/* Of few threads all states are looked at; of how many depends on what a look costs. */
static void among_few(void **state)
{
	static const struct {
		uint16_t version;
		uint64_t most;
	} rows[] = { { 0x030b, 128 }, { 0x030c, 128 }, { 0x030d, 16 } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (uint64_t more = 0; more < 2; more++) {
			struct fix *f = fix_create(rows[i].version);

			assert_string_equal(among(f, rows[i].most + more),
					    more ? "c3 d3" : "a3 b3 c3 d3");
			fix_destroy(f);
		}
}

/* More states run on one thread than are kept, one inside the other: which was left out may be the
 * innermost one. */
static void more_than_are_kept(struct fix *f)
{
	enum { KEPT = 64 };
	struct pystack_result r;

	f->w->chunk = 512;
	stack(f, "a", NULL);
	enter_another(f);
	stack(f, "a", NULL);
	for (int i = 2; i < KEPT; i++) {
		f->ts = world_thread(f->w, f->w->last_interp, INNER, false);
		stack(f, "a", NULL);
	}
	r = read_result(f);
	assert_int_equal(r.end, PYSTACK_OK);
	assert_int_equal(r.n, KEPT);
	f->ts = world_thread(f->w, f->w->last_interp, INNER, false);
	stack(f, "a", NULL);
	assert_string_equal(read_stack(f), "broken");
}

static void states_among_many(void **state)
{
	in_every_layout(more_than_are_kept);
	in_every_layout(among_many);
	in_every_layout(freed_among_many);
}

static void states_on_two_stacks(void **state)
{
	in_every_layout(apart);
	in_every_layout(apart_and_alone);
	in_every_layout(apart_and_named);
}

static void state_with_another_threads_number(void **state)
{
	in_every_layout(on_its_stacks_last_page);
	in_every_layout(placed);
	in_every_layout(on_a_stack_that_was_copied);
	in_every_layout(on_another_stack);
}

/* Whoever knows all states already says which is the thread's. It is looked at first, and not
 * believed. */
static void suggested(struct fix *f)
{
	raddr other = world_thread(f->w, f->interp, INNER + 1, true);
	uint64_t unique;

	stack(f, "ab", NULL);
	assert_int_equal(pyframe_threads_unique(&f->w->base, &f->w->walk, &unique), 0);
	pystack_suggest(f->p, &f->t, TID, INNER, f->ts, unique);
	assert_int_equal(pystack_thread(f->p, PROGRAM, TID, 0)->tstate, f->ts);
	assert_string_equal(read_stack(f), "a3 b3");
	pystack_suggest(f->p, &f->t, TID, INNER, other, unique); /* it is known by now */
	assert_int_equal(pystack_thread(f->p, PROGRAM, TID, 0)->tstate, f->ts);
	f->t.program++;
	pystack_suggest(f->p, &f->t, TID, INNER, other, unique);
	assert_string_equal(read_stack(f), "a3 b3");
	/* None of them all is the thread's, until there are others. */
	f->t.program++;
	pystack_suggest(f->p, &f->t, TID, INNER, 0, unique);
	assert_string_equal(read_stack(f), "nopython");
	world_thread(f->w, f->interp, INNER + 2, true);
	assert_string_equal(read_stack(f), "a3 b3");
	/* That is not said where they can't be told apart, nor of a first thread, which a fork
	 * may have made. */
	f->t.program++;
	pystack_suggest(f->p, &f->t, TID, INNER, 0, 0);
	assert_string_equal(read_stack(f), "a3 b3");
	f->t.program++;
	pystack_suggest(f->p, &f->t, PID, INNER, 0, unique);
	assert_false(pystack_thread(f->p, f->t.program, PID, 0)->none);
}

static void states_that_are_suggested(void **state)
{
	in_every_layout(suggested);
}

/* Frames that have not begun are not there. Where only such were read the thread may run Python
 * all the same, and where one more was read it does. */
static void cut_before_the_first_that_has_begun(void **state)
{
	for (uint16_t v = 0x030b; v <= 0x030f; v++)
		for (uint32_t most = 1; most <= 3; most++) {
			struct fix *f = fix_create_for(pylayout_find(v), most);
			struct pystack_result r;

			stack(f, "abc", (const int[]){ 0, 0, 3 });
			r = read_result(f);
			assert_string_equal(text_of(f, r), most < 3 ? "broken" : "c3");
			stack(f, "abc", NULL);
			r = read_result(f);
			assert_string_equal(text_of(f, r), most == 1 ? "a3" :
							   most == 2 ? "a3 b3" :
								       "a3 b3 c3");
			fix_destroy(f);
		}
}

/* A stack that is cut in one interpreter lacks the others' frames. */
static void cut_in_an_interpreter(void **state)
{
	struct fix *f = fix_create_for(pylayout_find(0x030d), 2);
	raddr outer = enter_another(f);
	struct pystack_result r;

	stack(f, "abc", NULL);
	f->ts = outer;
	stack(f, "d", NULL);
	r = read_result(f);
	assert_string_equal(text_of(f, r), "a3 b3");
	assert_true(r.truncated);
	fix_destroy(f);
}

/* More code objects than there is room for: all start over, none is mixed up. */
static void many_codes(void **state)
{
	enum { N = 10000 }; /* two codes each: the table starts over at 16384 */
	struct fix *f = fix_create(0x030e);
	int first = 0;

	stack(f, "ab", NULL);
	for (int i = 0; i < N; i++) {
		/* A code object is its address in a process; some share a place. */
		f->t.program = (int)((uint32_t)f->t.program * 1103515245u + 12345) & 0x7fffff;
		first = i ? first : f->t.program;
		assert_string_equal(read_stack(f), "a3 b3");
		assert_int_equal(f->last_id, 2 * (i + 1));
	}
	assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->last_id, 2 * N);
	f->t.program = first; /* long gone from the table */
	assert_string_equal(read_stack(f), "a3 b3");
	assert_int_equal(f->last_id, 2 * N + 2);
	fix_destroy(f);
}

/* throw() goes on into the generator that one delegates to without an activation for that one,
 * whose frame still says that C has entered it. */
static void thrown(void **state)
{
	struct fix *f = fix_create(0x030b);
	const struct pylayout *l = &f->w->l;
	struct pystack_result r;
	raddr before, cframe;

	(void)state;
	put_letters(f, "fGttfe", "abcdef"); /* b runs; c and d delegate to it */
	before = world_get(f->w, world_get(f->w, f->ts, l->tstate.cframe), l->cframe.previous);
	r = read_result(f);
	assert_string_equal(text_of(f, r), "a3 b3 c3 d3 e3 f3");
	assert_int_equal(r.n_anchors, 2);
	assert_int_equal(r.anchors[0].n, 2);
	assert_int_equal(r.anchors[1].at, before);
	assert_int_equal(r.anchors[1].n, 6);

	put_letters(f, "ttfe", "cdef"); /* b is not entered yet */
	cframe = world_get(f->w, f->ts, l->tstate.cframe);
	before = world_get(f->w, cframe, l->cframe.previous);
	put_exc(f, f->ts + 16);
	r = read_result(f);
	assert_string_equal(text_of(f, r), "c3 d3 e3 f3");
	assert_int_equal(r.n_anchors, 1);
	assert_int_equal(r.anchors[0].at, cframe);
	assert_int_equal(r.anchors[0].n, 4);
	put_exc(f, f->w->frame[0] - pyoff_get(l->gen.frame) + pyoff_get(l->gen.exc_state));
	assert_string_equal(read_stack(f), "broken"); /* c runs: this was an activation's */
	world_put(f->w, before, l->cframe.current_frame, f->w->frame[3], 8);
	put_exc(f, f->ts + 16);
	assert_string_equal(read_stack(f), "broken");
	fix_destroy(f);
}

/* The newest generator of the stack runs, the @i'th frame's. */
static void put_running(struct fix *f, uint32_t i)
{
	const struct pylayout *l = &f->w->l;

	put_exc(f, f->w->frame[i] - pyoff_get(l->gen.frame) + pyoff_get(l->gen.exc_state));
}

/* C runs a generator on a thread without any other frame. Where there is one its caller is
 * not linked any more. */
static void run_by_c(void **state)
{
	static const struct {
		const char *letters, *want;
		uint32_t newest, n_anchors;
	} rows[] = {
		{ "G", "a3", 0, 1 },
		{ "fG", "a3 b3", 1, 1 },
		{ "eG", "a3 b3", 1, 2 },
		{ "GfG", "a3 b3 c3", 0, 2 },
	};
	struct fix *f = fix_create(0x030b);
	const struct pylayout *l = &f->w->l;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pystack_result r;
		raddr before;

		put_letters(f, rows[i].letters, "abc");
		put_running(f, rows[i].newest);
		r = read_result(f);
		assert_string_equal(text_of(f, r), rows[i].want);
		assert_false(r.truncated);
		assert_int_equal(r.n_anchors, rows[i].n_anchors);
		assert_int_equal(r.anchors[r.n_anchors - 1].n, r.n);

		put_exc(f, f->ts + 16); /* it does not run: its frame was left behind */
		assert_string_equal(read_stack(f), "broken");
		put_running(f, rows[i].newest);
		before = world_get(f->w, f->ts, l->tstate.cframe);
		for (uint32_t a = 0; a < rows[i].n_anchors; a++)
			before = world_get(f->w, before, l->cframe.previous);
		world_put(f->w, before, l->cframe.current_frame, f->w->frame[0], 8);
		assert_string_equal(read_stack(f), "broken");
		world_put(f->w, before, l->cframe.current_frame, 0, 8);
		assert_string_equal(read_stack(f), rows[i].want);
	}
	fix_destroy(f);
}

/* @n frames one word behind the other, each with a code of its own that is none: a word is the
 * code of one frame and the predecessor of another. */
static void chain_of_nothing(struct fix *f, raddr at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		world_put(f->w, at + 8 * (raddr)i, f->w->l.frame.previous,
			  i + 1 < n ? at + 8 * (raddr)(i + 1) : 0, 8);
	world_put(f->w, at + 8 * (raddr)(n - 1), f->w->l.frame.is_entry, 1, 1);
}

/* A target that has each frame which may be the caller's lead to thousands of codes: there is
 * room for so many, and no more. */
static void more_codes_than_room(void **state)
{
	enum { DEEP = 8000, CHAINS = 4, BYTES = 8 * DEEP + 128 };
	struct fix *f = fix_create(0x030b);
	raddr chunk = world_take(f->w, CHAINS * BYTES);
	raddr known = world_take(f->w, 32 * CHAINS), at = known;

	was_walked(f);
	put_exc(f, f->ts + 16);
	for (int i = 0; i < CHAINS; i++, at += 32) {
		chain_of_nothing(f, chunk + (raddr)i * BYTES, DEEP);
		put_cframe(f, at, chunk + (raddr)i * BYTES, at + 32);
	}
	put_chunk(f, chunk);
	put_top(f, chunk + CHAINS * BYTES);
	world_put(f->w, f->ts, f->w->l.tstate.cframe, known, 8);
	f->p->n_codes = N_CODES / 2;
	pystack_know(f->p, known, (struct bytes){ world_mem(f->w, known), at - known });
	assert_string_equal(read_stack(f), "badcode");
	assert_in_range(f->p->n_codes, N_CODES / 2 + 2 * DEEP, N_CODES - 1);
	fix_destroy(f);
}

/* Threads that never come back take the entries of those before, also where some of the
 * numbers in between are other programs'; others get their own. */
static void entries_follow_the_threads_that_come_back(void **state)
{
	struct pystack *p = pystack_create(10, NULL, NULL);
	uint32_t kept = 0;

	(void)state;
	for (int step = 1; step < 5; step += 2)
		for (pid_t tid = 1000; tid < 101000; tid += step)
			pystack_thread(p, 1, tid, 0);
	assert_int_equal(p->thread_mask, N_THREADS_FIRST - 1);
	for (int round = 0; round < 20; round++)
		for (pid_t tid = 1; tid <= 1000; tid++)
			pystack_thread(p, 2, tid, 0)->walks = (uint32_t)tid;
	assert_true(p->thread_mask + 1 >= 1000);
	for (pid_t tid = 1; tid <= 1000; tid++)
		kept += pystack_thread(p, 2, tid, 0)->walks == (uint32_t)tid;
	assert_true(kept > 600);
	/* There are as many entries as ever may be, and some threads share one still. */
	for (int round = 0; round < 20; round++)
		for (pid_t tid = 1; tid <= N_THREADS; tid++)
			pystack_thread(p, 2, tid, 0);
	assert_int_equal(p->thread_mask, N_THREADS - 1);
	pystack_destroy(p);
}

/* Who comes back after very many others does not count: no larger table would have kept its
 * entry. */
static void who_comes_back_late_does_not_count(void **state)
{
	struct pystack *p = pystack_create(10, NULL, NULL);

	for (int round = 0; round < 20; round++) {
		for (pid_t tid = 1; tid <= 200; tid++)
			pystack_thread(p, 1, tid, 0);
		/* Others, of whom none leaves a trace where those did. */
		for (pid_t i = 0; i < 4 * N_LEFT; i++)
			pystack_thread(p, 1, 1000000 + N_THREADS * (4 * N_LEFT * round + i), 0);
	}
	assert_int_equal(p->thread_mask, N_THREADS_FIRST - 1);
	pystack_destroy(p);
}

static size_t resident_pages(const struct pystack *p)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = pystack_bytes() / page, sum = 0;
	unsigned char *in = calloc(1, n);

	assert_int_equal(mincore((void *)((uintptr_t)p & ~(page - 1)), n * page, in), 0);
	for (size_t i = 0; i < n; i++)
		sum += in[i] & 1;
	free(in);
	return sum;
}

/* A page fault lengthens a hold, and may wait: the first read has those of what differs from
 * thread to thread only. */
static void warm_memory_is_resident(void **state)
{
	enum { WARM = 256 << 10, ENTRY = 7 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), warm;
	struct fix *f = fix_create(0x030d);

	(void)state;
	pystack_warm(f->p);
	warm = resident_pages(f->p);
	assert_true(warm * page <= WARM);
	stack(f, "abcba", NULL);
	assert_string_equal(read_stack(f), "a3 b3 c3 b3 a3");
	assert_true(resident_pages(f->p) <= warm + ENTRY);
	fix_destroy(f);
}

/* Of all reads above. */
static void reads_of_damaged_memory(void **state)
{
	pystack_destroy(another.p);
	damage_is_of_gcc();
	damage_expect(&damaged,
		      (uint64_t[DAMAGE_ENDS]){ 20174, 5792, 6865, 5167, 12298, 1683, 0, 1581 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warm_memory_is_resident),
		cmocka_unit_test(who_comes_back_late_does_not_count),
		cmocka_unit_test(entries_follow_the_threads_that_come_back),
		cmocka_unit_test(code_is_copied_once),
		cmocka_unit_test(replaced_code_is_another),
		cmocka_unit_test(codes_are_forgotten),
		cmocka_unit_test(many_codes_are_forgotten_later),
		cmocka_unit_test(codes_are_forgotten_at_once),
		cmocka_unit_test(replaced_contents),
		cmocka_unit_test(held_by_functions),
		cmocka_unit_test(told_by_no_function),
		cmocka_unit_test(count_of_codes),
		cmocka_unit_test(copies_of_bytecode),
		cmocka_unit_test(enters_where_less_is_known),
		cmocka_unit_test(cut_before_the_first_that_has_begun),
		cmocka_unit_test(copies_of_many_frames_take_as_many_calls_as_of_one),
		cmocka_unit_test(frames_that_are_not_there_yet),
		cmocka_unit_test(frames_of_no_thread_are_read_as_if_one_stood_in_the_last),
		cmocka_unit_test(more_frames_of_no_thread_than_are_wanted),
		cmocka_unit_test(no_frames_is_no_python),
		cmocka_unit_test(no_thread_is_no_python),
		cmocka_unit_test(thread_starts_later_than_its_state),
		cmocka_unit_test(thread_state_is_checked),
		cmocka_unit_test(torn_ends),
		cmocka_unit_test(entries),
		cmocka_unit_test(enters_with_little_room),
		cmocka_unit_test(enters_from_far),
		cmocka_unit_test(entries_of_3_13),
		cmocka_unit_test(switches),
		cmocka_unit_test(compiled_to_c),
		cmocka_unit_test(truncated),
		cmocka_unit_test(second_read_is_one_call),
		cmocka_unit_test(deep_stacks_take_few_calls),
		cmocka_unit_test(plan_of_what_is_gone),
		cmocka_unit_test(second_look_sees_change),
		cmocka_unit_test(forgotten_is_copied_again),
		cmocka_unit_test(processes_are_apart),
		cmocka_unit_test(several_interpreters),
		cmocka_unit_test(several_runtimes),
		cmocka_unit_test(cut_in_two_runtimes),
		cmocka_unit_test(cut_between_activations),
		cmocka_unit_test(as_many_frames_as_one_may_have),
		cmocka_unit_test(state_with_another_threads_number),
		cmocka_unit_test(states_on_two_stacks),
		cmocka_unit_test(cut_before_the_place_is_known),
		cmocka_unit_test(among_few),
		cmocka_unit_test(states_among_many),
		cmocka_unit_test(states_that_are_suggested),
		cmocka_unit_test(cut_in_an_interpreter),
		cmocka_unit_test(many_codes),
		cmocka_unit_test(more_codes_than_room),
		cmocka_unit_test(thrown),
		cmocka_unit_test(run_by_c),
		cmocka_unit_test(what_is_told_of_a_stack),
		cmocka_unit_test(number_of_the_forker),
		cmocka_unit_test(reads_of_damaged_memory),
	};

	before_read = damage_some;
	mallopt(M_PERTURB, 0); /* meson's MALLOC_PERTURB_ touches all memory */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
