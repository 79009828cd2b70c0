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
	MAX_NESTING = 16,
};

struct codemap_row {
	uint64_t start;
	uint32_t size, name; /* name: ascending in the order of the file */
};

static void give(struct codemap *m, size_t n)
{
	if (m->quota)
		quota_give(m->quota, QUOTA_JIT_BYTES, n);
}

void codemap_deinit(struct codemap *m)
{
	give(m, m->cap * sizeof(*m->row) + m->cap_names);
	free(m->row);
	free(m->names);
	*m = (struct codemap){ .quota = m->quota };
}

/* Count @more bytes that @m is to have; false: too many. */
static bool take(struct codemap *m, size_t n, size_t more)
{
	if (n > MAX_BYTES || (m->quota && !quota_take(m->quota, QUOTA_JIT_BYTES, more)))
		m->full = true;
	return !m->full;
}

/* A larger @p, or NULL, and @m is full. */
static void *grown(struct codemap *m, void *p, size_t *cap, size_t want, size_t each)
{
	size_t n = MAX(*cap * 2, want), more = (n - *cap) * each;
	void *ret = take(m, n * each, more) ? reallocarray(p, n, each) : NULL;

	if (ret) {
		*cap = n;
	} else if (!m->full) {
		give(m, more);
		m->full = true;
	}
	return ret;
}

static bool is_code(uint64_t start, uint64_t size, size_t n)
{
	return size > 0 && size <= MAX_CODE && start <= UINT64_MAX - size && n > 0;
}

void codemap_add(struct codemap *m, uint64_t start, uint64_t size, const char *name, size_t n)
{
	void *p;

	n = MIN(n, MAX_NAME - 1);
	if (!is_code(start, size, n) || m->full)
		return;
	if (m->n == m->cap) {
		p = grown(m, m->row, &m->cap, 256, sizeof(*m->row));
		if (!p)
			return;
		m->row = p;
	}
	if (m->cap_names - m->n_names <= n) {
		p = grown(m, m->names, &m->cap_names, 2 * MAX_NAME, 1);
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

/* By start; of one start the last written first. */
static int row_cmp(const void *a, const void *b)
{
	const struct codemap_row *x = a, *y = b;

	return COMPARE(x->start, y->start) ?: COMPARE(y->name, x->name);
}

void codemap_sort(struct codemap *m)
{
	size_t k = 0;

	if (m->n == m->n_sorted)
		return;
	qsort(m->row, m->n, sizeof(*m->row), row_cmp);
	for (size_t i = 0; i < m->n; i++)
		if (k == 0 || m->row[k - 1].start != m->row[i].start)
			m->row[k++] = m->row[i];
	m->n = m->n_sorted = k;
}

bool codemap_first(const struct codemap *m, uint64_t *start)
{
	if (m->n > 0)
		*start = m->row[0].start;
	return m->n > 0;
}

const char *codemap_find(const struct codemap *m, uint64_t ip)
{
	size_t n = rows_up_to(m->row, m->n_sorted, sizeof(*m->row), ip);
	const struct codemap_row *best = NULL;

	/* Memory is used again: of all that cover it, the last written. */
	for (size_t i = n; i > 0 && n - i < MAX_NESTING; i--) {
		const struct codemap_row *r = &m->row[i - 1];

		if (ip - r->start < r->size && (!best || r->name > best->name))
			best = r;
	}
	return best ? m->names + best->name : NULL;
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
