/* SPDX-License-Identifier: MIT
 *
 * pydict - where a CPython keeps the entries of a dict and the attributes of an object.
 */
#include "python/pydict.h"

#include <errno.h>

#include "python/pycode.h"

enum {
	KIND_GENERAL = 0,    /* of dict keys: an entry is a hash, a key and a value */
	KIND_UNICODE,	     /* a key and a value */
	KIND_SPLIT,	     /* the same; values are elsewhere */
	HAS_INLINE = 1 << 2, /* of a type's flags */
	HAS_DICT = 1 << 4,
	STR_HEAD =
		64, /* bytes before a string's characters: 56, with the length and the state */
	STR_BYTES = 512,
	KEY_MAX = 32,
};

/* @n entries at most, for more is no dict that we look into. */
static int read_keys(struct rmem *m, const struct pylayout *l, struct pydict *d)
{
	raddr k = d->keys;
	uint64_t n;
	uint8_t log2, kind;
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
	d->stride = kind == KIND_GENERAL ? 24 : 16;
	d->entries = k + pyoff_get(l->dictkeys.entries) + (1ull << log2) +
		     (kind == KIND_GENERAL ? 8 : 0);
	return 0;
}

int pydict_read(struct rmem *m, const struct pylayout *l, raddr at, struct pydict *ret)
{
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
		*dict = before[1];
		if (!*dict && flags & HAS_INLINE)
			*values = at + size + l->attrs_first;
		break;
	case PY_ATTRS_NONE:
		break;
	}
	return *values || *dict ? 0 : -ENOENT;
}

int pydict_of_object(struct rmem *m, const struct pylayout *l, raddr at, struct pydict *ret)
{
	uint64_t type, size, flags, keys, before[2];
	raddr dict;
	int r;
	const struct rmem_vec object[] = {
		{ at + pyoff_get(l->object.type), &type, 8 },
		{ at - 32, before, 16 },
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
	unsigned char head[PYDICT_PIECE][STR_HEAD + KEY_MAX];
	struct rmem_vec v[PYDICT_PIECE];
	uint32_t which[PYDICT_PIECE], k = 0, len = (uint32_t)strlen(name);

	for (uint32_t i = 0; i < n; i++)
		if (key[i]) {
			which[k] = i;
			v[k] = (struct rmem_vec){ key[i], head[k], l->str.ascii_data + len };
			k++;
		}
	for (uint32_t done = 0; done < k; done++) {
		uint32_t got = (uint32_t)rmem_readv(m, v + done, k - done);

		for (uint32_t i = done; i < done + got; i++)
			if (load_u64(head[i] + pyoff_get(l->str.length)) == len &&
			    memcmp(head[i] + l->str.ascii_data, name, len) == 0)
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

int pydict_text(struct rmem *m, const struct pylayout *l, raddr at, char *buf, size_t cap)
{
	unsigned char head[STR_HEAD], data[STR_BYTES];
	uint64_t length;
	uint32_t state, kind, ascii;
	size_t n;
	int r = rmem_read(m, at, head, l->str.ascii_data);

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

int pydict_int(struct rmem *m, const struct pylayout *l, raddr at, uint32_t *ret)
{
	uint64_t size;
	const struct rmem_vec v[] = {
		{ at + pyoff_get(l->integer.digit) - 8, &size, 8 },
		{ at + pyoff_get(l->integer.digit), ret, 4 },
	};

	if (rmem_readv(m, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return -EFAULT;
	return size == l->int_one ? 0 : -EBADMSG;
}
