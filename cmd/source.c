/* SPDX-License-Identifier: MIT
 *
 * source - reads a function's lines from its file, as it is now.
 */
#include "source.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/nearest.h"
#include "cmd.h"
#include "sys/rootfile.h"

enum {
	MAX_SOURCE = 16 << 20, /* bytes of a file */
	COLUMN = 16,	       /* of an event's shares */
};

/* What an event has of a line. */
struct found {
	const struct tally_row *row;
	size_t event;
	double weight; /* of its function: the totals of all lines */
};

/* One function's lines, in their order. */
struct annotated {
	const struct source_events *e;
	const struct found *found;
	size_t n;
};

static bool is_called(const struct tally_row *r, const char *name)
{
	size_t n = strlen(r->name), m = strlen(name);

	return !strcmp(r->kind, "python") &&
	       (!strcmp(r->name, name) ||
		(n > m && r->name[n - m - 1] == '.' && !strcmp(r->name + n - m, name)));
}

static int by_function(const struct found *x, const struct found *y)
{
	return strcmp(x->row->file, y->row->file) ?: strcmp(x->row->name, y->row->name);
}

static int by_place(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return by_function(x, y) ?: COMPARE(x->row->line, y->row->line);
}

/* The hottest function first. */
static int by_weight(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return COMPARE(y->weight, x->weight) ?: by_place(a, b);
}

/* @f is in the order of places. */
static void weigh(struct found *f, size_t n)
{
	for (size_t i = 0, k; i < n; i = k) {
		double sum = 0;

		for (k = i; k < n && !by_function(&f[k], &f[i]); k++)
			sum += f[k].row->total;
		for (size_t j = i; j < k; j++)
			f[j].weight = sum;
	}
}

/* The bytes of a regular file with a NUL behind, malloc'ed, and when it was changed. NULL: there
 * is none, or it is larger than any source: a target named it. */
static char *read_source(const char *path, int64_t *changed)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > MAX_SOURCE)
		return NULL;
	*changed = st.st_mtime;
	return rootfile_text(fd, (size_t)st.st_size);
}

/* The shares that event @event has of @line, in all functions of this name and file. A stack with
 * two of them has the line once. */
static void put_shares(const struct annotated *a, size_t event, int line, char *to, size_t cap)
{
	double all = (double)MAX(a->e->t[event].samples, UINT64_C(1)), self = 0, total = 0;

	for (size_t i = 0; i < a->n; i++)
		if (a->found[i].event == event && a->found[i].row->line == line) {
			self += a->found[i].row->self;
			total += a->found[i].row->total;
		}
	if (total > 0)
		snprintf(to, cap, "%6.2f%% %6.2f%% ", 100 * self / all,
			 100 * MIN(total, all) / all);
	else
		snprintf(to, cap, "%16s", "");
}

static void print_line(const struct annotated *a, int line, const char *text)
{
	char shares[SESSION_MAX_EVENTS * COLUMN + 1] = "";

	for (size_t i = 0; i < a->e->n; i++)
		put_shares(a, i, line, shares + i * COLUMN, COLUMN + 1);
	cmd_line(stdout, "%s%6d  %s", shares, line, text);
}

/* @changed: when the file was, or 0. */
static void print_head(const struct annotated *a, int64_t changed)
{
	char names[SESSION_MAX_EVENTS * COLUMN + 1] = "", columns[sizeof(names)] = "";

	for (size_t i = 0; i < a->e->n; i++) {
		snprintf(names + i * COLUMN, COLUMN + 1, "%*.*s ", COLUMN - 1, COLUMN - 2,
			 a->e->events[i].name);
		snprintf(columns + i * COLUMN, COLUMN + 1, "%7s %7s ", "self", "total");
	}
	cmd_line(stdout, "# %s in %s%s", a->found[0].row->name, a->found[0].row->file,
		 a->e->since && changed > a->e->since ? " (changed since it was recorded)" : "");
	if (a->e->n > 1)
		cmd_line(stdout, "#%s", names + 1);
	cmd_line(stdout, "#%s  line", columns + 1);
}

static void print_function(const struct annotated *a)
{
	int64_t changed = 0;
	const char *file = a->found[0].row->file;
	bool is_short = a->e->folded && *file != '/';
	_cleanup_free_ char *source = is_short ? NULL : read_source(file, &changed);
	int from = INT_MAX, to = a->found[a->n - 1].row->line, line = 0;
	char *text = source, *next;

	print_head(a, changed);
	if (!a->found[0].row->line)
		print_line(a, 0, "(line not known)");
	for (size_t i = a->n; i-- && a->found[i].row->line;) {
		const struct tally_row *r = a->found[i].row;

		from = r->first > 0 ? MIN(r->first, r->line) : r->line;
	}
	for (; text && *text && line < to; text = next) {
		next = text + strcspn(text, "\n");
		if (*next)
			*next++ = '\0';
		for (char *tab = text; (tab = strchr(tab, '\t'));)
			*tab = ' ';
		if (++line >= from)
			print_line(a, line, text);
	}
	for (size_t i = 0; i < a->n; i++)
		if (a->found[i].row->line > line &&
		    (!i || a->found[i].row->line != a->found[i - 1].row->line))
			print_line(a, a->found[i].row->line, "(no source)");
}

/* All lines of functions called @name, of all events, into *@ret; how many. */
static size_t find(const struct source_events *e, const char *name, struct found **ret)
{
	size_t n = 0, room = 1;

	for (size_t k = 0; k < e->n; k++)
		room += e->t[k].n;
	*ret = calloc(room, sizeof(**ret));
	for (size_t k = 0; *ret && k < e->n; k++)
		for (size_t i = 0; i < e->t[k].n; i++)
			if (is_called(&e->t[k].rows[i], name))
				(*ret)[n++] = (struct found){ .row = &e->t[k].rows[i],
							      .event = k };
	return n;
}

/* A sentence about @name, with the names that it may mean: those without their class, too. */
static int none_called(const struct source_events *e, const char *name)
{
	struct nearest near = { .want = name };
	char text[512];

	for (size_t k = 0; k < e->n; k++)
		for (size_t i = 0; i < e->t[k].n; i++) {
			const char *known = e->t[k].rows[i].name, *last = strrchr(known, '.');

			if (!strcmp(e->t[k].rows[i].kind, "python"))
				nearest_offer(&near, last && !strchr(name, '.') ? last + 1 : known);
		}
	return cmd_fail(EXIT_FAILED, "no sample has a Python function '%s'%s", name,
			nearest_text(&near, text, sizeof(text)));
}

int source_print(const struct source_events *e, const char *name)
{
	_cleanup_free_ struct found *found = NULL;
	struct annotated a = { .e = e };
	size_t n = find(e, name, &found);

	if (!found)
		return cmd_fail(EXIT_FAILED, "out of memory");
	if (!n)
		return none_called(e, name);
	qsort(found, n, sizeof(*found), by_place);
	weigh(found, n);
	qsort(found, n, sizeof(*found), by_weight);
	for (size_t i = 0; i < n; i += a.n) {
		a.found = found + i;
		for (a.n = 1; i + a.n < n && !by_function(&a.found[a.n], &a.found[0]);)
			a.n++;
		print_function(&a);
	}
	return EXIT_DONE;
}
