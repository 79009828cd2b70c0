/* SPDX-License-Identifier: MIT */
#include "symbolize.h"

#include <stdbool.h>

#include "base/clock.h"
#include "base/quota.h"
#include "base/stats.h"
#include "bpf/kernel_names.h"
#include "elf/file_helper.h"
#include "elf/module.h"
#include "modules/jit.h"
#include "names/kallsyms.h"
#include "lines/places.h"
#include "modules/space.h"
#include "names/symnames.h"

enum {
	N_CACHED = 8192, /* addresses with their names; a power of two */
	MAX_FORKS = 4,	 /* looked back for who made the code */
};

#define NOT_KEPT UINT64_MAX /* an @of for an answer that may be another one soon */

/* What file's code at an offset in it is called, for all processes (@of: the elfcache_elf); or
 * one process's memory without a file at an address (@of: space.gen); or the kernel's (0). */
struct answer {
	uint64_t of, at;
	uint64_t until_ns;    /* when it is asked for again; 0: never */
	struct symbol symbol; /* name NULL: empty slot */
};

/* The map that was asked for last: the next frame is mostly in it too. */
struct recent_map {
	uint64_t gen; /* of its space, as long as this holds; 0: none */
	struct space_map map;
};

struct symbolizer {
	struct spaces *spaces;
	uint64_t n_opened; /* spaces.n_opened when the cached were answered */
	struct symnames names;
	struct stats *stats; /* or NULL */
	const struct kernel_names *kernel_names; /* or NULL: nobody answers */
	struct kallsyms kernel;			 /* read where nobody answers */
	struct recent_map recent;
	struct answer cached[N_CACHED];
};

struct spaces *symbolizer_spaces(const struct symbolizer *s)
{
	return s->spaces;
}

/* ---- User addresses ---- */

enum { MODULE_NAME = 256 };

/* "libm.so.6", "[vdso]". False: memory without a file. */
static bool module_name(const char *path, char to[MODULE_NAME])
{
	const char *base = strrchr(path, '/');

	if ((path[0] != '/' && path[0] != '[') || strncmp(path, "//anon", 6) == 0 ||
	    strncmp(path, "/dev/zero", 9) == 0)
		return false;
	symnames_clean(to, MODULE_NAME, path[0] == '[' ? path : base + 1);
	return true;
}

/* "libm.so.6+0x1234"; memory without a file has no offsets worth telling apart. */
static const char *name_offset(struct symbolizer *s, const char *path, uint64_t offset)
{
	char module[MODULE_NAME], buf[sizeof(module) + 32];

	if (!module_name(path, module))
		return symnames_intern(&s->names, "[anon]");
	if (path[0] == '[' && strcmp(path, "[vdso]") != 0)
		return symnames_intern(&s->names, module);
	snprintf(buf, sizeof(buf), "%s+0x%llx", module, (unsigned long long)offset);
	return symnames_intern(&s->names, buf);
}

/* The process that @sp was forked from, if that still runs the program that it ran then; else
 * NULL: its number may be another's by now. */
static const struct space *forker_of(struct symbolizer *s, const struct space *sp)
{
	const struct space *forker = spaces_find(s->spaces, sp->forked_from);

	return forker && forker->since_ns <= sp->since_ns ? forker : NULL;
}

/* Code in @sp's memory has no name: maybe because something ran out, or with @lacks room for those
 * that were written down. */
static void count_unnamed(struct symbolizer *s, const struct space *sp, bool lacks)
{
	const struct quota *quota = elfcache_quota(s->spaces->elfs);

	if (!s->stats)
		return;
	if (lacks)
		STATS_ADD(s->stats, nameless, 1);
	if (sp->jit ? jit_was_refused(sp->jit) : quota_refused(quota, QUOTA_JITS))
		STATS_ADD(s->stats, unread, 1);
}

/* A name that the process itself, or one that it was forked from, wrote down. */
static bool answer_jit(struct symbolizer *s, const struct space *sp, uint64_t ip,
		       struct answer *a)
{
	const struct space *by = sp;
	const char *name = NULL;
	bool lacks = false;

