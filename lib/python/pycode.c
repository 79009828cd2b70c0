/* SPDX-License-Identifier: MIT
 *
 * pycode - copy a code object and know it again; pycode_text.c decodes the copy.
 */
#include "python/pycode.h"

#include <errno.h>

#include "base/base.h"

enum {
	GUESS_NAME = 64, /* most names, files and tables fit the first read */
	GUESS_FILE = 160,
	GUESS_TABLE = 512,
	GUESS_MAX = GUESS_TABLE,
	HASH_CHUNK = 4096,
	PAGE = 4096,
};

/* One of the three objects behind a code object, seen from outside. */
struct part {
	raddr at;   /* the object */
	raddr data; /* its characters or bytes */
	uint32_t n, cap;
	uint8_t kind; /* bytes a character */
	bool cut;
	size_t head_n; /* bytes read of the object */
	unsigned char head[PYLAYOUT_HEADER_MAX + GUESS_MAX];
};

enum { NAME, FILENAME, TABLE, PARTS };

/*
 * The object behind a pointer
 */

/* How much to read at @at: the header, and of the rest what lies in its page, so
 * that a guess never fails where an exact read would not. */
static size_t guess_size(raddr at, size_t header, size_t guess)
{
	size_t in_page = PAGE - (size_t)((at + header) & (PAGE - 1));

	return header + MIN(guess, in_page);
}

static void part_init(struct part *p, raddr at, size_t header, size_t guess, uint32_t cap)
{
	p->at = at;
	p->cap = cap;
	p->head_n = guess_size(at, header, guess);
}

static void parts_init(struct part parts[PARTS], const struct pylayout *l,
		       const unsigned char *head)
{
	part_init(&parts[NAME], load_u64(head + pyoff_get(l->code.qualname)),
		  l->str.ascii_data, GUESS_NAME, PYCODE_NAME_MAX);
	part_init(&parts[FILENAME], load_u64(head + pyoff_get(l->code.filename)),
		  l->str.ascii_data, GUESS_FILE, PYCODE_FILE_MAX);
	part_init(&parts[TABLE], load_u64(head + pyoff_get(l->code.linetable)),
		  pyoff_get(l->bytes.data), GUESS_TABLE, PYCODE_TABLE_MAX);
}

static struct rmem_vec part_vec(struct part *p)
{
	return (struct rmem_vec){ .at = p->at, .buf = p->head, .n = p->head_n };
}

/* Lengths come from the target: cut them before anything is multiplied. */
static void part_length(struct part *p, uint64_t length)
{
	uint64_t max = p->cap / p->kind;

	p->cut = length > max;
	p->n = (uint32_t)(MIN(length, max) * p->kind);
}

static int part_bytes(const struct pylayout *l, struct part *p)
{
	uint64_t length = load_u64(p->head + pyoff_get(l->bytes.size));

	if (length > INT64_MAX)
		return -EBADMSG;
	p->kind = 1;
	part_length(p, length);
	p->data = p->at + pyoff_get(l->bytes.data);
	return 0;
}

static int part_str(struct rmem *m, const struct pylayout *l, struct part *p)
{
	uint64_t length;
	uint32_t state, kind;
	bool compact, ascii;

	if (!pyoff_has(l->str.state))
		return part_bytes(l, p);
	length = load_u64(p->head + pyoff_get(l->str.length));
	state = load_u32(p->head + pyoff_get(l->str.state));
	kind = (state >> l->str_kind_shift) & 7;
	compact = (state >> l->str_compact_bit) & 1;
	ascii = (state >> l->str_ascii_bit) & 1;
	if ((kind != 1 && kind != 2 && kind != 4) || (ascii && kind != 1) ||
	    length > INT64_MAX)
		return -EBADMSG;
	p->kind = (uint8_t)kind;
	part_length(p, length);
	/* PyUnicodeObject.data: instances of subclasses of str keep it elsewhere. */
	if (!compact)
		return rmem_read_u64(m, p->at + l->str.compact_data, &p->data);
	p->data = p->at + (ascii ? l->str.ascii_data : l->str.compact_data);
	return 0;
}

/* The heads are read: what they say. */
static int parts_parse(struct rmem *m, const struct pylayout *l, struct part parts[PARTS])
{
	int r = part_str(m, l, &parts[NAME]);

	if (r == 0)
		r = part_str(m, l, &parts[FILENAME]);
	return r < 0 ? r : part_bytes(l, &parts[TABLE]);
}

/* Bytes of @p's data that its head already holds. */
static uint32_t part_have(const struct part *p)
{
	uint64_t skip = p->data - p->at; /* of what lies below the head more than any head has */

	return skip < p->head_n ? (uint32_t)MIN(p->n, p->head_n - skip) : 0;
}

