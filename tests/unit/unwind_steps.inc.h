/* SPDX-License-Identifier: MIT
 *
 * unwind_steps - the part of unwind_test.c with made-up stacks.
 */

#ifdef __x86_64__
enum { CODE = 0x2000, STACK = 0x7000 };

/* One step at CODE with these instructions, over @stack. */
static enum unwind_end step(const char *ops, size_t n, const char *aug, struct unwind_regs *r,
			    const uint64_t *stack, size_t n_stack, bool all, uint64_t *cfa)
{
	struct unwind_memory mem = { .piece[0] = { STACK,
						   { (const void *)stack, n_stack * 8 } } };
	struct section s = { 0 };
	struct rows *t;
	enum unwind_end end;
	bool second = false;

	put_cie(&s, aug, RA);
	put_fde(&s, CODE, 0x100, ops, n);
	t = compile(&arch_x86_64, &s, NULL);
	*cfa = 0;
	end = unwind_step(rows_at(t, CODE), rule_at(t, CODE), r, &mem, all, cfa, &second);
	rows_put(t);
	return end;
}

#define STEP(ops, aug, all) \
	step(ops, sizeof(ops) - 1, aug, &r, stack, ARRAY_SIZE(stack), all, &cfa)

static struct unwind_regs at_code(void)
{
	struct unwind_regs r = { .pc = CODE, .have = 0xffff };

	for (unsigned i = 0; i < 16; i++)
		r.r[i] = 0x100 + i;
	r.r[RSP] = STACK;
	return r;
}

static void test_step(void **state)
{
	static const uint64_t stack[] = { 0xb0b, 0x4000, 0, 0x5000 };
	struct unwind_regs r = at_code();
	uint64_t cfa;

	/* cfa = rsp + 16, rbp at cfa - 16 */
	assert_int_equal(UNWIND_GOES_ON, STEP("\x0e\x10\x86\x02", "", true));
	assert_int_equal(0x4000, r.pc);
	assert_int_equal(STACK + 16, cfa);
	assert_int_equal(STACK + 16, r.r[RSP]);
	assert_int_equal(0xb0b, r.r[RBP]);
	assert_true(r.returned);
	/* What a callee may change is not known any more, what it must save is. */
	assert_int_equal(1 << RBX | 1 << RBP | 1 << RSP | 0xf << R12, r.have);
	r = at_code();
	assert_int_equal(UNWIND_GOES_ON, STEP("\x0e\x10\x86\x02", "", false));
	assert_int_equal(1 << RBP | 1 << RSP, r.have);
	/* What lies in a register that no machine has is not known. */
	r = at_code();
	assert_int_equal(UNWIND_GOES_ON, STEP("\x0e\x10\x09\x06\x43", "", false));
	assert_int_equal(1 << RSP, r.have);

	r = at_code();
	assert_int_equal(UNWIND_BOTTOM, STEP("\x07\x10", "", true));
	r = at_code();
	assert_int_equal(UNWIND_BOTTOM, STEP("\x0e\x18", "", true)); /* returns to 0 */
	r = at_code();
	assert_int_equal(UNWIND_CUT, STEP("\x0e\x30", "", true));
	assert_int_equal(STACK + 0x30, cfa);
	r = at_code(); /* the cfa is below the stack pointer: rbp is 0x106 */
	assert_int_equal(UNWIND_BAD, STEP("\x0c\x06\x10", "", true));
	r = at_code();
	r.have &= ~(1u << RBP);
	assert_int_equal(UNWIND_NO_REG, STEP("\x0c\x06\x10", "", true));
	/* The return address is in a register (rdx) that is not known, or not in memory. */
	r = at_code();
	assert_int_equal(UNWIND_GOES_ON, STEP("\x09\x10\x01", "", true));
	assert_int_equal(0x101, r.pc);
	r = at_code();
	r.have &= ~(uint64_t)2;
	assert_int_equal(UNWIND_NO_REG, STEP("\x09\x10\x01", "", true));
	/* No rule says where it is: only the innermost frame may have it in a register. */
	r = at_code();
	assert_int_equal(UNWIND_NO_REG, STEP("\x0e\x10\x08\x10", "", true));
	r = at_code();
	r.returned = true;
	assert_int_equal(UNWIND_BAD, STEP("\x0e\x10\x08\x10", "", true));
	r = at_code(); /* at breg7 + 1024; rbx in rdx, so the rule is a slow one */
	assert_int_equal(UNWIND_CUT, STEP("\x10\x10\x03\x77\x80\x08\x09\x03\x01", "", true));
	/* Only a leaf may have no frame. */
	r = at_code();
	assert_int_equal(UNWIND_CUT, STEP("\x0e\x00", "", true));
	r = at_code();
	r.returned = true;
	assert_int_equal(UNWIND_BAD, STEP("\x0e\x00", "", true));
	r = at_code(); /* gcc's realigned stack: breg6 -8; deref */
	r.r[RBP] = STACK + 32;
	{
		static const uint64_t aligned[] = { 1, 0x4000, 2, STACK + 16 };

		assert_int_equal(UNWIND_GOES_ON, step("\x0f\x03\x76\x78\x06", 5, "", &r,
						      aligned, 4, true, &cfa));
		assert_int_equal(STACK + 16, cfa);
		assert_int_equal(0x4000, r.pc);
	}
}

