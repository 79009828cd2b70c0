/* SPDX-License-Identifier: MIT
 *
 * others - the list of unwinders besides our own.
 */
#include "unwind/others.h"

#include <dlfcn.h>
#include <string.h>

/* One row a word of meson.build's unwinders. */
#define X(name) extern const struct unwind_other unwind_other_##name;
#include "unwinders.inc"
#undef X

#define X(name) &unwind_other_##name,
const struct unwind_other *const unwind_others[] = {
#include "unwinders.inc"
	NULL
};
#undef X

const struct unwind_other *unwind_other_find(const char *name)
{
	for (size_t i = 0; unwind_others[i]; i++)
		if (!strcmp(name, unwind_others[i]->name))
			return unwind_others[i];
	return NULL;
}

bool unwind_other_here(const struct unwind_other *o)
{
	return dlopen(o->library, RTLD_NOW | RTLD_LOCAL);
}
