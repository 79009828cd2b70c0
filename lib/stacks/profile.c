/* SPDX-License-Identifier: MIT */
#include "stacks/profile.h"

#include <errno.h>
#include <stdbool.h>

#include "base/hash.h"
#include "base/stats.h"

enum { LINE_CACHE = 1 << 14, CAP_MIN = 1024, FUNC_BYTES = 256 };

struct pcode {
	uint64_t hash;
	const struct pyfunc *func;
	struct pycode_copy *copy; /* NULL: of profile.unnamed */
	bool used;		  /* profile_forget(): a number stands for it */
};

/* id -> code; open addressing, 0 is free. */
struct id_slot {
	uint64_t id;
	struct pcode *code;
};

struct profile {
	struct id_slot *ids;
	size_t n_ids, cap_ids; /* cap: power of two */
	struct pcode **codes;  /* by content hash, open addressing */
	size_t n_codes, cap_codes;
	struct pyfunc **funcs; /* by name, file and lines, open addressing */
	size_t n_funcs, cap_funcs;
	size_t func_bytes, code_bytes, max_bytes; /* profile_limit() */
	struct stats *stats;
	struct pcode unnamed; /* stands for code that there is no room for */
	/* (code, lasti) -> line: decoding a line table is slow. */
	struct {
		const struct pcode *code;
		uint32_t lasti;
		int line;
	} lines[LINE_CACHE];
};

/* What code with a copy like @c takes. */
static size_t code_cost(const struct pycode_copy *c)
{
	return sizeof(struct pcode) + pycode_copy_size(c);
}

static void code_free(struct profile *p, struct pcode *c)
{
	p->code_bytes -= code_cost(c->copy);
	free(c->copy);
	free(c);
}

static void func_free(struct pyfunc *f)
{
	free((char *)(uintptr_t)f->qualname);
	free((char *)(uintptr_t)f->file);
	free(f);
}

void profile_destroy(struct profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; p->codes && i < p->cap_codes; i++)
		if (p->codes[i])
			code_free(p, p->codes[i]);
	for (size_t i = 0; p->funcs && i < p->cap_funcs; i++)
		if (p->funcs[i])
			func_free(p->funcs[i]);
	free(p->funcs);
	free(p->codes);
	free(p->ids);
	free(p);
}

void profile_limit(struct profile *p, size_t bytes, struct stats *stats)
{
	p->max_bytes = bytes;
	p->stats = stats;
}

/* Over everything that decides names and lines. */
static uint64_t content_hash(const struct pycode_copy *c)
{
	size_t n = (size_t)c->name_n + c->file_n + c->table_n;
	uint64_t h = hash_pair((uint32_t)c->firstlineno, c->name_n << 16 | c->file_n);

	h = hash_bytes(h ^ (c->flags & PYCODE_LABEL), c->data, n);
	return h ? h : 1;
}

static bool same_content(const struct pycode_copy *a, const struct pycode_copy *b)
{
	return a->name_n == b->name_n && a->file_n == b->file_n && a->table_n == b->table_n &&
	       a->firstlineno == b->firstlineno && a->name_kind == b->name_kind &&
	       a->file_kind == b->file_kind && a->linetable == b->linetable &&
	       a->cut == b->cut &&
	       !((a->flags ^ b->flags) & PYCODE_LABEL) &&
	       !memcmp(a->data, b->data, (size_t)a->name_n + a->file_n + a->table_n);
}

static size_t code_place(const struct profile *p, uint64_t hash, const struct pycode_copy *c)
{
	size_t i = hash & (p->cap_codes - 1);

	while (p->codes[i] &&
	       (p->codes[i]->hash != hash || (c && !same_content(p->codes[i]->copy, c))))
		i = (i + 1) & (p->cap_codes - 1);
	return i;
}

static int grow_codes(struct profile *p)
{
	struct pcode **old = p->codes;
	size_t n = p->cap_codes;

	if (p->n_codes * 2 < n)
		return 0;
	p->codes = calloc(n * 2, sizeof(struct pcode *));
	if (!p->codes) {
		p->codes = old;
		return -ENOMEM;
	}
	p->cap_codes = n * 2;
	for (size_t i = 0; i < n; i++)
		if (old[i])
			p->codes[code_place(p, old[i]->hash, old[i]->copy)] = old[i];
	free(old);
	return 0;
}

static size_t id_place(const struct profile *p, uint64_t id)
{
	size_t i = hash_u64(id) & (p->cap_ids - 1);

	while (p->ids[i].id && p->ids[i].id != id)
		i = (i + 1) & (p->cap_ids - 1);
	return i;
}

