/* SPDX-License-Identifier: MIT */
#include "elf/codemap.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/quota.h"
#include "elf/sealed.h"

enum {
	MAX_NAME = 4096,
	MAX_BYTES = 64 << 20,
	MAX_CODE = 256 << 20, /* bytes of one function */
	LAYER = 1 << 16,      /* rows that are laid over others at a time */
};

struct codemap_row {
	uint64_t start;
	uint32_t size, name;
};

/* What younger code left of a row. */
struct codemap_piece {
	uint64_t start, end;
	uint32_t name;
	bool cut; /* it begins behind the beginning of its row */
};

static void give(struct codemap *m, size_t n)
{
	if (m->share)
		quota_share_give(m->share, n);
}

void codemap_deinit(struct codemap *m)
{
	give(m, m->cap * sizeof(*m->row) + m->cap_laid * sizeof(*m->laid) + m->cap_names);
	free(m->row);
	free(m->laid);
	free(m->names);
	*m = (struct codemap){ .share = m->share };
}

/* Count @more bytes that @m is to have; false: too many. */
static bool take(struct codemap *m, size_t n, size_t more)
{
	if (n > MAX_BYTES || !m->share)
		return n <= MAX_BYTES;
	if (quota_share_take(m->share, more))
		return true;
	m->lacked = MAX(m->lacked, atomic_load(&m->share->used) + more);
	return false;
}

bool codemap_has_room(const struct codemap *m)
{
	/* What was read little by little takes more where it is read at once. */
	return m->full && m->lacked && quota_share_may(m->share, 2 * m->lacked);
}

/* How many elements there may be, of @want at least: twice as many as now, or a few more where
 * there is little room; 0: there is less. What is more than @cap is counted. */
static size_t take_more(struct codemap *m, size_t cap, size_t want, size_t each)
{
	size_t n = MAX(MIN(cap * 2, MAX_BYTES / each), want), few = want + want / 8;

	if (take(m, n * each, (n - cap) * each))
		return n;
	return few < n && take(m, few * each, (few - cap) * each) ? few : 0;
}

/* A larger @p, or NULL, and @m is full. */
static void *grown(struct codemap *m, void *p, size_t *cap, size_t want, size_t each)
{
	size_t n = take_more(m, *cap, want, each);
	void *ret = n ? reallocarray(p, n, each) : NULL;

	if (ret)
		*cap = n;
	else if (n)
		give(m, (n - *cap) * each);
	m->full |= !ret;
	return ret;
}

static bool is_code(uint64_t start, uint64_t size, size_t n)
{
	return size > 0 && size <= MAX_CODE && start <= UINT64_MAX - size && n > 0;
}

/* For a row more and, where room may lack, the pieces that it will be laid in: who has rows could
 * have no room for those. */
static bool has_room(struct codemap *m)
{
	size_t most = m->n_laid + 2 * (m->n + 1);
	void *p;

	if (m->n == m->cap) {
		p = grown(m, m->row, &m->cap, MAX(256, m->n + 1), sizeof(*m->row));
		if (!p)
			return false;
		m->row = p;
	}
	if (m->share && m->cap_laid < most) {
		p = grown(m, m->laid, &m->cap_laid, most, sizeof(*m->laid));
		if (!p)
			return false;
		m->laid = p;
	}
	return true;
}

void codemap_add(struct codemap *m, uint64_t start, uint64_t size, const char *name, size_t n)
{
	void *p;

	n = MIN(n, MAX_NAME - 1);
	if (!is_code(start, size, n) || m->full || !has_room(m))
		return;
	if (m->cap_names - m->n_names <= n) {
		p = grown(m, m->names, &m->cap_names, MAX(2 * MAX_NAME, m->n_names + n + 1), 1);
		if (!p)
			return;
		m->names = p;
	}
	m->row[m->n++] = (struct codemap_row){ start, (uint32_t)size, (uint32_t)m->n_names };
	memcpy(m->names + m->n_names, name, n);
	m->n_names += n;
	m->names[m->n_names++] = '\0';
}

/* ---- Order ---- */

static struct codemap_piece *lay_over_one(struct codemap_piece *to, struct codemap_piece rest,
					  const struct codemap_piece **young,
					  const struct codemap_piece *end)
{
	const struct codemap_piece *y = *young;

	for (; y < end && y->start < rest.end; *to++ = *y++) {
		if (rest.start < y->start)
			*to++ = (struct codemap_piece){ rest.start, y->start, rest.name, rest.cut };
		rest.start = y->end;
		rest.cut = true;
		if (y->end > rest.end) /* it lies over the next one, too */
			break;
	}
	if (rest.start < rest.end)
		*to++ = rest;
	*young = y;
	return to;
}

/* Lay @young over @old, each in order and disjoint as what @to gets is. A row whose beginning is
 * covered has no name from then on: what is left of it is nobody's. @to has room for two pieces
 * more for each of @young, and @old may be the end of it. Returns its new end. */
