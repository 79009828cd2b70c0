/* SPDX-License-Identifier: MIT
 *
 * probe - looks for a process's interpreter in another thread, of which each serves many.
 */
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
#include "elf/pool.h"
#include "sys/proc.h"
#include "base/work.h"

enum {
	IDLE_S = 1,    /* until a thread that nobody asks ends */
	STUCK_MS = 50, /* in which no look ends, while others wait */
};

struct probe {
	struct probers *crew;
	struct probe *next; /* that waits for a thread */
	pid_t pid;
	uid_t user; /* whose that is */
	uint64_t since_ns;
	struct file_helper *files; /* or NULL */
	int kick, code;
	bool left; /* nobody waits for it any more, and its thread counts no more */
	_Atomic uint64_t began_ns;
	struct work work;
	struct pyproc proc;
	struct err err;
	_Atomic int refs; /* the thread's and the owner's */
	_Atomic bool done;
	sem_t ended; /* posted once */
};

struct probers {
	_Atomic int refs; /* the owner's, each thread's, each probe's */
	pthread_mutex_t lock; /* of all below, of probes' ->kick, ->left and ->next */
	pthread_cond_t asked;
	struct probe *first, **last; /* of those that wait */
	size_t n_waiting, n_idle, n_threads, most;
	size_t n_left; /* threads that nobody waits for, beside n_threads */
	bool bounded;
	/* With @bounded: of whom those are that are looked at. */
	uid_t user[PROBERS_BOUND];
	size_t n_users;
	uint64_t moved_ns; /* when the last look ended, or had to wait for a thread */
	bool over;
};

static void leave(struct probers *c)
{
	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	pthread_cond_destroy(&c->asked);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void drop(struct probe *p)
{
	struct probers *c = p->crew;

	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	file_helper_unref(p->files);
	sem_destroy(&p->ended);
	free(p);
	leave(c);
}

/* --- those that wait: with the lock --- */

static bool is_crowded(const struct probers *c, uid_t user)
{
	return pool_is_crowded(c->user, c->n_users, user, PROBERS_BOUND);
}

/* The first that need not wait, or NULL. */
static struct probe *first_due(const struct probers *c)
{
	struct probe *p = c->first;

	while (p && is_crowded(c, p->user))
		p = p->next;
	return p;
}

static size_t count_due(const struct probers *c)
{
	size_t n = 0;

	for (const struct probe *p = c->first; p; p = p->next)
		n += !is_crowded(c, p->user);
	return n;
}

/* True: no thread has begun with it, and none will. */
static bool take_back(struct probers *c, const struct probe *p)
{
	struct probe **at = &c->first;

	while (*at && *at != p)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = p->next;
	c->last = c->last == &p->next ? at : c->last;
	c->n_waiting--;
	return true;
}

/* A look at a process of @user has ended. */
static void forget_user(struct probers *c, uid_t user)
{
	size_t i = 0;

	while (i < c->n_users && c->user[i] != user)
		i++;
	if (i < c->n_users)
		c->user[i] = c->user[--c->n_users];
}

size_t probers_crowded(struct probers *c, uid_t *user)
{
	size_t ret = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; !ret && i < c->n_users; i++)
		if (is_crowded(c, c->user[i])) {
			*user = c->user[i];
			ret = c->n_users;
		}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* --- a thread --- */

/* What was read was the process's that is meant, or it does not count. */
static int look(struct probe *p, struct rmem *m)
{
	_cleanup_close_ int fd = proc_pidfd(p->pid);
	int code;

	if (proc_is_short(fd))
		return proc_short(p->pid, fd, &p->err);
	if (fd < 0)
		return err_set(&p->err, fd, "process %d has ended", p->pid);
	code = pyfind(p->pid, p->since_ns, m, p->files, &p->proc, &p->err);
	if (proc_has_ended(fd))
		return err_set(&p->err, -ESRCH, "process %d has ended", p->pid);
	return code;
}

/* Until somebody asks. False: nobody did for a while. */
static bool rest(struct probers *c)
{
	struct timespec until;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += IDLE_S;
	c->n_idle++;
	r = pthread_cond_clockwait(&c->asked, &c->lock, CLOCK_MONOTONIC, &until);
	c->n_idle--;
	return r != ETIMEDOUT;
}

/* NULL: the thread has nothing more to do. */
static struct probe *next_probe(struct probers *c)
{
	struct probe *p;

	pthread_mutex_lock(&c->lock);
	while (!first_due(c) && !c->over && rest(c))
		;
	p = first_due(c);
	if (p)
		take_back(c, p);
	else
		c->n_threads--;
	if (p && c->bounded)
		c->user[c->n_users++] = p->user;
	pthread_mutex_unlock(&c->lock);
	return p;
}

static void run(struct probe *p)
{
	struct rmem_live m;

	work_own = &p->work;
	pool_user = p->user;
	rmem_live_init(&m, p->pid);
	atomic_store(&p->began_ns, now_ns());
	p->code = look(p, &m.base);
	pool_user = PROC_NOBODY;
	work_own = NULL;
	atomic_store_explicit(&p->done, true, memory_order_release);
}

/* Tell who waits for it. False: nobody does, and another thread has taken our place. */
static bool end(struct probe *p)
{
	struct probers *c = p->crew;
	bool left;

	sem_post(&p->ended);
	pthread_mutex_lock(&c->lock);
	if (p->kick >= 0)
		eventfd_write(p->kick, 1);
	left = p->left;
	c->n_left -= left;
	forget_user(c, p->user);
	if (c->first)
		pthread_cond_signal(&c->asked);
	c->moved_ns = now_ns();
	pthread_mutex_unlock(&c->lock);
	drop(p);
	return !left;
}

static void *prober_main(void *arg)
{
	struct probers *c = arg;
	struct probe *p;

	harden_thread(HARDEN_PROBE, 0);
	while ((p = next_probe(c))) {
		run(p);
		if (!end(p))
			break;
	}
	leave(c);
	return NULL;
}

static bool add_thread(struct probers *c)
{
	pthread_t thread;

	if (c->bounded && c->n_threads + c->n_left >= PROBERS_BOUND)
		return false;
	atomic_fetch_add(&c->refs, 1);
	if (pthread_create(&thread, NULL, prober_main, c)) {
		atomic_fetch_sub(&c->refs, 1);
		return false;
	}
	pthread_detach(thread);
	c->n_threads++;
	return true;
}

struct probers *probers_create(size_t most, bool bounded)
{
	struct probers *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	atomic_init(&c->refs, 1);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->asked, NULL);
	c->last = &c->first;
	c->most = most;
	c->bounded = bounded;
	return c;
}

