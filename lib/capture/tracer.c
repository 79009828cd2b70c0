/* SPDX-License-Identifier: MIT */
#include "capture/tracer.h"
#include "sys/harden.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "capture/deaf.h"
#include "capture/seize.h"
#include "base/nudge.h"
#include "sys/ask.h"
#include "sys/proc.h"
#include "sys/realtime.h"
#include "base/stats.h"
#include "sample/wire.h"

enum {
	LET_GO_MS = 1000,
	BLOCKED_MS = 50,
	GOING_S = 1,
	REFUSED_S = 1, /* at most, until a thread without events is tried again */
	STEP_MS = 1,
	STEPS = 1000, /* until it is looked what else is to be done */
	IDLE_MS = 100, /* until it is looked again whether anybody can be traced */
	PRSTATUS_WORDS = 64,
	RAN_ON = 1024, /* a power of two */
	AGAIN_NS = 10000000,
	SUSPECTS_NS = 100000000, /* between two looks at what readers say of all CPUs */
};

struct tracer {
	struct tracer_config c;
	pthread_t thread;
	int (*attach)(void *arg, struct err *err);
	void *attach_arg;
	struct err *err;
	int code;
	sem_t begin, attached, go, going; /* each posted once */
	bool enable, running, attaching;
	_Atomic bool stop;
	uint32_t *slot_of; /* [fd]: 1 + the slot of an event of ours */
	size_t n_slot_of;
	uint64_t quiet_until; /* 0: no thread is quiet */
	timer_t timer;	      /* goes off then */
	size_t blocked;
	size_t n_deaf; /* at the beginning */
	uint64_t suspects_ns; /* when take_suspects() looks next */
	struct seizer seizer;
	struct deaf deaf;
	struct idmap refused; /* [tid] of threads that are traced and could not be given events: the
			       * second of now_ns() from which on they are tried again */
	pid_t seized;	      /* the last thread that attach had seized; 0: it could not be */
	uint64_t ran_on_ns[RAN_ON]; /* [tid]: when one that has this place was let go last */
};

static uint64_t *ran_on(struct tracer *t, pid_t tid)
{
	return &t->ran_on_ns[(unsigned)tid % RAN_ON];
}

/* --- for attach --- */

static long seize_options(const struct tracer *t)
{
	long o = PTRACE_O_TRACEEXEC;

	if (t->c.threads)
		o |= PTRACE_O_TRACECLONE;
	if (t->c.children)
		o |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORKDONE;
	return o;
}

static int seize(void *arg, pid_t tid, struct err *err)
{
	struct tracer *t = arg;
	int r = seizer_seize(&t->seizer, tid, err);

	t->seized = r == 0 ? tid : 0;
	return r;
}

static int remember_slot(struct tracer *t, size_t fd, size_t slot)
{
	size_t was = t->n_slot_of;

	if (!array_reserve(&t->slot_of, &t->n_slot_of, fd + 1, sizeof(*t->slot_of)))
		return -ENOMEM;
	memset(t->slot_of + was, 0, (t->n_slot_of - was) * sizeof(*t->slot_of));
	t->slot_of[fd] = (uint32_t)slot + 1;
	return 0;
}

/* Have @fd stop the thread. */
static int arm(void *arg, pid_t tid, size_t slot, int fd)
{
	struct tracer *t = arg;
	struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = tid };

	if (fcntl(fd, F_SETSIG, t->c.signal) < 0 || fcntl(fd, F_SETOWN_EX, &owner) < 0 ||
	    fcntl(fd, F_SETFL, O_ASYNC) < 0)
		return -errno;
	return remember_slot(t, (size_t)fd, slot);
}

/* --- what stops --- */

/* A stop by a signal of ours: the slot of its event, else NULL. */
static struct cpu_slot *our_slot(const struct tracer *t, pid_t tid)
{
	siginfo_t si;

	if (ptrace(PTRACE_GETSIGINFO, tid, NULL, &si) < 0 || si.si_code != POLL_IN ||
	    si.si_fd < 0 || (size_t)si.si_fd >= t->n_slot_of || !t->slot_of[si.si_fd])
		return NULL;
	return &t->c.slots[t->slot_of[si.si_fd] - 1];
}