/* To the address that lies at a place, where no rule tells more. */
static void test_return(void **state)
{
	static const uint64_t stack[] = { 0x4000, 0x5000 };
	struct unwind_memory mem = { .piece[0] = { STACK, { (const void *)stack, 16 } } };
	struct unwind_regs r = at_code();

	assert_true(unwind_return(&r, &mem, STACK + 8));
	assert_int_equal(0x5000, r.pc);
	assert_int_equal(STACK + 16, r.r[RSP]);
	assert_true(r.returned);
	assert_int_equal(1 << RBX | 1 << RBP | 1 << RSP | 0xf << R12, r.have);
	assert_false(unwind_return(&r, &mem, STACK + 16));
}

/* The kernel saved all registers; the interrupted function's pc is no return address, and
 * its stack may be elsewhere. */
static void test_step_signal(void **state)
{
	static const uint64_t stack[] = { 0x6000, 0x4000, 0xaaa, 0xbbb };
	struct unwind_regs r = at_code();
	uint64_t cfa;

	/* cfa = word at rsp; rip, rax, rbx at rsp + 8, 16, 24 */
	assert_int_equal(UNWIND_GOES_ON,
			 STEP("\x0f\x03\x77\x00\x06\x10\x10\x02\x77\x08\x10\x00\x02\x77\x10"
			      "\x10\x03\x02\x77\x18",
			      "zS", false));
	assert_int_equal(0x6000, cfa);
	assert_int_equal(0x6000, r.r[RSP]);
	assert_int_equal(0x4000, r.pc);
	assert_int_equal(0xaaa, r.r[RAX]);
	assert_int_equal(0xbbb, r.r[RBX]);
	assert_int_equal(0x101, r.r[RDX]);
	assert_false(r.returned);
	assert_int_equal(0x1ffff, r.have);
}

/* Rules that use each other's registers see those from before the step. */
static void test_step_other_register(void **state)
{
	static const uint64_t stack[] = { 1, 2, 0x4000 };
	struct unwind_regs r = at_code();
	uint64_t cfa;

	r.r[R12] = STACK + 24;
	/* cfa = r12; rbx is in rbp, rbp in rbx; r13 = cfa - 16; r14 is lost; r15 = breg7 8,
	 * where a word lies that is not meant */
	assert_int_equal(UNWIND_GOES_ON,
			 STEP("\x0c\x0c\x00\x09\x03\x06\x09\x06\x03\x14\x0d\x02"
			      "\x07\x0e\x16\x0f\x02\x77\x08",
			      "", true));
	assert_int_equal(STACK + 8, r.r[15]);
	assert_int_equal(0x106, r.r[RBX]);
	assert_int_equal(0x103, r.r[RBP]);
	assert_int_equal(STACK + 8, r.r[13]);
	assert_int_equal(0x4000, r.pc);
	assert_false(r.have >> 14 & 1);
}
#else
static void test_step(void **state)
{
	skip();
}
#define test_return test_step
#define test_step_signal test_step
#define test_step_other_register test_step
#endif

static void test_second_piece(void **state)
{
	static const uint64_t more[2] = { 0x33, 0x44 };
	struct unwind_memory mem = memory();
	bool second = false;
	uint64_t v;

	mem.piece[1] =
		(struct unwind_piece){ WORDS_AT + 24, { (const void *)more, sizeof(more) } };
	assert_true(unwind_word(&mem, WORDS_AT + 24, &v, &second));
	assert_int_equal(words[3], v); /* the first counts */
	assert_false(second);
	assert_true(unwind_word(&mem, WORDS_AT + 32, &v, &second));
	assert_int_equal(0x44, v);
	assert_true(second);
	assert_false(unwind_word(&mem, WORDS_AT + 33, &v, &second));
	assert_false(unwind_word(&mem, WORDS_AT - 1, &v, &second));
	assert_false(unwind_word(&mem, WORDS_AT - 8, &v, &second));
	mem.piece[2] =
		(struct unwind_piece){ WORDS_AT - 16, { (const void *)more, sizeof(more) } };
	assert_true(unwind_word(&mem, WORDS_AT - 8, &v, &second)); /* the red zone */
	assert_int_equal(0x44, v);
	mem.piece[2].bytes.n = 0;
	assert_false(unwind_word(&mem, UINT64_MAX - 3, &v, &second));
	mem.piece[1].at = 0;
	mem.piece[1].bytes.n = 4;
	assert_false(unwind_word(&mem, 0, &v, &second));
}

