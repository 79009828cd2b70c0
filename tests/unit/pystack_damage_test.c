/* SPDX-License-Identifier: MIT
 *
 * pystack_damage_test - one word anywhere in what leads to a thread's frames is wrong, or can't be
 * read, in each layout: how often the thread's stack is read all the same, how often another one is
 * believed, how often it is refused and why, and how many calls that takes.
 *
 * Nobody can say of each word what is right. But a change of the sums is a change of what is
 * believed: its commit says why. A scene that fails prints the sums that would pass.
 */
#include <stdlib.h>

#include "unit.h"
#include "pystack_scenes.h"

/* By enum pystack_end, of which PYSTACK_OK is the truth; another stack; and calls. */
enum { OTHER = PYSTACK_END_N, CALLS, SUMS };

/* Runtimes beside the first one; NULL: none. */
static const struct pystack_others *others;

struct scene {
	const char *name;
	uint32_t most; /* frames of a stack */
	uint16_t from, to; /* the layouts in which there are such threads */
	struct bytes (*make)(struct fix *f); /* what is known of its C stack */
	uint64_t later[SUMS];		     /* of a thread that was read before */
	uint64_t first[SUMS];		     /* of one that was not */
	uint64_t after[SUMS];		     /* once the word is right again */
};

/* --- one read --- */

static bool name_code(void *arg, uint64_t id, const struct pycode_copy *c)
{
	struct fix *f = arg;
	char name[8];

	f->name[id % MAX_IDS] = pycode_name(c, name, sizeof(name)) == 1 ? name[0] : '?';
	return true;
}

static void print_result(struct fix *f, const struct pystack_result *r, char text[512])
{
	size_t n = (size_t)sprintf(text, "%d %d:", r->truncated, r->switching);

	for (uint32_t i = 0; i < r->n && n < 400; i++)
		n += (size_t)sprintf(text + n, " %c%u/%u",
				     f->name[r->frames[i].code_id % MAX_IDS],
				     r->frames[i].lasti, r->frames[i].flags);
	for (uint32_t i = 0; i < r->n_anchors && n < 400; i++)
		n += (size_t)sprintf(text + n, " %u@%llx", r->anchors[i].n,
				     (unsigned long long)r->anchors[i].at);
}

static enum pystack_end look(struct fix *f, struct bytes known, char text[512])
{
	struct pystack_result r;

	pystack_know(f->p, WORLD_AT + (raddr)(known.at - f->w->mem), known);
	f->w->calls = 0;
	r = pystack_read_all(f->p, &f->t, others, &f->w->base, TID, INNER);
	print_result(f, &r, text);
	return r.end;
}

/* As another program, of which nothing is known. */
static void begin_anew(struct fix *f)
{
	f->t.program += PYSTACK_SEVERAL;
	*pystack_compiled(f->p, f->t.program) = (struct pycompiled){ .program = f->t.program };
}

/* --- the damage --- */

static void look_and_add(struct fix *f, struct bytes known, const char *truth,
			 uint64_t sums[SUMS])
{
	char text[512];
	enum pystack_end end = look(f, known, text);

	sums[end == PYSTACK_OK && strcmp(text, truth) != 0 ? OTHER : (int)end]++;
	sums[CALLS] += (uint64_t)f->w->calls;
}

static void damage_word(struct fix *f, struct bytes known, raddr at, struct scene *sums)
{
	struct rmem_chunk whole[ARRAY_SIZE(f->w->chunks)];
	uint64_t was = load_u64(world_mem(f->w, at));
	const uint64_t values[] = { 0,	     WORLD_NOWHERE, was ^ 1, was ^ 2,
				    was + 8, was - 8,	    was + 2, was ^ 0x100 };
	char truth[512];

	memcpy(whole, f->w->chunks, sizeof(whole));
	for (size_t i = 0; i <= ARRAY_SIZE(values); i++) {
		begin_anew(f);
		assert_int_equal(look(f, known, truth), PYSTACK_OK);
		if (i < ARRAY_SIZE(values))
			memcpy(world_mem(f->w, at), &values[i], 8);
		else
			world_hole(f->w, at, 8);
		look_and_add(f, known, truth, sums->later);
		begin_anew(f);
		look_and_add(f, known, truth, sums->first);
		memcpy(world_mem(f->w, at), &was, 8);
		memcpy(f->w->chunks, whole, sizeof(whole));
		look_and_add(f, known, truth, sums->after);
	}
}

/* Each word that is not 0. */
static void damage(struct fix *f, struct bytes known, struct scene *sums)
{
	for (raddr at = WORLD_AT; at < f->w->next; at += 8)
		if (load_u64(world_mem(f->w, at)))
			damage_word(f, known, at, sums);
}

