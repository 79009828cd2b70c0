/* SPDX-License-Identifier: MIT
 *
 * unwind_any - the part of unwind_test.c with any stacks of a module made up: what is put on
 * them is what comes back.
 */
#ifdef __x86_64__
#include "elf/module.h"
#include "elf/rows.h"
#include "any.h"

enum {
	ANY_PID = 7,
	ANY_LO = 0x10000000,
	ANY_MAX = 20,
	ANY_WORDS = 512,
	ANY_ANON = 0x20000000
};

/* Functions of 0x100 bytes each from 0x2000 on, by what they do: how many words their frame
 * has, with the return address; in which of them, counted from it, they keep rbp; what their
 * frame pointer is. Those that stacks are drawn of come first. */
struct any_function {
	unsigned words, rbp;
	unsigned pointer; /* this register; 0: none */
};
static const struct any_function any_functions[] = {
	{ 1, 0, 0 },   { 2, 0, 0 },    { 2, 1, 0 }, { 5, 3, 0 },  { 9, 8, 0 },
	{ 2, 1, RBP }, { 12, 1, RBP }, { 6, 0, 0 }, { 4, 0, RBX },
};
enum { ANY_DRAWN = 8, ANY_SELDOM = 8 };

static struct module *any_module(void)
{
	struct module *m = calloc(1, sizeof(*m));
	struct section s = { 0 };

	put_cie(&s, "", RA);
	for (size_t i = 0; i < ARRAY_SIZE(any_functions); i++) {
		const struct any_function *f = &any_functions[i];
		char ops[8] = { 0x0e, (char)(8 * f->words) };
		size_t n = 2;

		if (f->pointer)
			ops[0] = 0x0c, ops[1] = (char)f->pointer, ops[2] = 16, n = 3;
		if (f->rbp)
			ops[n++] = (char)(0x80 | RBP), ops[n++] = (char)(f->rbp + 1);
		put_fde(&s, 0x2000 + 0x100 * i, 0x100, ops, n);
	}
	m->base = 0x1000;
	m->load[m->n_loads++] = (struct module_load){ 0, 0x1000, 0x3000 };
	m->rows = compile(arch_host, &s, NULL);
	return m;
}

static void any_map(struct spaces *s, uint64_t lo, const char *path)
{
	struct side side = { .kind = SIDE_MMAP, .pid = ANY_PID, .tid = ANY_PID };

	side.u.mmap.addr = lo, side.u.mmap.len = 0x3000, side.u.mmap.prot = PROT_EXEC;
	side.u.mmap.path = path;
	spaces_side(s, &side);
}

/* A stack: frame i runs function[i], its stack pointer is word sp[i]; sp[n] is its end. */
struct any_stack {
	unsigned n, sp[ANY_MAX + 1];
	uint64_t pc[ANY_MAX], rbp[ANY_MAX + 1];
	const struct any_function *function[ANY_MAX];
	uint64_t word[ANY_WORDS];
};

static uint64_t any_address(unsigned word)
{
	return STACK + 8 * (uint64_t)word;
}

/* @last: where the outermost frame returns to. */
static void any_draw(struct any_stack *k, uint64_t last)
{
	memset(k, 0, sizeof(*k));
	k->n = 1 + any(ANY_MAX);
	for (unsigned i = 0; i < ANY_WORDS; i++)
		k->word[i] = any(3) ? any(1000) : any_address(any(ANY_WORDS));
	for (unsigned i = 0; i < k->n; i++) {
		unsigned f = any(ANY_DRAWN);

		k->function[i] = &any_functions[f];
		k->pc[i] = ANY_LO + 0x1000 + 0x100 * f + 1 + any(0xff);
		k->sp[i + 1] = k->sp[i] + k->function[i]->words;
	}
	k->rbp[k->n] = any(1000);
	for (unsigned i = k->n; i-- > 0;) {
		const struct any_function *f = k->function[i];
		unsigned top = k->sp[i + 1];

		k->word[top - 1] = i + 1 < k->n ? k->pc[i + 1] : last;
		k->rbp[i] = f->pointer ? any_address(top - 2) :
			    f->rbp     ? any(1000) :
					 k->rbp[i + 1];
		if (f->rbp)
			k->word[top - 1 - f->rbp] = k->rbp[i + 1];
	}
}

/* @pieces: at which word the first piece of memory ends, and the second one. */
static struct unwind_stack any_unwind(struct unwinder *u, const struct any_stack *k,
				      unsigned first, unsigned second,
				      struct unwind_frame *frames, size_t cap)
{
	struct unwind_regs r = { .pc = k->pc[0], .have = 1 << RSP | 1 << RBP };
	struct unwind_stack s = { .frame = frames, .cap = cap };
	struct unwind_memory mem = {
		.piece[0] = { STACK, { (const void *)k->word, 8 * first } },
		.piece[1] = { any_address(first),
			      { (const void *)(k->word + first), 8 * (second - first) } },
	};

	r.r[RSP] = STACK;
	r.r[RBP] = k->rbp[0];
	unwinder_stack(u, ANY_PID, &r, &mem, NULL, NULL, &s);
	return s;
}

static void any_check(const struct any_stack *k, const struct unwind_stack *s, unsigned n,
		      unsigned first)
{
	for (unsigned i = 0; i < n; i++) {
		const struct unwind_frame *f = &s->frame[i];

		assert_int_equal(k->pc[i], f->pc);
		assert_int_equal(any_address(k->sp[i]), f->sp);
		assert_int_equal(i > 0, f->returned);
		assert_false(f->guessed);
		assert_int_equal(k->sp[i] > first, f->from_second);
		if (i + 1 < s->n)
			assert_int_equal(any_address(k->sp[i + 1]), f->cfa);
	}
}