static void serve(struct tracer *t, struct handover *h, pid_t tid)
{
	uint64_t words[PRSTATUS_WORDS] = { 0 };
	struct iovec iov = { .iov_base = words, .iov_len = sizeof(words) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) < 0)
		return;
	for (size_t i = 0; i < arch_host->n_regs; i++)
		__atomic_store_n(&h->regs[i], words[arch_host->ptrace_regs[i]], __ATOMIC_RELAXED);
	__atomic_store_n(&h->ran_on_ns, *ran_on(t, tid), __ATOMIC_RELAXED);
	handover_give(h, tid);
}

/* Holding threads has cost what it may: @tid's samples stop it no more until then. */
static void be_quiet(struct tracer *t, pid_t tid, uint64_t until)
{
	struct itimerspec at = { .it_value = { .tv_sec = (time_t)(until / 1000000000),
					       .tv_nsec = (long)(until % 1000000000) },
				 /* again, for it may come just before we wait */
				 .it_interval = { .tv_nsec = AGAIN_NS } };

	attach_signal(t->c.attach, tid, false);
	if (until <= t->quiet_until)
		return;
	t->quiet_until = until;
	timer_settime(t->timer, TIMER_ABSTIME, &at, NULL);
}

static void end_quiet(struct tracer *t)
{
	static const struct itimerspec never;

	if (t->quiet_until) {
		attach_signal(t->c.attach, 0, true);
		deaf_leave(&t->deaf);
		timer_settime(t->timer, 0, &never, NULL);
	}
	t->quiet_until = 0;
	for (size_t i = 0; i < t->c.n_slots; i++) {
		struct handover *h = &t->c.slots[i].handover;

		atomic_store_explicit(&h->since, now_ns(), memory_order_relaxed);
		atomic_store_explicit(&h->quiet_until, 0, memory_order_release);
	}
}

/* A signal arrives. What the thread shall get of it. */
static int signal_arrives(struct tracer *t, pid_t tid, int sig)
{
	struct cpu_slot *slot = sig == t->c.signal ? our_slot(t, tid) : NULL;
	uint64_t quiet;

	if (!slot)
		return sig;
	quiet = atomic_load_explicit(&slot->handover.quiet_until, memory_order_relaxed);
	if (quiet > now_ns()) {
		be_quiet(t, tid, quiet);
		return 0;
	}
	if (quiet)
		end_quiet(t);
	serve(t, &slot->handover, tid);
	return 0;
}

static bool stops_group(int sig)
{
	return sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

/* The thread that called exec has the leader's number now, and all others are gone. */
static void execed(struct tracer *t, pid_t pid)
{
	unsigned long old;

	if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &old) == 0 && (pid_t)old != pid) {
		attach_renamed(t->c.attach, (pid_t)old, pid);
		idmap_forget(&t->refused, old);
	}
	if (attach_has(t->c.attach, pid))
		deaf_begin(&t->deaf, pid); /* what it blocked it still blocks */
}

static uint32_t seconds(void)
{
	return (uint32_t)(now_ns() / 1000000000);
}

/* It has stopped again. Each try may open many events, and meanwhile it stands still. */
static bool is_refused(const struct tracer *t, pid_t tid)
{
	uint32_t until = idmap_get(&t->refused, (uint64_t)tid);

	return until != IDMAP_NONE && seconds() < until;
}

/* A thread got no events, for @code. Of the first one a person is told. */
static void count_refused(struct tracer *t, int code, struct err *err)
{
	struct tracer_refusal *first = t->c.refusal;

	STATS_ADD(t->c.attach->session->stats, unattached, 1);
	if (atomic_load_explicit(&first->there, memory_order_relaxed))
		return;
	if (!err->code)
		err_set(err, code, "%s", strerror(-code));
	first->err = *err;
	atomic_store_explicit(&first->there, true, memory_order_release);
}

/* The same of @tid, which is traced and may come here at each of its stops: it is counted once. */
static void refused(struct tracer *t, pid_t tid, int code, struct err *err)
{
	if (idmap_get(&t->refused, (uint64_t)tid) == IDMAP_NONE)
		count_refused(t, code, err);
	idmap_set(&t->refused, (uint64_t)tid, seconds() + REFUSED_S);
}

