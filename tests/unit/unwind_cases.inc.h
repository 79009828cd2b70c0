/* SPDX-License-Identifier: MIT
 *
 * unwind_cases - the part of unwind_test.c with made-up bytes.
 */

/* ---- Expressions ---- */

static const uint64_t words[4] = { 0x1111, 0x2222, 0x8000000000000000u, 0xffffffff87654321u };
enum { WORDS_AT = 0x7000 };

static struct unwind_memory memory(void)
{
	return (struct unwind_memory){
		.piece[0] = { WORDS_AT, { (const void *)words, sizeof(words) } }
	};
}

static struct unwind_regs registers(void)
{
	struct unwind_regs r = { .pc = 0x401005, .have = 1 << RSP | 1 << RBP | 1 << RBX };

	r.r[RSP] = WORDS_AT;
	r.r[RBP] = 0x9000;
	r.r[RBX] = 7;
	return r;
}

static enum unwind_end eval(const char *code, size_t n, uint64_t *ret)
{
	struct unwind_regs r = registers();
	struct unwind_memory mem = memory();
	uint64_t first = 0x50;

	return unwind_expr((struct bytes){ (const void *)code, n }, &r, &mem, &first, NULL,
			   ret);
}

static void test_expressions(void **state)
{
	/* clang-format off */
	static const struct { char code[12]; unsigned n; uint64_t want; } cases[] = {
		{ "", 0, 0x50 },				     /* what was on the stack */
		{ "\x77\x08\x06", 3, 0x2222 },			     /* breg7 8; deref */
		{ "\x77\x08\x06\x23\x08", 5, 0x222a },		     /* ... plus_uconst 8 */
		{ "\x76\x78", 2, 0x8ff8 },			     /* breg6 -8 */
		{ "\x92\x03\x01", 3, 8 },			     /* bregx rbx 1 */
		{ "\x03\1\2\3\4\5\6\7\x08", 9, 0x0807060504030201 }, /* addr */
		{ "\x08\xff", 2, 0xff }, { "\x09\xff", 2, UINT64_MAX },
		{ "\x0b\x00\x80", 3, (uint64_t)-32768 },
		{ "\x0d\0\0\0\x80", 5, 0xffffffff80000000 },
		{ "\x10\x80\x01", 3, 128 }, { "\x11\x7f", 2, UINT64_MAX },
		{ "\x12\x22", 2, 0xa0 },			     /* dup; plus */
		{ "\x31\x14\x1c", 3, (uint64_t)1 - 0x50 },	     /* lit1; over; minus */
		{ "\x31\x32\x16\x1c", 4, 1 },			     /* lit1 lit2 swap minus */
		{ "\x31\x32\x33\x17\x13\x13", 6, 3 },		     /* rot: 3 1 2; drop; drop */
		{ "\x31\x32\x15\x01", 4, 1 },			     /* pick 1 */
		{ "\x33\x1f\x19", 3, 3 },			     /* neg; abs */
		{ "\x33\x1f\x32\x1b", 4, (uint64_t)-1 },	     /* -3 / 2 */
		{ "\x37\x34\x1d", 3, 3 }, { "\x37\x34\x1e", 3, 28 }, /* mod, mul */
		{ "\x30\x20", 2, UINT64_MAX },			     /* not */
		{ "\x31\x08\x40\x24", 4, 0 },			     /* 1 << 64 */
		{ "\x31\x1f\x08\x3f\x25", 5, 1 },		     /* -1 >> 63, shr */
		{ "\x31\x1f\x08\x7f\x26", 5, UINT64_MAX },	     /* shra */
		{ "\x32\x1f\x08\x40\x26", 5, UINT64_MAX },	     /* -2 >> 64 */
		{ "\x35\x33\x27", 3, 6 }, { "\x35\x33\x21", 3, 7 }, { "\x35\x33\x1a", 3, 1 },
		{ "\x31\x1f\x31\x2d", 4, 1 },			     /* -1 < 1 */
		{ "\x33\x33\x2a", 3, 1 }, { "\x33\x33\x2e", 3, 0 },
		{ "\x31\x28\x01\0\x39\x35", 6, 5 },		     /* bra over lit9; lit5 */
		{ "\x30\x28\x01\0\x39\x96", 6, 9 },		     /* not taken */
		{ "\x2f\x01\0\x39\x35", 5, 5 },			     /* skip */
		{ "\x33\x31\x1c\x12\x28\xfa\xff", 7, 0 }, /* lit3; as often lit1 minus, back */
		{ "\x77\x18\x94\x02", 4, 0x4321 },		     /* deref_size 2 */
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t got = 0;

		assert_int_equal(UNWIND_GOES_ON, eval(cases[i].code, cases[i].n, &got));
		if (got != cases[i].want)
			print_message("case %zu\n", i);
		assert_int_equal(cases[i].want, got);
	}
}

/* An operation's value for two operands, as signed numbers. */
struct operation {
	unsigned char op;
	int64_t (*value)(int64_t a, int64_t b);
};

