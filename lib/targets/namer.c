/* SPDX-License-Identifier: MIT
 *
 * namer - one table of names told per sampled process, by the thread's own number.
 */
#include "targets/namer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/work.h"
#include "python/pygil.h"
#include "python/pynames.h"
#include "remote/guard.h"
#include "sys/harden.h"
#include "sys/proc.h"
#include "targets/announce.h"

enum {
	LOOK_MS = 10,	 /* between looks while threads are born */
	ALERT_MS = 200,	 /* so long after the last birth */
	CALM_MS = 500,	 /* between looks otherwise: for new names of old threads */
	SHARE = 50,	 /* of the time one part is spent looking, at most */
	LONG_MS = 10000, /* between looks at most */
	LATE_MS = 20,	 /* so much later a reader may tell that a thread ran */
	STOP_MS = 200,
};

/* A process as it was found in the table. */
struct process {
	pid_t pid;
	int program;
	bool there, inner_tids;
	bool held; /* struct target.pidfd tells of its end */
	bool due;			/* it was sampled since it was looked at */
	uint64_t ran[TARGET_RAN_WORDS]; /* which of its threads were sampled (target.h) */
	bool born; /* a thread was, in some process, since all names were read */
	raddr runtime;
	struct pylayout layout;
	uint64_t looked_ns; /* names that are new are no older */
	struct pynames names;
	struct idmap told;  /* the thread's own number to its name's hash */
	struct idmap outer; /* the thread's own number to the one it has here, with inner_tids */
	struct idmap inner; /* and back */
};

/* One look at one process. */
struct look {
	struct namer *namer;
	struct process *p;
	struct idmap told; /* now */
};

struct namer {
	pthread_mutex_t lock; /* what is the owner's: used under it, unless @stopped */
	bool stopped;
	_Atomic bool stopping;
	struct targets *targets;
	struct queue *q;
	int kick;
	_Atomic bool *due;
	struct epoch_user *user;
	uint64_t listed_ns; /* when the targets were */
	struct process **all;
	size_t n, cap;
	struct work work;
	sem_t ended;
	sem_t stop;	  /* posted once, with stopping */
	_Atomic int refs; /* the thread's and the owner's */
	struct look look;
	struct guard guard;
	struct guarded mem;
	_Atomic pid_t tid;
};

static void process_free(struct process *p)
{
	pynames_deinit(&p->names);
	idmap_deinit(&p->told);
	idmap_deinit(&p->outer);
	idmap_deinit(&p->inner);
	free(p);
}

