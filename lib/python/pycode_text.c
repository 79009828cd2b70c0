/* SPDX-License-Identifier: MIT
 *
 * pycode_text - the pure half of pycode: lines and text of a copied code object.
 * The copy may come from a tape: nothing in it is believed.
 */
#include <limits.h>

#include "base/base.h"
#include "base/printable.h"
#include "python/pycode.h"

enum { REPLACEMENT = 0xfffd };

static bool kind_valid(uint8_t kind, uint32_t n)
{
	return (kind == 1 || kind == 2 || kind == 4) && n % kind == 0;
}

bool pycode_copy_valid(const struct pycode_copy *c, size_t n)
{
	return n >= sizeof(*c) && c->name_n <= PYCODE_NAME_MAX &&
	       c->file_n <= PYCODE_FILE_MAX && c->table_n <= PYCODE_TABLE_MAX &&
	       n >= pycode_copy_size(c) && kind_valid(c->name_kind, c->name_n) &&
	       kind_valid(c->file_kind, c->file_n) && c->linetable <= PY_LNOTAB_UNSIGNED;
}

/*
 * Line tables, PEP 626 and 657 as CPython 3.11+ keeps them (Objects/locations.md,
 * Include/cpython/code.h enum _PyCodeLocationInfoKind). An entry is a byte
 * 1cccclll (code, length - 1 in code units) and bytes whose top bit is clear.
 */
enum {
	CODE_ONE_LINE = 10, /* 10, 11, 12: line delta 0, 1, 2, two column bytes */
	CODE_NO_COLUMNS = 13,
	CODE_LONG = 14,
	CODE_NONE = 15,
};

struct line_iter {
	const unsigned char *at, *end;
	uint32_t start, stop; /* bytes of bytecode */
	int64_t computed;
	int line;     /* of this entry, 0 none */
	uint8_t kind; /* enum py_linetable */
	bool cut;     /* the table goes on behind @end */
};

static void line_iter_init(struct line_iter *it, const struct pycode_copy *c)
{
	*it = (struct line_iter){
		.at = c->data + c->name_n + c->file_n,
		.computed = c->firstlineno,
		.kind = c->linetable,
		.cut = c->cut & PYCODE_TABLE_CUT,
	};
	it->end = it->at + c->table_n;
}

/* A signed variable-length integer: 6 bits a byte, lowest first, bit 6 continues,
 * the sign is the lowest bit of the whole. Nothing beyond 32 bits counts. */
