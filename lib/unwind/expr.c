/* SPDX-License-Identifier: MIT */
#include "unwind/expr.h"

#include "arch/arch.h"
#include "base/cursor.h"

enum { MAX_STACK = 32, MAX_STEPS = 1000 };

enum {
	OP_ADDR = 0x03,
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S,
	OP_CONST2U,
	OP_CONST2S,
	OP_CONST4U,
	OP_CONST4S,
	OP_CONST8U,
	OP_CONST8S,
	OP_CONSTU,
	OP_CONSTS,
	OP_DUP,
	OP_DROP,
	OP_OVER,
	OP_PICK,
	OP_SWAP,
	OP_ROT,
	OP_ABS = 0x19,
	OP_AND,
	OP_DIV,
	OP_MINUS,
	OP_MOD,
	OP_MUL,
	OP_NEG,
	OP_NOT,
	OP_OR,
	OP_PLUS,
	OP_PLUS_UCONST,
	OP_SHL,
	OP_SHR,
	OP_SHRA,
	OP_XOR,
	OP_BRA,
	OP_EQ,
	OP_GE,
	OP_GT,
	OP_LE,
	OP_LT,
	OP_NE,
	OP_SKIP,
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
	OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94,
	OP_NOP = 0x96,
};

struct eval {
	struct cursor c;
	const struct unwind_regs *regs;
	const struct unwind_memory *mem;
	bool *second;
	uint64_t stack[MAX_STACK];
	unsigned n;
	enum unwind_end end; /* why it can't go on */
};

static void fail(struct eval *e, enum unwind_end end)
{
	if (e->end == UNWIND_GOES_ON)
		e->end = end;
}

static void push(struct eval *e, uint64_t v)
{
	if (e->n == MAX_STACK)
		fail(e, UNWIND_BAD);
	else
		e->stack[e->n++] = v;
}

static uint64_t pop(struct eval *e)
{
	if (e->n > 0)
		return e->stack[--e->n];
	fail(e, UNWIND_BAD);
	return 0;
}

static uint64_t peek(struct eval *e, uint64_t depth)
{
	if (depth < e->n)
		return e->stack[e->n - 1 - depth];
	fail(e, UNWIND_BAD);
	return 0;
}

/* The sign of the lowest @n bytes extended. */
static uint64_t extend(uint64_t v, unsigned n)
{
	unsigned shift = 64 - 8 * n;

	return (uint64_t)((int64_t)(v << shift) >> shift);
}

static void push_const(struct eval *e, unsigned op)
{
	unsigned n = 1u << (op - OP_CONST1U) / 2;
	uint64_t v = 0;

	memcpy(&v, cursor_take(&e->c, n), n);
	push(e, (op - OP_CONST1U) & 1 ? extend(v, n) : v);
}

static void push_reg(struct eval *e, uint64_t reg, int64_t off)
{
	/* x86-64 numbers its instruction pointer, as the return address's column. Of what is not
	 * among the general registers none is known, as the length of aarch64's vectors. */
	if (reg == arch_host->dwarf_pc)
		push(e, e->regs->pc + (uint64_t)off);
	else if (reg < UNWIND_MAX_REGS && e->regs->have >> reg & 1)
		push(e, e->regs->r[reg] + (uint64_t)off);
	else
		fail(e, UNWIND_NO_REG);
}

static void deref(struct eval *e, unsigned n)
{
	uint64_t at = pop(e), v = 0;

	if (n == 0 || n > 8) {
		fail(e, UNWIND_BAD);
	} else if (e->end == UNWIND_GOES_ON && !unwind_word(e->mem, at, &v, e->second)) {
		fail(e, UNWIND_CUT);
	}
	push(e, n < 8 ? v & ~(~(uint64_t)0 << 8 * (n & 7)) : v);
}

static void jump(struct eval *e, bool taken)
{
	uint64_t by = extend(cursor_u16(&e->c), 2);

	if (!taken)
		return;
	if (e->c.at + by > e->c.b.n)
		fail(e, UNWIND_BAD);
	else
		e->c.at += by;
}

static void divide(struct eval *e, unsigned op, uint64_t a, uint64_t b)
{
	if (b == 0 || (op == OP_DIV && b == UINT64_MAX))
		b == 0 ? fail(e, UNWIND_BAD) : push(e, -a);
	else
		push(e, op == OP_MOD ? a % b : (uint64_t)((int64_t)a / (int64_t)b));
}

