/* SPDX-License-Identifier: MIT
 *
 * pydict - where a CPython keeps the entries of a dict and the attributes of an object.
 */
#include "python/pydict.h"

#include <errno.h>

#include "base/printable.h"
#include "python/pycode.h"

enum {
	KIND_GENERAL = 0,    /* of dict keys: an entry is a hash, a key and a value */
	KIND_UNICODE,	     /* a key and a value */
	KIND_SPLIT,	     /* the same; values are elsewhere */
	HAS_INLINE = 1 << 2, /* of a type's flags */
	HAS_DICT = 1 << 4,
	IS_BYTES = 1 << 27,
	STR_BYTES = 512,
	KEY_MAX = 32,
	GENERAL_BYTES = 24, /* of an entry with a hash */
	DIGIT_BITS = 30,
	INT_TAGGED = 8, /* int_one from 3.12 on */
	INT_IMMORTAL = 1 << 2,
	OBJECT_MAX = 1 << 16,
};

/* Bytes before a string's characters, if all of them are ASCII. */
static uint32_t text_offset(const struct pylayout *l)
{
	return pyoff_has(l->str.state) ? l->str.ascii_data : pyoff_get(l->bytes.data);
}

/* Up to 3.10. */
static int read_general_keys(struct rmem *m, const struct pylayout *l, struct pydict *d)
{
	uint64_t size, n;
	const struct rmem_vec v[] = {
		{ d->keys + pyoff_get(l->dictkeys.size), &size, 8 },
		{ d->keys + pyoff_get(l->dictkeys.n), &n, 8 },
	};

	if (rmem_readv(m, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return -EFAULT;
	if (size > 1 << 24 || n > PYDICT_MAX || n > size)
		return -EBADMSG;
	d->n = (uint32_t)n;
	d->stride = GENERAL_BYTES;
	/* The index's elements have as few bytes as can number its entries. */
	size *= size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;
	d->entries = d->keys + pyoff_get(l->dictkeys.entries) + size + 8;
	return 0;
}

/* @n entries at most, for more is no dict that we look into. */
static int read_keys(struct rmem *m, const struct pylayout *l, struct pydict *d)
{
	raddr k = d->keys;
	uint64_t n;
	uint8_t log2, kind;

	if (pyoff_has(l->dictkeys.size))
		return read_general_keys(m, l, d);
	const struct rmem_vec v[] = {
		{ k + pyoff_get(l->dictkeys.index_log2), &log2, 1 },
		{ k + pyoff_get(l->dictkeys.kind), &kind, 1 },
		{ k + pyoff_get(l->dictkeys.n), &n, 8 },
	};

	if (rmem_readv(m, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return -EFAULT;
	if (kind > KIND_SPLIT || log2 > 24 || n > PYDICT_MAX)
		return -EBADMSG;
	d->n = (uint32_t)n;
	d->stride = kind == KIND_GENERAL ? GENERAL_BYTES : 16;
	d->entries = k + pyoff_get(l->dictkeys.entries) + (1ull << log2) +
		     (kind == KIND_GENERAL ? 8 : 0);
	return 0;
}

/* 2.7: a table of entries, of which not all are used. */
static int read_table(struct rmem *m, const struct pylayout *l, raddr at, struct pydict *ret)
{
	uint64_t mask, fill;
	const struct rmem_vec v[] = {
		{ at + pyoff_get(l->dict.keys), &ret->keys, 8 },
		{ at + pyoff_get(l->dict.mask), &mask, 8 },
		{ at + pyoff_get(l->dict.fill), &fill, 8 },
	};

	if (rmem_readv(m, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return -EFAULT;
	if (mask >= PYDICT_MAX || fill > mask + 1)
		return -EBADMSG;
	ret->values = 0;
	ret->n = (uint32_t)mask + 1;
	ret->fill = (uint32_t)fill;
	ret->stride = GENERAL_BYTES;
	ret->entries = ret->keys + 8;
	return 0;
}

int pydict_read(struct rmem *m, const struct pylayout *l, raddr at, struct pydict *ret)
{
	ret->fill = 0;
	if (pyoff_has(l->dict.mask))
		return read_table(m, l, at, ret);
	const struct rmem_vec v[] = {
		{ at + pyoff_get(l->dict.keys), &ret->keys, 8 },
		{ at + pyoff_get(l->dict.values), &ret->values, 8 },
	};

	if (rmem_readv(m, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return -EFAULT;
	if (ret->values)
		ret->values += l->attrs_first;
	return read_keys(m, l, ret);
}

/* The two words before the object, of which a version uses one or both. */
static int find_values(const struct pylayout *l, raddr at, const uint64_t before[2],
		       uint64_t size, uint64_t flags, raddr *values, raddr *dict)
{
	*values = *dict = 0;
	switch (l->attrs) {
	case PY_ATTRS_BEFORE:
		*values = before[0];
		*dict = before[0] ? 0 : before[1];
		break;
	case PY_ATTRS_TAGGED:
		*values = before[1] & 1 ? before[1] + 1 : 0;
		*dict = before[1] & 1 ? 0 : before[1];
		break;
	case PY_ATTRS_INLINE:
	case PY_ATTRS_INLINE_BARE:
		*dict = before[1];
		if (!*dict && flags & HAS_INLINE)
			*values = at + size + l->attrs_first;
		break;
	case PY_ATTRS_DICT:
	case PY_ATTRS_NONE:
		break;
	}
	return *values || *dict ? 0 : -ENOENT;
}

/* Up to 3.10. */
static int read_dict_of(struct rmem *m, const struct pylayout *l, raddr at, struct pydict *ret)
{
	raddr type, dict;
	uint64_t offset;

	if (rmem_read_u64(m, at + pyoff_get(l->object.type), &type) < 0 ||
	    rmem_read_u64(m, type + pyoff_get(l->object.type_dict), &offset) < 0)
		return -EFAULT;
	/* Negative is that of an object of variable size. */
	if (!offset || offset > OBJECT_MAX || offset % 8)
		return -ENOENT;
	if (rmem_read_u64(m, at + offset, &dict) < 0)
		return -EFAULT;
	return dict ? pydict_read(m, l, dict, ret) : -ENOENT;
}

int pydict_of_object(struct rmem *m, const struct pylayout *l, raddr at, struct pydict *ret)
{
	uint64_t type, size, flags, keys, before[2];
	raddr dict;
	int r;

	if (l->attrs == PY_ATTRS_DICT)
		return read_dict_of(m, l, at, ret);
	const struct rmem_vec object[] = {
		{ at + pyoff_get(l->object.type), &type, 8 },
		{ at - (l->attrs == PY_ATTRS_INLINE_BARE ? 16 : 32), before, 16 },
	};

	if (rmem_readv(m, object, ARRAY_SIZE(object)) < ARRAY_SIZE(object))
		return -EFAULT;
	const struct rmem_vec v[] = {
		{ type + pyoff_get(l->object.type_size), &size, 8 },
		{ type + pyoff_get(l->object.type_flags), &flags, 8 },
		{ type + pyoff_get(l->object.type_keys), &keys, 8 },
	};
	if (rmem_readv(m, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return -EFAULT;
	if (!(flags & HAS_DICT))
		return -ENOENT;
	r = find_values(l, at, before, size, flags, &ret->values, &dict);
	if (r < 0)
		return r;
	if (dict)
		return pydict_read(m, l, dict, ret);
	ret->keys = keys;
	return read_keys(m, l, ret);
}

raddr pydict_slot(const struct pydict *d, uint32_t i)
{
	return d->values ? d->values + 8ull * i : d->entries + (raddr)i * d->stride + 8;
}

int pydict_entries(struct rmem *m, const struct pydict *d, uint32_t from, uint32_t n,
		   raddr key[], raddr value[])
{
	unsigned char bytes[PYDICT_PIECE * 24];
	/* The last entry of those with a hash lacks the hash that is before the next. */
	size_t size = (size_t)n * d->stride - (d->stride - 16);
	int r = rmem_read(m, d->entries + (raddr)from * d->stride, bytes, size);

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		key[i] = load_u64(bytes + (size_t)i * d->stride);
		value[i] = load_u64(bytes + (size_t)i * d->stride + 8);
	}
	if (r == 0 && d->values)
		r = rmem_read(m, pydict_slot(d, from), value, 8ull * n);
	return r;
}

/* Which of the keys is the ASCII string @name? @n: none. */
static uint32_t find_key(struct rmem *m, const struct pylayout *l, const raddr key[],
			 uint32_t n, const char *name)
{
	unsigned char head[PYDICT_PIECE][PYLAYOUT_HEADER_MAX + KEY_MAX];
	struct rmem_vec v[PYDICT_PIECE];
	uint32_t which[PYDICT_PIECE], k = 0, len = (uint32_t)strlen(name);
	uint32_t text = text_offset(l);

	for (uint32_t i = 0; i < n; i++)
		if (key[i]) {
			which[k] = i;
			v[k] = (struct rmem_vec){ key[i], head[k], text + len };
			k++;
		}
	for (uint32_t done = 0; done < k; done++) {
		uint32_t got = (uint32_t)rmem_readv(m, v + done, k - done);

		for (uint32_t i = done; i < done + got; i++)
			if (load_u64(head[i] + pyoff_get(l->str.length)) == len &&
			    memcmp(head[i] + text, name, len) == 0)
				return which[i];
		done += got; /* the one there can't be read */
	}
	return n;
}

int pydict_find(struct rmem *m, const struct pylayout *l, const struct pydict *d,
		uint32_t from, const char *name, uint32_t *ret)
{
	raddr key[PYDICT_PIECE], value[PYDICT_PIECE];

	while (from < d->n) {
		uint32_t n = MIN(d->n - from, (uint32_t)PYDICT_PIECE), i;
		int r = pydict_entries(m, d, from, n, key, value);

		if (r < 0)
			return r;
		i = find_key(m, l, key, n, name);
		if (i < n) {
			*ret = from + i;
			return 0;
		}
		from += n;
	}
	return -ENOENT;
}

int pydict_value(struct rmem *m, const struct pylayout *l, const struct pydict *d,
		 const char *name, raddr *ret)
{
	uint32_t i;
	int r = pydict_find(m, l, d, 0, name, &i);

	if (r == 0)
		r = rmem_read_u64(m, pydict_slot(d, i), ret);
	return r == 0 && !*ret ? -ENOENT : r;
}

int pydict_module(struct rmem *m, const struct pylayout *l, raddr interp, const char *name,
		  raddr *ret)
{
	struct pydict d;
	raddr modules;
	int r;

	if (rmem_read_u64(m, interp + pyoff_get(l->interp.modules), &modules) < 0)
		return -EFAULT;
	if (!modules)
		return -ENOENT;
	r = pydict_read(m, l, modules, &d);
	return r == 0 ? pydict_value(m, l, &d, name, ret) : r;
}

int pydict_of_module(struct rmem *m, const struct pylayout *l, raddr interp, const char *name,
		     struct pydict *ret)
{
	raddr module, dict;
	int r = pydict_module(m, l, interp, name, &module);

	if (r < 0)
		return r;
	if (rmem_read_u64(m, module + pyoff_get(l->module.dict), &dict) < 0 || !dict)
		return -EFAULT;
	return pydict_read(m, l, dict, ret);
}

/* 2.7's str: bytes. A unicode has its length where that has it, but its size is another. */
static int read_bytes(struct rmem *m, const struct pylayout *l, raddr at, char *buf,
		      size_t cap)
{
	char text[STR_BYTES + 1];
	uint64_t length, type, flags;
	size_t n;

	if (rmem_read_u64(m, at + pyoff_get(l->object.type), &type) < 0 ||
	    rmem_read_u64(m, type + pyoff_get(l->object.type_flags), &flags) < 0 ||
	    rmem_read_u64(m, at + pyoff_get(l->bytes.size), &length) < 0)
		return -EFAULT;
	if (!(flags & IS_BYTES))
		return -EBADMSG;
	n = MIN((size_t)length, (size_t)STR_BYTES);
	if (rmem_read(m, at + pyoff_get(l->bytes.data), text, n) < 0)
		return -EFAULT;
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : '?';
	text[n] = '\0';
	printable(buf, cap, text);
	return 0;
}

int pydict_text(struct rmem *m, const struct pylayout *l, raddr at, char *buf, size_t cap)
{
	unsigned char head[PYLAYOUT_HEADER_MAX], data[STR_BYTES];
	uint64_t length;
	uint32_t state, kind, ascii;
	size_t n;
	int r;

	if (!pyoff_has(l->str.state))
		return read_bytes(m, l, at, buf, cap);
	r = rmem_read(m, at, head, l->str.ascii_data);
	if (r < 0)
		return r;
	length = load_u64(head + pyoff_get(l->str.length));
	state = load_u32(head + pyoff_get(l->str.state));
	kind = state >> l->str_kind_shift & 7;
	ascii = state >> l->str_ascii_bit & 1;
	if ((kind != 1 && kind != 2 && kind != 4) || !(state >> l->str_compact_bit & 1) ||
	    (ascii && kind != 1) || length > UINT32_MAX)
		return -EBADMSG;
	n = MIN((size_t)length * kind, sizeof(data));
	r = rmem_read(m, at + (ascii ? l->str.ascii_data : l->str.compact_data), data, n);
	if (r == 0)
		pycode_utf8(data, n, (uint8_t)kind, buf, cap);
	return r;
}

int pydict_int(struct rmem *m, const struct pylayout *l, raddr at, uint64_t *ret)
{
	raddr digits = at + pyoff_get(l->integer.digit);
	uint64_t size;
	uint32_t digit[2];
	const struct rmem_vec v[] = {
		{ digits - 8, &size, 8 },
		{ digits, digit, 4 },
	};

	if (!l->int_one) {
		if (rmem_read_u64(m, digits, ret) < 0)
			return -EFAULT;
		return *ret >> 2 * DIGIT_BITS ? -EBADMSG : 0;
	}
	if (rmem_readv(m, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return -EFAULT;
	*ret = digit[0];
	/* From 3.14 on one bit of the tag says that the int is immortal, as small ones are. */
	if (l->int_one == INT_TAGGED)
		size &= ~(uint64_t)INT_IMMORTAL;
	if (size == l->int_one)
		return 0;
	/* The word counts the digits: alone up to 3.11, from bit 3 on in 3.12. */
	if (size != (l->int_one == 1 ? 2u : l->int_one * 2u))
		return -EBADMSG;
	if (rmem_read(m, digits, digit, 8) < 0)
		return -EFAULT;
	*ret = digit[0] | (uint64_t)digit[1] << DIGIT_BITS;
	return 0;
}
