/* SPDX-License-Identifier: MIT
 *
 * pytype - compares as many bytes of a name as are asked for: it may end where memory does.
 */
#include "python/pytype.h"

bool pytype_is_called(struct rmem *m, const struct pylayout *l, raddr type, const char *name)
{
	char text[32];
	size_t n = strlen(name) + 1;
	raddr at;

	return n <= sizeof(text) &&
	       rmem_read_u64(m, type + pyoff_get(l->object.type_name), &at) == 0 &&
	       rmem_read(m, at, text, n) == 0 && !memcmp(text, name, n);
}

bool pytype_is_a(struct rmem *m, const struct pylayout *l, raddr object, const char *name)
{
	raddr type;

	return rmem_read_u64(m, object + pyoff_get(l->object.type), &type) == 0 &&
	       pytype_is_called(m, l, type, name);
}