#define OPERATION(name, expression)                    \
	static int64_t op_##name(int64_t a, int64_t b) \
	{                                              \
		return expression;                     \
	}
OPERATION(and, a &b)
OPERATION(minus, a - b)
OPERATION(mul, a *b)
OPERATION(or, a | b)
OPERATION(plus, a + b)
OPERATION(xor, a ^ b)
OPERATION(eq, a == b)
OPERATION(ge, a >= b)
OPERATION(gt, a > b)
OPERATION(le, a <= b)
OPERATION(lt, a < b)
OPERATION(ne, a != b)
OPERATION(div, a / b)
OPERATION(mod, (int64_t)((uint64_t)a % (uint64_t)b))

/* Two numbers, and what follows, as const8s. */
static enum unwind_end eval_two(int64_t a, int64_t b, const char *ops, size_t n, uint64_t *ret)
{
	char code[64] = { 0x0f };

	memcpy(code + 1, &a, 8);
	code[9] = 0x0f;
	memcpy(code + 10, &b, 8);
	memcpy(code + 18, ops, n);
	return eval(code, 18 + n, ret);
}

static void test_operations(void **state)
{
	static const struct operation ops[] = {
		{ 0x1a, op_and },  { 0x1c, op_minus }, { 0x1e, op_mul }, { 0x21, op_or },
		{ 0x22, op_plus }, { 0x27, op_xor },   { 0x29, op_eq },	 { 0x2a, op_ge },
		{ 0x2b, op_gt },   { 0x2c, op_le },    { 0x2d, op_lt },	 { 0x2e, op_ne },
		{ 0x1b, op_div },  { 0x1d, op_mod },
	};
	static const int64_t values[] = { -7, -1, 1, 2, 3, 100, 1000000007 };

	/* DWARF 5, 2.5.1.4 and 2.5.1.5: 0x29 is eq, and so on. */
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		for (size_t a = 0; a < ARRAY_SIZE(values); a++)
			for (size_t b = 0; b < ARRAY_SIZE(values); b++) {
				uint64_t got;

				assert_int_equal(UNWIND_GOES_ON,
						 eval_two(values[a], values[b],
							  (const char *)&ops[i].op, 1, &got));
				assert_int_equal((uint64_t)ops[i].value(values[a], values[b]),
						 got);
			}
}

/* Shifts by less and more than there are bits. */
static void test_shifts(void **state)
{
	uint64_t got;

	for (int64_t by = 0; by < 70; by++) {
		int64_t v = -0x123456789abcdef0;
		uint64_t u = (uint64_t)v;

		eval_two(v, by, "\x24", 1, &got);
		assert_int_equal(by < 64 ? u << by : 0, got);
		eval_two(v, by, "\x25", 1, &got);
		assert_int_equal(by < 64 ? u >> by : 0, got);
		eval_two(v, by, "\x26", 1, &got);
		assert_int_equal(by < 64 ? (uint64_t)(v >> by) : UINT64_MAX, got);
	}
}

/* What is under the two numbers, 0x50, stays where it is. */
static void test_moves(void **state)
{
	static const struct {
		char ops[4];
		unsigned n;
		uint64_t want;
	} rows[] = {
		{ "", 0, 4 },
		{ "\x13", 1, 3 },
		{ "\x13\x13", 2, 0x50 },
		{ "\x12", 1, 4 },
		{ "\x12\x13", 2, 4 },
		{ "\x12\x13\x13", 3, 3 },
		{ "\x14", 1, 3 },
		{ "\x14\x13", 2, 4 },
		{ "\x14\x13\x13", 3, 3 },
		{ "\x15\x00", 2, 4 },
		{ "\x15\x01", 2, 3 },
		{ "\x15\x02", 2, 0x50 },
		{ "\x15\x02\x13", 3, 4 },
		{ "\x16", 1, 3 },
		{ "\x16\x13", 2, 4 },
		{ "\x16\x13\x13", 3, 0x50 },
		{ "\x17", 1, 3 }, /* rot: 3, 0x50, 4 */
		{ "\x17\x13", 2, 0x50 },
		{ "\x17\x13\x13", 3, 4 },
		{ "\x23\x7f", 2, 131 },
		{ "\x23\x7f\x13", 3, 3 },
		{ "\x1f", 1, (uint64_t)-4 },
		{ "\x20", 1, ~(uint64_t)4 },
		{ "\x19", 1, 4 },
		{ "\x96", 1, 4 },
	};
	uint64_t got;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(UNWIND_GOES_ON, eval_two(3, 4, rows[i].ops, rows[i].n, &got));
		assert_int_equal(rows[i].want, got);
	}
	assert_int_equal(UNWIND_BAD, eval_two(3, 4, "\x15\x03", 2, &got)); /* no fourth one */
	assert_int_equal(UNWIND_GOES_ON, eval_two(0, INT64_MIN, "\x19", 1, &got));
	assert_int_equal((uint64_t)INT64_MIN, got);
}