/* --- the scenes --- */

static struct bytes functions(struct fix *f)
{
	stack(f, "abca", (const int[]){ 3, 4, 5, 6 });
	return (struct bytes){ world_mem(f->w, WORLD_AT), 0 };
}

/* b is a generator that C runs, and so is a. */
static struct bytes generators(struct fix *f)
{
	bool shims = f->w->l.owner_shim;

	put_letters(f, shims ? "fsgfs" : "eGfe", shims ? "a?bc?" : "abcd");
	return (struct bytes){ world_mem(f->w, WORLD_AT), 0 };
}

static struct bytes enters_function(struct fix *f)
{
	struct entered e = entered(f);

	return (struct bytes){ world_mem(f->w, e.cframe), 0 };
}

static struct bytes enters_where_the_stack_tells(struct fix *f)
{
	struct entered e = entered(f);

	put_cframe(f, e.cframe, WORLD_NOWHERE, WORLD_NOWHERE);
	return (struct bytes){ world_mem(f->w, e.cframe), e.before + 64 - e.cframe };
}

static struct bytes enters_a_generator(struct fix *f)
{
	struct entered e = entered(f);

	entered_generator(f, &e);
	put_cframe(f, e.cframe, e.gen_frame, e.before);
	return (struct bytes){ world_mem(f->w, e.cframe), 0 };
}

static struct bytes enters_before_its_shim(struct fix *f)
{
	raddr shim = world_take(f->w, 128), words = world_take(f->w, 64);

	stack(f, "abc", NULL);
	enter_by(f, shim);
	world_frame(f->w, shim, 's', 0, 0, f->w->frame[1]);
	world_put(f->w, words, (pyoff)AT(8), f->w->frame[1], 8);
	world_put(f->w, words, (pyoff)AT(24), f->w->frame[0], 8);
	return (struct bytes){ world_mem(f->w, words), 64 };
}

/* In a's own activation, which publishes it without a predecessor. */
static struct bytes runs_a_generator(struct fix *f)
{
	struct entered e = entered(f);
	raddr words = world_take(f->w, 64);

	world_put(f->w, f->ts, f->w->l.tstate.cframe, e.before, 8);
	world_put(f->w, e.before, f->w->l.cframe.current_frame, e.gen_frame, 8);
	put_top(f, e.frame);
	world_put(f->w, words, (pyoff)AT(24), f->w->frame[0], 8);
	return (struct bytes){ world_mem(f->w, words), 64 };
}

static struct bytes several_interpreters(struct fix *f)
{
	raddr outer = enter_another(f);

	stack(f, "ab", NULL);
	f->ts = outer;
	stack(f, "cd", NULL);
	return (struct bytes){ world_mem(f->w, WORLD_AT), 0 };
}

/* Two frames in a runtime beside the first one, below two in that. */
static struct bytes two_runtimes(struct fix *f)
{
	static struct pystack_others o;
	raddr first = f->ts;

	f->ts = another_runtime(f, &o, true);
	stack(f, "ab", NULL);
	f->ts = first;
	stack(f, "cd", NULL);
	others = &o;
	return (struct bytes){ world_mem(f->w, WORLD_AT), 0 };
}

/* The first one has nothing of the thread. */
static struct bytes another_runtime_alone(struct fix *f)
{
	struct bytes b = two_runtimes(f);

	stack(f, "", NULL);
	return b;
}

/* --- all of them --- */

static void print_sums(const char *name, const uint64_t sums[SUMS])
{
	print_error("	.%s = {", name);
	for (int i = 0; i < SUMS; i++)
		print_error(" %llu,", (unsigned long long)sums[i]);
	print_error(" },\n");
}

static void play(const struct scene *s, struct fix *f, struct scene *sums)
{
	pystack_destroy(f->p);
	f->p = pystack_create(s->most, name_code, f);
	was_walked(f);
	others = NULL;
	damage(f, s->make(f), sums);
	fix_destroy(f);
}

static void expect(void **state)
{
	const struct scene *s = *state;
	struct scene sums = { 0 };

	for (uint16_t v = s->from; v <= s->to; v++) {
		play(s, fix_create(v), &sums);
		if (v >= 0x030d)
			play(s, fix_create_for(pylayout_find_free_threaded(v), 64), &sums);
	}
	if (memcmp(sums.later, s->later, sizeof(s->later)) != 0 ||
	    memcmp(sums.first, s->first, sizeof(s->first)) != 0 ||
	    memcmp(sums.after, s->after, sizeof(s->after)) != 0) {
		print_sums("later", sums.later);
		print_sums("first", sums.first);
		print_sums("after", sums.after);
		fail_msg("%s", s->name);
	}
}

