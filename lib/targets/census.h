/* SPDX-License-Identifier: MIT
 *
 * census - which of a scope's processes run Python now.
 *
 * Some are looked at at a time, by probes, so that one that hangs costs nobody else anything
 * but its share of the time.
 */
#ifndef CENSUS_H
#define CENSUS_H

#include "base/note.h"
#include "base/stop.h"
#include "python/pyfind.h"
#include "targets/scope.h"

/* A process that fits. */
struct census_row {
	int code;	/* as of pyfind(): 0, -EAGAIN it is starting, -ENOEXEC no Python */
	uint64_t began; /* probe_began() */
	struct pyproc python; /* ->pid is set in any case */
};

struct census {
	struct census_row *row; /* those with Python: code 0 or -EAGAIN; the busiest first */
	size_t n, cap;
	size_t looked;	/* processes that fit, Python or not */
	size_t denied;	/* those that could not be looked at for want of rights */
	size_t unknown; /* Pythons that can't be read; one of them says why in @why */
	size_t lacking; /* those for which descriptors, memory or processes had run out: @lack */
	size_t hang;	/* those that said nothing in time */
	struct err why, lack;
};

/* Look at all that fit @s now, whose files @files reads, but stop when @stop is asked for. 0,
 * -ENOMEM, also where no thread can be made that looks, or -errno of /proc. */
int census_take(struct census *c, const struct scope *s, struct file_helper *files,
		const struct stop *stop);
void census_deinit(struct census *c);

/* The sentence about such a @code, which is returned. */
int census_failed(int code, struct err *err);

/* How many are not known to run Python or not. */
static inline size_t census_left_out(const struct census *c)
{
	return c->denied + c->unknown + c->lacking + c->hang;
}

/* A sentence about one without a row, where rights were missing to look at some. Returns @buf. */
const char *census_denied(const struct census *c, char *buf, size_t size);

/* Say which processes are left out, and why: a sentence a reason. */
void census_tell(const struct census *c, const struct note *note);

#endif