/* Each size of a constant, with and without a sign, and of what is read. */
static void test_sizes(void **state)
{
	static const uint64_t want[] = { 0x88, 0x8788, 0, 0x85868788,
					 0,    0,      0, 0x8182838485868788 };
	char code[] = "\x08\x88\x87\x86\x85\x84\x83\x82\x81", read[] = "\x77\x18\x94\x01";
	uint64_t got;

	for (unsigned i = 0; i < 8; i++) { /* 0x08 const1u to 0x0f const8s */
		unsigned n = 1u << i / 2, unused = 64 - 8 * n;
		uint64_t v = want[n - 1];

		code[0] = (char)(0x08 + i);
		assert_int_equal(UNWIND_GOES_ON, eval(code, 1 + n, &got));
		assert_int_equal(i & 1 ? (uint64_t)((int64_t)(v << unused) >> unused) : v,
				 got);
		assert_int_equal(UNWIND_BAD, eval(code, n, &got));
	}
	for (unsigned n = 0; n < 11; n++) {
		read[3] = (char)n;
		if (n < 1 || n > 8) {
			assert_int_equal(UNWIND_BAD, eval(read, 4, &got));
			continue;
		}
		assert_int_equal(UNWIND_GOES_ON, eval(read, 4, &got));
		assert_int_equal(n == 8 ? words[3] : words[3] & ((1ull << 8 * n) - 1), got);
	}
	for (unsigned i = 0; i < 32; i++) {
		code[0] = (char)(0x30 + i);
		assert_int_equal(UNWIND_GOES_ON, eval(code, 1, &got));
		assert_int_equal(i, got);
	}
}

/* Where jumps lead: to the end at most. What is pushed: 32 numbers. How many steps: enough. */
static void test_bounds_of_expressions(void **state)
{
	char code[1100];
	uint64_t got;

	assert_int_equal(UNWIND_GOES_ON, eval("\x35\x2f\x01\x00\x36", 5, &got));
	assert_int_equal(5, got);
	assert_int_equal(UNWIND_BAD, eval("\x35\x2f\x02\x00\x36", 5, &got));
	assert_int_equal(UNWIND_BAD, eval("\x2f\xfc\xff", 3, &got));
	memset(code, 0x35, sizeof(code));
	assert_int_equal(UNWIND_GOES_ON, eval(code, 31, &got)); /* and what was there */
	assert_int_equal(5, got);
	assert_int_equal(UNWIND_BAD, eval(code, 32, &got));
	memset(code, 0x96, sizeof(code));
	assert_int_equal(UNWIND_GOES_ON, eval(code, 1000, &got));
	assert_int_equal(0x50, got);
	assert_int_equal(UNWIND_BAD, eval(code, 1002, &got));
	/* Nothing is left, or never was. */
	assert_int_equal(UNWIND_BAD, eval("\x13", 1, &got));
	for (const char *op = "\x06\x12\x14\x16\x17\x19\x1a\x1f\x20\x23\x28\x22"; *op; op++) {
		char one[4] = { 0x13, *op };

		assert_int_equal(UNWIND_BAD, eval(one, 4, &got));
	}
}

/* Registers by number, of which a few are known. */
static void test_register_numbers(void **state)
{
	struct unwind_regs r = { .pc = 0x5000, .have = UINT64_C(3) << 31 };
	struct unwind_memory mem = memory();
	uint64_t got;

	r.r[31] = 0x310, r.r[32] = 0x320;
	for (unsigned char reg = 30; reg < 35; reg++) {
		const unsigned char code[] = { 0x92, reg, 0x7f };
		enum unwind_end end =
			unwind_expr((struct bytes){ code, 3 }, &r, &mem, NULL, NULL, &got);

		if (reg == arch_host->dwarf_pc)
			continue;
		assert_int_equal(reg == 31 || reg == 32 ? UNWIND_GOES_ON : UNWIND_NO_REG, end);
		if (end == UNWIND_GOES_ON)
			assert_int_equal((reg == 31 ? 0x310 : 0x320) - 1, got);
	}
}

/* Of a function that keeps vectors of SVE on its stack: how long those are, in register 46, is not
 * known. */
static void test_lengths_of_vectors(void **state)
{
	static const unsigned char code[] = { 0x8f, 0x10, 0x92, 46, 0, 0x38, 0x1e, 0x22 };
	struct unwind_regs r = { .pc = 0x5000, .have = (uint64_t)1 << 31 };
	struct unwind_memory mem = memory();
	uint64_t got;

	assert_int_equal(UNWIND_NO_REG, unwind_expr((struct bytes){ code, sizeof(code) }, &r, &mem,
						    NULL, NULL, &got));
}

/* Of a PLT: how much is pushed depends on where in its 16 bytes the pc is. */
static const char plt[] = "\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22";

