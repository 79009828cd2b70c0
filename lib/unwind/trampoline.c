/* SPDX-License-Identifier: MIT
 *
 * trampoline - code that python -X perf copies into anonymous memory, once a function:
 * cpython, Python/asm_trampoline.S. It has no unwind information.
 */
#include <elf.h>
#include <errno.h>

#include "unwind/step.h"

enum { RBP = 6, MAX_STEPS = 3 };

/* From the instruction at @at on the CFA is rsp + @cfa; @rbp: saved at cfa - 16. */
struct trampoline {
	uint8_t n, code[12];
	uint8_t n_steps;
	struct {
		uint8_t at, cfa;
		bool rbp;
	} step[MAX_STEPS];
};

static const struct trampoline x86_64[] = {
	/* 3.12, 3.13: sub $8,%rsp; call *%rcx; add $8,%rsp; ret */
	{ 11,
	  { 0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3 },
	  3,
	  { { 0, 8, false }, { 4, 16, false }, { 10, 8, false } } },
	/* 3.14 on, Debian's 3.13: push %rbp; mov %rsp,%rbp; call *%rcx; pop %rbp; ret */
	{ 8,
	  { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3 },
	  3,
	  { { 0, 8, false }, { 1, 16, true }, { 7, 8, false } } },
};

static const struct trampoline *trampoline_at(struct bytes code, size_t at)
{
	for (size_t i = 0; i < ARRAY_SIZE(x86_64); i++)
		if (code.n - at >= x86_64[i].n &&
		    memcmp(code.at + at, x86_64[i].code, x86_64[i].n) == 0)
			return &x86_64[i];
	return NULL;
}

/* @t at @at, behind @before bytes that belong to it. */
static void add_rows(struct unwind_maker *m, const struct trampoline *t, size_t at,
		     size_t before)
{
	for (unsigned i = 0; i < t->n_steps; i++) {
		unsigned sp = m->arch->dwarf_sp, ra = m->arch->dwarf_ra;
		struct unwind_state s = { .cfa_reg = (uint8_t)sp,
					  .cfa_off = t->step[i].cfa,
					  .set = (uint64_t)1 << ra };

		s.slot[ra] = (struct unwind_state_slot){ .how = HOW_AT, .off = -8 };
		if (t->step[i].rbp) {
			s.set |= 1 << RBP;
			s.slot[RBP] = (struct unwind_state_slot){ .how = HOW_AT, .off = -16 };
		}
		unwind_maker_row(m, at + t->step[i].at - (i == 0 ? before : 0), &s, i == 0);
	}
	unwind_maker_gap(m, at + t->n);
}

int unwind_trampolines(struct unwind_table **ret, const struct arch *arch, struct bytes code)
{
	struct unwind_table head = { .load[0] = { 0, 0, code.n }, .n_loads = 1 };
	static const unsigned char endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const struct trampoline *t;
	struct unwind_maker m;
	size_t found = 0;
	int r = unwind_maker_init(&m, arch, &head);

	for (size_t at = 0; r == 0 && arch->elf_machine == EM_X86_64 && at < code.n;) {
		t = trampoline_at(code, at);
		if (t)
			add_rows(&m, t, at,
				 at >= 4 && memcmp(code.at + at - 4, endbr64, 4) == 0 ? 4 : 0);
		found += t != NULL;
		at += t ? t->n : 1;
	}
	if (r == 0 && found > 0)
		return unwind_maker_done(&m, ret);
	unwind_maker_abort(&m);
	return r ? r : -ENOENT;
}
