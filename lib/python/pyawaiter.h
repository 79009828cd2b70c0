/* SPDX-License-Identifier: MIT
 *
 * pyawaiter - from an asyncio task to the task that waits for it.
 *
 * Of a thread that is held: its tasks stand still then. From 3.14 on each future says who
 * awaits it. Before, its callbacks do: the wake-up of the task that awaits it, or what
 * asyncio.gather(), wait(), wait_for(), shield() and TaskGroup add. Other callbacks say
 * nothing of who waits, and are passed over.
 */
#ifndef PYAWAITER_H
#define PYAWAITER_H

#include "python/pytasks.h"

enum pyawaiter {
	PYAWAITER_ONE,
	PYAWAITER_NONE,
	PYAWAITER_SEVERAL,
	PYAWAITER_UNKNOWN, /* it can't be read, or is not as it should be */
};

/* Who waits for the task at @task: into *@ret, if it is one. */
enum pyawaiter pyawaiter_find(struct rmem *m, const struct pylayout *l, raddr task,
			      raddr *ret);

#endif
