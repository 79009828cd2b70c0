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

#include "cmd.h"
#include "sys/rootfile.h"

enum { MAX_SOURCE = 16 << 20 }; /* bytes of a file */

/* One function's lines, in their order. */
struct annotated {
	const struct tally *t;
	const struct tally_row **row;
	size_t n;
};

static bool is_called(const struct tally_row *r, const char *name)
{
	size_t n = strlen(r->name), m = strlen(name);

	return !strcmp(r->kind, "python") &&
	       (!strcmp(r->name, name) ||
		(n > m && r->name[n - m - 1] == '.' && !strcmp(r->name + n - m, name)));
}

static int by_place(const void *a, const void *b)
{
	const struct tally_row *const *x = a, *const *y = b;
	int ret = strcmp((*x)->file, (*y)->file);

	if (!ret)
		ret = strcmp((*x)->name, (*y)->name);
	return ret ? ret : ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

/* The bytes of a regular file with a NUL behind, malloc'ed. NULL: there is none, or it is
 * larger than any source: a target named it. */
static char *read_source(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > MAX_SOURCE)
		return NULL;
	return rootfile_text(fd, (size_t)st.st_size);
}

static void print_line(const struct annotated *a, int line, const char *text)
{
	const struct tally_row *r = NULL;
	double all = a->t->samples ? (double)a->t->samples : 1;

	for (size_t i = 0; i < a->n && !r; i++)
		if (a->row[i]->line == line)
			r = a->row[i];
	if (r)
		cmd_line(stdout, "%6.2f%% %6.2f%% %6d  %s", 100 * (double)r->self / all,
			 100 * (double)r->total / all, line, text);
	else
		cmd_line(stdout, "                %6d  %s", line, text);
}

static void print_function(const struct annotated *a)
{
	_cleanup_free_ char *source = read_source(a->row[0]->file);
	int from = INT_MAX, to = a->row[a->n - 1]->line, line = 0;
	char *text = source, *next;

	cmd_line(stdout, "# %s in %s", a->row[0]->name, a->row[0]->file);
	cmd_line(stdout, "#  self   total   line");
	if (!a->row[0]->line)
		print_line(a, 0, "(line not known)");
	for (size_t i = a->n; i-- && a->row[i]->line;)
		from = a->row[i]->line;
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
		if (a->row[i]->line > line)
			print_line(a, a->row[i]->line, "(no source)");
}

int source_print(const struct tally *t, const char *name)
{
	_cleanup_free_ const struct tally_row **found = calloc(t->n + 1, sizeof(*found));
	struct annotated a = { .t = t };
	size_t n = 0;

	if (!found)
		return cmd_fail(EXIT_FAILED, "out of memory");
	for (size_t i = 0; i < t->n; i++)
		if (is_called(&t->rows[i], name))
			found[n++] = &t->rows[i];
	if (!n)
		return cmd_fail(EXIT_FAILED, "no sample has a Python function '%s'", name);
	qsort(found, n, sizeof(*found), by_place);
	for (size_t i = 0; i < n; i += a.n) {
		a.row = found + i;
		for (a.n = 1; i + a.n < n && !strcmp(a.row[a.n]->name, a.row[0]->name) &&
			      !strcmp(a.row[a.n]->file, a.row[0]->file);)
			a.n++;
		print_function(&a);
	}
	return EXIT_DONE;
}
