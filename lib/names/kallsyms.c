/* SPDX-License-Identifier: MIT */
#include "names/kallsyms.h"

#include "base/array.h"
#include "base/base.h"
#include "sys/proc.h"

static const char nameless[] = "[kernel]_[k]";

struct kallsym {
	uint64_t start; /* first: rows_up_to() */
	uint32_t name;	/* offset in kallsyms.names */
} __attribute__((__packed__));

/* One line "ffffffff81000000 T name\t[module]" of kallsyms at *@at, which moves to
 * the next. False for data and for hidden addresses. */
static bool kallsyms_line(char **at, uint64_t *start, char **name)
{
	char *line = *at, *end = strchrnul(line, '\n'), *p;

	*at = *end ? end + 1 : end;
	*end = '\0';
	*start = strtoull(line, &p, 16);
	if (p == line || p[0] != ' ' || !p[1] || !strchr("tTwW", p[1]) || p[2] != ' ')
		return false;
	*name = p + 3;
	(*name)[strcspn(*name, "\t ")] = '\0';
	return *start && **name;
}

static int kallsyms_cmp(const void *a, const void *b)
{
	const struct kallsym *x = a, *y = b;

	return COMPARE(x->start, y->start) ?: COMPARE(x->name, y->name);
}

/* The kernel's own are, and often there is nothing behind them. */
static bool is_sorted(const struct kallsyms *k)
{
	for (size_t i = 1; i < k->n; i++)
		if (k->sym[i].start < k->sym[i - 1].start)
			return false;
	return true;
}

/* By address; of several names for one the kernel's first. */
static void kallsyms_sort(struct kallsyms *k)
{
	size_t n = 0;

	if (!is_sorted(k))
		qsort(k->sym, k->n, sizeof(*k->sym), kallsyms_cmp);
	for (size_t i = 0; i < k->n; i++)
		if (n == 0 || k->sym[n - 1].start != k->sym[i].start)
			k->sym[n++] = k->sym[i];
	k->n = n;
}

/* Rows, and names moved together at the front of @text. */
void kallsyms_parse(struct kallsyms *k, char *text)
{
	size_t cap = 0, used = 0, len;
	char *at = text, *name;
	uint64_t start;

	k->names = text;
	while (*at) {
		if (!kallsyms_line(&at, &start, &name))
			continue;
		if (!array_reserve(&k->sym, &cap, k->n + 1, sizeof(*k->sym))) {
			/* What follows would be named after the last one. */
			k->n = 0;
			break;
		}
		len = strlen(name) + 1;
		memmove(text + used, name, len);
		k->sym[k->n++] = (struct kallsym){ start, (uint32_t)used };
		used += len;
	}
	kallsyms_sort(k);
	text = realloc(k->names, used + 1);
	k->names = text ? text : k->names;
}

static void kallsyms_load(struct kallsyms *k)
{
	char *text;
	size_t n;

	k->loaded = true;
	if (proc_read_file("/proc/kallsyms", &text, &n) < 0)
		return;
	if (n < UINT32_MAX)
		kallsyms_parse(k, text);
	else
		free(text);
}

void kallsyms_deinit(struct kallsyms *k)
{
	free(k->sym);
	free(k->names);
}

const char *kallsyms_intern(struct symnames *names, const char *symbol)
{
	char clean[SYMNAMES_MAX], buf[SYMNAMES_MAX + 8];

	if (!*symbol)
		return nameless;
	symnames_clean(clean, sizeof(clean), symbol);
	symnames_cut(clean);
	snprintf(buf, sizeof(buf), "%s_[k]", clean);
	return symnames_intern(names, buf);
}

const char *kallsyms_name(struct kallsyms *k, struct symnames *names, uint64_t ip)
{
	size_t n;

	if (!k->loaded)
		kallsyms_load(k);
	n = rows_up_to(k->sym, k->n, sizeof(*k->sym), ip);
	return kallsyms_intern(names, n ? k->names + k->sym[n - 1].name : "");
}
