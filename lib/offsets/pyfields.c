/* SPDX-License-Identifier: MIT
 *
 * pyfields - the rows, and a layout made of what debug info says of them.
 */
#include "offsets/pyfields.h"

#include <errno.h>

/* clang-format off */
static const struct pyfield rows[] = {
#define X(field, first, last, builds, kind, type, member, word, add)                         \
	{ #field, type, member, word, first, last, PYFIELD_##builds, PYFIELD_##kind, add,      \
	  offsetof(struct pylayout, field), sizeof(((struct pylayout *)0)->field),              \
	  _Generic(((struct pylayout *)0)->field, pyoff: true, default: false) },
#include "pyfields.inc"
#undef X
};
/* clang-format on */

_Static_assert(ARRAY_SIZE(rows) <= PYFIELD_MAX, "each row has a value");

const struct pyfield *pyfield_all(size_t *n)
{
	*n = ARRAY_SIZE(rows);
	return rows;
}

bool pyfield_is_of(const struct pyfield *f, uint16_t version, bool free_threaded)
{
	unsigned minor = version >> 8 == 3 ? version & 0xff : 0;

	return minor >= f->first && minor <= f->last &&
	       (f->builds == PYFIELD_ANY ||
		(f->builds == PYFIELD_WITHOUT_GIL) == free_threaded);
}

/* An offset that is not there is absent; a number must be there, and fit. */
static int set(const struct pyfield *f, uint32_t plus1, struct pylayout *ret, struct err *err)
{
	char *at = (char *)ret + f->at;

	if (f->offset) {
		pyoff o = { plus1 };

		memcpy(at, &o, sizeof(o));
		return 0;
	}
	if (!plus1 || (f->size == 1 && plus1 - 1 > UINT8_MAX))
		return err_set(err, -EBADMSG, "debug info: %s is %s", f->name,
			       plus1 ? "too large" : "missing");
	if (f->size == 1) {
		*(uint8_t *)at = (uint8_t)(plus1 - 1);
		return 0;
	}
	plus1--;
	memcpy(at, &plus1, sizeof(plus1));
	return 0;
}

int pyfield_layout(const struct pyfield_values *values, uint16_t version,
		   const struct pylayout *meanings, struct pylayout *ret, struct err *err)
{
	bool other = meanings->version != version;
	int r = 0;

	*ret = *meanings;
	ret->version = version;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
		if (pyfield_is_of(&rows[i], version, meanings->free_threaded))
			r = set(&rows[i], values->plus1[i], ret, err);
	if (r < 0)
		return r;
	if (other) {
		/* Nothing proves that they still mean this. */
		ret->interp.code_versions = (pyoff){ 0 };
		ret->interp.gil = (pyoff){ 0 };
		ret->integer.digit = (pyoff){ 0 };
	}
	return pylayout_check(ret, err);
}