/* Each register has an operation of its own. */
static void test_expressions_of_registers(void **state)
{
	struct unwind_regs r = registers();
	struct unwind_memory mem = memory();
	uint64_t v;

	for (unsigned i = 0; i < ARRAY_SIZE(r.r); i++)
		r.r[i] = 0x100 * (i + 1);
	for (unsigned i = 0; i < RA; i++) {
		const unsigned char code[] = { (unsigned char)(0x70 + i), 5 };

		r.have = 1u << i;
		assert_int_equal(UNWIND_GOES_ON, unwind_expr((struct bytes){ code, 2 }, &r,
							     &mem, NULL, NULL, &v));
		assert_int_equal(0x100 * (i + 1) + 5, v);
		r.have = ~(1u << i);
		assert_int_not_equal(UNWIND_GOES_ON, unwind_expr((struct bytes){ code, 2 }, &r,
								 &mem, NULL, NULL, &v));
	}
}

static void test_bad_expressions(void **state)
{
	struct unwind_regs r = registers();
	struct unwind_memory mem = memory();
	struct bytes code = { (const void *)plt, sizeof(plt) - 1 };
	uint64_t v;

	assert_int_equal(UNWIND_CUT, eval("\x76\x00\x06", 3, &v)); /* not in memory */
	assert_int_equal(UNWIND_CUT, eval("\x77\x19\x06", 3, &v)); /* nor all of it */
	assert_int_equal(UNWIND_NO_REG, eval("\x71\x00", 2, &v));  /* rdx is not known */
	assert_int_equal(UNWIND_NO_REG, eval("\x92\x40\x00", 3, &v)); /* no general one */
	assert_int_equal(UNWIND_BAD, eval("\x13\x13", 2, &v));
	assert_int_equal(UNWIND_BAD, eval("\x31\x30\x1b", 3, &v)); /* 1 / 0 */
	assert_int_equal(UNWIND_BAD, eval("\xff", 1, &v));
	assert_int_equal(UNWIND_BAD, eval("\x03\x01", 2, &v));	   /* too short */
	assert_int_equal(UNWIND_BAD, eval("\x2f\xfd\xff", 3, &v)); /* for ever */
	assert_int_equal(UNWIND_BAD, eval("\x2f\x7f\x00", 3, &v));
	assert_int_equal(UNWIND_BAD, eval("\x12\x2f\xfc\xff", 4, &v)); /* a stack too high */
	assert_int_equal(UNWIND_BAD, eval("\x15\x09", 2, &v));
	/* INT64_MIN / -1 does not trap */
	assert_int_equal(UNWIND_GOES_ON, eval("\x77\x10\x06\x31\x1f\x1b", 6, &v));
	assert_int_equal(1ull << 63, v);
	if (arch_host != &arch_x86_64)
		return; /* which numbers the pc 16, as the stubs of .plt want it */
	assert_int_equal(UNWIND_GOES_ON, unwind_expr(code, &r, &mem, NULL, NULL, &v));
	assert_int_equal(WORDS_AT + 8, v);
	r.pc = 0x40100b;
	assert_int_equal(UNWIND_GOES_ON, unwind_expr(code, &r, &mem, NULL, NULL, &v));
	assert_int_equal(WORDS_AT + 16, v);
}

/* ---- Sections made by hand ---- */

struct section {
	unsigned char b[1024];
	size_t n, cie;
	bool debug;
};

static void put(struct section *s, const void *p, size_t n)
{
	memcpy(s->b + s->n, p, n);
	s->n += n;
}

static void put_u32(struct section *s, uint32_t v)
{
	put(s, &v, sizeof(v));
}

/* A record of @head and @n bytes of instructions. */
static void put_record(struct section *s, uint32_t id, const void *head, size_t n_head,
		       const char *ops, size_t n)
{
	put_u32(s, (uint32_t)(4 + n_head + n));
	put_u32(s, id);
	put(s, head, n_head);
	put(s, ops, n);
}

/* cfa = rsp + 8, return address at cfa - 8; addresses absolute, data in units of -8. */
static void put_cie(struct section *s, const char *aug, unsigned ra)
{
	unsigned char head[32] = { 1 };
	size_t n = 1 + strlen(aug) + 1;

	memcpy(head + 1, aug, strlen(aug) + 1);
	head[n++] = 1;
	head[n++] = 0x78;
	head[n++] = (unsigned char)ra;
	if (aug[0] == 'z') /* R's value is 0, the others have none */
		head[n++] = strchr(aug, 'R') != NULL;
	n += strchr(aug, 'R') != NULL;
	s->cie = s->n;
	put_record(s, s->debug ? UINT32_MAX : 0, head, n, "\x0c\x07\x08\x90\x01",
		   ra == RA ? 5 : 0);
}

static void put_fde(struct section *s, uint64_t lo, uint64_t size, const char *ops, size_t n)
{
	uint64_t head[2] = { lo, size };
	unsigned char buf[17] = { 0 };
	bool sized = s->b[s->cie + 9] == 'z';

	memcpy(buf, head, 16);
	put_record(s, s->debug ? (uint32_t)s->cie : (uint32_t)(s->n + 4 - s->cie), buf,
		   sized ? 17 : 16, ops, n);
}

