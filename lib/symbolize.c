/* SPDX-License-Identifier: MIT */
#include "symbolize.h"

#include <stdbool.h>

#include "clock.h"
#include "jit.h"
#include "kallsyms.h"
#include "places.h"
#include "space.h"
#include "symnames.h"

enum {
	N_CACHED = 4096, /* addresses with their names; a power of two */
	MAX_ELF_BYTES = 256 << 20,
	MAX_FORKS = 4, /* looked back for who made the code */
};

#define NOT_KEPT UINT64_MAX /* a gen for an answer that may be another one soon */

struct answer {
	uint64_t gen, ip;
	const char *name; /* NULL: empty slot */
	enum symbol_kind kind;
};

struct symbolizer {
	struct elfcache *elfs;
	struct spaces spaces;
	uint64_t n_opened; /* spaces.n_opened when the cached were answered */
	struct symnames names;
	struct kallsyms kernel;
	struct answer cached[N_CACHED];
};

void symbolizer_side(struct symbolizer *s, const struct side *side)
{
	spaces_side(&s->spaces, side);
}

/* ---- User addresses ---- */

/* "libm.so.6+0x1234"; memory without a file has no offsets worth telling apart. */
static const char *name_offset(struct symbolizer *s, const char *path, uint64_t offset)
{
	char module[256], buf[sizeof(module) + 32];
	const char *base = strrchr(path, '/');

	if (path[0] != '/' && path[0] != '[')
		return symnames_intern(&s->names, "[anon]");
	if (strncmp(path, "//anon", 6) == 0 || strncmp(path, "/dev/zero", 9) == 0)
		return symnames_intern(&s->names, "[anon]");
	symnames_clean(module, sizeof(module), path[0] == '[' ? path : base + 1);
	if (path[0] == '[' && strcmp(path, "[vdso]") != 0)
		return symnames_intern(&s->names, module);
	snprintf(buf, sizeof(buf), "%s+0x%llx", module, (unsigned long long)offset);
	return symnames_intern(&s->names, buf);
}

/* A name that the process itself, or one that it was forked from, wrote down. */
static bool answer_jit(struct symbolizer *s, const struct space *sp, struct answer *a)
{
	const char *name = NULL;
	char clean[SYMNAMES_MAX];

	for (int i = 0; !name && sp && i < MAX_FORKS; i++) {
		if (sp->jit)
			name = jit_name(sp->jit, a->ip);
		sp = spaces_find(&s->spaces, sp->forked_from);
	}
	if (!name) {
		a->gen = NOT_KEPT;
		return false;
	}
	if (jit_is_trampoline(name))
		a->kind = SYMBOL_TRAMPOLINE;
	symnames_clean(clean, sizeof(clean), name);
	a->name = symnames_intern(&s->names, clean);
	return true;
}

static void answer_elf(struct symbolizer *s, const struct space *sp, const struct space_map *m,
		       struct answer *a)
{
	const struct elfcache_tables *t;
	const char *path = elfcache_path(m->elf), *sym;
	uint64_t at = a->ip - m->lo + m->pgoff, start;
	char name[SYMNAMES_RAW];

	t = space_made(sp, m);
	if (elfcache_pending(m->elf) || elfcache_is_slow(s->elfs, m->elf) ||
	    now_ns() < s->spaces.retry_ns)
		a->gen = NOT_KEPT;
	if (!t || !elfcache_vaddr(t, at, &at)) {
		if (jit_is_memory(path) && answer_jit(s, sp, a))
			return;
		a->name = name_offset(s, path, at);
		return;
	}
	if (elfcache_is_eval_rest(t, at))
		a->kind = SYMBOL_EVAL;
	else if (strstr(path, "/_greenlet."))
		a->kind = SYMBOL_COROUTINE;
	sym = elfcache_symbol(t, at);
	if (!sym) {
		/* Of a stripped interpreter's own functions none is worth telling apart. */
		if (a->kind == SYMBOL_OTHER && t->exports_python && t->stripped)
			a->kind = SYMBOL_CALL;
		start = elfcache_function(t, at, &start) ? start : at;
		a->name = name_offset(s, path, start);
		return;
	}
	snprintf(name, sizeof(name), "%s", sym);
	symnames_cut(name);
	if (symnames_is_eval(name))
		a->kind = SYMBOL_EVAL;
	else if (t->exports_python && symnames_is_call(name))
		a->kind = SYMBOL_CALL;
	a->name = symnames_symbol(&s->names, name);
}

