/* SPDX-License-Identifier: MIT
 *
 * dump_running - what threads that run were doing, by one sample of each.
 */
#ifndef CMD_DUMP_RUNNING_H
#define CMD_DUMP_RUNNING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "page.h"
#include "process.h"
#include "python/pygil.h"

struct running {
	pid_t tid;
	bool found;	    /* or no exact sample came in time */
	bool python;	    /* it was in Python code then */
	enum pygil_has gil; /* whether it had the GIL then */
	struct page page;   /* its stack as dump prints it, owned, if found */
};

/* Sample the @n threads of @pid for a fraction of a second, until there is one exact sample of
 * each; where that can't be, nothing is filled in, and a
 * line says why. @files reads mapped files. @places: where native frames
 * are noted; may be NULL. @form: of the pages. Returns how often what was needed for it ran out
 * (stats.unread). */
uint64_t dump_running(pid_t pid, enum process_native native, struct file_helper *files,
		      struct places *places, const struct page_form *form, struct running *r,
		      size_t n);

#endif