void probers_release(struct probers *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->over = true;
	pthread_cond_broadcast(&c->asked);
	pthread_mutex_unlock(&c->lock);
	leave(c);
}

void probers_run(struct probers *c)
{
	uint64_t now = now_ns();
	size_t n = 0;

	pthread_mutex_lock(&c->lock);
	if (now > c->moved_ns + STUCK_MS * 1000000ull) {
		n = MIN(c->most, count_due(c));
		c->moved_ns = now;
	}
	while (n-- && add_thread(c))
		;
	pthread_mutex_unlock(&c->lock);
}

/* --- a probe --- */

static struct probe *create(struct probers *c, pid_t pid, uint64_t since_ns,
			    struct file_helper *files, int kick)
{
	struct probe *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	atomic_fetch_add(&c->refs, 1);
	p->crew = c;
	p->pid = pid;
	p->user = proc_user(pid);
	p->since_ns = since_ns;
	p->files = file_helper_ref(files);
	p->kick = kick;
	atomic_init(&p->refs, 2);
	sem_init(&p->ended, 0, 0);
	return p;
}

struct probe *probe_start(struct probers *c, pid_t pid, uint64_t since_ns,
			  struct file_helper *files, int kick)
{
	struct probe *p = create(c, pid, since_ns, files, kick);
	bool served = true;

	if (!p)
		return NULL;
	pthread_mutex_lock(&c->lock);
	if (!c->n_waiting)
		c->moved_ns = now_ns();
	*c->last = p;
	c->last = &p->next;
	c->n_waiting++;
	if (c->n_waiting > c->n_idle && c->n_threads < c->most)
		served = add_thread(c) || c->n_threads;
	if (!served)
		take_back(c, p);
	pthread_cond_signal(&c->asked);
	pthread_mutex_unlock(&c->lock);
	if (served)
		return p;
	drop(p);
	drop(p);
	return NULL;
}

uint64_t probe_began(const struct probe *p)
{
	return atomic_load(&p->began_ns);
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
	uint64_t until = now_ns() + (uint64_t)ms * 1000000;

	while (!atomic_load_explicit(&p->done, memory_order_acquire) &&
	       clock_await(&p->ended, until))
		;
	if (atomic_load_explicit(&p->done, memory_order_acquire))
		return true;
	probers_run(p->crew);
	return false;
}

void probe_release(struct probe *p)
{
	struct probers *c;
	bool never;

	if (!p)
		return;
	c = p->crew;
	pthread_mutex_lock(&c->lock);
	p->kick = -1;
	never = take_back(c, p);
	/* Who hangs is replaced. */
	if (!never && !atomic_load(&p->done)) {
		p->left = true;
		c->n_left++;
		c->n_threads--;
		if (c->n_waiting > c->n_idle && c->n_threads < c->most)
			add_thread(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (never)
		drop(p);
	work_take(&p->work);
	drop(p);
}