#define FDE(s, lo, size, ops) put_fde(s, lo, size, ops, sizeof(ops) - 1)

/* A copy that can be freed. */
static struct bytes section_bytes(const struct section *s)
{
	unsigned char *p = malloc(s->n);

	assert_non_null(p);
	memcpy(p, s->b, s->n);
	return (struct bytes){ p, s->n };
}

static struct rows *compile(const struct arch *arch, const struct section *eh,
			    const struct section *debug)
{
	struct unwind_source src = { .debug.debug = true };
	struct rows *t;

	src.base = 0x1000;
	if (eh)
		src.eh.b = section_bytes(eh);
	if (debug)
		src.debug.b = section_bytes(debug);
	assert_int_equal(0, rows_make(&t, arch, &src));
	return t;
}

static const struct unwind_rule *rule_at(struct rows *rows, uint64_t pc)
{
	const struct unwind_table *t;
	const struct unwind_row *row = row_at(rows, pc, &t);

	return row ? unwind_row_rule(t, row) : NULL;
}

static bool no_rule_at(struct rows *rows, uint64_t pc)
{
	const struct unwind_rule *r = rule_at(rows, pc);

	return !r || r->flags & RULE_NONE;
}

static int32_t slot_of(const struct unwind_rule *r, unsigned reg)
{
	for (unsigned i = 0; i < r->n; i++)
		if (r->slot[i].reg == reg && r->slot[i].how == HOW_AT)
			return r->slot[i].off;
	return 0;
}

/* push %rbp; mov %rsp,%rbp; ...; leave; ret */
static const char framed[] = "\x41\x0e\x10\x86\x02\x43\x0d\x06\x02\x20\x0c\x07\x08";

static void test_rows(void **state)
{
	struct section s = { 0 };
	struct rows *t;
	uint64_t start, end;

	put_cie(&s, "zR", RA);
	put_fde(&s, 0x2000, 0x40, framed, sizeof(framed) - 1);
	t = compile(&arch_x86_64, &s, NULL);
	assert_int_equal(4, rows_at(t, 0x2000)->n_rows);
	assert_null(rule_at(t, 0x1fff));
	assert_int_equal(8, rule_at(t, 0x2000)->cfa_off);
	assert_int_equal(RSP, rule_at(t, 0x2000)->cfa_reg);
	assert_int_equal(-8, slot_of(rule_at(t, 0x2000), RA));
	assert_int_equal(0, slot_of(rule_at(t, 0x2000), RBP));
	assert_int_equal(16, rule_at(t, 0x2001)->cfa_off);
	assert_int_equal(-16, slot_of(rule_at(t, 0x2001), RBP));
	assert_int_equal(RSP, rule_at(t, 0x2003)->cfa_reg);
	assert_int_equal(RBP, rule_at(t, 0x2004)->cfa_reg);
	assert_int_equal(RSP, rule_at(t, 0x2024)->cfa_reg);
	assert_true(no_rule_at(t, 0x2040));
	assert_true(rows_function(t, 0x2010, &start, &end));
	assert_int_equal(0x2000, start);
	assert_int_equal(0x2040, end);
	assert_false(rows_function(t, 0x2040, &start, &end));
	rows_put(t);
}

/* Rows of a function are made once somebody asks for them, and count then. */
static void test_rows_of_what_is_asked_for(void **state)
{
	const struct unwind_table *made;
	struct section s = { 0 };
	struct rows *t;
	size_t before;

	put_cie(&s, "", RA);
	FDE(&s, 0x2000, 0x10, "");
	FDE(&s, 0x2010, 0x10, "\x0e\x20");
	t = compile(&arch_x86_64, &s, NULL);
	assert_int_equal(2, t->n);
	before = t->bytes;
	assert_true(before > s.n);
	made = rows_at(t, 0x201f);
	assert_non_null(made);
	assert_int_equal(1, made->n_rows);
	assert_int_equal(before + made->bytes, t->bytes);
	assert_ptr_equal(made, rows_at(t, 0x2010));
	assert_int_equal(before + made->bytes, t->bytes);
	assert_null(t->made[0]);
	rows_put(t);
}

/* Compilers say "rbp at cfa - 16" of the ret behind pop %rbp, where cfa = rsp + 8. */
static void test_popped_register(void **state)
{
	struct section s = { 0 };
	struct rows *t;

	put_cie(&s, "", RA);
	put_fde(&s, 0x2000, 0x40, framed, sizeof(framed) - 1);
	t = compile(&arch_x86_64, &s, NULL);
	assert_int_equal(-16, slot_of(rule_at(t, 0x2020), RBP));
	assert_int_equal(0, slot_of(rule_at(t, 0x2024), RBP));
	rows_put(t);
}