/* Room for one more, in a table that is better half empty. */
static int grow_ids(struct profile *p)
{
	struct id_slot *old = p->ids;
	size_t n = p->cap_ids;

	if (p->n_ids * 2 < n)
		return 0;
	p->ids = calloc(n * 2, sizeof(*p->ids));
	if (!p->ids) {
		p->ids = old;
		return p->n_ids + 1 < n ? 0 : -ENOMEM;
	}
	p->cap_ids = n * 2;
	for (size_t i = 0; i < n; i++)
		if (old[i].id)
			p->ids[id_place(p, old[i].id)] = old[i];
	free(old);
	return 0;
}

/* There is room for it. */
static void put_id(struct profile *p, uint64_t id, struct pcode *code)
{
	size_t i = id_place(p, id);

	p->n_ids += !p->ids[i].id;
	p->ids[i] = (struct id_slot){ .id = id, .code = code };
}

/* --- functions --- */

static uint64_t string_hash(uint64_t h, const char *s)
{
	return hash_bytes(h, s, strlen(s));
}

static size_t func_place(const struct profile *p, const struct pyfunc *f)
{
	uint64_t h = string_hash(string_hash(hash_u64((uint64_t)f->firstline), f->qualname),
				 f->file);
	size_t i = h & (p->cap_funcs - 1);

	for (; p->funcs[i]; i = (i + 1) & (p->cap_funcs - 1)) {
		const struct pyfunc *g = p->funcs[i];

		if (g->firstline == f->firstline && g->min == f->min && g->max == f->max &&
		    g->label == f->label &&
		    !strcmp(g->qualname, f->qualname) && !strcmp(g->file, f->file))
			break;
	}
	return i;
}

static int grow_funcs(struct profile *p)
{
	struct pyfunc **old = p->funcs;
	size_t n = p->cap_funcs;

	if (p->n_funcs * 2 < n)
		return 0;
	p->funcs = calloc(n * 2, sizeof(struct pyfunc *));
	if (!p->funcs) {
		p->funcs = old;
		return -ENOMEM;
	}
	p->cap_funcs = n * 2;
	for (size_t i = 0; i < n; i++)
		if (old[i])
			p->funcs[func_place(p, old[i])] = old[i];
	free(old);
	return 0;
}

static struct pyfunc *func_create(const struct pyfunc *key)
{
	struct pyfunc *f = malloc(sizeof(*f));

	if (!f)
		return NULL;
	*f = *key;
	f->qualname = strdup(key->qualname);
	f->file = strdup(key->file);
	if (f->qualname && f->file)
		return f;
	func_free(f);
	return NULL;
}

/* What a function takes: here, and again in a symbol file. */
static size_t func_cost(const struct pyfunc *f)
{
	return FUNC_BYTES + 2 * (strlen(f->qualname) + strlen(f->file));
}

/* The function like @key. NULL: no room. */
static const struct pyfunc *func_intern(struct profile *p, struct pyfunc *key)
{
	size_t i = func_place(p, key);

	if (p->funcs[i])
		return p->funcs[i];
	if (p->func_bytes + func_cost(key) > p->max_bytes)
		return NULL;
	key->index = (uint32_t)p->n_funcs;
	p->funcs[i] = func_create(key);
	if (!p->funcs[i])
		return NULL;
	p->n_funcs++;
	p->func_bytes += func_cost(key);
	return p->funcs[i];
}

struct profile *profile_create(void)
{
	struct profile *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->cap_ids = p->cap_codes = p->cap_funcs = CAP_MIN;
	p->max_bytes = SIZE_MAX;
	p->ids = calloc(p->cap_ids, sizeof(*p->ids));
	p->codes = calloc(p->cap_codes, sizeof(struct pcode *));
	p->funcs = calloc(p->cap_funcs, sizeof(struct pyfunc *));
	if (p->ids && p->codes && p->funcs) {
		struct pyfunc key = { .qualname = "[unnamed]", .file = "" };

		p->unnamed.func = func_intern(p, &key);
	}
	if (p->unnamed.func)
		return p;
	profile_destroy(p);
	return NULL;
}

/* The interned function of a code copy; NULL: no room. */
static const struct pyfunc *func_of(struct profile *p, const struct pycode_copy *c)
{
	char name[PYFUNC_NAME_MAX + 1], file[PYFUNC_FILE_MAX + 1];
	struct pyfunc key = { .qualname = name, .file = file, .firstline = c->firstlineno,
			      .label = c->flags & PYCODE_LABEL };

	if (grow_funcs(p) < 0)
		return NULL;
	pycode_name(c, name, sizeof(name));
	pycode_file(c, file, sizeof(file));
	pycode_line_range(c, &key.min, &key.max);
	return func_intern(p, &key);
}