static int64_t scan_svarint(const unsigned char *at, const unsigned char *end)
{
	uint64_t v = 0;

	for (unsigned shift = 0; at < end && shift < 36; shift += 6) {
		v |= (uint64_t)(*at & 63) << shift;
		if (!(*at++ & 64))
			break;
	}
	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

static bool locations_next(struct line_iter *it)
{
	unsigned char first;
	unsigned code;

	if (it->at >= it->end || !(*it->at & 128))
		return false;
	first = *it->at++;
	code = (first >> 3) & 15;
	it->start = it->stop;
	it->stop += ((first & 7u) + 1) * 2;
	if (code == CODE_LONG || code == CODE_NO_COLUMNS)
		it->computed += scan_svarint(it->at, it->end);
	else if (code >= CODE_ONE_LINE && code < CODE_NO_COLUMNS)
		it->computed += code - CODE_ONE_LINE;
	it->line = code != CODE_NONE && it->computed > 0 && it->computed <= INT_MAX ?
			   (int)it->computed :
			   0;
	while (it->at < it->end && !(*it->at & 128))
		it->at++;
	/* Of a cut table the last entry may be half of one. */
	return it->at < it->end || !it->cut;
}

static int line_of(int64_t computed)
{
	return computed > 0 && computed <= INT_MAX ? (int)computed : 0;
}

/* 3.10: bytes of code, and how far the line is from the last one; -128: there is none. */
static bool linetable_next(struct line_iter *it)
{
	int8_t delta;

	if (it->end - it->at < 2)
		return false;
	delta = (int8_t)it->at[1];
	it->start = it->stop;
	it->stop += it->at[0];
	it->at += 2;
	if (delta != INT8_MIN)
		it->computed += delta;
	it->line = delta == INT8_MIN || it->start == it->stop ? 0 : line_of(it->computed);
	return true;
}

/* Before 3.10: bytes of code that the line so far still has, and how far the next one is. Behind
 * the table all is of the last line, if that is the whole of it. */
static bool lnotab_next(struct line_iter *it)
{
	if (it->stop == UINT32_MAX || (it->cut && it->end - it->at < 2))
		return false;
	it->start = it->stop;
	it->stop = it->end - it->at < 2 ? UINT32_MAX : it->stop + it->at[0];
	it->line = it->start == it->stop ? 0 : line_of(it->computed);
	if (it->stop == UINT32_MAX)
		return true;
	it->computed += it->kind == PY_LNOTAB ? (int8_t)it->at[1] : it->at[1];
	it->at += 2;
	return true;
}

static bool line_next(struct line_iter *it)
{
	switch ((enum py_linetable)it->kind) {
	case PY_LINETABLE_310:
		return linetable_next(it);
	case PY_LOCATIONS_311:
		return locations_next(it);
	case PY_LNOTAB:
	case PY_LNOTAB_UNSIGNED:
		break;
	}
	return lnotab_next(it);
}

int pycode_line(const struct pycode_copy *c, uint32_t lasti)
{
	struct line_iter it;

	if (lasti == PYCODE_BEGINS && c->linetable != PY_LOCATIONS_311)
		return MAX(c->firstlineno, 0);
	line_iter_init(&it, c);
	while (line_next(&it))
		if (lasti < it.stop)
			return it.line;
	return 0;
}

void pycode_line_range(const struct pycode_copy *c, int *min, int *max)
{
	struct line_iter it;

	*min = 0;
	*max = 0;
	line_iter_init(&it, c);
	while (line_next(&it)) {
		if (!it.line)
			continue;
		*min = *min ? MIN(*min, it.line) : it.line;
		*max = MAX(*max, it.line);
	}
	if (!*max)
		*min = *max = MAX(c->firstlineno, 0);
}

/*
 * Text
 */

/* In place of a kind: characters of UTF-8, as most of the byte strings are that 2.7 has. */
enum { UTF8 = 0 };

/* The bytes of the character that the @n bytes at @at begin with, which becomes *@c; one byte
 * where there is none of UTF-8. */
static size_t take_utf8(const unsigned char *at, size_t n, uint32_t *c)
{
	unsigned char s[5] = "";
	size_t used;

	memcpy(s, at, MIN(n, sizeof(s) - 1));
	used = printable_decode(s, c);
	*c = used ? *c : 0;
	return MIN(MAX(used, 1), n);
}

/* The same, of characters of @kind. 0: what is left is none. */
static size_t char_take(const unsigned char *at, size_t n, uint8_t kind, uint32_t *c)
{
	uint16_t v;

	*c = 0;
	if (kind == UTF8)
		return take_utf8(at, n, c);
	if (n < kind)
		return 0;
	if (kind == 1) {
		*c = *at;
	} else if (kind == 4) {
		*c = load_u32(at);
	} else {
		memcpy(&v, at, sizeof(v));
		*c = v;
	}
	return kind;
}

/* No text of C's in UTF-8 can hold it: NUL, surrogates (os.fsdecode leaves them), and what is
 * no character at all. */
static bool char_is_none(uint32_t c)
{
	return !c || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff;
}

static size_t char_utf8(uint32_t c, unsigned char out[4])
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (unsigned char)(0x80 | (c & 63));
	out[0] = (unsigned char)(lead[n - 1] | c);
	return n;
}

/* With @none for what is no character. */
static size_t text_utf8(const unsigned char *at, size_t n, uint8_t kind, uint32_t none,
			char *buf, size_t cap)
{
	unsigned char out[4];
	size_t len = 0, used;
	uint32_t c;

	for (; cap && (used = char_take(at, n, kind, &c)); at += used, n -= used) {
		size_t more = char_utf8(char_is_none(c) ? none : c, out);

		if (more > cap - 1 - len)
			break;
		memcpy(buf + len, out, more);
		len += more;
	}
	if (cap)
		buf[len] = '\0';
	return len;
}

size_t pycode_utf8(const unsigned char *at, size_t n, uint8_t kind, char *buf, size_t cap)
{
	text_utf8(at, n, kind, '?', buf, cap);
	return cap ? printable(buf, cap, buf) : 0;
}

static uint8_t text_kind(const struct pycode_copy *c, uint8_t kind)
{
	return c->linetable == PY_LNOTAB_UNSIGNED ? UTF8 : kind;
}

size_t pycode_name(const struct pycode_copy *c, char *buf, size_t cap)
{
	return text_utf8(c->data, c->name_n, text_kind(c, c->name_kind), REPLACEMENT, buf, cap);
}

size_t pycode_file(const struct pycode_copy *c, char *buf, size_t cap)
{
	return text_utf8(c->data + c->name_n, c->file_n, text_kind(c, c->file_kind), REPLACEMENT,
			 buf, cap);
}
