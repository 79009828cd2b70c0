/* SPDX-License-Identifier: MIT */
#include "stacks/assemble.h"

#include "base/base.h"
#include "base/stats.h"
#include "modules/space.h"

enum {
	MAX_STACK = PYWALK_MAX_FRAMES + 8192,
	MAX_MODULES = 256 << 20, /* bytes */
	LITTLE = 16 << 20, /* with less room each stack would have its files read again */
};

/* Of assembler_config.memory, one part in so many. Modules are read again where there is no
 * room for all; the others fall by name, the native ones first. */
enum {
	FUNCTIONS_SHARE = 4,
	MAPS_SHARE = 8,
	MODULES_SHARE = 2,
	SYMBOLS_SHARE = 8,
	JIT_SHARE = 4
};

struct assembler {
	struct assembler_config c;
	struct profile *profile;
	struct spaces *spaces;
	struct symbolizer *symbols;
	struct native *native;
	struct frame frame[MAX_STACK]; /* scratch memory: of the last stack that was made */
};

/* A stack that is being made. */
struct building {
	struct assembler *a;
	struct assemble_input *in;
	size_t n;	   /* frames in the assembler's scratch memory */
	uint32_t n_python; /* Python frames among them */
	bool marked;	   /* the sample's provenance is among them */
	bool guessed;	   /* the last native frame was guessed */
	bool hides_line;   /* struct native_stack */
	bool collects;	   /* the last frame was a function that collects garbage */
};

static size_t modules_bytes(size_t memory)
{
	return memory ? memory / MODULES_SHARE : (size_t)MAX_MODULES;
}

struct assembler *assembler_create(const struct assembler_config *c)
{
	struct assembler *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->c = *c;
	a->profile = profile_create();
	a->spaces = spaces_create(modules_bytes(c->memory),
				  (c->native ? SPACES_ROWS : 0u) | (c->ids ? SPACES_IDS : 0u) |
					  (c->stays ? SPACES_LATER : 0u));
	a->symbols = a->spaces ? symbolizer_create(a->spaces) : NULL;
	a->native = a->symbols ? native_create(a->symbols, c->unwinder) : NULL;
	if (!a->profile || !a->native) {
		assembler_destroy(a);
		return NULL;
	}
	if (modules_bytes(c->memory) < LITTLE)
		elfcache_has_little(a->spaces->elfs);
	else
		elfcache_may_grow(a->spaces->elfs, c->file_memory);
	elfcache_may_hold(a->spaces->elfs, c->files_held);
	symbolizer_asks(a->symbols, c->kernel_names);
	elfcache_read_by(a->spaces->elfs, c->file_helper);
	if (c->files)
		spaces_elsewhere(a->spaces, c->files);
	spaces_limit(a->spaces, c->memory / MAPS_SHARE, c->stats);
	if (!c->memory)
		return a;
	profile_limit(a->profile, c->memory / FUNCTIONS_SHARE, c->stats);
	symbolizer_limit(a->symbols, c->memory / SYMBOLS_SHARE, c->memory / JIT_SHARE,
			 c->stats);
	return a;
}

void assembler_destroy(struct assembler *a)
{
	if (!a)
		return;
	native_destroy(a->native);
	profile_destroy(a->profile);
	symbolizer_destroy(a->symbols);
	spaces_destroy(a->spaces);
	free(a);
}

struct profile *assembler_profile(struct assembler *a)
{
	return a->profile;
}

void assembler_side(struct assembler *a, struct side *side)
{
	spaces_side(a->spaces, side);
}

void assembler_tidy(struct assembler *a, uint64_t now)
{
	spaces_tidy(a->spaces, now);
}

bool assembler_without_python(struct assembler *a, pid_t pid)
{
	return spaces_without_python(a->spaces, pid);
}

static void push(struct building *b, struct frame f)
{
	if (b->n < MAX_STACK)
		b->a->frame[b->n++] = f;
}

static void push_kernel(struct building *b)
{
	for (uint32_t i = 0; i < b->in->n_kernel; i++) {
		uint64_t ip = b->in->kernel[i];

		push(b, (struct frame){
				.kind = FRAME_KERNEL,
				.ip = ip,
				.name = b->a->c.names ? symbolize_kernel(b->a->symbols, ip) :
							NULL,
			});
	}
}

static void push_marker(struct building *b, const char *name)
{
	push(b, (struct frame){ .kind = FRAME_MARKER, .name = name });
}

/* The mark of a sample that is not exact, where its Python frames stand. */
static void push_provenance(struct building *b)
{
	enum provenance prov = b->in->prov;

	if (b->marked || (prov != PROV_LATE && prov != PROV_TORN))
		return;
	push_marker(b, prov == PROV_LATE ? "[late]" : "[torn]");
	b->marked = true;
}

static bool push_python(struct building *b, uint32_t i)
{
	const struct pystack_frame *f = &b->in->python[i];
	struct frame frame = { .kind = FRAME_PYTHON };

	frame.func = profile_lookup(b->a->profile, f->code_id, f->lasti, &frame.line);
	if (!frame.func)
		return false;
	if ((b->hides_line && !i) || f->flags & PYSTACK_COMPILED)
		frame.line = 0;
	if (frame.func->label)
		push_marker(b, frame.func->qualname);
	else
		push(b, frame);
	if (++b->n_python == b->in->native.n_python)
		push_provenance(b);
	return true;
}

/* Python frames stand for the evaluation loop and for trampolines into it; how it calls is not
 * shown either, unless the event was there: @leaf. */
