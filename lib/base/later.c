/* SPDX-License-Identifier: MIT */
#include "base/later.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/quota.h"

struct later {
	void (*run)(void *arg);
	void (*drop)(void *arg);
	void *arg;
	struct quota *quota;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done;	  /* under the lock */
	_Atomic int refs; /* the thread's and the owner's */
};

static void destroy(struct later *l)
{
	pthread_cond_destroy(&l->ended);
	pthread_mutex_destroy(&l->lock);
	quota_unref(l->quota);
	free(l);
}

static void unref(struct later *l)
{
	if (atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	l->drop(l->arg);
	destroy(l);
}

static void *later_main(void *arg)
{
	struct later *l = arg;

	l->run(l->arg);
	quota_give(l->quota, QUOTA_THREADS, 1);
	pthread_mutex_lock(&l->lock);
	l->done = true;
	pthread_cond_signal(&l->ended);
	pthread_mutex_unlock(&l->lock);
	unref(l);
	return NULL;
}

static struct later *later_make(void (*run)(void *), void (*drop)(void *), void *arg)
{
	struct later *l = calloc(1, sizeof(*l));
	pthread_condattr_t attr;

	if (!l)
		return NULL;
	l->run = run, l->drop = drop, l->arg = arg;
	atomic_init(&l->refs, 2);
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->ended, &attr);
	pthread_condattr_destroy(&attr);
	return l;
}

struct later *later_start(struct quota *quota, void (*run)(void *), void (*drop)(void *),
			  void *arg)
{
	struct later *l = later_make(run, drop, arg);
	pthread_t thread;

	if (!l)
		return NULL;
	l->quota = quota_ref(quota);
	if (quota_take(quota, QUOTA_THREADS, 1)) {
		if (pthread_create(&thread, NULL, later_main, l) == 0) {
			pthread_detach(thread);
			return l;
		}
		quota_give(quota, QUOTA_THREADS, 1);
	}
	destroy(l);
	return NULL;
}

bool later_wait(struct later *l, int ms)
{
	const struct timespec until = clock_time(now_ns() + (uint64_t)ms * 1000000);
	bool done;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->done && r == 0 && ms)
		r = pthread_cond_timedwait(&l->ended, &l->lock, &until);
	done = l->done;
	pthread_mutex_unlock(&l->lock);
	return done;
}

void later_release(struct later *l)
{
	if (l)
		unref(l);
}
