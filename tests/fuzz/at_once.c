/* SPDX-License-Identifier: MIT
 *
 * at_once - later.h without threads: work is done when it is begun. A thread for each file
 * that an input names took most of a fuzzer's time, and what threads do is not what inputs
 * decide.
 */
#include "base/later.h"
#include "base/quota.h"
#include "fuzz.h"

struct later {
	void (*drop)(void *arg);
	void *arg;
};

struct later *later_start(struct quota *quota, void (*run)(void *), void (*drop)(void *),
			  void *arg)
{
	struct later *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct later){ drop, arg };
	run(arg);
	return l;
}

bool later_wait(struct later *l, int ms)
{
	return true;
}

void later_release(struct later *l)
{
	if (l)
		l->drop(l->arg);
	free(l);
}
