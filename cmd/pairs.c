/* SPDX-License-Identifier: MIT
 *
 * pairs - sorts them by what is equal.
 */
#include "pairs.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../output/short_files.h"
#include "base/base.h"
#include "base/idmap.h"
#include "cmd.h"

/* Functions of one name and file are one: code above them may have come or gone. */
static int by_key(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return COMPARE((uintptr_t)x->name, (uintptr_t)y->name) ?:
	       COMPARE((uintptr_t)x->file, (uintptr_t)y->file) ?:
	       COMPARE(x->kind, y->kind) ?:
	       COMPARE(x->line, y->line);
}

size_t pairs_join(struct pair *p, size_t n)
{
	size_t ret = 0;

	if (n)
		qsort(p, n, sizeof(*p), by_key);
	for (size_t i = 0; i < n; i++)
		if (ret && !by_key(&p[ret - 1], &p[i])) {
			p[ret - 1].share[0] += p[i].share[0];
			p[ret - 1].share[1] += p[i].share[1];
			p[ret - 1].sides |= p[i].sides;
		} else {
			p[ret++] = p[i];
		}
	return ret;
}

/* ---- folded stacks ---- */

/* Like by_key(), but files by how they end: the end of a path stands before it. */
static int by_end(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	size_t n = strlen(x->file), m = strlen(y->file);
	int ret = COMPARE((uintptr_t)x->name, (uintptr_t)y->name) ?:
		  COMPARE(x->kind, y->kind) ?:
		  COMPARE(x->line, y->line);

	while (!ret && n && m) {
		n--, m--;
		ret = COMPARE(x->file[n], y->file[m]);
	}
	return ret ?: COMPARE(n, m);
}

static bool is_end_of(const char *end, const char *path)
{
	size_t n = strlen(end), m = strlen(path);

	return n && n < m && path[m - n - 1] == '/' && !strcmp(path + m - n, end);
}

/* Each has one side, not the same, and @x's file may be @y's. */
static bool may_be_one(const struct pair *x, const struct pair *y)
{
	bool a = x->share[0] > 0, b = x->share[1] > 0;

	return a != b && (y->share[0] > 0) == b && (y->share[1] > 0) == a &&
	       x->name == y->name && x->kind == y->kind && x->line == y->line &&
	       is_end_of(x->file, y->file);
}

void pairs_tell_twice(struct pair *p, size_t n)
{
	const struct pair *first = NULL;
	size_t twice = 0;

	if (n)
		qsort(p, n, sizeof(*p), by_end);
	for (size_t i = n; i-- > 1;)
		if (may_be_one(&p[i - 1], &p[i])) {
			first = &p[i];
			twice++;
		}
	if (first)
		cmd_say("%zu may stand twice, such as %s (%s), for a file's short name depends on "
			"which others there are: write both recordings with --full-paths",
			twice, first->name, first->file);
}

/* ---- whole paths ---- */

enum { MOST_TRIES = 1 << 16 /* of those of one name, each with each */ };

/* A pair whose file only one recording has. */
struct alone {
	struct pair *p;
	const char *end;   /* the file's short name when no other has the same */
	const char *there; /* A's: what the file is called in B; NULL: it is not known */
};

struct moved {
	struct alone *alone;
	size_t n;
	const char **stayed; /* the program's files that both recordings have, in order */
	size_t n_stayed;
	size_t n_joined, n_open;	      /* with a file there, and those that several may be */
	struct alone *joined[2], *open[2]; /* the first of each, A's and B's */
};

/* A's before B's. */
static int by_file_end(const void *a, const void *b)
{
	const struct alone *x = a, *y = b;

	return COMPARE((uintptr_t)x->p->name, (uintptr_t)y->p->name) ?:
	       COMPARE(x->p->line, y->p->line) ?:
	       strcmp(x->end, y->end) ?:
	       COMPARE(x->p->sides, y->p->sides) ?:
	       strcmp(x->p->file, y->p->file);
}

static bool has_one_end(const struct alone *x, const struct alone *y)
{
	return x->p->name == y->p->name && x->p->line == y->p->line && !strcmp(x->end, y->end);
}

static bool has_path(const struct pair *p)
{
	return p->kind == 'p' && *p->file == '/';
}

/* Which recordings have which files. 0 or -ENOMEM. */
static int find_files(const struct pair *p, size_t n, struct idmap *sides)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++) {
		uint64_t key = (uintptr_t)p[i].file;
		uint32_t old = has_path(&p[i]) ? idmap_get(sides, key) : p[i].sides;

		if (old == IDMAP_NONE || (old | p[i].sides) != old)
			ret = idmap_set(sides, key, old == IDMAP_NONE ? p[i].sides : old | p[i].sides);
	}
	return ret;
}

