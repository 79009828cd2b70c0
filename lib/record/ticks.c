/* SPDX-License-Identifier: MIT */
#include "record/ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { MOST_PARENTS = 64, MOST_STRANGE = 4096 };

static int by_pid(const void *a, const void *b)
{
	const struct ticks_row *x = a, *y = b;

	return COMPARE(x->pid, y->pid);
}

static struct ticks_row *find(struct ticks_row *row, size_t n, pid_t pid)
{
	const struct ticks_row key = { .pid = pid };

	return n ? bsearch(&key, row, n, sizeof(*row), by_pid) : NULL;
}

static void add(struct cpu_ticks *sum, const struct cpu_ticks *t)
{
	sum->user += t->user;
	sum->kernel += t->kernel;
}

/* @t less what is @owed, which becomes less. */
static uint64_t take(uint64_t t, uint64_t *owed)
{
	uint64_t n = (int64_t)t > 0 ? MIN(t, *owed) : 0;

	*owed -= n;
	return t - n;
}

void ticks_deinit(struct ticks *t)
{
	free(t->row);
	idmap_deinit(&t->strange);
}

static bool is_strange(const struct ticks *t, pid_t pid)
{
	return idmap_get(&t->strange, (uint64_t)pid) != IDMAP_NONE;
}

void ticks_begin(struct ticks *t)
{
	t->used = (struct cpu_ticks){ 0 };
	for (size_t i = 0; i < t->n; i++) {
		t->row[i].of_children = (struct cpu_ticks){ 0 };
		t->row[i].unknown = t->row[i].unread;
	}
}

bool ticks_strange(struct ticks *t, pid_t pid)
{
	struct ticks_row *row = find(t->row, t->n, pid);

	if (is_strange(t, pid) || idmap_set(&t->strange, (uint64_t)pid, 1) < 0)
		return false;
	if (row) {
		t->used.user -= row->of_children.user;
		t->used.kernel -= row->of_children.kernel;
		row->of_children = (struct cpu_ticks){ 0 };
	}
	return true;
}

/* Those that have ended are forgotten. */
static void prune(struct ticks *t)
{
	struct idmap strange = { 0 };

	if (t->strange.n < MOST_STRANGE + 2 * t->n)
		return;
	for (size_t i = 0; i < t->n; i++)
		if (is_strange(t, t->row[i].pid))
			idmap_set(&strange, (uint64_t)t->row[i].pid, 1);
	idmap_deinit(&t->strange);
	t->strange = strange;
}

/* NULL: no memory. */
static struct ticks_row *add_row(struct ticks *t, pid_t pid)
{
	struct ticks_row *row = realloc(t->row, (t->n + 1) * sizeof(*row));

	if (!row)
		return NULL;
	t->row = row;
	row[t->n++] = (struct ticks_row){ .pid = pid };
	qsort(row, t->n, sizeof(*row), by_pid);
	return find(row, t->n, pid);
}

int ticks_known(struct ticks *t, pid_t pid, const struct proc_use *use)
{
	struct ticks_row *row = find(t->row, t->n, pid) ?: add_row(t, pid);

	if (!row)
		return -ENOMEM;
	row->unknown = !use;
	if (use)
		row->use = *use;
	return 0;
}

/* The same process at the look before, or NULL. */
static struct ticks_row *before(struct ticks *t, const struct ticks_row *row)
{
	struct ticks_row *old = find(t->row, t->n, row->pid);

	return old && (row->unread || old->unknown || row->use.begun == old->use.begun) ? old :
											  NULL;
}

/* @old has ended: who waits for it, or for its parent that has ended too, is told of all. */
static void owe(struct ticks *t, const struct ticks_row *old, struct ticks_row *row, size_t n)
{
	const struct ticks_row *at = old;

	for (int i = 0; at && i < MOST_PARENTS; i++) {
		struct ticks_row *parent = find(row, n, at->use.parent);

		if (parent) {
			add(&parent->owed, &old->use.own);
			add(&parent->owed, &old->use.children);
			add(&parent->owed, &old->owed);
			return;
		}
		at = find(t->row, t->n, at->use.parent);
	}
}

static void count(struct ticks *t, const struct ticks_row *old, struct ticks_row *row)
{
	const struct proc_use none = { 0 }, *to = &row->use;
	const struct proc_use *from = !old ? &none : old->unknown ? to : &old->use;
	struct cpu_ticks told = {
		take(to->children.user - from->children.user, &row->owed.user),
		take(to->children.kernel - from->children.kernel, &row->owed.kernel)
	};

	if (is_strange(t, row->pid))
		told = (struct cpu_ticks){ 0 };
	row->of_children = old ? old->of_children : (struct cpu_ticks){ 0 };
	add(&row->of_children, &told);
	add(&t->used, &told);
	t->used.user += to->own.user - from->own.user;
	t->used.kernel += to->own.kernel - from->own.kernel;
}

void ticks_look(struct ticks *t, struct ticks_row *row, size_t n)
{
	if (n)
		qsort(row, n, sizeof(*row), by_pid);
	for (size_t i = 0; i < n; i++) {
		const struct ticks_row *old = before(t, &row[i]);

		row[i].owed = old ? old->owed : (struct cpu_ticks){ 0 };
		row[i].unknown = row[i].unread && old && old->unknown;
		if (row[i].unread)
			row[i].use = old ? old->use : (struct proc_use){ 0 };
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct ticks_row *now = find(row, n, t->row[i].pid);

		if (!now || before(t, now) != &t->row[i])
			owe(t, &t->row[i], row, n);
	}
	for (size_t i = 0; i < n; i++)
		count(t, before(t, &row[i]), &row[i]);
	free(t->row);
	t->row = row;
	t->n = n;
	prune(t);
}