	for (int i = 0; !name && by && i < MAX_FORKS; i++) {
		if (by->jit) {
			name = jit_name(by->jit, ip);
			a->until_ns = jit_stale_ns(by->jit);
			lacks |= jit_lacks_room(by->jit);
		}
		by = forker_of(s, by);
	}
	if (!name) {
		count_unnamed(s, sp, lacks);
		a->of = NOT_KEPT;
		return false;
	}
	if (jit_is_trampoline(name))
		a->symbol.kind = SYMBOL_TRAMPOLINE;
	a->symbol.name = symnames_symbol(&s->names, name);
	return true;
}

/* The file's code at @at, where @t are its tables. */
static struct symbol symbol_in_file(struct symbolizer *s, const struct module *t,
				    const char *path, uint64_t at)
{
	const char *sym = module_symbol(t, at);
	struct symbol ret = { .kind = module_is_eval_rest(t, at)  ? SYMBOL_EVAL :
				      strstr(path, "/_greenlet.") ? SYMBOL_COROUTINE :
								    SYMBOL_OTHER };
	char name[SYMNAMES_RAW];
	uint64_t start;

	if (!sym) {
		/* Of a stripped interpreter's own functions none is worth telling apart. */
		if (ret.kind == SYMBOL_OTHER && t->exports_python && t->stripped)
			ret.kind = SYMBOL_CALL;
		start = module_function(t, at, &start) ? start : at;
		ret.name = name_offset(s, path, start);
		return ret;
	}
	snprintf(name, sizeof(name), "%s", sym);
	symnames_cut(name);
	if (symnames_is_eval(name))
		ret.kind = SYMBOL_EVAL;
	else if (t->exports_python && symnames_is_call(name))
		ret.kind = SYMBOL_CALL;
	else if (t->exports_python && symnames_is_gc(name))
		ret.kind = SYMBOL_GC;
	ret.name = symnames_symbol(&s->names, name);
	return ret;
}

static struct answer answer_map(struct symbolizer *s, const struct space *sp,
				const struct space_map *m, uint64_t ip)
{
	struct answer a = { .of = sp->gen, .at = ip };
	const struct module *t = space_module(sp, m);
	const char *path = elfcache_path(m->elf);
	uint64_t at = ip - m->lo + m->pgoff, vaddr;
	char module[MODULE_NAME];

	if (elfcache_pending(m->elf) || elfcache_is_slow(s->spaces->elfs, m->elf) ||
	    now_ns() < s->spaces->retry_ns)
		a.of = NOT_KEPT;
	if (t && !t->memory && module_vaddr(t, at, &vaddr)) {
		uint64_t mangled = s->names.n_mangled;

		if (a.of != NOT_KEPT)
			a = (struct answer){ .of = (uintptr_t)m->elf, .at = at };
		a.symbol = symbol_in_file(s, t, path, vaddr);
		if (s->names.n_mangled != mangled)
			a.of = NOT_KEPT; /* there may be a better one later */
	} else if (!jit_is_memory(path) || !answer_jit(s, sp, ip, &a)) {
		a.symbol.name = name_offset(s, path, at);
	}
	if (module_name(path, module))
		a.symbol.file = symnames_file(&s->names, module);
	return a;
}

static struct answer *answer_slot(struct symbolizer *s, uint64_t of, uint64_t at)
{
	uint64_t h = (at ^ of << 40 ^ of) * 0x9e3779b97f4a7c15;

	return &s->cached[h >> 32 & (N_CACHED - 1)];
}

static const struct symbol *answer_kept(struct symbolizer *s, uint64_t of, uint64_t at)
{
	const struct answer *a = answer_slot(s, of, at);
	bool same = a->symbol.name && a->of == of && a->at == at;

	return same && (!a->until_ns || now_ns() < a->until_ns) ? &a->symbol : NULL;
}

static const struct space_map *map_at(struct symbolizer *s, const struct space *sp,
				      uint64_t ip)
{
	const struct space_map *m = &s->recent.map;

	if (s->recent.gen == sp->gen && ip - m->lo < m->hi - m->lo)
		return m;
	m = space_at(sp, ip);
	if (m)
		s->recent = (struct recent_map){ .gen = sp->gen, .map = *m };
	return m;
}