static struct pcode *code_create(struct profile *p, const struct pycode_copy *c, uint64_t hash)
{
	bool room = p->code_bytes + code_cost(c) <= p->max_bytes;
	struct pcode *code = room ? calloc(1, sizeof(*code)) : NULL;

	if (!code)
		return NULL;
	code->hash = hash;
	code->func = func_of(p, c);
	code->copy = malloc(pycode_copy_size(c));
	if (!code->func || !code->copy) {
		free(code->copy);
		free(code);
		return NULL;
	}
	memcpy(code->copy, c, pycode_copy_size(c));
	p->code_bytes += code_cost(c);
	return code;
}

/* The code of a copy, or what stands for all that there is no room for. */
static struct pcode *code_intern(struct profile *p, const struct pycode_copy *c)
{
	uint64_t hash = content_hash(c);
	size_t i = code_place(p, hash, c);
	struct pcode *code = p->codes[i];

	if (!code && grow_codes(p) == 0) {
		code = code_create(p, c, hash);
		i = code_place(p, hash, c);
		p->codes[i] = code;
		p->n_codes += code != NULL;
	}
	if (code)
		return code;
	if (p->stats)
		STATS_ADD(p->stats, unnamed, 1);
	return &p->unnamed;
}

int profile_code(struct profile *p, uint64_t id, const struct pycode_copy *c, size_t n)
{
	if (!pycode_copy_valid(c, n))
		return -EBADMSG;
	if (grow_ids(p) < 0)
		return -ENOMEM;
	put_id(p, id, code_intern(p, c));
	return 0;
}

int profile_same(struct profile *p, uint64_t id, uint64_t was)
{
	struct pcode *code = p->ids[id_place(p, was)].code;

	if (!code)
		return -ENOENT;
	if (grow_ids(p) < 0)
		return -ENOMEM;
	put_id(p, id, code);
	return 0;
}

/* A table for as many entries as @p has of a kind. */
static void *table_for(size_t n, size_t size, size_t *cap)
{
	*cap = CAP_MIN;
	while (*cap < 4 * n)
		*cap *= 2;
	return calloc(*cap, size);
}

/* What is left of the numbers, in a table of its own; their code is used. */
static int keep_ids(struct profile *p, uint64_t from, uint64_t below)
{
	size_t n = p->cap_ids, kept = 0, cap;
	struct id_slot *old = p->ids, *ids;

	for (size_t i = 0; i < n; i++)
		kept += old[i].id && (old[i].id < from || old[i].id >= below);
	ids = table_for(kept, sizeof(*ids), &cap);
	if (!ids)
		return -ENOMEM;
	p->ids = ids;
	p->cap_ids = cap;
	p->n_ids = 0;
	for (size_t i = 0; i < n; i++)
		if (old[i].id && (old[i].id < from || old[i].id >= below)) {
			put_id(p, old[i].id, old[i].code);
			old[i].code->used = true;
		}
	free(old);
	return 0;
}

/* Code that is used, in a table of its own; the rest is freed. */
static void keep_codes(struct profile *p)
{
	size_t n = p->cap_codes, kept = 0, cap;
	struct pcode **old = p->codes, **codes;

	for (size_t i = 0; i < n; i++)
		kept += old[i] && old[i]->used;
	codes = table_for(kept, sizeof(struct pcode *), &cap);
	if (!codes)
		return;
	p->codes = codes;
	p->cap_codes = cap;
	p->n_codes = kept;
	for (size_t i = 0; i < n; i++) {
		if (!old[i])
			continue;
		if (!old[i]->used)
			code_free(p, old[i]);
		else
			codes[code_place(p, old[i]->hash, old[i]->copy)] = old[i];
	}
	free(old);
	/* They may be of code that is freed. */
	memset(p->lines, 0, sizeof(p->lines));
}

void profile_forget(struct profile *p, uint64_t from, uint64_t below)
{
	for (size_t i = 0; i < p->cap_codes; i++)
		if (p->codes[i])
			p->codes[i]->used = false;
	if (keep_ids(p, from, below) == 0)
		keep_codes(p);
}

size_t profile_codes(const struct profile *p)
{
	return p->n_codes;
}

const struct pyfunc *profile_lookup(struct profile *p, uint64_t id, uint32_t lasti, int *line)
{
	struct pcode *code = p->ids[id_place(p, id)].code;
	uint64_t at;

	if (!code)
		return NULL;
	at = hash_pair((uintptr_t)code, (uint64_t)lasti) & (LINE_CACHE - 1);
	if (p->lines[at].code != code || p->lines[at].lasti != lasti) {
		p->lines[at].code = code;
		p->lines[at].lasti = lasti;
		p->lines[at].line = code->copy ? pycode_line(code->copy, lasti) : 0;
	}
	*line = p->lines[at].line;
	return code->func;
}
