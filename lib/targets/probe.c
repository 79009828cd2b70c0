/* SPDX-License-Identifier: MIT */
#include "targets/probe.h"
#include "sys/harden.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "elf/file_helper.h"
#include "sys/proc.h"
#include "base/work.h"

struct probe {
	pid_t pid;
	uint64_t since_ns;
	struct file_helper *files; /* or NULL */
	pthread_mutex_t lock; /* of @kick: its owner may close it once it has let us go */
	int kick, code;
	uint64_t began_ns;
	struct work work;
	struct pyproc proc;
	struct err err;
	_Atomic int refs; /* the thread's and the owner's */
	_Atomic bool done;
	sem_t ended; /* posted once */
};

static void drop(struct probe *p)
{
	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	file_helper_unref(p->files);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* What was read was the process's that is meant, or it does not count. */
static int look(struct probe *p, struct rmem *m)
{
	_cleanup_close_ int fd = proc_pidfd(p->pid);
	int code;

	if (proc_is_short(fd))
		return proc_short(p->pid, fd, &p->err);
	if (fd < 0)
		return err_set(&p->err, fd, "process %d has ended", p->pid);
	/* Twice: for the file that tells there may have been no descriptor or memory. */
	if (!proc_was_there(p->pid, p->since_ns) && !proc_was_there(p->pid, p->since_ns)) {
		if (proc_age_ns(p->pid) == UINT64_MAX && !proc_has_ended(fd))
			return proc_short(p->pid, -EMFILE, &p->err);
		return err_set(&p->err, -ESRCH, "process %d has ended", p->pid);
	}
	code = pyfind(p->pid, m, p->files, &p->proc, &p->err);
	if (proc_has_ended(fd))
		return err_set(&p->err, -ESRCH, "process %d has ended", p->pid);
	return code;
}

static void *probe_main(void *arg)
{
	struct probe *p = arg;
	struct rmem_live m;

	work_own = &p->work;
	harden_thread(HARDEN_PROBE, 0);
	rmem_live_init(&m, p->pid);
	p->began_ns = now_ns();
	p->code = look(p, &m.base);
	atomic_store_explicit(&p->done, true, memory_order_release);
	sem_post(&p->ended);
	pthread_mutex_lock(&p->lock);
	if (p->kick >= 0)
		eventfd_write(p->kick, 1);
	pthread_mutex_unlock(&p->lock);
	drop(p);
	return NULL;
}

struct probe *probe_start(pid_t pid, uint64_t since_ns, struct file_helper *files, int kick)
{
	struct probe *p = calloc(1, sizeof(*p));
	pthread_t thread;

	if (!p)
		return NULL;
	p->pid = pid;
	p->since_ns = since_ns;
	p->files = file_helper_ref(files);
	p->kick = kick;
	pthread_mutex_init(&p->lock, NULL);
	atomic_init(&p->refs, 2);
	sem_init(&p->ended, 0, 0);
	if (pthread_create(&thread, NULL, probe_main, p)) {
		file_helper_unref(p->files);
		free(p);
		return NULL;
	}
	pthread_detach(thread);
	return p;
}

uint64_t probe_began(const struct probe *p)
{
	return p->began_ns;
}

bool probe_done(struct probe *p, int *code, struct pyproc *ret, struct err *err)
{
	if (!atomic_load_explicit(&p->done, memory_order_acquire))
		return false;
	*code = p->code;
	*ret = p->proc;
	*err = p->err;
	return true;
}

bool probe_wait(struct probe *p, int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!atomic_load_explicit(&p->done, memory_order_acquire) &&
	       (sem_clockwait(&p->ended, CLOCK_MONOTONIC, &until) == 0 || errno == EINTR))
		;
	return atomic_load_explicit(&p->done, memory_order_acquire);
}

void probe_release(struct probe *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->kick = -1;
	pthread_mutex_unlock(&p->lock);
	work_take(&p->work);
	drop(p);
}