struct symbol symbolize(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	static const struct symbol nothing = { .name = symnames_unknown };
	const struct space *sp = spaces_find(s->spaces, pid);
	const struct space_map *m = sp ? map_at(s, sp, ip) : NULL;
	const struct symbol *kept;
	struct answer a;

	if (!m || !m->elf)
		return nothing;
	if (s->n_opened != s->spaces->n_opened)
		memset(s->cached, 0, sizeof(s->cached)); /* answered without some file */
	s->n_opened = s->spaces->n_opened;
	kept = answer_kept(s, (uintptr_t)m->elf, ip - m->lo + m->pgoff);
	if (!kept)
		kept = answer_kept(s, sp->gen, ip);
	if (kept)
		return *kept;
	a = answer_map(s, sp, m, ip);
	*answer_slot(s, a.of, a.at) = a;
	return a.symbol;
}

const char *symbolize_user(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	return symbolize(s, pid, ip).name;
}

enum symbol_kind symbolize_kind(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	return symbolize(s, pid, ip).kind;
}

uint32_t symbolize_place(struct symbolizer *s, struct places *places, pid_t pid, uint64_t ip,
			 bool plain)
{
	const struct space *sp = spaces_find(s->spaces, pid);
	const struct space_map *m = sp ? space_at(sp, ip) : NULL;
	const struct module *t = m ? space_module(sp, m) : NULL;
	uint64_t at;

	if (!t || !module_vaddr(t, ip - m->lo + m->pgoff, &at))
		return 0;
	return places_add(places, sp, m, at, symbolize_user(s, pid, ip), module_symbol(t, at),
			  plain && t->exports_python);
}

bool symbolize_is_eval(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	const struct space *sp = spaces_find(s->spaces, pid);
	const struct space_map *m = sp ? space_at(sp, ip) : NULL;
	const struct module *t = m ? space_module(sp, m) : NULL;
	const char *sym;
	uint64_t at;

	if (!t || !module_vaddr(t, ip - m->lo + m->pgoff, &at))
		return false;
	sym = module_symbol(t, at);
	return module_is_eval_rest(t, at) || (sym && symnames_is_eval(sym));
}

static const char *name_kernel(struct symbolizer *s, uint64_t ip)
{
	const char *name = s->kernel_names ? kernel_names_at(s->kernel_names, ip) : NULL;

	if (name)
		return kallsyms_intern(&s->names, name);
	s->kernel_names = NULL;
	return kallsyms_name(&s->kernel, &s->names, ip);
}

const char *symbolize_kernel(struct symbolizer *s, uint64_t ip)
{
	struct answer *slot = answer_slot(s, 0, ip);

	if (!answer_kept(s, 0, ip))
		*slot = (struct answer){ .at = ip, .symbol.name = name_kernel(s, ip) };
	return slot->symbol.name;
}

void symbolizer_asks(struct symbolizer *s, const struct kernel_names *k)
{
	s->kernel_names = k;
}

static ssize_t ask_name(void *arg, const char *raw, char *buf, size_t cap)
{
	const struct symbolizer *s = arg;

	return file_helper_demangle(elfcache_reader(s->spaces->elfs), raw, buf, cap,
				    FILE_HELPER_NAME_MS);
}

struct symbolizer *symbolizer_create(struct spaces *spaces)
{
	struct symbolizer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->spaces = spaces;
	if (symnames_init(&s->names) < 0) {
		symbolizer_destroy(s);
		return NULL;
	}
	symnames_ask(&s->names, ask_name, s);
	return s;
}

void symbolizer_limit(struct symbolizer *s, size_t bytes, size_t jit_bytes,
		      struct stats *stats)
{
	s->stats = stats;
	symnames_limit(&s->names, bytes, stats);
	quota_limit(elfcache_quota(s->spaces->elfs), QUOTA_JIT_BYTES, jit_bytes);
}

void symbolizer_destroy(struct symbolizer *s)
{
	if (!s)
		return;
	kallsyms_deinit(&s->kernel);
	symnames_deinit(&s->names);
	free(s);
}
