/* SPDX-License-Identifier: MIT
 *
 * pydict - dicts, attributes and strings of a Python that runs meanwhile: read with bounds,
 * and nothing of it is believed.
 *
 * The owner changes what is read here while it is read. Who must know that two values belonged
 * together reads them again.
 */
#ifndef PYDICT_H
#define PYDICT_H

#include "offsets/pylayout.h"
#include "remote_mem.h"

enum { PYDICT_MAX = 1 << 16 }; /* entries that are looked at */

/* A dict's keys, and where its values are. */
struct pydict {
	raddr keys;
	raddr values; /* 0: beside the keys; else their array, in the order of the keys */
	raddr entries;
	uint32_t n;	 /* entries, also those that were deleted */
	uint32_t stride; /* bytes of an entry */
	uint32_t fill;	 /* 2.7: entries that were ever used, for n is its table's size */
};

/* The dict at @at. 0, -EBADMSG, or a read error. */
int pydict_read(struct rmem *m, const struct pylayout *l, raddr at, struct pydict *ret);

/* The attributes of the object at @at. As above; -ENOENT: it has none of this kind. */
int pydict_of_object(struct rmem *m, const struct pylayout *l, raddr at, struct pydict *ret);

/* Keys and values of entries [@from, @from + @n), at most PYDICT_PIECE, into @key and @value;
 * 0 where there is none. 0 or a read error. */
enum { PYDICT_PIECE = 64 };
int pydict_entries(struct rmem *m, const struct pydict *d, uint32_t from, uint32_t n,
		   raddr key[], raddr value[]);

/* The place of the entry with key @name from @from on, or -ENOENT, or a read error. */
int pydict_find(struct rmem *m, const struct pylayout *l, const struct pydict *d,
		uint32_t from, const char *name, uint32_t *ret);

/* The value of the entry with key @name. As pydict_find(); -ENOENT too where it is NULL. */
int pydict_value(struct rmem *m, const struct pylayout *l, const struct pydict *d,
		 const char *name, raddr *ret);

/* The module @name of the interpreter at @interp. As above. */
int pydict_module(struct rmem *m, const struct pylayout *l, raddr interp, const char *name,
		  raddr *ret);

/* What the module @name of the interpreter at @interp has: -ENOENT: it was not imported. */
int pydict_of_module(struct rmem *m, const struct pylayout *l, raddr interp, const char *name,
		     struct pydict *ret);

/* The address of entry @i's value, which is a pointer. */
raddr pydict_slot(const struct pydict *d, uint32_t i);

/* The str at @at as UTF-8, cut to @cap with its NUL; control characters become '?'. 0;
 * -EBADMSG: no str, or an instance of a subclass; or a read error. */
int pydict_text(struct rmem *m, const struct pylayout *l, raddr at, char *buf, size_t cap);

/* The int at @at, positive and below 2^60. As above. */
int pydict_int(struct rmem *m, const struct pylayout *l, raddr at, uint64_t *ret);

#endif
