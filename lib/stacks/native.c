/* SPDX-License-Identifier: MIT */
#include "stacks/native.h"

#include "arch/arch.h"
#include "base/base.h"
#include "base/clock.h"
#include "modules/codefile.h"
#include "remote/fetch.h"
#include "stacks/jitted.h"
#include "unwind/expr.h"
#include "unwind/step.h"

enum {
	MAX_FRAMES = 4096,
	MAX_RUNS = 16,
	MAX_LOOKS = 2048, /* at words of one stack that are addresses of code, or of frames */
	MAX_SAVED = 6, /* registers that a callee saves behind its return address */
	MAX_LOOP_BYTES = 1 << 16, /* of a frame of the evaluation loop */
	CALL_BYTES = 8,
	CODE_MS = 20,
	CODE_HANGS_NS = 100000000, /* then others' code is read */
	MOST_LEFT = 64,		   /* reads that hang; then no code is read any more */
	MAX_ITEMS = MAX_FRAMES + PYWALK_MAX_FRAMES + MAX_RUNS + 2,
};

struct native {
	struct unwinder *unwinder;
	const struct unwind_other *other; /* to be used instead, or NULL */
	void *others;			  /* what @other made */
	struct spaces *spaces;
	struct symbolizer *symbols;
	struct fetch *code; /* being read, or NULL */
	uint64_t code_ns;   /* since when */
	struct fetch *left[MOST_LEFT]; /* reads that hang, n_left of them */
	size_t n_left;
	struct codefile files;
	/* scratch memory: of the last stack that was unwound */
	struct unwind_frame frame[MAX_FRAMES];
	struct symbol symbol[MAX_FRAMES];
	enum merge_hint hint[MAX_FRAMES];
	enum jitted_code lies[MAX_FRAMES];
	struct merge_run run[MAX_RUNS];
	struct merge_item item[MAX_ITEMS];
};

/* A stack that is being unwound. */
struct unwinding {
	struct native *n;
	const struct native_input *in;
	uint32_t n_frames, n_runs; /* in the scratch memory of @n */
	uint32_t n_looks;	   /* up to MAX_LOOKS */
	bool search_ended;	   /* there were more of these than are looked at */
	bool code_hangs;
};

struct native *native_create(struct symbolizer *symbols, const struct unwind_other *other)
{
	struct native *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->spaces = symbolizer_spaces(symbols);
	n->symbols = symbols;
	n->unwinder = unwinder_create(n->spaces);
	n->other = other;
	if (other)
		n->others = other->create(&n->files);
	if (!n->unwinder || (other && !n->others)) {
		native_destroy(n);
		return NULL;
	}
	return n;
}

void native_destroy(struct native *n)
{
	if (!n)
		return;
	fetch_release(n->code);
	for (size_t i = 0; i < MOST_LEFT; i++)
		fetch_release(n->left[i]);
	codefile_deinit(&n->files);
	unwinder_destroy(n->unwinder);
	if (n->other)
		n->other->destroy(n->others);
	free(n);
}

/* --- unwinding --- */

/* Code that some stack ended in, and that had to be read. */
static void take_code(struct native *n)
{
	struct bytes code;
	pid_t pid;
	raddr lo;

	if (!n->code || !fetch_done(n->code, &pid, &lo, &code))
		return;
	unwinder_code(n->unwinder, pid, lo, code);
	fetch_release(n->code);
	n->code = NULL;
}

/* A read that hangs keeps nobody else's waiting. */
static void leave_behind(struct native *n)
{
	bool hangs = n->code && now_ns() - n->code_ns > CODE_HANGS_NS;

	for (size_t i = 0; (n->n_left || hangs) && i < MOST_LEFT; i++) {
		struct fetch **left = &n->left[i];

		if (*left && fetch_wait(*left, 0)) {
			fetch_release(*left);
			*left = NULL;
			n->n_left--;
		}
		if (hangs && !*left) {
			fetch_leave(n->code);
			*left = n->code;
			n->n_left++;
			n->code = NULL;
			hangs = false;
		}
	}
}