static void drop(struct namer *n)
{
	if (atomic_fetch_sub(&n->refs, 1) != 1)
		return;
	for (size_t i = 0; i < n->n; i++)
		process_free(n->all[i]);
	free(n->all);
	idmap_deinit(&n->look.told); /* of a look that was given up */
	sem_destroy(&n->ended);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

/* --- which processes --- */

static struct process *process_add(struct namer *n)
{
	if (!array_reserve(&n->all, &n->cap, n->n + 1, sizeof(*n->all)))
		return NULL;
	n->all[n->n] = calloc(1, sizeof(struct process));
	return n->all[n->n] ? n->all[n->n++] : NULL;
}

/* The interpreter @of of @t, whose number is @program. */
static void note_interpreter(struct namer *n, const struct target *t,
			     const struct pystack_target *of, int program, bool due,
			     const uint64_t ran[TARGET_RAN_WORDS])
{
	struct process *p;

	if (!pynames_known(&of->layout))
		return;
	for (size_t i = 0; i < n->n; i++)
		if (n->all[i]->program == program && n->all[i]->pid == t->pid) {
			n->all[i]->there = true;
			n->all[i]->held = atomic_load(&t->pidfd) >= 0;
			n->all[i]->due |= due;
			for (size_t k = 0; k < TARGET_RAN_WORDS; k++)
				n->all[i]->ran[k] |= ran[k];
			return;
		}
	p = due ? process_add(n) : NULL;
	if (p)
		*p = (struct process){ .pid = t->pid,
				       .program = program,
				       .there = true,
				       .due = true,
				       .held = atomic_load(&t->pidfd) >= 0,
				       .inner_tids = t->inner_tids,
				       .runtime = pygil_runtime(&of->layout, &of->walk),
				       .layout = of->layout,
				       .looked_ns = MAX(t->begun_ns, t->since_ns) };
}

static void note_target(void *arg, struct target *t)
{
	const struct pystack_others *others = target_others(t);
	uint64_t ran[TARGET_RAN_WORDS];
	bool due;

	if (atomic_load_explicit(&t->state, memory_order_acquire) != TARGET_PYTHON ||
	    atomic_load_explicit(&t->names_hang, memory_order_relaxed))
		return;
	/* Who does not run costs nothing. */
	due = target_take_ran(t, ran);
	note_interpreter(arg, t, &t->py, t->py.program, due, ran);
	for (uint32_t i = 0; others && i < others->n; i++)
		if (others->of[i].proven)
			note_interpreter(arg, t, &others->of[i].target,
					 t->py.program + 1 + (int)i, due, ran);
}

/* Those that are targets now. False: it is over. */
static bool list_targets(struct namer *n)
{
	bool go_on;

	n->listed_ns = now_ns();
	for (size_t i = 0; i < n->n; i++)
		n->all[i]->there = false;
	pthread_mutex_lock(&n->lock);
	go_on = !n->stopped;
	if (go_on) {
		epoch_enter(&n->targets->epoch, n->user);
		targets_each(n->targets, note_target, n);
		epoch_leave(n->user);
	}
	pthread_mutex_unlock(&n->lock);
	for (size_t i = 0; i < n->n;)
		if (n->all[i]->there) {
			i++;
		} else {
			process_free(n->all[i]);
			n->all[i] = n->all[--n->n];
		}
	return go_on;
}

/* --- names --- */

/* No value of it is IDMAP_NONE. */
static uint32_t hash_of(const char *s)
{
	return (uint32_t)(hash_bytes(hash_seed.begin, s, strlen(s)) >> 34);
}

/* Learn the numbers of the threads that have come, and forget those that have ended. */
static void learn_numbers(struct process *p)
{
	_cleanup_free_ pid_t *tids = NULL;
	struct idmap outer = { 0 }, inner = { 0 };
	size_t n = 0;

	if (proc_tasks(p->pid, &tids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		uint32_t tid = (uint32_t)tids[i], number = idmap_get(&p->inner, tid);

		if (number == IDMAP_NONE)
			number = (uint32_t)proc_inner_tid(p->pid, tids[i]);
		if ((int32_t)number > 0 && idmap_set(&outer, number, tid) == 0)
			idmap_set(&inner, tid, number);
	}
	idmap_deinit(&p->outer);
	idmap_deinit(&p->inner);
	p->outer = outer;
	p->inner = inner;
}

/* The number that the thread has here; 0: it is none of the process's. */
static pid_t outer_tid(struct process *p, uint32_t number)
{
	uint32_t tid = number;
	char comm[16];

	if (p->inner_tids && (tid = idmap_get(&p->outer, number)) == IDMAP_NONE) {
		learn_numbers(p);
		tid = idmap_get(&p->outer, number);
	}
	return tid != IDMAP_NONE && proc_comm(p->pid, (pid_t)tid, comm) == 0 ? (pid_t)tid : 0;
}

/* Without a descriptor it is asked how old it is. That may hang, as reads of its memory may. */
static bool was_there(struct namer *n, const struct process *p)
{
	uint64_t turn;
	bool ret;

	if (p->held)
		return true;
	turn = guarded_enter(&n->mem);
	ret = proc_was_there(p->pid, p->looked_ns);
	guarded_leave(&n->mem, turn);
	return ret;
}

/* Are names that were read from its memory its own? Under the lock, and not stopped. */
static bool is_still(struct namer *n, const struct process *p)
{
	const struct target *t;
	bool still;

	epoch_enter(&n->targets->epoch, n->user);
	t = targets_find(n->targets, p->pid);
	still = t && p->program - p->program % PYSTACK_SEVERAL == t->py.program &&
		!target_left_if(t, true);
	epoch_leave(n->user);
	return still;
}

static void tell(struct look *l, uint32_t number, const char *name)
{
	struct namer *n = l->namer;
	pid_t tid = outer_tid(l->p, number);

	if (!tid || !was_there(n, l->p))
		return;
	pthread_mutex_lock(&n->lock);
	if (!n->stopped && is_still(n, l->p))
		announce_name(n->q, l->p->pid, tid, name, l->p->looked_ns, now_ns());
	pthread_mutex_unlock(&n->lock);
}

/* True: it may have run. */
static bool may_differ(void *arg, uint32_t number)
{
	const struct process *p = ((struct look *)arg)->p;
	uint32_t tid = p->inner_tids ? idmap_get(&p->outer, number) : number;

	return tid == IDMAP_NONE || target_ran(p->ran, (pid_t)tid);
}

static void found(void *arg, uint32_t number, const char *name)
{
	struct look *l = arg;
	uint32_t was = idmap_get(&l->p->told, number), hash = name ? hash_of(name) : was;

	/* What the main interpreter calls it counts. */
	if (idmap_get(&l->told, number) != IDMAP_NONE)
		return;
	if (was != hash)
		tell(l, number, name);
	idmap_set(&l->told, number, hash);
}

static void look_at(struct namer *n, struct process *p, bool all)
{
	struct look *l = &n->look;
	const struct pynames_look look = {
		.all = all, .may_differ = p->born ? NULL : may_differ, .found = found, .arg = l
	};

	*l = (struct look){ .namer = n, .p = p };
	guarded_target(&n->mem, p->pid, RMEM_OUTLIVER);
	switch (pynames_look(&n->mem.base, &p->layout, p->runtime, &p->names, &look)) {
	case PYNAMES_WHOLE: /* who was not found has ended */
		idmap_deinit(&p->told);
		p->told = l->told;
		l->told = (struct idmap){ 0 };
		break;
	case PYNAMES_TORN: /* who was missed is told by the next look, and as new as now */
		idmap_deinit(&l->told);
		p->due = true;
		return;
	case PYNAMES_SAME: /* no thread came; that one has another name is not known yet */
		p->due |= !all;
		if (!all)
			return;
		break;
	}
	p->born &= !all;
	memset(p->ran, 0, sizeof(p->ran));
	p->looked_ns = n->listed_ns - LATE_MS * 1000000ull;
}

/* --- when --- */

/* Until the next look, or a birth. True: a thread was born, somewhere. */
static bool await(struct namer *n, uint64_t ms)
{
	struct pollfd fd = { .fd = n->kick, .events = POLLIN };
	eventfd_t value;

	if (poll(&fd, 1, (int)ms) <= 0 || !(fd.revents & POLLIN))
		return false;
	eventfd_read(n->kick, &value);
	if (!atomic_exchange(n->due, false))
		return false; /* it is to end */
	for (size_t i = 0; i < n->n; i++)
		n->all[i]->born = true;
	return true;
}

/* @last_ns: when all names were read last. */
static bool look_at_all(struct namer *n, uint64_t *last_ns)
{
	uint64_t now = now_ns();
	bool all = atomic_load(&n->stopping) || now - *last_ns > CALM_MS * 1000000ull;

	if (!list_targets(n))
		return false;
	for (size_t i = 0; i < n->n; i++)
		if (n->all[i]->due) {
			n->all[i]->due = false;
			look_at(n, n->all[i], all);
		}
	if (all)
		*last_ns = now;
	return true;
}

static void look_until_stopped(struct namer *n)
{
	uint64_t last_ns = 0, born_ns = now_ns();
	bool over = false;

	while (!over) {
		uint64_t began = now_ns(), took;

		over = atomic_load(&n->stopping);
		if (!look_at_all(n, &last_ns) || over)
			break;
		took = (now_ns() - began) / 1000000 * SHARE;
		/* Births don't shorten it, only the end does. */
		took = MIN(MAX(took, (uint64_t)LOOK_MS), (uint64_t)LONG_MS);
		clock_await(&n->stop, now_ns() + took * 1000000);
		if (await(n, now_ns() - born_ns > ALERT_MS * 1000000ull ? CALM_MS : 0))
			born_ns = now_ns();
	}
}

static void *namer_main(void *arg)
{
	struct namer *n = arg;
	jmp_buf end;

	work_own = &n->work;
	atomic_store(&n->tid, gettid());
	harden_thread(HARDEN_PROBE, 0);
	n->mem.end = &end;
	if (setjmp(end) == 0) /* else it was given up */
		look_until_stopped(n);
	sem_post(&n->ended);
	drop(n);
	return NULL;
}

struct namer *namer_start(struct targets *targets, struct epoch_user *user, struct queue *q,
			  int kick, _Atomic bool *due)
{
	struct namer *n = calloc(1, sizeof(*n));
	pthread_t thread;

	if (!n)
		return NULL;
	n->targets = targets;
	n->user = user;
	n->q = q;
	n->kick = kick;
	n->due = due;
	pthread_mutex_init(&n->lock, NULL);
	sem_init(&n->ended, 0, 0);
	sem_init(&n->stop, 0, 0);
	atomic_init(&n->refs, 2);
	guarded_init(&n->mem, &n->guard, -1);
	if (pthread_create(&thread, NULL, namer_main, n)) {
		atomic_store(&n->refs, 1);
		drop(n);
		return NULL;
	}
	pthread_detach(thread);
	return n;
}

/* From now on it uses nothing of the owner's. */
static void cut_off(struct namer *n)
{
	pthread_mutex_lock(&n->lock);
	n->stopped = true;
	pthread_mutex_unlock(&n->lock);
	work_take(&n->work);
}

bool namer_hangs(struct namer *n, pid_t *pid)
{
	struct target *t;

	*pid = guard_stuck(&n->guard, atomic_load(&n->tid));
	if (!*pid)
		return false;
	t = targets_find(n->targets, *pid);
	if (t)
		atomic_store(&t->names_hang, true);
	cut_off(n);
	return true;
}

void namer_leave(struct namer *n)
{
	drop(n);
}

pid_t namer_returned(struct namer *n)
{
	pid_t pid;

	if (sem_trywait(&n->ended) < 0)
		return 0;
	pid = n->mem.below.pid;
	drop(n);
	return pid;
}

void namer_stop(struct namer *n)
{
	if (!n)
		return;
	atomic_store(&n->stopping, true);
	sem_post(&n->stop);
	eventfd_write(n->kick, 1);
	clock_await(&n->ended, now_ns() + STOP_MS * 1000000ull);
	cut_off(n);
	drop(n);
}
