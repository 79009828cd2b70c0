/* SPDX-License-Identifier: MIT */
#include "stacks/assemble.h"

#include "base/base.h"
#include "base/stats.h"
#include "modules/space.h"

enum {
	MAX_STACK = PYWALK_MAX_FRAMES + 8192,
	MAX_MODULES = 256 << 20, /* bytes */
	MIN_MODULES = 16 << 20,	 /* with less, each stack would have its files read again */
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
	/* the stack at hand */
	struct assemble_input *in;
	uint32_t n_python; /* of its Python frames, those that are there already */
	bool marked, guessed;
	size_t n;
	struct frame frame[MAX_STACK];
};

static size_t modules_bytes(size_t memory)
{
	return memory ? MAX(memory / MODULES_SHARE, (size_t)MIN_MODULES) : (size_t)MAX_MODULES;
}

struct assembler *assembler_create(const struct assembler_config *c)
{
	struct assembler *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->c = *c;
	a->profile = profile_create();
	a->spaces = spaces_create(modules_bytes(c->memory),
				  (c->native ? SPACES_ROWS : 0u) | (c->ids ? SPACES_IDS : 0u));
	a->symbols = a->spaces ? symbolizer_create(a->spaces) : NULL;
	a->native = a->symbols ? native_create(a->symbols, c->unwinder) : NULL;
	if (!a->profile || !a->native) {
		assembler_destroy(a);
		return NULL;
	}
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

static void push(struct assembler *a, struct frame f)
{
	if (a->n < MAX_STACK)
		a->frame[a->n++] = f;
}

static void push_kernel(struct assembler *a)
{
	for (uint32_t i = 0; i < a->in->n_kernel; i++) {
		uint64_t ip = a->in->kernel[i];

		push(a, (struct frame){
				.kind = FRAME_KERNEL,
				.ip = ip,
				.name = a->c.names ? symbolize_kernel(a->symbols, ip) : NULL,
			});
	}
}

static void push_marker(struct assembler *a, const char *name)
{
	push(a, (struct frame){ .kind = FRAME_MARKER, .name = name });
}

/* The mark of a sample that is not exact, where its Python frames stand. */
static void push_provenance(struct assembler *a)
{
	enum provenance prov = a->in->prov;

	if (a->marked || (prov != PROV_LATE && prov != PROV_TORN))
		return;
	push_marker(a, prov == PROV_LATE ? "[late]" : "[torn]");
	a->marked = true;
}

static bool push_python(struct assembler *a, uint32_t i)
{
	const struct pystack_frame *f = &a->in->python[i];
	struct frame frame = { .kind = FRAME_PYTHON };

	frame.func = profile_lookup(a->profile, f->code_id, f->lasti, &frame.line);
	if (!frame.func)
		return false;
	push(a, frame);
	if (++a->n_python == a->in->native.n_python)
		push_provenance(a);
	return true;
}

/* Python frames stand for the evaluation loop and for trampolines into it; how it calls is not
 * shown either, unless the event was there: @leaf. */
static bool is_hidden(const struct assembler *a, enum symbol_kind kind, bool leaf)
{
	uint32_t total = a->in->native.n_python;

	if (a->c.full || !total)
		return false;
	return kind == SYMBOL_EVAL || kind == SYMBOL_TRAMPOLINE ||
	       (kind == SYMBOL_CALL && !leaf && a->n_python < total);
}

/* @at: what to look up, which is @symbol; before a return address stands the call. */
static void push_native(struct assembler *a, uint64_t ip, uint64_t at, struct symbol symbol)
{
	struct frame f = { .kind = FRAME_NATIVE, .ip = ip };

	if (!is_hidden(a, symbol.kind, ip == at)) {
		if (a->c.places)
			f.place = symbolize_place(a->symbols, a->c.places, a->in->native.pid,
						  at, is_hidden(a, SYMBOL_CALL, ip == at));
		if (a->c.names)
			f.name = symbol.name;
		push(a, f);
	}
	if (symbol.kind == SYMBOL_EVAL && a->in->prov == PROV_TORN)
		push_provenance(a);
}

static struct symbol symbol_at(const struct assembler *a, uint64_t at)
{
	return symbolize(a->symbols, a->in->native.pid, at);
}

static void push_frame(struct assembler *a, const struct native_stack *s,
		       const struct merge_item *it)
{
	const struct unwind_frame *f = &s->frame[it->i];
	uint64_t ip = it->i || !a->in->leaf ? f->pc : a->in->leaf;
	struct symbol symbol = ip == f->pc ? s->symbol[it->i] : symbol_at(a, ip - f->returned);

	if (f->guessed && !a->guessed)
		push_marker(a, "[guessed]");
	a->guessed = f->guessed;
	/* Of a late sample the activations were found at another moment, when another
	 * frame may have lain there. */
	if (it->kind == MERGE_EVAL && a->in->prov == PROV_EXACT)
		symbol.kind = SYMBOL_EVAL;
	push_native(a, ip, ip - f->returned, symbol);
}

static bool push_item(struct assembler *a, const struct native_stack *s,
		      const struct merge_item *it)
{
	switch (it->kind) {
	case MERGE_PYTHON:
		return push_python(a, it->i);
	case MERGE_NATIVE:
	case MERGE_EVAL:
		push_frame(a, s, it);
		break;
	case MERGE_END:
		push_marker(a, native_end_name((enum unwind_end)it->i));
		break;
	case MERGE_UNPLACED:
		push_marker(a, "[unplaced]");
		break;
	}
	return true;
}

/* Who stands in the evaluation loop runs Python: no frame of it means that the thread's state
 * was not found, or has not linked its first frame yet. */
static void check_unseen(struct assembler *a, bool eval)
{
	struct assemble_input *in = a->in;

	if (!eval || in->native.n_python || in->prov == PROV_EXACT || in->prov == PROV_TORN)
		return;
	in->prov = PROV_TORN;
	STATS_ADD(a->c.stats, torn_unseen, 1);
}

static bool leaf_is_eval(const struct assembler *a)
{
	return a->in->leaf &&
	       symbolize_kind(a->symbols, a->in->native.pid, a->in->leaf) == SYMBOL_EVAL;
}

static bool push_user(struct assembler *a)
{
	struct assemble_input *in = a->in;
	struct native_stack s;

	s = native_stack(a->native, &in->native);
	if (s.search_ended)
		STATS_ADD(a->c.stats, search_ended, 1);
	check_unseen(a, s.eval || (!in->native.regs && leaf_is_eval(a)));
	/* Native frames are not wanted: for a thread without Python the leaf all the same. */
	if (!in->native.regs && in->leaf &&
	    (a->c.native || (!in->native.n_python && in->prov != PROV_TORN)))
		push_native(a, in->leaf, in->leaf, symbol_at(a, in->leaf));
	for (size_t i = 0; i < s.n; i++)
		if (!push_item(a, &s, &s.item[i]))
			return false;
	return true;
}

bool assemble(struct assembler *a, struct assemble_input *in, struct stack *ret)
{
	bool whole;

	a->in = in;
	a->n = a->n_python = 0;
	a->marked = a->guessed = false;
	push_kernel(a);
	whole = push_user(a);
	push_provenance(a);
	if (in->truncated)
		push_marker(a, "[truncated]");
	*ret = (struct stack){ .n = a->n, .frames = a->frame };
	return whole;
}
