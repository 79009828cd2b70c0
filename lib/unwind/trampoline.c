/* SPDX-License-Identifier: MIT
 *
 * trampoline - rows for what python -X perf copies into anonymous memory (arch.h).
 */
#include <errno.h>

#include "unwind/step.h"

static const struct arch_trampoline *trampoline_at(const struct arch *arch, struct bytes code,
						   size_t at)
{
	for (size_t i = 0; i < arch->n_trampolines; i++) {
		const struct arch_trampoline *t = &arch->trampolines[i];

		if (code.n - at >= t->n && memcmp(code.at + at, t->code, t->n) == 0)
			return t;
	}
	return NULL;
}

static void save(struct unwind_state *s, unsigned reg, int64_t off)
{
	s->set |= (uint64_t)1 << reg;
	s->slot[reg] = (struct unwind_state_slot){ .how = HOW_AT, .off = off };
}

/* @t at @at, behind @before bytes that belong to it. */
static void add_rows(struct unwind_maker *m, const struct arch_trampoline *t, size_t at,
		     size_t before)
{
	for (unsigned i = 0; i < t->n_steps; i++) {
		struct unwind_state s = { .cfa_reg = m->arch->dwarf_sp,
					  .cfa_off = t->step[i].cfa };

		if (t->step[i].saved != ARCH_SAVED_NONE)
			save(&s, m->arch->dwarf_ra, -8);
		if (t->step[i].saved == ARCH_SAVED_BOTH)
			save(&s, m->arch->dwarf_fp, -16);
		unwind_maker_row(m, at + t->step[i].at - (i == 0 ? before : 0), &s);
	}
	unwind_maker_gap(m, at + t->n);
}

int unwind_trampolines(struct unwind_table **ret, const struct arch *arch, struct bytes code)
{
	const struct arch_trampoline *t;
	struct unwind_maker m;
	size_t found = 0;
	int r = unwind_maker_init(&m, arch, 0);

	for (size_t at = 0; r == 0 && at < code.n;) {
		t = trampoline_at(arch, code, at);
		if (t)
			add_rows(&m, t, at,
				 at >= 4 && load_u32(code.at + at - 4) == arch->landing ? 4 :
											  0);
		found += t != NULL;
		at += t ? t->n : arch->code_align;
	}
	if (r == 0 && found > 0)
		return unwind_maker_done(&m, ret);
	unwind_maker_abort(&m);
	return r ? r : -ENOENT;
}
