/* SPDX-License-Identifier: MIT
 *
 * cfi - call frame instructions to rows. Pure; every byte may be hostile.
 */
#ifndef UNWIND_CFI_H
#define UNWIND_CFI_H

#include "elf/rows.h"

/* The functions that @s knows, by address; any part may be missing. Where several know one
 * .eh_frame counts, then .debug_frame, then what is known without them: stubs of .plt,
 * sigreturn. 0; -ENOMEM; -E2BIG: more than is sane. */
int cfi_functions(struct rows_function **ret, size_t *n, const struct arch *arch,
		  const struct unwind_source *s);

/* The rows of one of them. Mistakes end up as gaps. What was looked at is taken from *@left bytes.
 * 0, -ENOMEM; -E2BIG: more than is sane, or than was left. */
int cfi_compile(struct unwind_table **ret, const struct arch *arch,
		const struct unwind_source *s, const struct rows_function *f, size_t *left);

#endif