static void begin_thread(struct tracer *t, pid_t tid)
{
	struct err err = { 0 };
	int r;

	if (atomic_load_explicit(&t->stop, memory_order_acquire))
		return; /* what begins now is not sampled any more */
	if (is_refused(t, tid))
		return;
	r = attach_thread(t->c.attach, tid, &err);
	if (r == 0)
		deaf_begin(&t->deaf, tid);
	if (t->running) /* else tracer_go() starts its events */
		attach_enable(t->c.attach, tid);
	if (r < 0 && r != -ESRCH)
		refused(t, tid, r, &err);
}

/* A program that runs already, and may have threads. */
static void begin_process(struct tracer *t, pid_t pid)
{
	struct err err = { 0 };
	int r;

	if (atomic_load_explicit(&t->stop, memory_order_acquire))
		return;
	t->seized = 0;
	r = attach_process(t->c.attach, pid, NULL, 0, &err);
	deaf_process(&t->deaf, pid);
	if (t->running)
		attach_enable(t->c.attach, 0);
	if (r == 0 || r == -ESRCH || r == -EAGAIN)
		return;
	if (t->seized)
		refused(t, t->seized, r, &err);
	else
		count_refused(t, r, &err);
}

/* True: it runs no further; not where nobody can tell, for want of descriptors. */
static bool is_over(pid_t pid)
{
	struct proc_status s;

	return !proc_lives(pid) && !proc_is_short(proc_status(pid, &s));
}

/* A process of which no record told what it runs. */
static void begin_program(struct tracer *t, pid_t pid)
{
	struct ctl_msg *m;

	if (is_over(pid))
		return;
	m = queue_reserve(t->c.ctl, CTL_BEGUN, sizeof(*m));
	STATS_ADD(t->c.attach->session->stats, side_lost, !m);
	if (m) {
		*m = (struct ctl_msg){ .pid = pid, .time = now_ns() };
		queue_commit(t->c.ctl);
		eventfd_write(t->c.kick, 1);
	}
	begin_process(t, pid);
}

/* A child that shared its parent's memory until now has exec'ed, or ended. */
static void begin_vforked(struct tracer *t, pid_t parent)
{
	unsigned long pid;

	if (ptrace(PTRACE_GETEVENTMSG, parent, NULL, &pid) == 0)
		begin_program(t, (pid_t)pid);
}

/* Whose exec has come to its end. */
static void begin_later(struct tracer *t)
{
	pid_t pid;

	while ((pid = seizer_next(&t->seizer)))
		begin_program(t, pid);
}

/* With --no-follow still seized: a process made by clone(2) with another signal than SIGCHLD
 * passes for a thread (PTRACE_O_TRACECLONE). */
static bool is_child(pid_t tid, int event)
{
	return event == PTRACE_EVENT_STOP && proc_tgid(tid) == tid;
}

static void stopped(struct tracer *t, pid_t tid, int sig, int event)
{
	int gets;

	if (event == PTRACE_EVENT_EXEC)
		execed(t, tid);
	if (event == PTRACE_EVENT_VFORK_DONE)
		begin_vforked(t, tid);
	if (!attach_has(t->c.attach, tid)) {
		if (!t->c.children && is_child(tid, event)) {
			ptrace(PTRACE_DETACH, tid, NULL, NULL);
			return;
		}
		begin_thread(t, tid);
	}
	if (event == PTRACE_EVENT_STOP && stops_group(sig)) {
		/* So does who asked in vain for its parent to trace it. */
		if (sig == SIGSTOP && proc_tgid(tid) == tid)
			STATS_ADD(t->c.attach->session->stats, halted, 1);
		ptrace(PTRACE_LISTEN, tid, NULL, NULL);
		return;
	}
	gets = event ? 0 : signal_arrives(t, tid, sig);
	if (sig == t->c.signal)
		*ran_on(t, tid) = now_ns();
	ptrace(PTRACE_CONT, tid, NULL, (long)gets);
}

/* --- the thread --- */

static bool ended(const siginfo_t *si)
{
	return si->si_code == CLD_EXITED || si->si_code == CLD_KILLED ||
	       si->si_code == CLD_DUMPED;
}