static bool is_hidden(const struct building *b, enum symbol_kind kind, bool leaf)
{
	uint32_t total = b->in->native.n_python;

	if (b->a->c.full || !total)
		return false;
	return kind == SYMBOL_EVAL || kind == SYMBOL_TRAMPOLINE ||
	       (kind == SYMBOL_CALL && !leaf && b->n_python < total);
}

/* @at: what to look up, which is @symbol; before a return address stands the call. */
static void push_native(struct building *b, uint64_t ip, uint64_t at, struct symbol symbol)
{
	struct frame f = { .kind = FRAME_NATIVE, .ip = ip };

	if (!is_hidden(b, symbol.kind, ip == at)) {
		if (b->a->c.places)
			f.place = symbolize_place(b->a->symbols, b->a->c.places,
						  b->in->native.pid, at,
						  is_hidden(b, SYMBOL_CALL, ip == at));
		if (b->a->c.names) {
			f.name = symbol.name;
			f.file = symbol.file;
		}
		push(b, f);
	}
	if (symbol.kind == SYMBOL_EVAL && b->in->prov == PROV_TORN)
		push_provenance(b);
}

static struct symbol symbol_at(const struct building *b, uint64_t at)
{
	return symbolize(b->a->symbols, b->in->native.pid, at);
}

static void push_frame(struct building *b, const struct native_stack *s,
		       const struct merge_item *it)
{
	const struct unwind_frame *f = &s->frame[it->i];
	uint64_t ip = it->i || !b->in->leaf ? f->pc : b->in->leaf;
	struct symbol symbol = ip == f->pc ? s->symbol[it->i] : symbol_at(b, ip - f->returned);

	if (f->guessed && !b->guessed)
		push_marker(b, "[guessed]");
	b->guessed = f->guessed;
	/* Of a late sample the activations were found at another moment, when another
	 * frame may have lain there. */
	if (it->kind == MERGE_EVAL && b->in->prov == PROV_EXACT)
		symbol.kind = SYMBOL_EVAL;
	push_native(b, ip, ip - f->returned, symbol);
}

/* Below the functions of a collection stands that it is one. */
static void push_gc(struct building *b, bool collects)
{
	if (b->collects && !collects)
		push_marker(b, "[gc]");
	b->collects = collects;
}

static bool push_item(struct building *b, const struct native_stack *s,
		      const struct merge_item *it)
{
	push_gc(b, it->kind == MERGE_NATIVE && s->symbol[it->i].kind == SYMBOL_GC);
	switch (it->kind) {
	case MERGE_PYTHON:
		return push_python(b, it->i);
	case MERGE_NATIVE:
	case MERGE_EVAL:
		push_frame(b, s, it);
		break;
	case MERGE_END:
		push_marker(b, unwind_end_name((enum unwind_end)it->i));
		break;
	case MERGE_UNPLACED:
		push_marker(b, "[unplaced]");
		break;
	}
	return true;
}

/* Who stands in the evaluation loop runs Python: no frame of it means that the thread's state
 * was not found, or has not linked its first frame yet. Where a JIT runs it, the frame that
 * seems not to have begun is the one that runs. */
static void check_unseen(struct building *b, bool eval)
{
	struct assemble_input *in = b->in;
	bool jitted = b->hides_line && in->python[0].flags & PYSTACK_CALLS;

	if (in->prov == PROV_TORN)
		return;
	if (!jitted && (!eval || in->native.n_python || in->prov == PROV_EXACT))
		return;
	in->prov = PROV_TORN;
	STATS_ADD(b->a->c.stats, torn_unseen, 1);
}

static bool leaf_is_eval(const struct building *b)
{
	return b->in->leaf &&
	       symbolize_kind(b->a->symbols, b->in->native.pid, b->in->leaf) == SYMBOL_EVAL;
}

static bool push_user(struct building *b)
{
	struct assemble_input *in = b->in;
	struct native_stack s;

	in->native.may_be_jitted =
		in->native.n_python && in->python[0].flags & PYSTACK_MAY_BE_JITTED;
	in->native.none = in->prov == PROV_NOPYTHON;
	in->native.truncated = in->truncated;
	s = native_stack(b->a->native, &in->native);
	b->hides_line = s.hides_line;
	if (s.search_ended)
		STATS_ADD(b->a->c.stats, search_ended, 1);
	if (s.code_hangs)
		STATS_ADD(b->a->c.stats, code_hangs, 1);
	if (in->undecided && s.bare && !leaf_is_eval(b))
		in->prov = PROV_NOPYTHON;
	check_unseen(b, s.eval || (!in->native.regs && leaf_is_eval(b)));
	/* Native frames are not wanted: for a thread without Python the leaf all the same. */
	if (!in->native.regs && in->leaf &&
	    (b->a->c.native || (!in->native.n_python && in->prov != PROV_TORN)))
		push_native(b, in->leaf, in->leaf, symbol_at(b, in->leaf));
	for (size_t i = 0; i < s.n; i++)
		if (!push_item(b, &s, &s.item[i]))
			return false;
	push_gc(b, false);
	return true;
}

bool assemble(struct assembler *a, struct assemble_input *in, struct stack *ret)
{
	struct building b = { .a = a, .in = in };
	bool whole;

	push_kernel(&b);
	whole = push_user(&b);
	push_provenance(&b);
	if (in->truncated)
		push_marker(&b, "[truncated]");
	*ret = (struct stack){ .n = b.n, .frames = a->frame };
	return whole;
}
