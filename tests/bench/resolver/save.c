/* SPDX-License-Identifier: MIT
 *
 * save - linked into a pysampled of the tests (--wrap), it keeps what the resolver takes out
 * of its queues in the file that PYSAMPLED_SAVE names: for replay.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "stacks/inbox.h"
#include "stacks/resolver.h"
#include "saved.h"

struct resolver *__real_resolver_create(const struct resolver_config *c);
struct resolver *__wrap_resolver_create(const struct resolver_config *c);
void __real_inbox_take(struct inbox *in, struct inbox_item **items, size_t *n);
void __wrap_inbox_take(struct inbox *in, struct inbox_item **items, size_t *n);

static FILE *out;

/* Before the command line is read: later nothing may be created. The program runs once more, to
 * read files, while the recorder's file is written. */
__attribute__((__constructor__)) static void save_open(void)
{
	const char *path = getenv("PYSAMPLED_SAVE");

	out = path ? fopen(path, "wxe") : NULL;
	if (!out && !(path && errno == EEXIST))
		abort();
}

struct resolver *__wrap_resolver_create(const struct resolver_config *c)
{
	struct saved_session s = { .n_events = c->session->n_events,
				   .flags = c->session->flags };

	memcpy(s.events, c->session->events, sizeof(s.events));
	fwrite(&s, sizeof(s), 1, out);
	return __real_resolver_create(c);
}

static void save_item(const struct inbox_item *it)
{
	static const char zero[8];
	struct saved_record head = { .type = it->type, .n = it->n };

	fwrite(&head, sizeof(head), 1, out);
	fwrite(it->data, 1, it->n, out);
	fwrite(zero, 1, -it->n & 7, out);
}

void __wrap_inbox_take(struct inbox *in, struct inbox_item **items, size_t *n)
{
	__real_inbox_take(in, items, n);
	for (size_t i = 0; i < *n; i++)
		save_item(&(*items)[i]);
	fflush(out);
}