/* What happened next; to @tid, if that is not 0. */
static int wait_one(struct tracer *t, pid_t tid, int flags, siginfo_t *si)
{
	si->si_pid = 0;
	if (waitid(tid ? P_PID : P_ALL, (id_t)tid, si,
		   WEXITED | WSTOPPED | __WALL | __WNOTHREAD | flags) < 0)
		return -1;
	/* Its parent, who is a thread of ours, waits in vain now: tell what it would hear. */
	if (si->si_pid == t->c.child && ended(si))
		atomic_store(t->c.child_end, si->si_code == CLD_EXITED ?
						     W_EXITCODE(si->si_status, 0) :
						     W_EXITCODE(0, si->si_status));
	return 0;
}

static void forget(struct tracer *t, pid_t tid)
{
	attach_forget(t->c.attach, tid);
	idmap_forget(&t->refused, (uint64_t)tid);
}

/* Deal with that. 1: it was done; 0: nothing was there; -1: nobody is left. */
static int step(struct tracer *t, pid_t tid, int flags)
{
	siginfo_t si;

	errno = 0;
	if (wait_one(t, tid, flags, &si) < 0 || !si.si_pid)
		return errno == ECHILD ? -1 : 0;
	if (ended(&si))
		forget(t, si.si_pid);
	else
		stopped(t, si.si_pid, si.si_status & 0xff, si.si_status >> 8);
	return 1;
}

/* Not for long, for some stop again and again. */
static void step_some(struct tracer *t)
{
	for (int i = 0; i < STEPS && step(t, 0, WNOHANG) > 0; i++)
		;
}

/* To attach to many threads takes long. A step that attaches to a process steps no further. */
static void between(void *arg)
{
	struct tracer *t = arg;

	if (!t->attaching)
		return;
	t->attaching = false;
	step_some(t);
	t->attaching = true;
}

struct attach_hooks tracer_hooks(struct tracer *t)
{
	return (struct attach_hooks){ seize, arm, between, t };
}

/* What there is of each thread that has events; fewer may have them then. One after the other, for
 * who stops again and again would keep the tracer from the rest. */
static void step_each(struct tracer *t)
{
	const struct attach *a = t->c.attach;

	for (size_t i = a->n_attached; i--;)
		if (i < a->n_attached)
			step(t, a->attached[i].tid, WNOHANG);
}

/* How many threads have our signal pending, or may have it, for that can't be told now; of them
 * @blocked will not take it. */
static size_t pending(const struct tracer *t, size_t *blocked)
{
	uint64_t bit = 1ull << (t->c.signal - 1);
	size_t n = 0;

	*blocked = 0;
	for (size_t i = 0; i < t->c.attach->n_attached; i++) {
		struct proc_status s;
		int r = proc_status(t->c.attach->attached[i].tid, &s);
		bool known = r == 0 && s.pending & bit;

		n += known || proc_is_short(r);
		*blocked += known && s.blocked & bit;
	}
	return n;
}

/* Signals on their way are taken out, then nothing of us is left in the target: whoever has none
 * pending is stopped by it, or had none. Not for long if all who have one block it. */
static void let_go(struct tracer *t)
{
	struct timespec pause = { .tv_nsec = STEP_MS * 1000000 };
	uint64_t begin = now_ns(), limit = 0;

	attach_disable(t->c.attach);
	do {
		size_t n;

		nanosleep(&pause, NULL);
		n = pending(t, &t->blocked);
		step_each(t);
		step_some(t); /* who was born meanwhile has no events */
		limit = n > t->blocked ? LET_GO_MS : n ? BLOCKED_MS : 0;
	} while (now_ns() - begin < limit * 1000000);
}

/* Threads for whose stop readers waited in vain get no further signal if they block it. */
static void take_suspects(struct tracer *t)
{
	uint64_t now = now_ns();

	if (now < t->suspects_ns)
		return;
	t->suspects_ns = now + SUSPECTS_NS;
	for (size_t i = 0; i < t->c.n_slots; i++) {
		pid_t tid = atomic_exchange(&t->c.slots[i].handover.untaken, 0);

		if (tid && attach_has(t->c.attach, tid))
			deaf_suspect(&t->deaf, tid);
	}
}