static struct codemap_piece *lay_over(char *names, struct codemap_piece *to,
				      const struct codemap_piece *old, size_t n_old,
				      const struct codemap_piece *young, size_t n_young)
{
	const struct codemap_piece *old_end = old + n_old, *end = young + n_young;

	for (; old < old_end; old++) {
		while (young < end && young->end <= old->start)
			*to++ = *young++;
		if (young < end && young->start <= old->start && !old->cut)
			names[old->name] = '\0';
		to = lay_over_one(to, *old, &young, end);
	}
	while (young < end)
		*to++ = *young++;
	return to;
}

/* Lay @n rows one over the other, the last is the youngest. @to gets their pieces: it has room
 * for two a row, and so has @spare. How many they are. */
static size_t lay_rows(char *names, const struct codemap_row *row, size_t n,
		       struct codemap_piece *to, struct codemap_piece *spare)
{
	size_t half = n / 2, n_old, n_young;

	if (n == 1) {
		*to = (struct codemap_piece){ .start = row->start,
					      .end = row->start + row->size,
					      .name = row->name };
		return 1;
	}
	n_old = lay_rows(names, row, half, spare, to);
	n_young = lay_rows(names, row + half, n - half, spare + 2 * half, to);
	return (size_t)(lay_over(names, to, spare, n_old, spare + 2 * half, n_young) - to);
}

/* Lay pieces over all that there are. Without room @m is full. */
static void lay(struct codemap *m, const struct codemap_piece *young, size_t n)
{
	size_t most = m->n_laid + 2 * n;
	struct codemap_piece *p = m->laid;

	if (most > m->cap_laid)
		p = grown(m, p, &m->cap_laid, most, sizeof(*p));
	if (!p)
		return;
	m->laid = p;
	memmove(p + 2 * n, p, m->n_laid * sizeof(*p));
	m->n_laid = (size_t)(lay_over(m->names, p, p + 2 * n, m->n_laid, young, n) - p);
}

static void drop_rows(struct codemap *m)
{
	give(m, m->cap * sizeof(*m->row));
	free(m->row);
	m->row = NULL;
	m->n = m->cap = 0;
}

void codemap_sort(struct codemap *m)
{
	size_t most = MIN(m->n, (size_t)LAYER), n;
	_cleanup_free_ struct codemap_piece *p = NULL;

	if (!m->n)
		return;
	p = reallocarray(NULL, 4 * most, sizeof(*p));
	m->full |= !p;
	for (size_t at = 0; p && at < m->n; at += n) {
		n = MIN(m->n - at, most);
		lay(m, p, lay_rows(m->names, m->row + at, n, p, p + 2 * most));
	}
	drop_rows(m);
}

/* Add the names of @young, and say so in its pieces. False: there is no room. */
static bool join_names(struct codemap *m, struct codemap *young)
{
	size_t want = m->n_names + young->n_names;
	char *p = m->names;

	if (want > m->cap_names)
		p = grown(m, p, &m->cap_names, want, 1);
	if (!p)
		return false;
	m->names = p;
	memcpy(p + m->n_names, young->names, young->n_names);
	for (size_t i = 0; i < young->n_laid; i++)
		young->laid[i].name += (uint32_t)m->n_names;
	m->n_names = want;
	return true;
}

void codemap_join(struct codemap *m, struct codemap *young)
{
	bool full = m->full || young->full;
	size_t lacked = MAX(m->lacked, young->lacked);

	if (!m->n_names) {
		codemap_deinit(m);
		*m = *young;
		*young = (struct codemap){ .share = m->share };
	} else if (young->n_laid && join_names(m, young)) {
		lay(m, young->laid, young->n_laid);
	}
	m->full |= full;
	m->lacked = MAX(m->lacked, lacked);
	codemap_deinit(young);
	young->full = m->full;
}

bool codemap_first(const struct codemap *m, uint64_t *start)
{
	if (m->n > 0)
		*start = m->row[0].start;
	return m->n > 0;
}

const char *codemap_find(const struct codemap *m, uint64_t ip)
{
	size_t n = rows_up_to(m->laid, m->n_laid, sizeof(*m->laid), ip);
	const char *name = n && ip < m->laid[n - 1].end ? m->names + m->laid[n - 1].name : "";

	return *name ? name : NULL;
}

/* ---- perf-PID.map ---- */

/* A hex number and the space behind it; false: none. */
static bool hex(const char **p, const char *end, uint64_t *ret)
{
	const char *s = *p;
	uint64_t v = 0;
	int digits = 0;

	if (end - s > 2 && s[0] == '0' && (s[1] | 0x20) == 'x')
		s += 2;
	for (; s < end && digits < 17; s++, digits++) {
		char c = *s;

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v << 4 | (uint64_t)((c | 0x20) - 'a' + 10);
		else
			break;
	}
	if (digits == 0 || digits > 16 || s == end || *s != ' ')
		return false;
	*p = s + 1;
	*ret = v;
	return true;
}

