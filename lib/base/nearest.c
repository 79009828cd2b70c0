/* SPDX-License-Identifier: MIT */
#include "base/nearest.h"

#include <ctype.h>

#include "base/base.h"

/* Letters to insert, delete or change (Levenshtein), of the first NEAREST_NAME - 1 each. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NEAREST_NAME];
	size_t n = MIN(strlen(b), (size_t)NEAREST_NAME - 1);

	for (unsigned i = 0; i <= n; i++)
		row[i] = i;
	for (unsigned y = 1; a[y - 1] && y < NEAREST_NAME; y++) {
		unsigned diagonal = y - 1;

		row[0] = y;
		for (size_t x = 1; x <= n; x++) {
			unsigned same = tolower(a[y - 1]) == tolower(b[x - 1]);
			unsigned by = MIN(row[x], row[x - 1]) + 1;

			by = MIN(by, diagonal + !same);
			diagonal = row[x];
			row[x] = by;
		}
	}
	return row[n];
}

static size_t letters(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s != '-';
	return n;
}

void nearest_offer(void *nearest, const char *name)
{
	struct nearest *n = nearest;
	unsigned d = distance(n->want, name);
	size_t at = n->n;

	/* Half of it wrong is another word. */
	if (2 * d > letters(n->want))
		return;
	for (size_t i = 0; i < n->n; i++)
		if (!strcmp(n->best[i].name, name))
			return;
	while (at > 0 && n->best[at - 1].distance > d)
		at--;
	if (at == NEAREST_N)
		return;
	n->n = MIN(n->n + 1, (size_t)NEAREST_N);
	memmove(&n->best[at + 1], &n->best[at], (n->n - at - 1) * sizeof(n->best[0]));
	snprintf(n->best[at].name, NEAREST_NAME, "%s", name);
	n->best[at].distance = d;
}

const char *nearest_text(const struct nearest *n, char *buf, size_t size)
{
	size_t at = 0;

	*buf = '\0';
	for (size_t i = 0; i < n->n && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%s",
				       i ? ", " : "; nearest: ", n->best[i].name);
	return buf;
}
