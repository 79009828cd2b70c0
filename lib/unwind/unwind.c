/* SPDX-License-Identifier: MIT */
#include "unwind/unwind.h"

#include <errno.h>

#include "base/hash.h"
#include "elf/module.h"
#include "elf/rows.h"
#include "modules/space.h"
#include "unwind/expr.h"
#include "unwind/step.h"

enum {
	N_CACHED = 8192,      /* addresses with their rules; a power of two */
	MAX_GUESS_FRAMES = 2, /* only so near the leaf is a caller guessed */
	MAX_GUESS_WORDS = 256,
	MAX_GUESS_WORK = 16384, /* frames that guesses lead to, right or wrong */
	MAX_SAVED_WORDS = 32,	/* what a function saves before it aligns its stack */
	MAX_FRAME_BYTES = 1 << 20,
	CALL_BYTES = 8,
};

/* What holds at an offset in a file, for all processes. */
struct cached {
	const struct elfcache_elf *elf;
	uint64_t offset;
	const struct unwind_table *table;
	const struct unwind_rule *rule;
};

struct unwinder {
	struct spaces *spaces;
	uint64_t n_dropped; /* when the cached were valid */
	struct cached cached[N_CACHED];
};

const char *unwind_end_name(enum unwind_end end)
{
	static const char *const names[UNWIND_N_ENDS] = {
		[UNWIND_BOTTOM] = "[bottom]", [UNWIND_NO_CFI] = "[no CFI]",
		[UNWIND_NO_MAP] = "[no map]", [UNWIND_NO_REG] = "[no register]",
		[UNWIND_CUT] = "[cut]",	      [UNWIND_LIMIT] = "[limit]",
		[UNWIND_BAD] = "[bad stack]", [UNWIND_COROUTINE] = "[coroutine root]",
	};

	return names[end];
}

void unwind_regs_perf(struct unwind_regs *ret, const unsigned char *regs)
{
	*ret = (struct unwind_regs){ 0 };
	for (unsigned i = 0; i < arch_host->n_regs; i++) {
		uint64_t v = load_u64(regs + 8 * i);
		unsigned reg = arch_host->dwarf_regs[i];

		if (reg == ARCH_NO_REG) {
			ret->pc = v;
		} else {
			ret->r[reg] = v;
			ret->have |= (uint64_t)1 << reg;
		}
	}
}

struct unwinder *unwinder_create(struct spaces *spaces)
{
	struct unwinder *u = calloc(1, sizeof(*u));

	if (u)
		u->spaces = spaces;
	return u;
}

void unwinder_destroy(struct unwinder *u)
{
	free(u);
}

/* Rules that are cached may be of modules that were dropped: after all that may drop some. */
static void forget_dropped(struct unwinder *u)
{
	uint64_t dropped = elfcache_facts(u->spaces->elfs)->dropped;

	if (u->n_dropped != dropped)
		memset(u->cached, 0, sizeof(u->cached));
	u->n_dropped = dropped;
}

/* ---- The rule of an address ---- */

/* The rows of @m around @pc, with its @vaddr, or NULL. */
static const struct unwind_table *table_at(struct unwinder *u, const struct space *sp,
					   const struct space_map *m, uint64_t pc,
					   uint64_t *vaddr)
{
	const struct module *module = m ? space_module(sp, m) : NULL;

	forget_dropped(u);
	return module && module->rows && module_vaddr(module, pc - m->lo + m->pgoff, vaddr) ?
		       rows_at(module->rows, *vaddr) :
		       NULL;
}

/* The map of @pc: mostly the one that was asked for last, *@recent. */
static const struct space_map *map_at(const struct space *sp, uint64_t pc,
				      const struct space_map **recent)
{
	const struct space_map *m = *recent;

	if (m && pc - m->lo < m->hi - m->lo)
		return m;
	return *recent = space_at(sp, pc);
}

/* Which rule holds at @pc; NULL: none, *@end tells why. The answer stays until the next
 * call. @recent: for map_at(); maps stay where they are during a walk. */
static const struct cached *find_rule(struct unwinder *u, const struct space *sp, uint64_t pc,
				      const struct space_map **recent, enum unwind_end *end)
{
	const struct space_map *m = map_at(sp, pc, recent);
	uint64_t offset = m ? pc - m->lo + m->pgoff : 0, vaddr;
	const struct elfcache_elf *elf = m ? m->elf : NULL;
	struct cached *c = &u->cached[((offset ^ (uintptr_t)elf) * 0x9e3779b97f4a7c15u) >> 51];
	const struct unwind_table *t;
	const struct unwind_row *row;

	if (c->rule && c->elf == elf && c->offset == offset)
		return c;
	t = table_at(u, sp, m, pc, &vaddr);
	row = t ? unwind_table_row(t, vaddr) : NULL;
	*end = m ? UNWIND_NO_CFI : UNWIND_NO_MAP;
	if (!row)
		return NULL;
	*c = (struct cached){ elf, offset, t, unwind_row_rule(t, row) };
	return c;
}

