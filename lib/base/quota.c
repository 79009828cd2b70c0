/* SPDX-License-Identifier: MIT
 *
 * quota - counters with a bound each, shared by reference.
 */
#include "base/quota.h"

#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/hash.h"

enum { AT_A_TIME = 4, SOON_NS = 1000000000, MOST_READS = 16, USERS = 256 };

struct quota {
	_Atomic int refs;
	_Atomic size_t used[QUOTA_N], most[QUOTA_N], refused[QUOTA_N];
	_Atomic uint64_t wait_ns; /* from then on it may be waited */
	_Atomic uint64_t free_ns[AT_A_TIME]; /* from when on each place may be taken */
	_Atomic uint64_t reader[MOST_READS]; /* whose each QUOTA_JIT_READS is; 0: nobody's */
	_Atomic size_t of_user[USERS]; /* QUOTA_JIT_BYTES, by a hash of the user's number */
};

static const size_t default_most[QUOTA_N] = {
	[QUOTA_THREADS] = 56,
	[QUOTA_JITS] = 256,
	[QUOTA_JIT_READS] = MOST_READS,
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

/* Users whose numbers have equal places leave an eighth together. */
static _Atomic size_t *of_user(const struct quota_share *s)
{
	return &s->quota->of_user[hash_u64(s->user) % USERS];
}

/* True: all may have @all, of which a process has @own, and its user @user. */
static bool is_fair(const struct quota *l, size_t own, size_t user, size_t all)
{
	size_t most = atomic_load(&l->most[QUOTA_JIT_BYTES]);

	return all <= most && own <= most - all && user <= most - most / 8;
}

void quota_share_give(struct quota_share *s, size_t n)
{
	if (!s->quota)
		return;
	quota_give(s->quota, QUOTA_JIT_BYTES, n);
	atomic_fetch_sub(of_user(s), n);
	atomic_fetch_sub(&s->used, n);
}

bool quota_share_take(struct quota_share *s, size_t n)
{
	size_t own, user, all;

	if (!s->quota)
		return true;
	own = atomic_fetch_add(&s->used, n) + n;
	user = atomic_fetch_add(of_user(s), n) + n;
	all = atomic_fetch_add(&s->quota->used[QUOTA_JIT_BYTES], n) + n;
	if (is_fair(s->quota, own, user, all))
		return true;
	quota_share_give(s, n);
	return false;
}

bool quota_share_may(const struct quota_share *s, size_t n)
{
	size_t own = atomic_load(&s->used);

	return !s->quota ||
	       is_fair(s->quota, n, atomic_load(of_user(s)) - own + n,
		       atomic_load(&s->quota->used[QUOTA_JIT_BYTES]) - own + n);
}

/* A place that is @is is from now on @becomes; false: there is none. */
static bool reader_change(struct quota *l, uint64_t is, uint64_t becomes)
{
	for (size_t i = 0; i < ARRAY_SIZE(l->reader); i++) {
		uint64_t was = is;

		if (atomic_compare_exchange_strong(&l->reader[i], &was, becomes))
			return true;
	}
	return false;
}

bool quota_enter(struct quota *l, uint64_t who)
{
	size_t own = 0, of_user = 0, all = 0, most = atomic_load(&l->most[QUOTA_JIT_READS]);

	for (size_t i = 0; i < ARRAY_SIZE(l->reader); i++) {
		uint64_t reader = atomic_load(&l->reader[i]);

		own += reader == who;
		of_user += reader && (uint32_t)reader == (uint32_t)who;
		all += reader != 0;
	}
	if (own + all >= most || of_user >= most - most / 8 || !reader_change(l, 0, who)) {
		atomic_fetch_add(&l->refused[QUOTA_JIT_READS], 1);
		return false;
	}
	return true;
}

void quota_leave(struct quota *l, uint64_t who)
{
	reader_change(l, who, 0);
}

uint64_t quota_begin(struct quota *l, uint64_t now)
{
	for (size_t i = 0; i < ARRAY_SIZE(l->free_ns); i++) {
		uint64_t free_ns = atomic_load(&l->free_ns[i]), begun = now + SOON_NS;

		if (free_ns <= now &&
		    atomic_compare_exchange_strong(&l->free_ns[i], &free_ns, begun))
			return begun;
	}
	return 0;
}

void quota_end(struct quota *l, uint64_t begun)
{
	for (size_t i = 0; i < ARRAY_SIZE(l->free_ns); i++) {
		uint64_t is = begun;

		if (atomic_compare_exchange_strong(&l->free_ns[i], &is, 0))
			return;
	}
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