/* Bytes [@from, @from + @n) of the part's data, @n at most p->n - @from. Fills what
 * the head holds; the rest becomes a piece of @v, if any is left. */
static bool part_data(const struct part *p, uint32_t from, unsigned char *to, uint32_t n,
		      struct rmem_vec *v)
{
	uint32_t have = part_have(p);
	uint32_t known = from < have ? MIN(have - from, n) : 0;

	if (known)
		memcpy(to, p->head + (p->data - p->at) + from, known);
	if (known == n)
		return false;
	*v = (struct rmem_vec){
		.at = p->data + from + known,
		.buf = to + known,
		.n = n - known,
	};
	return true;
}

/*
 * Fingerprints
 */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ (h >> 29);
}

static uint64_t mix_bytes(uint64_t h, const unsigned char *at, size_t n)
{
	for (; n >= 8; at += 8, n -= 8)
		h = mix(h, load_u64(at));
	for (; n; at++, n--)
		h = mix(h, *at);
	return h;
}

static uint32_t code_u32(const unsigned char *head, pyoff o)
{
	return pyoff_has(o) ? load_u32(head + pyoff_get(o)) : 0;
}

/* What the header alone tells, and does not change while the code lives: not the
 * reference count, co_extra, co_weakreflist, caches, monitoring or executors. */
static void print_head(struct pycode_print *print, const struct pylayout *l,
		       const unsigned char *head)
{
	uint64_t a = mix(1, load_u64(head + pyoff_get(l->object.type)));

	a = mix(a, code_u32(head, l->code.version));
	a = mix(a, code_u32(head, l->code.firstlineno));
	a = mix(a, load_u64(head + pyoff_get(l->code.qualname)));
	print->a = a;
	print->b = mix(2, load_u64(head + pyoff_get(l->code.filename)));
	print->b = mix(print->b, load_u64(head + pyoff_get(l->code.linetable)));
}

static void print_part(struct pycode_print *print, const struct part *p)
{
	print->a = mix(print->a, (uint64_t)p->n << 8 | p->kind);
	print->b = mix(print->b, (uint64_t)p->cut);
}

/* Hash a part's contents without room for all of it. Chunks are whole words, so the
 * result is that of one mix_bytes() over everything, as pycode_copy() does it. */
static int print_contents(struct rmem *m, const struct part *p, struct pycode_print *print)
{
	unsigned char buf[HASH_CHUNK];
	struct rmem_vec v;
	int r;

	print_part(print, p);
	for (uint32_t from = 0; from < p->n; from += HASH_CHUNK) {
		uint32_t n = MIN(p->n - from, (uint32_t)HASH_CHUNK);

		if (part_data(p, from, buf, n, &v)) {
			r = rmem_read(m, v.at, v.buf, v.n);
			if (r < 0)
				return r;
		}
		print->b = mix_bytes(print->b, buf, n);
	}
	return 0;
}

static int print_parts(struct rmem *m, const struct pylayout *l, const unsigned char *head,
		       struct pycode_print *ret)
{
	struct rmem_vec v[PARTS];
	struct part parts[PARTS];
	int r;

	parts_init(parts, l, head);
	for (size_t i = 0; i < PARTS; i++)
		v[i] = part_vec(&parts[i]);
	if (rmem_readv(m, v, PARTS) != PARTS)
		return -EFAULT;
	r = parts_parse(m, l, parts);
	for (size_t i = 0; r == 0 && i < PARTS; i++)
		r = print_contents(m, &parts[i], ret);
	return r;
}

int pycode_fingerprint(struct rmem *m, const struct pylayout *l, const unsigned char *head,
		       struct pycode_print *ret)
{
	print_head(ret, l, head);
	return code_u32(head, l->code.version) ? 0 : print_parts(m, l, head, ret);
}

size_t pycode_fingerprint_reads(const struct pylayout *l, const unsigned char *head,
				struct rmem_vec v[PYCODE_PARTS])
{
	struct part parts[PARTS];

	_Static_assert((int)PARTS == (int)PYCODE_PARTS, "one range a part");
	if (code_u32(head, l->code.version))
		return 0;
	parts_init(parts, l, head);
	for (size_t i = 0; i < PARTS; i++) {
		v[i] = part_vec(&parts[i]);
		v[i].buf = NULL;
	}
	return PARTS;
}

/*
 * Copy
 */

static int type_is_code(struct rmem *m, raddr name)
{
	char text[5];
	int r = rmem_read(m, name, text, sizeof(text));

	if (r < 0)
		return r;
	return memcmp(text, "code", sizeof(text)) ? -EBADMSG : 0;
}

/* One batch: the type's name pointer and the three objects' heads. Where a head
 * cannot be read the type tells which it is: no code object, or a fault. */