/* True: a read of @pid's code hangs, or too many reads do. */
static bool code_hangs(const struct native *n, pid_t pid)
{
	for (size_t i = 0; n->n_left && i < MOST_LEFT; i++)
		if (n->left[i] && fetch_pid(n->left[i]) == pid)
			return true;
	return n->n_left == MOST_LEFT && n->code;
}

/* Read the code that @s ended in. False: it takes too long to wait for; later stacks will
 * have it. */
static bool get_code(struct unwinding *u, const struct unwind_stack *s)
{
	struct native *n = u->n;

	if (!s->want_hi)
		return false;
	u->code_hangs = u->code_hangs || code_hangs(n, u->in->pid);
	if (u->code_hangs || n->code)
		return false;
	n->code = fetch_start(u->in->pid, u->in->time, s->want_lo, s->want_hi);
	n->code_ns = now_ns();
	if (!n->code || !fetch_wait(n->code, CODE_MS))
		return false;
	take_code(n);
	return true;
}

static int read_code(void *arg, uint64_t at, void *buf, size_t n)
{
	const struct unwinding *u = arg;

	return codefile_read(&u->n->files, spaces_find(u->n->spaces, u->in->pid), at, buf, n);
}

static void unwind(struct unwinding *u, const struct unwind_regs *regs, struct unwind_stack *s)
{
	const struct space *sp = u->n->other ? spaces_find(u->n->spaces, u->in->pid) : NULL;

	if (sp)
		u->n->other->stack(u->n->others, sp, regs, &u->in->mem, s);
	else
		unwinder_stack(u->n->unwinder, u->in->pid, regs, &u->in->mem, read_code, u, s);
}

/* One run of frames from @regs on. */
static void unwind_run(struct unwinding *u, const struct unwind_regs *regs)
{
	struct unwind_stack s = { .frame = u->n->frame + u->n_frames,
				  .cap = MAX_FRAMES - u->n_frames };

	do
		unwind(u, regs, &s);
	while (get_code(u, &s));
	u->search_ended |= s.search_ended;
	u->n_frames += (uint32_t)s.n;
	u->n->run[u->n_runs++] = (struct merge_run){ .to = u->n_frames, .end = s.end };
}

void native_regs(struct unwind_regs *ret, uint64_t pc, uint64_t sp)
{
	*ret = (struct unwind_regs){ .pc = pc, .have = (uint64_t)1 << arch_host->dwarf_sp };
	ret->r[arch_host->dwarf_sp] = sp;
}

/* The frame of @regs is @two[0], its caller's @two[1], whose end is *@end. True: the first
 * owns @at. */
static bool owns(struct unwinding *u, const struct unwind_regs *regs, uint64_t at,
		 struct unwind_frame two[2], enum unwind_end *end)
{
	struct unwind_stack s = { .frame = two, .cap = 2 };

	unwinder_stack(u->n->unwinder, u->in->pid, regs, &u->in->mem, NULL, NULL, &s);
	*end = s.end;
	return s.n > 1 && two[0].sp <= at && at < two[0].cfa;
}

/* True: if @fp is its frame pointer, the function of @regs owns @at, and was called by what has
 * rules. */
static bool owns_by(struct unwinding *u, struct unwind_regs regs, uint64_t fp, uint64_t at)
{
	unsigned char before[CALL_BYTES];
	struct unwind_frame two[2];
	enum unwind_end end;

	u->n_looks++;
	regs.r[arch_host->dwarf_fp] = fp;
	regs.have |= (uint64_t)1 << arch_host->dwarf_fp;
	if (!owns(u, &regs, at, two, &end) || end == UNWIND_NO_CFI || end == UNWIND_NO_MAP)
		return false;
	return read_code(u, two[1].pc - CALL_BYTES, before, CALL_BYTES) < 0 ||
	       unwind_is_call(arch_host, before, CALL_BYTES);
}

/* The frame pointer of the loop, which the word at @at returns to: its callee saves it next to
 * that word, among few other registers. Two values that may be it tell nothing. */
static bool take_fp(struct unwinding *u, uint64_t at, uint64_t anchor,
		    struct unwind_regs *regs)
{
	uint64_t found = 0, fp;

