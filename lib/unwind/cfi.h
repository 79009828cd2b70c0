/* SPDX-License-Identifier: MIT
 *
 * cfi - call frame instructions to rows. Pure; every byte may be hostile.
 */
#ifndef UNWIND_CFI_H
#define UNWIND_CFI_H

#include "unwind/table.h"

/* Both sections, either may be empty; where both know a function, .eh_frame counts.
 * Mistakes end up as gaps or in m->error. */
void cfi_compile(struct unwind_maker *m, const struct unwind_source *s);

#endif
