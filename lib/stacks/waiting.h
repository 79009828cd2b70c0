/* SPDX-License-Identifier: MIT
 *
 * waiting - stacks of waits that are not over yet: one a thread, until it is known what they
 * stand for.
 */
#ifndef WAITING_H
#define WAITING_H

#include "base/idmap.h"
#include "sample/sample.h"
#include "sample/wire.h"

/* A wait's sample, its innermost frame a marker that says what it waited for. */
struct waiting_one {
	struct sample sample;
	bool undecided; /* torn, for its program was not known yet */
	size_t n;
	struct frame *frames; /* malloc'ed */
};

struct waiting {
	struct idmap by_tid;
	struct waiting_one *all;
	size_t n, cap;
	size_t n_frames, most_frames; /* of all; 0: no bound */
};

void waiting_deinit(struct waiting *w);

/* The marker of @state, a Q_WAIT_*: the same pointer each time. */
const char *waiting_marker(uint32_t state);

/* Keep @s with @stack and the marker of @state, in the place of the thread's last one. 0, or 1:
 * beyond the bound of all frames the stack is "[unnamed]", or -ENOMEM. */
int waiting_keep(struct waiting *w, const struct sample *s, const struct stack *stack,
		 uint32_t state, bool undecided);

/* True: of the thread's last wait, which began at another time than @out, no end was told. */
bool waiting_misses(const struct waiting *w, pid_t tid, uint64_t out);

/* That of thread @tid which began at @out, without what it stands for; ->frames is the
 * caller's to free. False: it is not there. */
bool waiting_take(struct waiting *w, pid_t tid, uint64_t out, struct waiting_one *ret);

#endif
