/* SPDX-License-Identifier: MIT */
#include "symbolize.h"

#include "kallsyms.h"
#include "space.h"
#include "strtab.h"
#include "symnames.h"

enum {
	N_CACHED = 4096, /* addresses with their names; a power of two */
	MAX_ELF_BYTES = 256 << 20,
};

struct answer {
	uint64_t gen, ip;
	const char *name; /* NULL: empty slot */
	bool eval;
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

static bool is_eval_name(const char *name)
{
	static const char eval[] = "_PyEval_EvalFrameDefault", tail[] = "_TAIL_CALL_";
	size_t n = sizeof(eval) - 1;

	return strncmp(name, tail, sizeof(tail) - 1) == 0 ||
	       (strncmp(name, eval, n) == 0 && (name[n] == '\0' || name[n] == '.'));
}

/* "libm.so.6+0x1234"; memory without a file has no offsets worth telling apart. */
static const char *name_offset(struct symbolizer *s, const char *path, uint64_t offset)
{
	char module[256], buf[sizeof(module) + 32];
	const char *base = strrchr(path, '/');

	if (path[0] != '/' && path[0] != '[')
		return symnames_intern(&s->names, "[anon]");
	if (strncmp(path, "//anon", 6) == 0)
		return symnames_intern(&s->names, "[anon]");
	symnames_clean(module, sizeof(module), path[0] == '[' ? path : base + 1);
	if (path[0] == '[' && strcmp(path, "[vdso]") != 0)
		return symnames_intern(&s->names, module);
	snprintf(buf, sizeof(buf), "%s+0x%llx", module, (unsigned long long)offset);
	return symnames_intern(&s->names, buf);
}

static void answer_elf(struct symbolizer *s, pid_t pid, const struct space_map *m,
		       struct answer *a)
{
	const struct elfcache_tables *t;
	const char *path = elfcache_path(m->elf), *sym;
	uint64_t at = a->ip - m->lo + m->pgoff, start;
	char name[SYMNAMES_MAX];

	t = spaces_made(&s->spaces, pid, m);
	if (!t || !elfcache_vaddr(t, at, &at)) {
		a->name = name_offset(s, path, at);
		return;
	}
	a->eval = elfcache_is_eval_rest(t, at);
	sym = elfcache_symbol(t, at);
	if (!sym) {
		start = elfcache_function(t, at, &start) ? start : at;
		a->name = name_offset(s, path, start);
		return;
	}
	symnames_clean(name, sizeof(name), sym);
	symnames_cut(name);
	a->eval |= is_eval_name(name);
	a->name = symnames_intern(&s->names, name);
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
	answer_elf(s, pid, m, &a);
	*slot = a;
	return slot;
}

const char *symbolize_user(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	return answer_user(s, pid, ip)->name;
}

bool symbolize_is_eval(struct symbolizer *s, pid_t pid, uint64_t ip)
{
	return answer_user(s, pid, ip)->eval;
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
	spaces_init(&s->spaces, s->elfs);
	s->names.tab = strtab_create();
	if (!s->elfs || !s->names.tab) {
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
	strtab_destroy(s->names.tab);
	free(s);
}