static struct answer *answer_slot(struct symbolizer *s, uint64_t gen, uint64_t ip)
{
	uint64_t h = (ip ^ gen << 40 ^ gen) * 0x9e3779b97f4a7c15;

	return &s->cached[h >> 32 & (N_CACHED - 1)];
}

/* Name and kind of a user address; stays until the next call. */
static const struct answer *answer_user(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	static const struct answer nothing = { .name = symnames_unknown };
	const struct space *sp = spaces_find(&s->spaces, pid);
	const struct space_map *m;
	struct answer *slot, a;

	if (!sp)
		return &nothing;
	if (s->n_opened != s->spaces.n_opened)
		memset(s->cached, 0, sizeof(s->cached)); /* answered without some file */
	s->n_opened = s->spaces.n_opened;
	slot = answer_slot(s, sp->gen, ip);
	if (slot->name && slot->gen == sp->gen && slot->ip == ip)
		return slot;
	m = space_at(sp, ip);
	if (!m || !m->elf)
		return &nothing;
	a = (struct answer){ .gen = sp->gen, .ip = ip };
	answer_elf(s, sp, m, &a);
	*slot = a;
	return slot;
}

const struct space *symbolizer_space(struct symbolizer *s, pid_t pid)
{
	return spaces_find(&s->spaces, pid);
}

const char *symbolize_user(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	return answer_user(s, pid, ip)->name;
}

enum symbol_kind symbolize_kind(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	return answer_user(s, pid, ip)->kind;
}

uint32_t symbolize_place(struct symbolizer *s, struct places *places, pid_t pid, uint64_t ip,
			 bool plain)
{
	const struct space *sp = spaces_find(&s->spaces, pid);
	const struct space_map *m = sp ? space_at(sp, ip) : NULL;
	const struct elfcache_tables *t = m ? space_made(sp, m) : NULL;
	uint64_t at;

	if (!t || !elfcache_vaddr(t, ip - m->lo + m->pgoff, &at))
		return 0;
	return places_add(places, sp, m, at, symbolize_user(s, pid, ip),
			  elfcache_symbol(t, at), plain && t->exports_python);
}

bool symbolize_is_eval(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	const struct space *sp = spaces_find(&s->spaces, pid);
	const struct space_map *m = sp ? space_at(sp, ip) : NULL;
	const struct elfcache_tables *t = m ? space_made(sp, m) : NULL;
	const char *sym;
	uint64_t at;

	if (!t || !elfcache_vaddr(t, ip - m->lo + m->pgoff, &at))
		return false;
	sym = elfcache_symbol(t, at);
	return elfcache_is_eval_rest(t, at) || (sym && symnames_is_eval(sym));
}

const char *symbolize_kernel(struct symbolizer *s, uint64_t ip)
{
	struct answer *slot = answer_slot(s, 0, ip);

	if (!slot->name || slot->gen != 0 || slot->ip != ip)
		*slot = (struct answer){ .ip = ip,
					 .name = kallsyms_name(&s->kernel, &s->names, ip) };
	return slot->name;
}

struct symbolizer *symbolizer_create(void)
{
	struct symbolizer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->elfs = elfcache_create(MAX_ELF_BYTES, &elfcache_symbols, NULL);
	spaces_init(&s->spaces, s->elfs, true);
	if (symnames_init(&s->names) < 0 || !s->elfs) {
		symbolizer_destroy(s);
		return NULL;
	}
	return s;
}

void symbolizer_destroy(struct symbolizer *s)
{
	if (!s)
		return;
	spaces_deinit(&s->spaces);
	elfcache_destroy(s->elfs);
	kallsyms_deinit(&s->kernel);
	symnames_deinit(&s->names);
	free(s);
}