static int read_heads(struct rmem *m, const struct pylayout *l, const unsigned char *head,
		      struct part parts[PARTS], raddr *type_name)
{
	raddr type = load_u64(head + pyoff_get(l->object.type));
	struct rmem_vec v[1 + PARTS] = { {
		.at = type + pyoff_get(l->object.type_name),
		.buf = type_name,
		.n = sizeof(*type_name),
	} };
	size_t got;

	for (size_t i = 0; i < PARTS; i++)
		v[1 + i] = part_vec(&parts[i]);
	got = rmem_readv(m, v, 1 + PARTS);
	if (got == 1 + PARTS)
		return 0;
	if (got && type_is_code(m, *type_name) == -EBADMSG)
		return -EBADMSG;
	return -EFAULT;
}

/* The other batch: the name of the type, and what the heads did not hold. */
static int read_rest(struct rmem *m, const struct part parts[PARTS], raddr type_name,
		     unsigned char *data)
{
	char text[5] = "";
	struct rmem_vec v[1 + PARTS] = {
		{ .at = type_name, .buf = text, .n = sizeof(text) },
	};
	size_t n = 1, got;

	for (size_t i = 0; i < PARTS; i++) {
		const struct part *p = &parts[i];

		if (part_data(p, 0, data, p->n, &v[n]))
			n++;
		data += p->n;
	}
	got = rmem_readv(m, v, n);
	if (got && memcmp(text, "code", sizeof(text)))
		return -EBADMSG;
	return got == n ? 0 : -EFAULT;
}

uint32_t pycode_frame_size(const struct pylayout *l, const unsigned char *head)
{
	if (!pyoff_has(l->code.stacksize) || !pyoff_has(l->code.nlocalsplus))
		return 0;
	return pyoff_get(l->frame.localsplus) +
	       8 * (code_u32(head, l->code.nlocalsplus) + code_u32(head, l->code.stacksize));
}

static void fill(struct pycode_copy *c, const struct pylayout *l, raddr code,
		 const unsigned char *head, const struct part parts[PARTS])
{
	*c = (struct pycode_copy){
		.at = code,
		.firstlineno = (int32_t)code_u32(head, l->code.firstlineno),
		.flags = code_u32(head, l->code.flags) & ~PYCODE_LABEL,
		.bytecode = pyoff_has(l->code.bytecode) ? pyoff_get(l->code.bytecode) : 0,
		.firsttraceable = code_u32(head, l->code.firsttraceable),
		.name_n = parts[NAME].n,
		.file_n = parts[FILENAME].n,
		.table_n = parts[TABLE].n,
		.name_kind = parts[NAME].kind,
		.file_kind = parts[FILENAME].kind,
		.cut = (uint8_t)((parts[NAME].cut ? PYCODE_NAME_CUT : 0) |
				 (parts[FILENAME].cut ? PYCODE_FILE_CUT : 0) |
				 (parts[TABLE].cut ? PYCODE_TABLE_CUT : 0)),
		.linetable = (uint8_t)l->linetable,
	};
}

int pycode_copy(struct rmem *m, const struct pylayout *l, raddr code,
		const unsigned char *head, struct pycode_copy *ret)
{
	const unsigned char *data = ret->data;
	struct part parts[PARTS];
	raddr type_name = 0;
	int r;

	parts_init(parts, l, head);
	r = read_heads(m, l, head, parts, &type_name);
	if (r == 0)
		r = parts_parse(m, l, parts);
	if (r == 0)
		r = read_rest(m, parts, type_name, ret->data);
	if (r < 0)
		return r;
	fill(ret, l, code, head, parts);
	print_head(&ret->print, l, head);
	for (size_t i = 0; !code_u32(head, l->code.version) && i < PARTS; i++) {
		print_part(&ret->print, &parts[i]);
		ret->print.b = mix_bytes(ret->print.b, data, parts[i].n);
		data += parts[i].n;
	}
	return 0;
}

/*
 * Copies of the bytecode
 */

raddr pycode_instr(struct rmem *m, const struct pylayout *l, raddr code, uint32_t length,
		   int32_t index, raddr *instr)
{
	const raddr home = code + pyoff_get(l->code.bytecode);
	raddr list, copy;
	uint64_t size;

	/* A thread that has no copy yet runs the bytecode itself, whatever its frame says. */
	if (!pyoff_has(l->code.tlbc) || *instr - home < length || index < 0 ||
	    rmem_read_u64(m, code + pyoff_get(l->code.tlbc), &list) < 0)
		return 0;
	if (rmem_read_u64(m, list, &size) < 0 || (uint64_t)index >= size ||
	    rmem_read_u64(m, list + 8 + 8 * (raddr)index, &copy) < 0)
		return list;
	if (copy && *instr - copy < length)
		*instr = home + (*instr - copy);
	return list;
}