static struct scene scenes[] = {
	{ "functions",
	  64,
	  0x030b,
	  0x030f,
	  functions,
	  { 4454, 70, 335, 145, 1257, 0, 0, 201, 14228 },
	  { 3189, 167, 480, 167, 1884, 0, 0, 575, 110300 },
	  { 5931, 63, 0, 22, 72, 0, 0, 374, 16584 } },
	{ "generators",
	  64,
	  0x030b,
	  0x030f,
	  generators,
	  { 5968, 70, 352, 190, 1217, 0, 0, 231, 16556 },
	  { 4720, 167, 497, 212, 1847, 0, 0, 585, 148769 },
	  { 7506, 63, 0, 22, 75, 0, 0, 362, 18641 } },
	{ "enters_function",
	  64,
	  0x030b,
	  0x030c,
	  enters_function,
	  { 1433, 17, 251, 5, 190, 0, 0, 48, 16775 },
	  { 1221, 36, 566, 5, 24, 0, 0, 92, 41098 },
	  { 1853, 9, 26, 0, 12, 0, 0, 44, 15583 } },
	{ "enters_where_the_stack_tells",
	  64,
	  0x030b,
	  0x030c,
	  enters_where_the_stack_tells,
	  { 1524, 17, 214, 0, 136, 0, 0, 53, 8696 },
	  { 1330, 36, 457, 0, 24, 0, 0, 97, 24773 },
	  { 1853, 9, 26, 0, 12, 0, 0, 44, 7708 } },
	{ "enters_a_generator",
	  64,
	  0x030b,
	  0x030c,
	  enters_a_generator,
	  { 1469, 17, 28, 192, 190, 0, 0, 48, 11935 },
	  { 1257, 36, 65, 470, 24, 0, 0, 92, 44245 },
	  { 1853, 9, 0, 26, 12, 0, 0, 44, 11932 } },
	{ "runs_a_generator",
	  64,
	  0x030c,
	  0x030c,
	  runs_a_generator,
	  { 823, 8, 12, 113, 69, 0, 0, 10, 3974 },
	  { 681, 19, 32, 244, 13, 0, 0, 46, 25155 },
	  { 971, 9, 0, 13, 6, 0, 0, 36, 4752 } },
	{ "enters_before_its_shim",
	  64,
	  0x030d,
	  0x030d,
	  enters_before_its_shim,
	  { 1399, 18, 54, 157, 340, 0, 0, 102, 4542 },
	  { 985, 44, 90, 273, 462, 0, 0, 216, 48234 },
	  { 1888, 18, 0, 26, 24, 0, 0, 114, 6531 } },
	{ "several_interpreters",
	  64,
	  0x030b,
	  0x030f,
	  several_interpreters,
	  { 6093, 0, 310, 361, 1460, 0, 0, 506, 110900 },
	  { 4462, 23, 466, 405, 2319, 0, 0, 1055, 279195 },
	  { 7978, 0, 0, 44, 96, 0, 0, 612, 129343 } },
	{ "functions_that_are_cut",
	  3,
	  0x030b,
	  0x030f,
	  functions,
	  { 4749, 70, 222, 81, 1179, 0, 0, 161, 25917 },
	  { 3484, 167, 367, 103, 1806, 0, 0, 535, 107457 },
	  { 5931, 63, 0, 22, 72, 0, 0, 374, 23854 } },
	{ "generators_that_are_cut",
	  2,
	  0x030b,
	  0x030f,
	  generators,
	  { 7119, 70, 161, 75, 459, 0, 0, 144, 14759 },
	  { 6430, 167, 306, 112, 767, 0, 0, 246, 128433 },
	  { 7799, 63, 0, 37, 27, 0, 0, 102, 14094 } },
	{ "two_runtimes",
	  64,
	  0x030b,
	  0x030e,
	  two_runtimes,
	  { 4758, 0, 329, 175, 1033, 0, 0, 284, 22002 },
	  { 3357, 0, 494, 219, 1744, 0, 0, 765, 192375 },
	  { 6000, 0, 0, 44, 72, 0, 0, 463, 45617 } },
	{ "another_runtime_alone",
	  64,
	  0x030b,
	  0x030e,
	  another_runtime_alone,
	  { 5468, 52, 340, 112, 519, 0, 0, 97, 37814 },
	  { 4759, 86, 396, 134, 928, 0, 0, 285, 175348 },
	  { 6300, 42, 0, 22, 36, 0, 0, 188, 52867 } },
};

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(scenes)];

	for (size_t i = 0; i < ARRAY_SIZE(scenes); i++)
		tests[i] = (struct CMUnitTest){ .name = scenes[i].name,
						.test_func = expect,
						.initial_state = &scenes[i] };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