/* ---- Anonymous code ---- */

/* The second as /proc tells it of memory that the process gave a name. */
static bool map_is_anonymous(const struct space_map *m)
{
	const char *path = m->elf ? elfcache_path(m->elf) : "";

	return strncmp(path, "//anon", 6) == 0 || strncmp(path, "[anon:", 6) == 0;
}

/* The trampolines in @code; NULL: there are none, or no memory. */
static struct module *trampolines_in(struct bytes code)
{
	struct module *m = calloc(1, sizeof(*m));
	struct unwind_table *t = NULL;

	if (m && unwind_trampolines(&t, arch_host, code) == 0)
		m->rows = rows_of_table(t);
	if (!m || !m->rows) {
		unwind_table_free(t);
		free(m);
		return NULL;
	}
	m->memory = true;
	m->load[m->n_loads++].size = code.n;
	return m;
}

int unwinder_code(struct unwinder *u, pid_t pid, uint64_t at, struct bytes code)
{
	struct elfcache_id id = { .dev = UINT64_MAX, .path = "//anon" };
	struct space *sp = spaces_find(u->spaces, pid);
	struct space_map *m = sp ? space_at(sp, at) : NULL;
	struct module *found;
	int r;

	if (!m || m->lo != at || !map_is_anonymous(m))
		return -ESRCH;
	found = trampolines_in(code);
	r = found ? 0 : -ENOENT;
	/* Code in which nothing is known is all the same one: JITs make it without end. */
	if (found)
		id.ino = hash_bytes(hash_seed.begin, code.at, code.n);
	m->elf = space_elf(sp, &id);
	m->pgoff = 0;
	sp->gen = ++u->spaces->last_gen;
	if (m->elf && elfcache_wants_file(m->elf))
		elfcache_give_module(u->spaces->elfs, m->elf, found);
	else
		module_free(found);
	return m->elf ? r : -ENOMEM;
}

/* ---- Stacks ---- */

/* One thread's stack on its way to the root. */
struct walk {
	struct unwinder *u;
	const struct space *sp;
	const struct space_map *recent;
	const struct unwind_memory *mem;
	bool all, second;
	struct unwind_regs regs; /* of the frame that comes next */
	struct unwind_stack *ret;
	size_t work; /* of guesses */
	bool search_ended;
};

static void note_wanted(const struct space *sp, uint64_t pc, struct unwind_stack *ret)
{
	const struct space_map *m = space_at(sp, pc);

	if (m && map_is_anonymous(m) && elfcache_wants_file(m->elf))
		ret->want_lo = m->lo, ret->want_hi = m->hi;
}

/* Frames from where @w is; there is room for one. */
static void walk_on(struct walk *w)
{
	struct unwind_stack *ret = w->ret;

	do {
		struct unwind_frame *f = &ret->frame[ret->n++];
		uint64_t pc = w->regs.pc - w->regs.returned;
		const struct cached *c;

		*f = (struct unwind_frame){ .pc = w->regs.pc,
					    .sp = w->regs.r[arch_host->dwarf_sp],
					    .returned = w->regs.returned,
					    .from_second = w->second };
		c = find_rule(w->u, w->sp, pc, &w->recent, &ret->end);
		if (c)
			ret->end = unwind_step(c->table, c->rule, &w->regs, w->mem, w->all,
					       &f->cfa, &w->second);
		if (ret->end == UNWIND_NO_CFI)
			note_wanted(w->sp, pc, ret);
		if (ret->end == UNWIND_GOES_ON && ret->n == ret->cap)
			ret->end = UNWIND_LIMIT;
	} while (ret->end == UNWIND_GOES_ON);
}

/* True: @pc is what a call in a function with unwind information returns to. */
static bool is_return(struct walk *w, uint64_t pc, unwind_code_fn *code, void *arg)
{
	unsigned char before[CALL_BYTES];
	const struct cached *c;
	enum unwind_end end;

	if (pc < CALL_BYTES)
		return false;
	c = find_rule(w->u, w->sp, pc - 1, &w->recent, &end);
	return c && !(c->rule->flags & RULE_NONE) &&
	       code(arg, pc - CALL_BYTES, before, CALL_BYTES) == 0 &&
	       unwind_is_call(arch_host, before, CALL_BYTES);
}

/* Did rules lead from a guessed frame to a thread's start, or as far as bytes are known?
 * The guess may have been wrong, and so may be the registers that lead on from it. */
static bool is_likely(const struct unwind_stack *s)
{
	const struct unwind_frame *last = &s->frame[s->n - 1];

	if (s->end == UNWIND_CUT)
		return last->cfa && last->cfa - last->sp < MAX_FRAME_BYTES;
	/* A return address of 0 is a start too, but nothing that can be relied on here. */
	return s->end == UNWIND_LIMIT || (s->end == UNWIND_BOTTOM && !last->cfa);
}