static void test_remembered(void **state)
{
	struct section s = { 0 };
	struct rows *t;

	put_cie(&s, "", RA);
	/* cfa 16, rbx saved; remember; cfa 8, rbx back; restore */
	FDE(&s, 0x2000, 0x40, "\x41\x0e\x10\x83\x02\x44\x0a\x0e\x08\xc3\x41\x0b");
	t = compile(&arch_x86_64, &s, NULL);
	assert_int_equal(16, rule_at(t, 0x2004)->cfa_off);
	assert_int_equal(8, rule_at(t, 0x2005)->cfa_off);
	assert_int_equal(0, slot_of(rule_at(t, 0x2005), RBX));
	assert_int_equal(16, rule_at(t, 0x2006)->cfa_off);
	assert_int_equal(-16, slot_of(rule_at(t, 0x2006), RBX));
	rows_put(t);
}

static void test_gaps_and_overlaps(void **state)
{
	struct section s = { 0 };
	struct rows *t;
	uint64_t start, end;

	put_cie(&s, "", RA);
	FDE(&s, 0x3000, 0x10, "\x07\x10"); /* out of order; a thread's start */
	FDE(&s, 0x2000, 0x11, "");
	FDE(&s, 0x2020, 0x10, ""); /* behind 15 bytes of padding */
	FDE(&s, 0x2050, 0x100, "\x42\x0e\x10");
	FDE(&s, 0x2080, 0x10, "");	       /* inside of the one before */
	FDE(&s, 0x2080, 0x20, "\x0e\x20");     /* the same again: the first counts */
	FDE(&s, 0, 0x10, "");		       /* thrown away by the linker */
	FDE(&s, 0xfffffffffffffff0, 0x20, ""); /* over the end */
	t = compile(&arch_x86_64, &s, NULL);
	assert_int_equal(8, rule_at(t, 0x201f)->cfa_off);
	assert_true(rows_function(t, 0x2020, &start, &end));
	assert_int_equal(0x2020, start);
	assert_true(no_rule_at(t, 0x2030));
	assert_int_equal(16, rule_at(t, 0x207f)->cfa_off);
	assert_int_equal(8, rule_at(t, 0x2080)->cfa_off);
	assert_true(no_rule_at(t, 0x20a0));
	assert_int_equal(RULE_BOTTOM, rule_at(t, 0x3001)->flags);
	assert_true(no_rule_at(t, 0x3010));
	rows_put(t);
}

static void test_debug_frame(void **state)
{
	struct section eh = { 0 }, debug = { .debug = true };
	struct rows *t;

	put_cie(&eh, "", RA);
	FDE(&eh, 0x2000, 0x10, "");
	put_cie(&debug, "", RA);
	FDE(&debug, 0x2000, 0x10, "\x0e\x20"); /* .eh_frame counts */
	FDE(&debug, 0x2010, 0x10, "\x0e\x30");
	t = compile(&arch_x86_64, &eh, &debug);
	assert_int_equal(8, rule_at(t, 0x2000)->cfa_off);
	assert_int_equal(0x30, rule_at(t, 0x2010)->cfa_off);
	rows_put(t);
	t = compile(&arch_x86_64, NULL, &debug);
	assert_int_equal(0x20, rule_at(t, 0x2000)->cfa_off);
	rows_put(t);
}

