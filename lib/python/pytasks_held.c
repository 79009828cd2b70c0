/* SPDX-License-Identifier: MIT
 *
 * pytasks_held - which task a held thread runs, and what its objects are.
 */
#include "python/pytasks.h"

#include <errno.h>

#include "base/base.h"
#include "offsets/tasklayout.h"
#include "python/pytype.h"

/* --- what an object is --- */

enum pytasks_kind pytasks_kind(struct rmem *m, const struct pylayout *l, raddr at)
{
	raddr type;

	if (!at || at % 8 || rmem_read_u64(m, at + pyoff_get(l->object.type), &type) < 0)
		return PYTASKS_OTHER;
	for (int i = 0; type && i < PYTYPE_BASES; i++) {
		if (pytype_is_called(m, l, type, "_asyncio.Task"))
			return PYTASKS_TASK;
		if (pytype_is_called(m, l, type, "_asyncio.Future"))
			return PYTASKS_FUTURE;
		if (rmem_read_u64(m, type + pylayout_head(l) + PYTYPE_BASE, &type) < 0)
			break;
	}
	return PYTASKS_OTHER;
}

/* --- which task runs --- */

/* Where the interpreter keeps which task runs in each event loop. */
static int find_dict(struct rmem *m, const struct pylayout *l, raddr interp, raddr *ret)
{
	struct pydict d;
	int r = pydict_of_module(m, l, interp, "asyncio.tasks", &d);

	return r == 0 ? pydict_value(m, l, &d, "_current_tasks", ret) : r;
}

/* While no module is added to those that there are, it is where it was. */
static int find_place(struct rmem *m, const struct pylayout *l, int program, raddr interp,
		      struct pytasks_place *place)
{
	struct pytasks_place at = { .program = program, .interp = interp };
	struct pydict modules;
	raddr dict;
	int r = rmem_read_u64(m, interp + pyoff_get(l->interp.modules), &dict);

	if (r == 0)
		r = dict ? pydict_read(m, l, dict, &modules) : -ENOENT;
	if (r < 0)
		return r;
	if (place->program == program && place->interp == interp &&
	    place->keys == modules.keys && place->n == modules.n)
		return place->found;
	at.keys = modules.keys;
	at.n = modules.n;
	r = tasklayout_of_lists(l) ? pytasks_lists(m, l, interp, &at.lists) :
				     find_dict(m, l, interp, &at.dict);
	if (r < 0 && r != -ENOENT && r != -ENOTSUP)
		return r;
	at.found = r == 0 ? 1 : r;
	*place = at;
	return at.found;
}

static int read_values(struct rmem *m, const struct pylayout *l, raddr dict, raddr ret[],
		       uint32_t cap)
{
	raddr key[PYDICT_PIECE], value[PYDICT_PIECE];
	struct pydict d;
	uint32_t n = 0;
	int r = pydict_read(m, l, dict, &d);

	if (r < 0)
		return r;
	for (uint32_t from = 0; from < d.n; from += PYDICT_PIECE) {
		uint32_t piece = MIN(d.n - from, (uint32_t)PYDICT_PIECE);

		r = pydict_entries(m, &d, from, piece, key, value);
		if (r < 0)
			return r;
		for (uint32_t i = 0; i < piece; i++)
			if (value[i] && n < cap)
				ret[n++] = value[i];
	}
	return (int)n;
}

int pytasks_running(struct rmem *m, const struct pylayout *l, raddr ts, int program,
		    struct pytasks_place *place, raddr ret[], uint32_t cap)
{
	bool in_lists = tasklayout_of_lists(l) != NULL;
	raddr interp;
	int r = 1;

	/* What was told of lists holds for all interpreters of the program. */
	if (!in_lists || place->program != program || place->found != 1) {
		r = rmem_read_u64(m, ts + pyoff_get(l->tstate.interp), &interp);
		if (r == 0)
			r = find_place(m, l, program, interp, place);
	}
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!in_lists)
		return read_values(m, l, place->dict, ret, cap);
	r = rmem_read_u64(m, ts + place->lists.running, &ret[0]);
	return r < 0 ? r : ret[0] != 0;
}
