/* SPDX-License-Identifier: MIT
 *
 * quota - counters with a bound each, shared by reference.
 */
#include "base/quota.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"

struct quota {
	_Atomic int refs;
	_Atomic size_t used[QUOTA_N], most[QUOTA_N], refused[QUOTA_N];
	_Atomic uint64_t wait_ns; /* from then on it may be waited */
};

static const size_t default_most[QUOTA_N] = {
	[QUOTA_THREADS] = 40,
	[QUOTA_JITS] = 256,
	[QUOTA_JIT_READS] = 4,
	[QUOTA_JIT_BYTES] = 256 << 20,
};

struct quota *quota_create(void)
{
	struct quota *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	atomic_init(&l->refs, 1);
	for (size_t i = 0; i < QUOTA_N; i++)
		atomic_init(&l->most[i], default_most[i]);
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
	size_t most = atomic_load(&l->most[what]);

	if (n <= most) {
		if (atomic_fetch_add(&l->used[what], n) <= most - n)
			return true;
		quota_give(l, what, n);
	}
	atomic_fetch_add(&l->refused[what], 1);
	return false;
}

bool quota_may_wait(const struct quota *l, uint64_t now)
{
	return now >= atomic_load(&l->wait_ns);
}

void quota_waited(struct quota *l, uint64_t now, uint64_t ns)
{
	atomic_store(&l->wait_ns, clock_spend(atomic_load(&l->wait_ns), now, 10 * ns));
}

void quota_limit(struct quota *l, enum quota_of what, size_t n)
{
	atomic_store(&l->most[what], n);
}

size_t quota_refused(const struct quota *l, enum quota_of what)
{
	return atomic_load(&l->refused[what]);
}

void quota_give(struct quota *l, enum quota_of what, size_t n)
{
	atomic_fetch_sub(&l->used[what], n);
}