	for (unsigned i = 1; i <= MAX_SAVED; i++) {
		if (!unwind_word(&u->in->mem, at - 8 * i, &fp, NULL) || fp == found ||
		    fp <= anchor || fp - anchor > MAX_LOOP_BYTES || fp % 16 != 0 ||
		    !owns_by(u, *regs, fp, anchor))
			continue;
		if (found)
			return false;
		found = fp;
	}
	regs->r[arch_host->dwarf_fp] = found;
	regs->have |= (uint64_t)1 << arch_host->dwarf_fp;
	return found;
}

/* True: @regs, which the word at @at returns to, are of a frame that owns @anchor. On aarch64
 * its frame pointer is known already. */
static bool is_around(struct unwinding *u, uint64_t at, uint64_t anchor,
		      struct unwind_regs *regs)
{
	struct unwind_frame two[2];
	enum unwind_end end;

	return owns(u, regs, anchor, two, &end) ||
	       (end == UNWIND_NO_REG && !arch_host->frame_record &&
		take_fp(u, at, anchor, regs));
}

static const struct unwind_piece *piece_with(const struct unwinding *u, uint64_t at)
{
	for (unsigned i = 0; i < UNWIND_PIECES; i++) {
		const struct unwind_piece *p = &u->in->mem.piece[i];

		if (at - p->at < p->bytes.n)
			return p;
	}
	return NULL;
}

/* Unwinding broke. The evaluation loop around the next anchor was left by a call whose return
 * address lies below the anchor: the first word that returns into the loop, and whose frame
 * holds the anchor, is it. */
static bool find_again(struct unwinding *u, uint64_t from, uint64_t anchor,
		       struct unwind_regs *regs)
{
	const struct space *sp = spaces_find(u->n->spaces, u->in->pid);
	const struct unwind_piece *p = sp ? piece_with(u, anchor) : NULL;
	uint64_t at = p ? MAX((from + 7) & ~(uint64_t)7, p->at) : anchor;

	for (; at < anchor && at - p->at + 8 <= p->bytes.n; at += 8) {
		uint64_t call;

		regs->have = 0;
		if (!unwind_return(regs, &u->in->mem, at))
			continue;
		call = regs->pc - 1;
		if (!space_at(sp, call))
			continue;
		if (u->n_looks >= MAX_LOOKS) {
			u->search_ended = true;
			return false;
		}
		u->n_looks++;
		if (symbolize_is_eval(u->n->symbols, u->in->pid, call) &&
		    is_around(u, at, anchor, regs))
			return true;
	}
	return false;
}

/* The next anchor above what has been unwound. */
static uint64_t anchor_above(const struct unwinding *u, uint64_t sp)
{
	const struct pystack_anchor *a = u->in->anchor;

	for (uint32_t i = 0; i < u->in->n_anchors; i++)
		if (a[i].at > sp)
			return a[i].at;
	return 0;
}

static void unwind_all(struct unwinding *u, const struct unwind_regs *first)
{
	struct unwind_regs regs = *first;
	uint64_t from, anchor;

	for (;;) {
		unwind_run(u, &regs);
		if (!u->n_frames || u->n_runs == MAX_RUNS || u->n_frames == MAX_FRAMES ||
		    u->n->run[u->n_runs - 1].end == UNWIND_BOTTOM)
			return;
		from = u->n->frame[u->n_frames - 1].sp;
		anchor = anchor_above(u, from);
		if (!anchor || !find_again(u, from, anchor, &regs))
			return;
	}
}

/* --- a JIT's code --- */

/* @loop: the evaluation loop's map. */
static enum jitted_code code_of(const struct unwinding *u, const struct space *sp, uint32_t i,
				const struct space_map *loop)
{
	const struct unwind_frame *f = &u->n->frame[i];
	const struct space_map *m = space_at(sp, f->pc - f->returned);
	const char *base;

	if (m && loop && m->elf == loop->elf)
		return JITTED_INTERPRETER;
	if (space_is_memory(m))
		return u->n->symbol[i].kind == SYMBOL_TRAMPOLINE ? JITTED_LIBRARY :
								   JITTED_MEMORY;
	base = strrchr(elfcache_path(m->elf), '/');
	return !base || !strncmp(base, "/lib", 4) || !strncmp(base, "/ld-", 4) ?
		       JITTED_LIBRARY :
		       JITTED_FOREIGN;
}

