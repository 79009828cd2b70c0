/* SPDX-License-Identifier: MIT
 *
 * pytasks_lists - where a CPython keeps its lists of asyncio tasks: from 3.14 on C's module
 * _asyncio tells it.
 *
 * It does so in a struct of words, Py_AsyncioModuleDebugOffsets (Modules/_asynciomodule.c, the
 * same in 3.14.0 and 3.15.0rc1), and a word of the module's state is a pointer to that.
 */
#include <errno.h>

#include "base/base.h"
#include "offsets/tasklayout.h"
#include "python/pydict.h"
#include "python/pytasks.h"

enum { STATE_WORDS = 32 }; /* of asyncio_state, which has 20 */

enum told {
	TASK_SIZE,
	TASK_NAME,
	TASK_AWAITED_BY,
	TASK_IS_TASK,
	TASK_AWAITED_BY_IS_SET,
	TASK_CORO,
	TASK_NODE,
	INTERP_SIZE,
	INTERP_TASKS,
	TSTATE_SIZE,
	TSTATE_LOOP,
	TSTATE_TASK,
	TSTATE_TASKS,
	TOLD_N
};

static bool fits(uint64_t at, uint64_t size, uint64_t of)
{
	return at % 8 == 0 && at <= of && of - at >= size;
}

/* True: it is what @l's build tells, and of a task that is known. */
static bool is_told(const struct pylayout *l, const uint64_t v[TOLD_N])
{
	const struct tasklayout *t = tasklayout_find(l, v[TASK_SIZE]);

	return t && v[TASK_NODE] == pyoff_get(t->node) &&
	       v[TASK_NAME] == pyoff_get(t->name) && v[TASK_CORO] == t->coro &&
	       v[INTERP_SIZE] == l->interp.size && v[TSTATE_SIZE] >= l->tstate.size &&
	       v[TSTATE_SIZE] <= UINT16_MAX && fits(v[INTERP_TASKS], 16, v[INTERP_SIZE]) &&
	       fits(v[TSTATE_TASK], 8, v[TSTATE_SIZE]) &&
	       fits(v[TSTATE_TASKS], 16, v[TSTATE_SIZE]);
}

/* The words of the state at @at, as many as can be read. */
static size_t read_state(struct rmem *m, raddr at, raddr ret[STATE_WORDS])
{
	struct rmem_vec v[STATE_WORDS];
	ssize_t n;

	for (size_t i = 0; i < STATE_WORDS; i++)
		v[i] = (struct rmem_vec){ at + 8 * i, &ret[i], 8 };
	n = rmem_readv(m, v, STATE_WORDS);
	return n < 0 ? 0 : (size_t)n;
}

int pytasks_lists(struct rmem *m, const struct pylayout *l, raddr interp,
		  struct tasklists *ret)
{
	uint64_t told[TOLD_N];
	raddr module, state, word[STATE_WORDS];
	int r = pydict_module(m, l, interp, "_asyncio", &module);

	if (r < 0)
		return r;
	if (!pyoff_has(l->module.state))
		return -ENOTSUP;
	if (rmem_read_u64(m, module + pyoff_get(l->module.state), &state) < 0)
		return -EFAULT;
	/* It is the last one. */
	for (size_t n = read_state(m, state, word); n-- > 0;) {
		if (!word[n] || word[n] % 8 || rmem_read(m, word[n], told, sizeof(told)) < 0 ||
		    !is_told(l, told))
			continue;
		*ret = (struct tasklists){ .in_interp = (uint32_t)told[INTERP_TASKS],
					   .in_tstate = (uint32_t)told[TSTATE_TASKS],
					   .running = (uint32_t)told[TSTATE_TASK] };
		return 0;
	}
	return -ENOTSUP;
}
