/* SPDX-License-Identifier: MIT
 *
 * codemap_read - reads on in a file that a JIT writes, from where it was read to.
 */
#include "elf/codemap.h"

enum {
	CHUNK = 1 << 20,
	MAX_CHUNKS = 16, /* at a time */
};

static void keep_tail(struct codemap_place *p, const unsigned char *b, size_t n)
{
	p->n_tail = (uint32_t)MIN(n, sizeof(p->tail));
	p->tail_at = p->at + n - p->n_tail;
	memcpy(p->tail, b + n - p->n_tail, p->n_tail);
}

void codemap_read(struct codemap *m, int fd, enum codemap_kind kind, struct codemap_place *p)
{
	static codemap_parse_fn *const parses[] = { [CODEMAP_LINES] = codemap_parse_perf,
						    [CODEMAP_DUMP] = codemap_parse_dump,
						    [CODEMAP_OBJECTS] =
							    codemap_parse_objects };
	codemap_parse_fn *parse = kind < ARRAY_SIZE(parses) ? parses[kind] : NULL;
	_cleanup_free_ unsigned char *buf = parse ? malloc(CHUNK) : NULL;
	size_t used = 1;

	if (kind == CODEMAP_MAPPED_FILE)
		codemap_descriptor(m, fd);
	for (int i = 0; buf && i < MAX_CHUNKS && used && !m->full; i++) {
		ssize_t n = pread(fd, buf, CHUNK, (off_t)p->at);

		used = n > 0 ? parse(m, (struct bytes){ buf, (size_t)n }, p->at) : 0;
		if (used)
			keep_tail(p, buf, MIN(used, (size_t)n));
		p->at += used;
	}
	p->more = parse && used && !m->full;
}

bool codemap_same(int fd, const struct codemap_place *p)
{
	unsigned char now[sizeof(p->tail)];

	return pread(fd, now, p->n_tail, (off_t)p->tail_at) == (ssize_t)p->n_tail &&
	       memcmp(now, p->tail, p->n_tail) == 0;
}
