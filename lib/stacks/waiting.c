/* SPDX-License-Identifier: MIT
 *
 * waiting - stacks of waits that are not over yet.
 */
#include "stacks/waiting.h"

#include <errno.h>

#include "base/array.h"
#include "base/base.h"

void waiting_deinit(struct waiting *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->all[i].frames);
	free(w->all);
	idmap_deinit(&w->by_tid);
	*w = (struct waiting){ 0 };
}

const char *waiting_marker(uint32_t state)
{
	return state == Q_WAIT_RUNNABLE ? "[runnable]" :
	       state == Q_WAIT_DISK	? "[disk]" :
	       state == Q_WAIT_GIL	? "[gil]" :
	       state == Q_WAIT_STOPPED	? "[stopped]" :
					  "[sleep]";
}

static struct waiting_one *place_of(struct waiting *w, pid_t tid)
{
	uint32_t i = idmap_get(&w->by_tid, (uint64_t)tid);

	if (i != IDMAP_NONE)
		return &w->all[i];
	if (!array_reserve(&w->all, &w->cap, w->n + 1, sizeof(*w->all)) ||
	    idmap_set(&w->by_tid, (uint64_t)tid, (uint32_t)w->n) < 0)
		return NULL;
	w->all[w->n] = (struct waiting_one){ .n = 0 };
	return &w->all[w->n++];
}

/* True: with @more frames there are too many. */
static bool is_full(const struct waiting *w, size_t more)
{
	return w->most_frames && w->n_frames + more > w->most_frames;
}

int waiting_keep(struct waiting *w, const struct sample *s, const struct stack *stack,
		 uint32_t state, bool undecided)
{
	struct frame unnamed = { .kind = FRAME_MARKER, .name = "[unnamed]" }, *frames;
	struct waiting_one *one = place_of(w, s->tid);
	bool full = is_full(w, stack->n - (one ? one->n : 0));
	size_t n = full ? 1 : stack->n;

	frames = one ? calloc(n + 1, sizeof(*frames)) : NULL;
	if (!frames)
		return -ENOMEM;
	frames[0] = (struct frame){ .kind = FRAME_MARKER, .name = waiting_marker(state) };
	memcpy(frames + 1, full ? &unnamed : stack->frames, n * sizeof(*frames));
	free(one->frames);
	w->n_frames += n + 1 - one->n;
	*one = (struct waiting_one){
		.sample = *s, .undecided = undecided, .n = n + 1, .frames = frames
	};
	return full;
}

bool waiting_misses(const struct waiting *w, pid_t tid, uint64_t out)
{
	uint32_t i = idmap_get(&w->by_tid, (uint64_t)tid);

	return i != IDMAP_NONE && w->all[i].n && w->all[i].sample.time != out;
}

bool waiting_take(struct waiting *w, pid_t tid, uint64_t out, struct waiting_one *ret)
{
	uint32_t i = idmap_get(&w->by_tid, (uint64_t)tid);

	if (i == IDMAP_NONE || w->all[i].sample.time != out)
		return false;
	*ret = w->all[i];
	w->n_frames -= ret->n;
	idmap_forget(&w->by_tid, (uint64_t)tid);
	w->all[i] = w->all[--w->n];
	if (i < w->n)
		idmap_set(&w->by_tid, (uint64_t)w->all[i].sample.tid, i);
	return true;
}