/* Version 4 says how long addresses are: ours are 8 bytes, without segments. */
static void test_version_4(void **state)
{
	static const unsigned char sizes[][2] = { { 8, 0 }, { 4, 0 }, { 8, 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		unsigned char head[] = { 4, 0, sizes[i][0], sizes[i][1], 1, 0x78, RA };
		struct section s = { 0 };
		struct rows *t;

		put_record(&s, 0, head, sizeof(head), "\x0c\x07\x08\x90\x01", 5);
		FDE(&s, 0x2000, 0x10, "\x0e\x20");
		t = compile(&arch_x86_64, &s, NULL);
		assert_int_equal(i == 0 ? 0x20 : 0,
				 rule_at(t, 0x2000) ? rule_at(t, 0x2000)->cfa_off : 0);
		rows_put(t);
	}
}

/* Both have a CIE at the same place, and they differ. */
static void test_two_sections(void **state)
{
	struct section eh = { 0 }, debug = { .debug = true };
	struct rows *t;

	put_cie(&eh, "", RA);
	FDE(&eh, 0x2000, 0x10, "");
	FDE(&eh, 0x2020, 0x10, "");
	put_cie(&debug, "", RA);
	assert_int_equal(8, debug.b[15]); /* cfa = rsp + 8 */
	debug.b[15] = 24;
	FDE(&debug, 0x2010, 0x10, "");
	t = compile(&arch_x86_64, &eh, &debug);
	assert_int_equal(8, rule_at(t, 0x2000)->cfa_off);
	assert_int_equal(24, rule_at(t, 0x2010)->cfa_off);
	assert_int_equal(8, rule_at(t, 0x2020)->cfa_off);
	rows_put(t);
}

/* Offsets in units of the CIE's data alignment, -8. */
static void test_factored(void **state)
{
	static const struct {
		char ops[8];
		unsigned n;
		int32_t cfa_off, rbx;
	} rows[] = {
		{ "\x12\x07\x7d", 3, 24, 0 },		  /* def_cfa_sf rsp, -3 */
		{ "\x13\x7c", 2, 32, 0 },		  /* def_cfa_offset_sf -4 */
		{ "\x0e\x28", 2, 40, 0 },		  /* def_cfa_offset 40: bytes */
		{ "\x0e\x40\x05\x03\x02", 5, 64, -16 },	  /* offset_extended rbx, 2 */
		{ "\x0e\x40\x11\x03\x03", 5, 64, -24 },	  /* offset_extended_sf rbx, 3 */
		{ "\x0e\x40\x2f\x03\x02", 5, 64, 16 },	  /* GNU_negative_offset_... */
		{ "\x0e\x40\x83\x04", 4, 64, -32 },	  /* offset rbx, 4 */
		{ "\x0e\x40\x83\x04\x06\x03", 6, 64, 0 }, /* ... restore_extended rbx */
		{ "\x0e\x40\x83\x04\x08\x03", 6, 64, 0 }, /* ... same_value rbx */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct section s = { 0 };
		struct rows *t;

		put_cie(&s, "", RA);
		put_fde(&s, 0x2000, 0x10, rows[i].ops, rows[i].n);
		t = compile(&arch_x86_64, &s, NULL);
		assert_int_equal(rows[i].cfa_off, rule_at(t, 0x2000)->cfa_off);
		assert_int_equal(rows[i].rbx, slot_of(rule_at(t, 0x2000), RBX));
		rows_put(t);
	}
}

/* How far each instruction advances. */
static void test_advances(void **state)
{
	static const struct {
		char ops[12];
		unsigned n;
		uint64_t by;
	} rows[] = {
		{ "\x43\x0e\x20", 3, 3 },
		{ "\x02\x90\x0e\x20", 4, 0x90 },
		{ "\x03\x34\x12\x0e\x20", 5, 0x1234 },
		{ "\x04\x45\x23\x01\0\x0e\x20", 7, 0x12345 },
		{ "\x01\x10\x20\0\0\0\0\0\0\x0e\x20", 11, 0x10 }, /* set_loc 0x2010 */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct section s = { 0 };
		struct rows *t;

		put_cie(&s, "", RA);
		put_fde(&s, 0x2000, 0x20000, rows[i].ops, rows[i].n);
		t = compile(&arch_x86_64, &s, NULL);
		assert_int_equal(8, rule_at(t, 0x2000 + rows[i].by - 1)->cfa_off);
		assert_int_equal(0x20, rule_at(t, 0x2000 + rows[i].by)->cfa_off);
		rows_put(t);
	}
}

/* Rows end where an instruction is not understood; other functions are not touched. */
static void test_damaged_instructions(void **state)
{
	static const struct {
		char ops[12];
		unsigned n;
	} bad[] = {
		{ "\x44\x3e", 2 },	   /* unknown */
		{ "\x44\x0b", 2 },	   /* nothing remembered */
		{ "\x44\x0f\x7f\x30", 4 }, /* a block longer than the record */
		{ "\x44\x10\x06\x85\x80", 5 },
		{ "\x44\x0c", 2 },
		{ "\x44\x01\x00\x10\0\0\0\0\0\0", 10 }, /* back to 0x1000 */
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct section s = { 0 };
		struct rows *t;

		put_cie(&s, "", RA);
		put_fde(&s, 0x2000, 0x10, bad[i].ops, bad[i].n);
		FDE(&s, 0x2010, 0x10, "");
		t = compile(&arch_x86_64, &s, NULL);
		assert_int_equal(8, rule_at(t, 0x2003)->cfa_off);
		assert_true(no_rule_at(t, 0x2004));
		assert_int_equal(8, rule_at(t, 0x2010)->cfa_off);
		rows_put(t);
	}
}

/* Return addresses in a register, 32 registers; whether they are signed makes no rule. */
static void test_aarch64(void **state)
{
	struct section s = { 0 };
	struct rows *t;

	put_cie(&s, "", 30);
	/* cfa = sp; paciasp; x29 and x30 saved at cfa - 16, cfa = sp + 16; ldp, autiasp */
	FDE(&s, 0x2000, 0x40,
	    "\x0c\x1f\x00\x44\x2d\x44\x0e\x10\x9d\x02\x9e\x01\x48\xdd\xde\x0e\x00"
	    "\x44\x2d");
	t = compile(&arch_aarch64, &s, NULL);
	assert_int_equal(0, rule_at(t, 0x2000)->n);
	assert_int_equal(31, rule_at(t, 0x2000)->cfa_reg);
	assert_int_equal(0, rule_at(t, 0x2000)->flags);
	assert_ptr_equal(rule_at(t, 0x2000), rule_at(t, 0x2004));
	assert_int_equal(-8, slot_of(rule_at(t, 0x2008), 30));
	assert_int_equal(-16, slot_of(rule_at(t, 0x2008), 29));
	assert_int_equal(2, rule_at(t, 0x2008)->n_first);
	assert_int_equal(0, rule_at(t, 0x2010)->n);
	assert_int_equal(0, rule_at(t, 0x2014)->flags);
	rows_put(t);
}

/* Stubs of .plt; what a handler returns to: its caller's registers lie on the stack. */
static void test_aarch64_known_code(void **state)
{
	struct unwind_source src = {
		.base = 0x1000, .sigreturn = 0x2044, .plt_lo = 0x1800, .plt_hi = 0x1840
	};
	struct section s = { 0 };
	struct rows *t;

	put_cie(&s, "", 30);
	FDE(&s, 0x2000, 0x40, "\x0c\x1f\x00");
	FDE(&s, 0x2080, 0x40, "\x0c\x1f\x10");
	src.eh.b = section_bytes(&s);
	assert_int_equal(0, rows_make(&t, &arch_aarch64, &src));
	assert_null(rule_at(t, 0x17fc));
	assert_int_equal(0, rule_at(t, 0x1800)->n);
	assert_int_equal(0, rule_at(t, 0x183c)->cfa_off);
	assert_true(no_rule_at(t, 0x1840));
	assert_int_equal(0, rule_at(t, 0x203c)->flags);
	for (uint64_t pc = 0x2040; pc < 0x204c; pc += 4) {
		assert_int_equal(RULE_SIGNAL, rule_at(t, pc)->flags);
		assert_int_equal(312, slot_of(rule_at(t, pc), 0));
		assert_int_equal(312 + 8 * 31, slot_of(rule_at(t, pc), 31));
		assert_int_equal(312 + 8 * 32, slot_of(rule_at(t, pc), 32)); /* the pc */
	}
	assert_true(no_rule_at(t, 0x204c));
	assert_int_equal(16, rule_at(t, 0x2080)->cfa_off);
	rows_put(t);
}

/* python -X perf: plain, and behind a landing pad with a signed return address. */
static void test_aarch64_trampolines(void **state)
{
	static const uint32_t code[16] = { 0xa9bf7bfd, 0x910003fd, 0xd63f0060, 0xa8c17bfd,
					   0xd65f03c0, 0,	   0xd503245f, 0xd503233f,
					   0xa9bf7bfd, 0x910003fd, 0xd63f0060, 0xa8c17bfd,
					   0xd50323bf, 0xd65f03c0 };
	struct unwind_table *made;
	struct rows *t;

	assert_int_equal(0, unwind_trampolines(&made, &arch_aarch64,
					       (struct bytes){ (const void *)code, 64 }));
	t = rows_of_table(made);
	assert_non_null(t);
	assert_true(t->bytes > made->bytes);
	assert_int_equal(0, rule_at(t, 0)->n);
	assert_int_equal(0, rule_at(t, 0)->cfa_off);
	assert_int_equal(16, rule_at(t, 4)->cfa_off);
	assert_int_equal(-8, slot_of(rule_at(t, 12), 30));
	assert_int_equal(-16, slot_of(rule_at(t, 12), 29));
	assert_int_equal(0, rule_at(t, 16)->cfa_off);
	assert_true(no_rule_at(t, 20));
	assert_int_equal(0, rule_at(t, 24)->cfa_off);
	assert_int_equal(0, rule_at(t, 32)->cfa_off);
	assert_int_equal(16, rule_at(t, 36)->cfa_off);
	assert_int_equal(-8, slot_of(rule_at(t, 44), 30));
	assert_int_equal(0, rule_at(t, 52)->n);
	assert_true(no_rule_at(t, 56));
	rows_put(t);
}

static void test_riscv64_trampolines(void **state)
{
	static const uint16_t code[8] = { 0x1141, 0xe406, 0x9682, 0x60a2, 0x0141, 0x8082 };
	struct unwind_table *made;
	struct rows *t;

	assert_int_equal(0, unwind_trampolines(&made, &arch_riscv64,
					       (struct bytes){ (const void *)code, 16 }));
	t = rows_of_table(made);
	assert_non_null(t);
	assert_int_equal(0, rule_at(t, 0)->cfa_off);
	assert_int_equal(16, rule_at(t, 2)->cfa_off);
	assert_int_equal(0, rule_at(t, 2)->n);
	assert_int_equal(-8, slot_of(rule_at(t, 6), 1));
	assert_int_equal(0, rule_at(t, 10)->cfa_off);
	assert_true(no_rule_at(t, 12));
	rows_put(t);
}

/* What a handler of signals returns to: the pc lies where x0 would. */
static void test_riscv64_known_code(void **state)
{
	struct unwind_source src = { .base = 0x1000, .sigreturn = 0x2044 };
	struct rows *t;

	assert_int_equal(0, rows_make(&t, &arch_riscv64, &src));
	assert_true(rule_at(t, 0x2044)->flags & RULE_SIGNAL);
	assert_int_equal(304, slot_of(rule_at(t, 0x2044), 0));
	assert_int_equal(304 + 8, slot_of(rule_at(t, 0x2044), 1));
	assert_int_equal(304 + 8 * 31, slot_of(rule_at(t, 0x2044), 31));
	rows_put(t);
}
