/* SPDX-License-Identifier: MIT */
#include "remote/fetch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/work.h"
#include "sys/proc.h"

struct fetch {
	pid_t pid;
	uint64_t since_ns;
	raddr lo;
	size_t n;
	struct work work;
	_Atomic int refs; /* the thread's and the owner's */
	_Atomic bool done;
	unsigned char bytes[];
};

static void drop(struct fetch *f)
{
	if (atomic_fetch_sub(&f->refs, 1) == 1)
		free(f);
}

/* What was read was the process's that is meant, or it does not count. */
static bool get(struct fetch *f, struct rmem *m)
{
	_cleanup_close_ int fd = proc_pidfd(f->pid);

	return fd >= 0 && proc_was_there(f->pid, f->since_ns) &&
	       rmem_read(m, f->lo, f->bytes, f->n) == 0 && !proc_has_ended(fd);
}

static void *fetch_main(void *arg)
{
	struct fetch *f = arg;
	struct rmem_live m;

	work_own = &f->work;
	rmem_live_init(&m, f->pid);
	if (!get(f, &m.base))
		f->n = 0;
	atomic_store_explicit(&f->done, true, memory_order_release);
	drop(f);
	return NULL;
}

struct fetch *fetch_start(pid_t pid, uint64_t since_ns, raddr lo, raddr hi)
{
	size_t n = hi - lo < FETCH_MAX ? hi - lo : FETCH_MAX;
	struct fetch *f = malloc(sizeof(*f) + n);
	pthread_t thread;

	if (!f)
		return NULL;
	*f = (struct fetch){ .pid = pid, .since_ns = since_ns, .lo = lo, .n = n };
	atomic_init(&f->refs, 2);
	if (pthread_create(&thread, NULL, fetch_main, f)) {
		free(f);
		return NULL;
	}
	pthread_detach(thread);
	return f;
}

bool fetch_done(const struct fetch *f, pid_t *pid, raddr *lo, struct bytes *ret)
{
	if (!atomic_load_explicit(&f->done, memory_order_acquire))
		return false;
	*pid = f->pid;
	*lo = f->lo;
	*ret = (struct bytes){ .at = f->bytes, .n = f->n };
	return true;
}

bool fetch_wait(const struct fetch *f, int ms)
{
	struct timespec step = { .tv_nsec = 200000 };

	for (int i = 0; i < ms * 5; i++) {
		if (atomic_load_explicit(&f->done, memory_order_acquire))
			return true;
		nanosleep(&step, NULL);
	}
	return atomic_load_explicit(&f->done, memory_order_acquire);
}

void fetch_release(struct fetch *f)
{
	if (!f)
		return;
	work_take(&f->work);
	drop(f);
}
