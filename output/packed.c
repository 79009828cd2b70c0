/* SPDX-License-Identifier: MIT
 *
 * packed - of each line what is not as in the one before it: a byte says what that is, numbers
 * follow, which for processes and threads are differences.
 */
#include "packed.h"

#include <errno.h>

#include "base/base.h"

enum { COMM = 1, TITLE = 2, PID = 4, TID = 8, BODY = 16, EVENT = 32, COUNT = 64 /* not 1 */ };
enum { LINE_MAX = 1 + 7 * 10 };

void packed_deinit(struct packed *p)
{
	buf_deinit(&p->bytes);
	*p = (struct packed){ 0 };
}

/* @v to @to if it is not @same; its bit then. */
static unsigned put(unsigned char **to, unsigned bit, uint64_t v, bool same)
{
	if (same)
		return 0;
	for (; v >= 0x80; v >>= 7)
		*(*to)++ = (unsigned char)(v | 0x80);
	*(*to)++ = (unsigned char)v;
	return bit;
}

/* Small differences are small numbers, whatever their sign. */
static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1 ^ -(v & 1));
}

int packed_add(struct packed *p, const struct folded_line *line)
{
	const struct folded_line *l = &p->last;
	unsigned char bytes[LINE_MAX], *to = bytes + 1;
	unsigned set = 0;

	set |= put(&to, COMM, line->comm, line->comm == l->comm);
	set |= put(&to, TITLE, line->title, line->title == l->title);
	set |= put(&to, PID, zigzag((int64_t)line->pid - l->pid), line->pid == l->pid);
	set |= put(&to, TID, zigzag((int64_t)line->tid - l->tid), line->tid == l->tid);
	set |= put(&to, BODY, line->body, line->body == l->body);
	set |= put(&to, EVENT, line->event, line->event == l->event);
	set |= put(&to, COUNT, line->count, line->count == 1);
	bytes[0] = (unsigned char)set;
	buf_put(&p->bytes, bytes, (size_t)(to - bytes));
	if (p->bytes.oom) {
		p->bytes.oom = false; /* none of it is there, and what was is whole */
		return -ENOMEM;
	}
	p->last = *line;
	p->n++;
	return 0;
}

static uint64_t get(const struct packed *p, struct packed_at *a)
{
	uint64_t ret = 0;
	unsigned char byte;
	unsigned shift = 0;

	do {
		byte = p->bytes.at[a->at++];
		ret |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return ret;
}

bool packed_next(const struct packed *p, struct packed_at *a)
{
	struct folded_line *l = &a->line;
	unsigned set;

	if (a->at >= p->bytes.n)
		return false;
	set = p->bytes.at[a->at++];
	if (set & COMM)
		l->comm = (uint32_t)get(p, a);
	if (set & TITLE)
		l->title = (uint32_t)get(p, a);
	if (set & PID)
		l->pid = (pid_t)(l->pid + unzigzag(get(p, a)));
	if (set & TID)
		l->tid = (pid_t)(l->tid + unzigzag(get(p, a)));
	if (set & BODY)
		l->body = (uint32_t)get(p, a);
	if (set & EVENT)
		l->event = (uint32_t)get(p, a);
	l->count = set & COUNT ? get(p, a) : 1;
	return true;
}