/* Deal out the pairs. A file's first one tells that it stayed. 0 or -ENOMEM. */
static int deal(struct moved *m, struct pair *p, size_t n, struct idmap *sides)
{
	enum { BOTH = PAIRS_A | PAIRS_B, TOLD = 4 };
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++) {
		const char *file = p[i].file;
		uint32_t of = has_path(&p[i]) ? idmap_get(sides, (uintptr_t)file) : (uint32_t)TOLD;

		if (of < BOTH)
			m->alone[m->n++] =
				(struct alone){ .p = &p[i], .end = short_files_shortest(file) };
		if (of == BOTH && !short_files_library(file))
			m->stayed[m->n_stayed++] = file;
		if (of == BOTH)
			ret = idmap_set(sides, (uintptr_t)file, TOLD);
	}
	if (m->n_stayed)
		qsort(m->stayed, m->n_stayed, sizeof(*m->stayed), cmd_by_text);
	if (m->n)
		qsort(m->alone, m->n, sizeof(*m->alone), by_file_end);
	return ret;
}

/* True: of the folder that @x and @y have in common files of the program did not move, so these are
 * two. Libraries are told apart by longer names. */
static bool are_two(const struct moved *m, const char *x, const char *y)
{
	size_t folder = 0, lo = 0, hi = m->n_stayed;

	for (size_t i = 0; x[i] && x[i] == y[i]; i++)
		folder = x[i] == '/' ? i + 1 : folder;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strncmp(m->stayed[mid], x, folder) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return folder > 1 && !short_files_library(x) && lo < m->n_stayed &&
	       !strncmp(m->stayed[lo], x, folder);
}

/* How many bytes of whole names two paths have in common at their ends. */
static size_t alike(const char *x, const char *y)
{
	size_t n = strlen(x), k = strlen(y), ret = 0;

	for (size_t i = 1; i <= MIN(n, k) && x[n - i] == y[k - i]; i++)
		ret = x[n - i] == '/' ? i : ret;
	return ret;
}

/* The one of the @n at @of whose file ends most like @a's. NULL: several do. */
static struct alone *nearest(const struct alone *a, struct alone *of, size_t n)
{
	struct alone *ret = NULL;
	size_t most = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = alike(a->p->file, of[i].p->file);

		if (k >= most)
			ret = k == most ? NULL : &of[i];
		most = MAX(most, k);
	}
	return ret;
}

static void note(struct alone *first[2], struct alone *a, struct alone *b)
{
	if (first[0])
		return;
	first[0] = a;
	first[1] = b;
}

/* Of one name and short file there are @n of A, and behind these @k of B. */
static void match(struct moved *m, struct alone *a, size_t n, size_t k)
{
	struct alone *b = a + n;
	size_t joined = 0;

	for (size_t i = 0; n * k <= MOST_TRIES && i < n; i++) {
		struct alone *y = nearest(&a[i], b, k);

		if (!y || nearest(y, a, n) != &a[i] || are_two(m, a[i].p->file, y->p->file))
			continue;
		note(m->joined, &a[i], y);
		a[i].there = y->p->file;
		joined++;
	}
	m->n_joined += joined;
	if (joined == MIN(n, k) || are_two(m, a->p->file, b->p->file))
		return;
	note(m->open, a, b);
	m->n_open += MIN(n, k) - joined;
}

static void match_all(struct moved *m)
{
	for (size_t i = 0, b, end; i < m->n; i = end) {
		struct alone *a = &m->alone[i];

		for (b = i; b < m->n && has_one_end(a, &m->alone[b]) &&
			    m->alone[b].p->sides == PAIRS_A;)
			b++;
		for (end = b; end < m->n && has_one_end(a, &m->alone[end]);)
			end++;
		if (b > i && end > b)
			match(m, a, b - i, end - b);
	}
}

static int find_moved(struct moved *m, struct pair *p, size_t n)
{
	struct idmap sides = { 0 };
	int ret;

	*m = (struct moved){ .alone = calloc(n + 1, sizeof(*m->alone)),
			     .stayed = calloc(n + 1, sizeof(*m->stayed)) };
	ret = m->alone && m->stayed ? find_files(p, n, &sides) : -ENOMEM;
	if (!ret)
		ret = deal(m, p, n, &sides);
	if (!ret)
		match_all(m);
	idmap_deinit(&sides);
	return ret;
}

static void moved_deinit(struct moved *m)
{
	free(m->alone);
	free(m->stayed);
}

static void tell(size_t n, const char *what, struct alone *const such[2], const char *then)
{
	if (n)
		cmd_say("folders of files differ: %zu %s, such as %s (%s, %s)%s", n, what,
			such[0]->p->name, such[0]->p->file, such[1]->p->file, then);
}

int pairs_join_moved(struct pair *p, size_t *n)
{
	struct moved m;
	int ret = find_moved(&m, p, *n);

	if (!ret) {
		tell(m.n_joined, "paired by short names", m.joined, "");
		tell(m.n_open, "may stand twice", m.open, ": several files may be theirs");
		for (size_t i = 0; i < m.n; i++)
			if (m.alone[i].there)
				m.alone[i].p->file = m.alone[i].there;
		*n = m.n_joined ? pairs_join(p, *n) : *n;
	}
	moved_deinit(&m);
	return ret;
}

void pairs_tell_moved(struct pair *p, size_t n)
{
	struct moved m;

	if (!find_moved(&m, p, n))
		tell(m.n_joined + m.n_open, "may stand twice", m.n_joined ? m.joined : m.open,
		     ": leave -o out, or compare them as folded stacks (pysampled convert FILE -o "
		     "FILE.folded)");
	moved_deinit(&m);
}