/* Up to frame @owner, which is the evaluation loop's. */
static bool has_gap(const struct unwinding *u, uint32_t owner)
{
	bool gap = u->n->run[0].to <= owner;

	for (uint32_t i = 0; i <= owner; i++)
		gap |= u->n->frame[i].guessed;
	return gap;
}

static bool hides_line(struct unwinding *u)
{
	const struct native_input *in = u->in;
	const struct space *sp = spaces_find(u->n->spaces, in->pid);
	const struct unwind_frame *frame = u->n->frame;
	const struct space_map *loop;
	uint32_t owner;

	if (!in->may_be_jitted || !in->n_python || !sp || !sp->n_memory)
		return false;
	if (!in->n_anchors)
		return true;
	owner = merge_owner(frame, 0, u->n_frames, in->anchor[0].at);
	if (owner == u->n_frames)
		return true;
	loop = space_at(sp, frame[owner].pc - frame[owner].returned);
	/* A guess that led from the JIT's code past the loop makes its frame span the loop's. */
	if (space_is_memory(loop))
		return true;
	for (uint32_t i = 0; i < owner; i++)
		u->n->lies[i] = code_of(u, sp, i, loop);
	return jitted_hides_line(u->n->lies, owner, has_gap(u, owner));
}

/* --- together --- */

static enum merge_hint hint_of(enum symbol_kind kind)
{
	return kind == SYMBOL_EVAL	? MERGE_IS_EVAL :
	       kind == SYMBOL_COROUTINE ? MERGE_IS_COROUTINE :
					  MERGE_PLAIN;
}

/* May it be the evaluation loop, or a JIT's code that stands for it? Not what a file names;
 * nor, of a stripped interpreter, what is not the loop, which it exports. */
static bool may_run_python(const struct symbol *s)
{
	if (s->kind == SYMBOL_CALL)
		return false;
	return s->kind == SYMBOL_EVAL || s->kind == SYMBOL_TRAMPOLINE ||
	       s->kind == SYMBOL_COROUTINE || !s->file || strstr(s->name, "+0x");
}

/* How many frames there are down to the thread's first; 0: not known. Who calls _dl_start() is
 * the first of a program whose libraries are being loaded, and has no CFI. */
static uint32_t frames_to_first(const struct unwinding *u)
{
	uint32_t n = u->n_frames;

	if (u->n_runs != 1)
		return 0;
	if (u->n->run[0].end == UNWIND_BOTTOM)
		return n;
	return n > 1 && !strcmp(u->n->symbol[n - 2].name, "_dl_start") ? n - 1 : 0;
}

/* Who runs Python stands in the evaluation loop. True: all frames tell that it does not. */
static bool is_bare(const struct unwinding *u)
{
	uint32_t n = frames_to_first(u);

	for (uint32_t i = 0; i < n; i++)
		if (u->n->frame[i].guessed || may_run_python(&u->n->symbol[i]))
			return false;
	return n > 0;
}

struct native_stack native_stack(struct native *n, const struct native_input *in)
{
	struct unwinding u = { .n = n, .in = in };
	struct merge_input m = {
		.frame = n->frame,
		.hint = n->hint,
		.run = n->run,
		.anchor = in->anchor,
		.n_anchors = in->n_anchors,
		.n_python = in->n_python,
		.none = in->none,
		.truncated = in->truncated,
	};
	struct native_stack ret = { .item = n->item, .frame = n->frame, .symbol = n->symbol };

	take_code(n);
	leave_behind(n);
	if (in->regs)
		unwind_all(&u, in->regs);
	for (uint32_t i = 0; i < u.n_frames; i++) {
		n->symbol[i] =
			symbolize(n->symbols, in->pid, n->frame[i].pc - n->frame[i].returned);
		n->hint[i] = hint_of(n->symbol[i].kind);
	}
	ret.hides_line = hides_line(&u);
	ret.bare = is_bare(&u);
	m.n_runs = u.n_runs;
	ret.n = merge(&m, n->item);
	for (size_t i = 0; i < ret.n; i++)
		ret.eval |= n->item[i].kind <= MERGE_EVAL &&
			    n->hint[n->item[i].i] == MERGE_IS_EVAL;
	ret.search_ended = u.search_ended;
	ret.code_hangs = u.code_hangs;
	return ret;
}
