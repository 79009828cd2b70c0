/* SPDX-License-Identifier: MIT
 *
 * cfi - call frame instructions to rows. Pure; every byte may be hostile.
 */
#ifndef UNWIND_CFI_H
#define UNWIND_CFI_H

#include "elf/table.h"

/* Rows of all that @s has; any part may be missing. Where several know a function .eh_frame
 * counts, then .debug_frame, then what is known without them: stubs of .plt, sigreturn.
 * Mistakes end up as gaps or in m->error. */
void cfi_compile(struct unwind_maker *m, const struct unwind_source *s);

#endif
