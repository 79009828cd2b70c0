/* SPDX-License-Identifier: MIT
 *
 * kallsyms - names of kernel addresses, from /proc/kallsyms.
 */
#ifndef KALLSYMS_H
#define KALLSYMS_H

#include <stdbool.h>

#include "names/symnames.h"

struct kallsyms {
	bool loaded;
	struct kallsym *sym;
	size_t n;
	char *names;
};

/* "symbol_[k]", interned in @names; "[kernel]_[k]" where addresses are hidden. The first
 * call reads the file: 50 ms. */
const char *kallsyms_name(struct kallsyms *k, struct symnames *names, uint64_t ip);

/* The same of a symbol that is known. */
const char *kallsyms_intern(struct symnames *names, const char *symbol);

/* Take over @text (malloc'ed), what /proc/kallsyms says. */
void kallsyms_parse(struct kallsyms *k, char *text);

void kallsyms_deinit(struct kallsyms *k);

#endif
