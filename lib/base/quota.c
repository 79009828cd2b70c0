/* SPDX-License-Identifier: MIT
 *
 * quota - counters with a bound each, shared by reference.
 */
#include "base/quota.h"

#include <stdatomic.h>
#include <stdlib.h>

struct quota {
	_Atomic int refs;
	_Atomic size_t used[QUOTA_N];
};

static const size_t most[QUOTA_N] = {
	[QUOTA_THREADS] = 40,
	[QUOTA_JITS] = 256,
	[QUOTA_JIT_READS] = 4,
	[QUOTA_JIT_BYTES] = 256 << 20,
};

struct quota *quota_create(void)
{
	struct quota *l = calloc(1, sizeof(*l));

	if (l)
		atomic_init(&l->refs, 1);
	return l;
}

struct quota *quota_ref(struct quota *l)
{
	atomic_fetch_add(&l->refs, 1);
	return l;
}

void quota_unref(struct quota *l)
{
	if (l && atomic_fetch_sub(&l->refs, 1) == 1)
		free(l);
}

bool quota_take(struct quota *l, enum quota_of what, size_t n)
{
	if (n > most[what])
		return false;
	if (atomic_fetch_add(&l->used[what], n) <= most[what] - n)
		return true;
	quota_give(l, what, n);
	return false;
}

void quota_give(struct quota *l, enum quota_of what, size_t n)
{
	atomic_fetch_sub(&l->used[what], n);
}