static uint64_t shift(unsigned op, uint64_t a, uint64_t by)
{
	if (op == OP_SHRA)
		return (uint64_t)((int64_t)a >> MIN(by, 63));
	if (by > 63)
		return 0;
	return op == OP_SHL ? a << by : a >> by;
}

static bool compare(unsigned op, int64_t a, int64_t b)
{
	switch (op) {
	case OP_EQ:
		return a == b;
	case OP_GE:
		return a >= b;
	case OP_GT:
		return a > b;
	case OP_LE:
		return a <= b;
	case OP_LT:
		return a < b;
	default:
		return a != b;
	}
}

/* Of two values one. */
static void binary(struct eval *e, unsigned op)
{
	uint64_t b = pop(e), a = pop(e);

	switch (op) {
	case OP_AND:
		return push(e, a & b);
	case OP_OR:
		return push(e, a | b);
	case OP_XOR:
		return push(e, a ^ b);
	case OP_PLUS:
		return push(e, a + b);
	case OP_MINUS:
		return push(e, a - b);
	case OP_MUL:
		return push(e, a * b);
	case OP_DIV:
	case OP_MOD:
		return divide(e, op, a, b);
	case OP_SHL:
	case OP_SHR:
	case OP_SHRA:
		return push(e, shift(op, a, b));
	case OP_EQ:
	case OP_GE:
	case OP_GT:
	case OP_LE:
	case OP_LT:
	case OP_NE:
		return push(e, compare(op, (int64_t)a, (int64_t)b));
	default:
		fail(e, UNWIND_BAD);
	}
}

/* Operations that only move what is on the stack, or are made of one value. */
static bool unary(struct eval *e, unsigned op)
{
	uint64_t a, b, c;

	switch (op) {
	case OP_DUP:
		push(e, peek(e, 0));
		return true;
	case OP_DROP:
		pop(e);
		return true;
	case OP_OVER:
		push(e, peek(e, 1));
		return true;
	case OP_PICK:
		push(e, peek(e, cursor_u8(&e->c)));
		return true;
	case OP_SWAP:
		a = pop(e), b = pop(e);
		push(e, a), push(e, b);
		return true;
	case OP_ROT:
		a = pop(e), b = pop(e), c = pop(e);
		push(e, a), push(e, c), push(e, b);
		return true;
	case OP_ABS:
		a = pop(e);
		push(e, a >> 63 ? -a : a);
		return true;
	case OP_NEG:
		push(e, -pop(e));
		return true;
	case OP_NOT:
		push(e, ~pop(e));
		return true;
	case OP_PLUS_UCONST:
		a = pop(e);
		push(e, a + cursor_uleb(&e->c));
		return true;
	default:
		return false;
	}
}

static void operate(struct eval *e, unsigned op)
{
	uint64_t reg;

	if (op >= OP_LIT0 && op < OP_LIT0 + 32)
		return push(e, op - OP_LIT0);
	if (op >= OP_BREG0 && op < OP_BREG0 + 32)
		return push_reg(e, op - OP_BREG0, cursor_sleb(&e->c));
	if (op >= OP_CONST1U && op <= OP_CONST8S)
		return push_const(e, op);
	switch (op) {
	case OP_ADDR:
		return push(e, cursor_u64(&e->c));
	case OP_CONSTU:
		return push(e, cursor_uleb(&e->c));
	case OP_CONSTS:
		return push(e, (uint64_t)cursor_sleb(&e->c));
	case OP_DEREF:
		return deref(e, 8);
	case OP_DEREF_SIZE:
		return deref(e, cursor_u8(&e->c));
	case OP_BREGX:
		reg = cursor_uleb(&e->c);
		return push_reg(e, reg, cursor_sleb(&e->c));
	case OP_SKIP:
		return jump(e, true);
	case OP_BRA:
		return jump(e, pop(e) != 0);
	case OP_NOP:
		return;
	}
	if (!unary(e, op))
		binary(e, op);
}

enum unwind_end unwind_expr(struct bytes code, const struct unwind_regs *regs,
			    const struct unwind_memory *mem, const uint64_t *first,
			    bool *second, uint64_t *ret)
{
	struct eval e = {
		.c.b = code, .regs = regs, .mem = mem, .second = second, .end = UNWIND_GOES_ON
	};

	if (first)
		push(&e, *first);
	for (unsigned steps = 0; e.c.at < code.n && e.end == UNWIND_GOES_ON; steps++) {
		operate(&e, cursor_u8(&e.c));
		if (e.c.bad || steps == MAX_STEPS)
			fail(&e, UNWIND_BAD);
	}
	*ret = pop(&e);
	return e.end;
}