/* Whole ones, some of whose words were read later; with room for some frames; cut. */
static void any_course(struct unwinder *u, const struct any_stack *k)
{
	struct unwind_frame frames[ANY_MAX + 1];
	unsigned first = any(k->sp[k->n] + 1), n = 0;
	struct unwind_stack s = any_unwind(u, k, first, ANY_WORDS, frames, ANY_MAX + 1);
	size_t cap = 1 + any(ANY_MAX);

	assert_int_equal(UNWIND_BOTTOM, s.end);
	assert_int_equal(k->n, s.n);
	any_check(k, &s, k->n, first);
	assert_int_equal(0, s.want_hi);
	assert_false(s.search_ended);

	s = any_unwind(u, k, ANY_WORDS, ANY_WORDS, frames, cap);
	assert_int_equal(MIN(cap, k->n), s.n);
	assert_int_equal(cap < k->n ? UNWIND_LIMIT : UNWIND_BOTTOM, s.end);
	any_check(k, &s, (unsigned)s.n, ANY_WORDS);
	if (cap < k->n)
		assert_int_equal(any_address(k->sp[s.n]), s.frame[s.n - 1].cfa);

	s = any_unwind(u, k, first, first, frames, ANY_MAX + 1);
	while (n < k->n && k->sp[n + 1] <= first)
		n++;
	assert_int_equal(n < k->n ? UNWIND_CUT : UNWIND_BOTTOM, s.end);
	assert_int_equal(MIN(n + 1, k->n), s.n);
	any_check(k, &s, (unsigned)s.n, first);
}

/* Of three frames the middle one is found by a register that its callee left alone, where the
 * sample has that. */
static void any_seldom(struct unwinder *u, bool has)
{
	static const unsigned fn[] = { 1, ANY_SELDOM, 0 };
	struct unwind_regs r = { .have = 1 << RSP | 1 << RBP };
	uint64_t word[ANY_MAX] = { 0 }, pc[ARRAY_SIZE(fn)];
	struct unwind_memory mem = {
		.piece[0] = { STACK, { (const void *)word, sizeof(word) } }
	};
	struct unwind_frame frames[ANY_MAX];
	struct unwind_stack s = { .frame = frames, .cap = ANY_MAX };
	unsigned at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fn); i++)
		pc[i] = ANY_LO + 0x1000 + 0x100 * fn[i] + 9;
	r.pc = pc[0];
	r.r[RSP] = STACK;
	for (size_t i = 1; i < ARRAY_SIZE(fn); i++) {
		at += any_functions[fn[i - 1]].words;
		word[at - 1] = pc[i];
	}
	r.r[RBX] = any_address(at - 2);
	r.have |= has ? 1 << RBX : 0;
	unwinder_stack(u, ANY_PID, &r, &mem, NULL, NULL, &s);
	assert_int_equal(has ? UNWIND_BOTTOM : UNWIND_NO_REG, s.end);
	assert_int_equal(has ? 3 : 2, s.n);
	for (size_t i = 0; i < s.n; i++)
		assert_int_equal(pc[i], frames[i].pc);
}

/* What the outermost frame returns to. */
static void any_end(struct unwinder *u, uint64_t last, enum unwind_end end, bool wanted)
{
	struct unwind_frame frames[ANY_MAX + 1];
	struct unwind_stack s;
	struct any_stack k;

	any_draw(&k, last);
	s = any_unwind(u, &k, ANY_WORDS, ANY_WORDS, frames, ANY_MAX + 1);
	assert_int_equal(end, s.end);
	assert_int_equal(k.n + 1, s.n);
	any_check(&k, &s, k.n, ANY_WORDS);
	assert_int_equal(last, frames[k.n].pc);
	assert_int_equal(any_address(k.sp[k.n]), frames[k.n].sp);
	assert_int_equal(0, frames[k.n].cfa);
	assert_true(frames[k.n].returned);
	assert_int_equal(wanted ? ANY_ANON : 0, s.want_lo);
	assert_int_equal(wanted ? ANY_ANON + 0x3000 : 0, s.want_hi);
}

static void test_any_stack(void **state)
{
	struct spaces *sp = spaces_create(1 << 20, SPACES_ROWS);
	struct unwinder *u = unwinder_create(sp);
	struct any_stack k;

	any_map(sp, ANY_LO, "/made/up");
	elfcache_give_module(sp->elfs, space_at(spaces_find(sp, ANY_PID), ANY_LO)->elf,
			     any_module());
	any_map(sp, ANY_ANON, "//anon");
	any_map(sp, ANY_ANON + 0x10000, "[heap]");
	for (int round = 0; round < 3000; round++) {
		any_draw(&k, 0);
		any_course(u, &k);
	}
	any_seldom(u, true);
	any_seldom(u, false);
	for (int round = 0; round < 100; round++) {
		any_end(u, 16, UNWIND_NO_MAP, false);
		any_end(u, ANY_LO + 0x800, UNWIND_NO_CFI, false);
		any_end(u, ANY_LO + 0x1000 + 0x900 + 1, UNWIND_NO_CFI, false);
		any_end(u, ANY_LO + 0x3000, UNWIND_NO_CFI, false); /* the call is before it */
		any_end(u, ANY_LO + 0x3001, UNWIND_NO_MAP, false);
		any_end(u, ANY_ANON + 0x100, UNWIND_NO_CFI, true);
		any_end(u, ANY_ANON + 0x10100, UNWIND_NO_CFI, false);
	}
	unwinder_destroy(u);
	spaces_destroy(sp);
}
#else
static void test_any_stack(void **state)
{
	skip();
}
#endif
