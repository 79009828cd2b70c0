/* SPDX-License-Identifier: MIT */
#include "remote/fetch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/sparse.h"
#include "base/work.h"
#include "sys/proc.h"

enum { PIECE = 64 << 10, STACK_BYTES = 512 << 10 };

struct fetch {
	pid_t pid;
	uint64_t since_ns;
	raddr lo;
	size_t n;
	struct work work;
	_Atomic int refs; /* the thread's and the owner's */
	_Atomic bool done;
	bool failed;	   /* once @done */
	_Atomic bool left; /* nobody wants the rest */
	unsigned char bytes[];
};

static void drop(struct fetch *f)
{
	if (atomic_fetch_sub(&f->refs, 1) == 1)
		free(f);
}

static bool read_all(struct fetch *f, struct rmem *m)
{
	for (size_t at = 0; at < f->n; at += PIECE)
		if (atomic_load(&f->left) ||
		    rmem_read(m, f->lo + at, f->bytes + at, MIN(f->n - at, (size_t)PIECE)) < 0)
			return false;
	return true;
}

/* What was read was the process's that is meant, or it does not count. */
static bool get(struct fetch *f, struct rmem *m)
{
	_cleanup_close_ int fd = proc_pidfd(f->pid);

	return fd >= 0 && proc_was_there(f->pid, f->since_ns) && read_all(f, m) &&
	       !proc_has_ended(fd);
}

static void *fetch_main(void *arg)
{
	struct fetch *f = arg;
	struct rmem_live m;

	work_own = &f->work;
	rmem_live_init(&m, f->pid);
	f->failed = !get(f, &m.base);
	atomic_store_explicit(&f->done, true, memory_order_release);
	drop(f);
	return NULL;
}

static int start_thread(struct fetch *f)
{
	pthread_attr_t attr;
	pthread_t thread;
	int code;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	code = pthread_create(&thread, &attr, fetch_main, f);
	pthread_attr_destroy(&attr);
	return code;
}

struct fetch *fetch_start(pid_t pid, uint64_t since_ns, raddr lo, raddr hi)
{
	size_t n = hi - lo < FETCH_MAX ? hi - lo : FETCH_MAX;
	struct fetch *f = malloc(sizeof(*f) + n);

	if (!f)
		return NULL;
	*f = (struct fetch){ .pid = pid, .since_ns = since_ns, .lo = lo, .n = n };
	atomic_init(&f->refs, 2);
	if (start_thread(f) == 0)
		return f;
	free(f);
	return NULL;
}

pid_t fetch_pid(const struct fetch *f)
{
	return f->pid;
}

bool fetch_done(const struct fetch *f, pid_t *pid, raddr *lo, struct bytes *ret)
{
	if (!atomic_load_explicit(&f->done, memory_order_acquire))
		return false;
	*pid = f->pid;
	*lo = f->lo;
	*ret = (struct bytes){ .at = f->bytes, .n = f->failed ? 0 : f->n };
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

void fetch_leave(struct fetch *f)
{
	atomic_store(&f->left, true);
	sparse_drop(f->bytes, f->n);
}

void fetch_release(struct fetch *f)
{
	if (!f)
		return;
	work_take(&f->work);
	drop(f);
}