size_t codemap_parse_perf(struct codemap *m, struct bytes b, uint64_t at)
{
	const char *text = (const char *)b.at, *end = text + b.n, *line = text, *next;

	for (; (next = memchr(line, '\n', (size_t)(end - line))); line = next + 1) {
		const char *p = line;
		uint64_t start, size;

		if (hex(&p, next, &start) && hex(&p, next, &size))
			codemap_add(m, start, size, p, strnlen(p, (size_t)(next - p)));
	}
	return (size_t)(line - text);
}

/* ---- jit-PID.dump ---- */

enum {
	DUMP_MAGIC = 0x4a695444,
	DUMP_VERSION = 1,
	DUMP_HEADER =
		40, /* magic, version, total_size, elf_mach, pad, pid; timestamp, flags */
	RECORD_HEADER = 16, /* id, total_size; timestamp */
	RECORD_LOAD = 0,
	LOAD_HEADER = RECORD_HEADER + 40, /* pid, tid; vma, code_addr, code_size, code_index */
};

/* Take a record that is there as far as its name goes. How long it is; 0: not there yet. */
static size_t dump_record(struct codemap *m, struct bytes b)
{
	const char *name = (const char *)b.at + LOAD_HEADER;
	size_t n, room, len;

	if (b.n < RECORD_HEADER)
		return 0;
	n = load_u32(b.at + 4);
	if (n < RECORD_HEADER)
		return 0; /* for ever: this is no dump */
	if (load_u32(b.at) != RECORD_LOAD || n <= LOAD_HEADER)
		return n;
	if (b.n <= LOAD_HEADER)
		return 0;
	room = MIN(MIN(b.n, n) - LOAD_HEADER, MAX_NAME);
	len = strnlen(name, room);
	if (len == room && b.n < n && room < MAX_NAME)
		return 0;
	codemap_add(m, load_u64(b.at + 32), load_u64(b.at + 40), name, len);
	return n;
}

size_t codemap_parse_dump(struct codemap *m, struct bytes b, uint64_t at)
{
	size_t used = 0, n;

	if (at == 0) {
		if (b.n < DUMP_HEADER || load_u32(b.at) != DUMP_MAGIC ||
		    load_u32(b.at + 4) > DUMP_VERSION || load_u32(b.at + 8) < DUMP_HEADER)
			return 0;
		used = load_u32(b.at + 8);
	}
	while (used < b.n) {
		n = dump_record(m, (struct bytes){ b.at + used, b.n - used });
		if (n == 0)
			break;
		used += n;
	}
	return used;
}

/* ---- From process to process ---- */

/* The rows follow, then their names, in the same order. */
struct head {
	uint32_t magic, full; /* full: there was more than it could take */
	uint64_t n;
};

enum { MAGIC = 0x6d706373, MAX_WIRE = 3 * MAX_BYTES };

int codemap_make(const struct codemap *m)
{
	struct head h = { MAGIC, m->full, m->n };
	struct iovec part[] = { { &h, sizeof(h) },
				{ m->row, m->n * sizeof(*m->row) },
				{ m->names, m->n_names } };

	return sealed_make(part, m->n ? ARRAY_SIZE(part) : 1);
}

/* Add @r, whose name is the first of @names, and leave the others in it. False: it can't be.
 */
static bool take_row(struct codemap *m, const struct codemap_row *r, struct bytes *names)
{
	const char *name = (const char *)names->at;
	size_t room = MIN(names->n, (size_t)MAX_NAME), n = strnlen(name, room);

	if (n == room || !is_code(r->start, r->size, n))
		return false;
	codemap_add(m, r->start, r->size, name, n);
	*names = (struct bytes){ names->at + n + 1, names->n - n - 1 };
	return true;
}

int codemap_check(struct codemap *m, struct bytes b)
{
	struct codemap_row r;
	struct bytes names;
	struct head h;

	if (b.n < sizeof(h))
		return -EPROTO;
	memcpy(&h, b.at, sizeof(h));
	b = (struct bytes){ b.at + sizeof(h), b.n - sizeof(h) };
	if (h.magic != MAGIC || h.full > 1 || h.n > b.n / sizeof(r))
		return -EPROTO;
	names = (struct bytes){ b.at + h.n * sizeof(r), b.n - h.n * sizeof(r) };
	for (size_t i = 0; i < h.n && !m->full; i++) {
		memcpy(&r, b.at + i * sizeof(r), sizeof(r));
		if (!take_row(m, &r, &names))
			return -EPROTO;
	}
	m->full |= h.full;
	return 0;
}

int codemap_take(struct codemap *m, int fd)
{
	struct bytes b;
	int r = sealed_map(&b, fd, MAX_WIRE);

	if (r < 0)
		return r;
	r = codemap_check(m, b);
	munmap((void *)(uintptr_t)b.at, b.n);
	return r;
}