/* Where nobody is traced, those may be soon whose exec is not over yet. False: nobody will be. */
static bool await_step(struct tracer *t)
{
	struct timespec pause = { .tv_nsec = IDLE_MS * 1000000 };

	if (step(t, 0, 0) >= 0)
		return true;
	if (!t->seizer.n_later)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

static void wait_for(sem_t *s)
{
	while (sem_wait(s) < 0 && errno == EINTR)
		;
}

/* Timers are pending signals to the kernel. */
static int make_timers(struct tracer *t)
{
	int r = nudge_timer(&t->timer);

	if (r < 0)
		return r;
	r = seizer_init(&t->seizer, seize_options(t));
	if (r == 0) {
		r = deaf_init(&t->deaf, t->c.attach, t->c.signal);
		if (r == 0)
			return 0;
		seizer_deinit(&t->seizer);
	}
	timer_delete(t->timer);
	return r;
}

/* Without timers a hold or an exec could last for ever: nobody is traced. */
static void refuse(struct tracer *t, int code)
{
	wait_for(&t->begin);
	t->code = err_set(t->err, code,
			  "--capture stop needs three timers, and can't have them (%s): raise the "
			  "limit of pending signals (ulimit -i)",
			  strerror(-code));
	sem_post(&t->attached);
}

static void *tracer_main(void *arg)
{
	struct timespec pause = { .tv_nsec = STEP_MS * 1000000 };
	struct tracer *t = arg;
	int r;

	work_shared = t->c.work;
	harden_thread(HARDEN_TRACER, 0);
	ask_begin(NULL);
	r = make_timers(t);
	if (r < 0) {
		refuse(t, r);
		ask_end();
		return NULL;
	}
	realtime_brief(SCHED_OTHER);
	wait_for(&t->begin);
	t->attaching = true;
	if (t->attach)
		t->code = t->attach(t->attach_arg, t->err);
	t->n_deaf = deaf_find(&t->deaf);
	t->attaching = false;
	sem_post(&t->attached);
	while (sem_trywait(&t->go) < 0) { /* nobody waits for us meanwhile */
		if (t->code == 0)
			step_some(t);
		deaf_look(&t->deaf);
		nanosleep(&pause, NULL);
	}
	t->running = true;
	if (t->enable)
		attach_enable(t->c.attach, 0);
	sem_post(&t->going);
	while (!atomic_load_explicit(&t->stop, memory_order_acquire) && await_step(t)) {
		if (t->quiet_until && now_ns() >= t->quiet_until)
			end_quiet(t);
		take_suspects(t);
		deaf_look(&t->deaf);
		begin_later(t);
	}
	let_go(t);
	timer_delete(t->timer);
	deaf_deinit(&t->deaf);
	seizer_deinit(&t->seizer);
	ask_end();
	return NULL;
}

struct tracer *tracer_create(const struct tracer_config *c)
{
	struct tracer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	nudge_init();
	t->c = *c;
	sem_init(&t->begin, 0, 0);
	sem_init(&t->attached, 0, 0);
	sem_init(&t->go, 0, 0);
	sem_init(&t->going, 0, 0);
	if (pthread_create(&t->thread, NULL, tracer_main, t) == 0)
		return t;
	free(t);
	return NULL;
}

int tracer_attach(struct tracer *t, int (*attach)(void *arg, struct err *err), void *arg,
		  struct err *err)
{
	t->attach = attach;
	t->attach_arg = arg;
	t->err = err;
	sem_post(&t->begin);
	wait_for(&t->attached);
	return t->code;
}

size_t tracer_deaf(const struct tracer *t)
{
	return t->n_deaf;
}

void tracer_go(struct tracer *t, bool enable)
{
	t->enable = enable;
	sem_post(&t->go);
}

void tracer_await_events(struct tracer *t)
{
	clock_await(&t->going, now_ns() + GOING_S * 1000000000ull);
}

struct tracer_rest tracer_stop(struct tracer *t)
{
	struct tracer_rest rest;
	struct timespec soon;

	if (!t)
		return (struct tracer_rest){ 0 };
	atomic_store_explicit(&t->stop, true, memory_order_release);
	sem_post(&t->begin);
	sem_post(&t->go);
	do {
		nudge(t->thread);
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 10000000;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(t->thread, NULL, &soon) == ETIMEDOUT);
	rest = (struct tracer_rest){ .pending = t->blocked, .deaf = t->deaf.n_later };
	idmap_deinit(&t->refused);
	free(t->slot_of);
	free(t);
	return rest;
}