/* Is what w->regs say the caller of the last frame, which has no rule: what a call may
 * return to, and from where rules lead on to the end? */
static bool is_caller(struct walk *w, unwind_code_fn *code, void *arg)
{
	const struct unwind_stack stack = *w->ret;
	uint64_t sp = w->regs.r[arch_host->dwarf_sp];

	if (!is_return(w, w->regs.pc, code, arg))
		return false;
	walk_on(w);
	if (is_likely(w->ret)) {
		stack.frame[stack.n - 1].cfa = sp;
		return true;
	}
	w->work += w->ret->n - stack.n;
	*w->ret = stack;
	return false;
}

/* The first of @words words from @at on that leads to the caller. */
static bool guess_from(struct walk *w, uint64_t at, unsigned words, unwind_code_fn *code,
		       void *arg)
{
	const struct walk before = *w;
	uint64_t word;

	for (unsigned i = 0; i < words && unwind_word(w->mem, at, &word, &w->second);
	     i++, at += 8) {
		if (unwind_return(&w->regs, w->mem, at) && is_caller(w, code, arg))
			return true;
		w->regs = before.regs;
		if (w->work > MAX_GUESS_WORK) {
			w->search_ended = true;
			break;
		}
	}
	w->second = before.second;
	return false;
}

/* Where return addresses begin their way in a register: a leaf's is still there; what has made
 * a frame has it behind its frame pointer. */
static bool guess_by_register(struct walk *w, unwind_code_fn *code, void *arg)
{
	const struct arch *arch = arch_host;
	const struct unwind_regs before = w->regs;
	uint64_t need = (uint64_t)1 << arch->dwarf_ra;

	if (!arch->frame_record)
		return false;
	if (!before.returned && (before.have & need)) {
		w->regs.pc = before.r[arch->dwarf_ra] & arch->pc_bits;
		w->regs.have &= arch->dwarf_saved;
		w->regs.returned = true;
		if (is_caller(w, code, arg))
			return true;
		w->regs = before;
	}
	return before.have >> arch->dwarf_fp & 1 &&
	       guess_from(w, before.r[arch->dwarf_fp] + 8, 1, code, arg);
}

/* The lowest address above @at that a register holds which a callee must save. */
static uint64_t saved_above(const struct unwind_regs *regs, uint64_t at)
{
	uint64_t left = arch_host->dwarf_saved & regs->have, lowest = UINT64_MAX;

	for (; left; left &= left - 1) {
		uint64_t v = regs->r[__builtin_ctzll(left)];

		if (v > at)
			lowest = MIN(lowest, v);
	}
	return lowest;
}

/* The stack ended at @w's frame, near the leaf, for want of a rule. Assembly that aligns
 * its stack keeps the old stack pointer in a register. */
static void guess(struct walk *w, unwind_code_fn *code, void *arg)
{
	uint64_t at = w->regs.r[arch_host->dwarf_sp];
	size_t n = w->ret->n;
	bool found = guess_by_register(w, code, arg) ||
		     guess_from(w, at, MAX_GUESS_WORDS, code, arg);

	while (!found && w->work <= MAX_GUESS_WORK &&
	       (at = saved_above(&w->regs, at)) != UINT64_MAX)
		found = guess_from(w, at, MAX_SAVED_WORDS, code, arg);
	for (; n < w->ret->n; n++)
		w->ret->frame[n].guessed = true;
}

static void walk(struct walk *w, const struct unwind_regs *regs, bool all)
{
	w->regs = *regs;
	w->all = all;
	w->second = false;
	w->ret->n = 0;
	w->ret->want_lo = w->ret->want_hi = 0;
	walk_on(w);
}

/* No rule, or one for a leaf's return address, which is in a register that is not known. */
static bool lacks_rule(const struct unwind_stack *s)
{
	return s->end == UNWIND_NO_CFI || s->end == UNWIND_NO_MAP ||
	       (s->end == UNWIND_NO_REG && s->n == 1 && arch_host->frame_record);
}

void unwinder_stack(struct unwinder *u, pid_t pid, const struct unwind_regs *regs,
		    const struct unwind_memory *mem, unwind_code_fn *code, void *arg,
		    struct unwind_stack *ret)
{
	static const struct space nothing;
	const struct space *sp = spaces_find(u->spaces, pid);
	struct walk w = { .u = u, .sp = sp ? sp : &nothing, .mem = mem, .ret = ret };
	bool to_guess;

	forget_dropped(u);
	walk(&w, regs, false);
	to_guess = code && lacks_rule(ret) && !ret->want_hi && ret->n <= MAX_GUESS_FRAMES &&
		   ret->n < ret->cap;
	/* Seldom are more registers needed on the way than nearly always. */
	if (to_guess || ret->end == UNWIND_NO_REG)
		walk(&w, regs, true);
	if (to_guess)
		guess(&w, code, arg);
	ret->search_ended = w.search_ended;
}
