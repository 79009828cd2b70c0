/* SPDX-License-Identifier: MIT
 *
 * tracer: a process that runs is stopped at its samples and handed over, and so are its
 * threads, its children and what it execs; afterwards nothing of us is left in it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "base/stats.h"
#include "capture/capture.h"
#include "capture/seize.h"
#include "capture/slots.h"
#include "base/clock.h"
#include "capture/tracer.h"
#include "sample/wire.h"
#include "sys/proc.h"

extern const struct capture_ops capture_stop;

enum { PATIENCE_S = 20, SOME = 3, MANY = 30, PERIOD_NS = 1000000, NOT_YET = -1, STATUS = 7 };
enum { NOTES = 2048 }; /* bytes of what is told */

static struct timespec waited_until; /* for a thread to end, the first time */

int pthread_timedjoin_np(pthread_t thread, void **ret, const struct timespec *until)
{
	int (*f)(pthread_t, void **, const struct timespec *) =
		dlsym(RTLD_NEXT, "pthread_timedjoin_np");

	if (!waited_until.tv_sec)
		waited_until = *until;
	return f(thread, ret, until);
}

/* How often nobody was there to be waited for. */
static _Atomic unsigned alone;

/* waitid(2) need not name anybody where nobody has stopped: how often who does not wait left in
 * what it fills in another name than none. */
static _Atomic unsigned unclear;

/* How often the tracer's thread has paused. */
static _Atomic unsigned pauses;

int nanosleep(const struct timespec *t, struct timespec *left)
{
	int (*f)(const struct timespec *, struct timespec *) = dlsym(RTLD_NEXT, "nanosleep");

	pauses += gettid() != getpid();
	return f(t, left);
}

/* The timers of the tracer's thread. */
static struct {
	_Atomic int there;   /* made, and not deleted */
	_Atomic int asked;   /* for so many */
	_Atomic int refused; /* the number of the one that can't be had; 0: none */
} timers;

int timer_create(clockid_t clock, struct sigevent *restrict ev, timer_t *restrict ret)
{
	int (*f)(clockid_t, struct sigevent *, timer_t *) = dlsym(RTLD_NEXT, "timer_create");
	bool own = gettid() != getpid();

	if (own && ++timers.asked == timers.refused) {
		errno = EAGAIN;
		return -1;
	}
	timers.there += own;
	return f(clock, ev, ret);
}

int timer_delete(timer_t timer)
{
	int (*f)(timer_t) = dlsym(RTLD_NEXT, "timer_delete");

	timers.there -= gettid() != getpid();
	return f(timer);
}

/* How often the tracer's thread began to trace another. */
static _Atomic unsigned seizes;

long ptrace(enum __ptrace_request request, ...)
{
	long (*f)(enum __ptrace_request, pid_t, void *, void *) = dlsym(RTLD_NEXT, "ptrace");
	void *at, *data;
	va_list ap;
	pid_t tid;

	va_start(ap, request);
	tid = va_arg(ap, pid_t);
	at = va_arg(ap, void *);
	data = va_arg(ap, void *);
	va_end(ap);
	seizes += request == PTRACE_SEIZE;
	return f(request, tid, at, data);
}

/* A wait of the test's thread for a semaphore, if that is asked: it is made longer. */
static struct {
	bool asked;
	uint64_t until_ns; /* as it was to be */
	int ret;
} awaited;

int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict until)
{
	int (*f)(sem_t *, clockid_t, const struct timespec *) =
		dlsym(RTLD_NEXT, "sem_clockwait");
	struct timespec later = clock_time(now_ns() + PATIENCE_S * 1000000000ull);

	if (!awaited.asked || gettid() != getpid())
		return f(sem, clock, until);
	awaited.until_ns = clock_ns(until);
	awaited.ret = f(sem, clock, &later);
	return awaited.ret;
}

/* @parent makes another thread, @tid, when it is waited for alone the next time. */
static struct {
	_Atomic pid_t parent, tid;
	_Atomic bool heard_of;
} birth;

static pid_t give_birth(pid_t parent);

/* So many stops more are there whenever nobody waits for one, of whom is asked for or of @storms. */
static _Atomic int storm;
static _Atomic pid_t storms;

int waitid(idtype_t what, id_t id, siginfo_t *si, int flags)
{
	int (*f)(idtype_t, id_t, siginfo_t *, int) = dlsym(RTLD_NEXT, "waitid");
	pid_t parent = (pid_t)id;
	int r;

	if (what == P_PID && atomic_compare_exchange_strong(&birth.parent, &parent, 0))
		birth.tid = give_birth((pid_t)id);
	unclear += flags & WNOHANG && si->si_pid;
	r = f(what, id, si, flags);
	alone += r < 0 && errno == ECHILD;
	if (r == 0 && si->si_pid && si->si_pid == birth.tid)
		birth.heard_of = true;
	if (r < 0 || si->si_pid || !(flags & WNOHANG) || storm <= 0)
		return r;
	storm--;
	si->si_pid = what == P_PID ? (pid_t)id : storms;
	si->si_code = CLD_TRAPPED;
	si->si_status = SIGUSR1;
	return 0;
}

/* --- the target --- */

/* What the target and the test tell each other. */
struct shared {
	_Atomic int what;      /* the target shall do: a letter of act() */
	_Atomic uint64_t spun; /* by all that spin */
	_Atomic pid_t child;   /* that it made */
	_Atomic pid_t heard;   /* how many signals it waited for */
};

static struct shared *shared;

static void spin(void)
{
	for (;;)
		atomic_fetch_add_explicit(&shared->spun, 1, memory_order_relaxed);
}

/* This program once more: it spins. */
static void exec_spinner(void)
{
	execl("/proc/self/exe", "spinner", NULL);
	_exit(1);
}

/* The same by its descriptor, as fexecve(3) does it. */
static void execat_spinner(void)
{
	char *const argv[] = { "spinner", NULL };
	int fd = open("/proc/self/exe", O_RDONLY);

	syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	_exit(1);
}

static void count_signal(int sig)
{
	shared->child++;
}

static void hear_signal(int sig)
{
	shared->heard++;
}

static void *exec_in_thread(void *arg)
{
	exec_spinner();
	return NULL;
}

static void *spin_in_thread(void *arg)
{
	shared->child = gettid();
	spin();
	return NULL;
}

static void block(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	pthread_sigmask(how, &set, NULL);
}

/* It blocks the signal of samples from its first instruction on, until it is told not to. */
static void *spin_deaf(void *arg)
{
	shared->child = gettid();
	while (shared->what != 'u')
		atomic_fetch_add_explicit(&shared->spun, 1, memory_order_relaxed);
	block(SIG_UNBLOCK);
	spin();
	return NULL;
}

/* It blocks the signal of samples, and hears of it by sigwait(3). */
static void hear(void)
{
	const struct timespec now = { 0 };
	sigset_t set;

	block(SIG_BLOCK);
	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	for (unsigned i = 1;; i++)
		if (i % 100000 == 0)
			shared->heard += sigtimedwait(&set, NULL, &now) == SIGURG;
}

/* A child that shares its parent's memory until its exec. */
static void make_vforked(void)
{
	pid_t pid = vfork();

	if (pid == 0)
		exec_spinner();
	shared->child = pid;
}

static void act(int what)
{
	pthread_t thread;
	sigset_t set;
	pid_t pid;

	switch (what) {
	case 's': /* nothing else */
		shared->child = getpid();
		spin();
		break;
	case 'r': /* it sends itself a signal that does nothing */
		raise(SIGCHLD);
		shared->child = getpid();
		spin();
		break;
	case 'f': /* a child */
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			spin();
		}
		shared->child = pid;
		break;
	case 'v':
		make_vforked();
		break;
	case 'V': /* one that blocks the signal of samples */
		block(SIG_BLOCK);
		make_vforked();
		break;
	case 'b': /* it blocks the signal of samples */
		block(SIG_BLOCK);
		shared->child = getpid();
		spin();
		break;
	case 'l': /* a thread, as libraries have, that blocks all signals */
		sigfillset(&set);
		sigprocmask(SIG_BLOCK, &set, NULL);
		pthread_create(&thread, NULL, spin_in_thread, NULL);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		spin();
		break;
	case 'h': /* it handles that signal, and counts how often */
		signal(SIGURG, count_signal);
		shared->child = 1;
		spin();
		break;
	case 'c': /* a child that no signal will tell of */
		pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			spin();
		}
		shared->child = pid;
		break;
	case 'q': /* it ends by itself */
		_exit(STATUS);
	case 't': /* another thread */
		pthread_create(&thread, NULL, spin_in_thread, NULL);
		break;
	case 'n': /* another thread, and it counts signals */
		signal(SIGUSR1, hear_signal);
		pthread_create(&thread, NULL, spin_in_thread, NULL);
		break;
	case 'd': /* another thread, which blocks that signal as this one does */
		block(SIG_BLOCK);
		pthread_create(&thread, NULL, spin_deaf, NULL);
		break;
	case 'w': /* it waits for that signal, and another thread spins */
		pthread_create(&thread, NULL, spin_in_thread, NULL);
		hear();
		break;
	case 'x': /* a thread that blocks that signal since it began becomes another program */
		block(SIG_BLOCK);
		pthread_create(&thread, NULL, exec_in_thread, NULL);
		break;
	case 'k': /* it becomes another program itself */
		exec_spinner();
		break;
	case 'e': /* another thread than the first one becomes another program */
		pthread_create(&thread, NULL, exec_in_thread, NULL);
		break;
	}
	for (;;)
		pause();
}

enum { TRIES = 20000 }; /* of a millisecond each */

/* @parent, a target that has one thread, makes another: its number as it has stopped at its birth. */
static pid_t give_birth(pid_t parent)
{
	pid_t tid = 0;

	shared->what = 't';
	for (int i = 0; i < TRIES; i++) {
		_cleanup_free_ pid_t *tids = NULL;
		struct proc_status s = { 0 };
		size_t n = 0;

		if (proc_tasks(parent, &tids, &n) == 0 && n == 2) {
			tid = tids[0] == parent ? tids[1] : tids[0];
			if (proc_status(tid, &s) == 0 && s.state == 't')
				return tid;
		}
		usleep(1000);
	}
	return 0;
}

static pid_t start_target(void)
{
	pid_t pid;

	*shared = (struct shared){ 0 };
	pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!shared->what)
		atomic_fetch_add_explicit(&shared->spun, 1, memory_order_relaxed);
	act(shared->what);
	return 0;
}

/* --- the recording --- */

struct fix {
	struct reader_config c;
	struct session session;
	struct stats stats;
	struct attach attach;
	struct queue ctl;
	struct tracer *tracer;
	struct tracer_refusal refusal;
	_Atomic int child_end;
	pid_t pid;
	/* Of the last thread that was held. */
	uint64_t ran_on_ns, released_ns, regs[ARCH_MAX_REGS];
};

static int attach_target(void *arg, struct err *err)
{
	struct fix *f = arg;

	return attach_process(&f->attach, f->pid, NULL, 0, err);
}

/* It takes until the target has stopped for a signal and gone on. */
static int attach_slowly(void *arg, struct err *err)
{
	struct proc_status s = { 0 };
	struct fix *f = arg;
	int r = attach_target(f, err);

	shared->what = 'r';
	for (int i = 0; i < TRIES && s.state != 't' && proc_status(f->pid, &s) == 0; i++)
		usleep(1000);
	for (int i = 0; r == 0 && i < TRIES && !shared->child; i++) {
		r = attach_target(f, err);
		usleep(1000);
	}
	return s.state != 't' ? -ETIMEDOUT : !shared->child ? -EBUSY : r;
}

/* A thread that makes another blocks all signals meanwhile. */
static bool is_deaf(pid_t tid)
{
	struct proc_status s;

	return proc_status(tid, &s) < 0 || s.blocked >> (SIGURG - 1) & 1;
}

/* It takes until a thread runs that the target has made meanwhile. */
static int attach_until_born(void *arg, struct err *err)
{
	struct fix *f = arg;
	int r = attach_target(f, err);

	shared->what = 't';
	for (int i = 0; r == 0 && i < TRIES && (!shared->child || is_deaf(f->pid)); i++) {
		r = attach_target(f, err);
		usleep(1000);
	}
	return shared->child ? r : -ETIMEDOUT;
}

static void configure(struct fix *f)
{
	f->session = (struct session){ .n_events = 1, .stats = &f->stats };
	f->session.events[0].attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(struct perf_event_attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD_NS,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.disabled = 1,
		.exclude_kernel = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.wakeup_events = 1,
	};
	f->c = (struct reader_config){ .capture = &capture_stop,
				       .session = &f->session,
				       .stats = &f->stats,
				       .queue_bytes = 1 << 16 };
}

static void open_slots(struct fix *f)
{
	struct cpus cpus;
	struct err err;

	configure(f);
	assert_int_equal(cpus_system(&cpus, "online"), 0);
	f->c.cap_slots = (uint32_t)cpus_count(&cpus);
	assert_int_equal(slots_init(&f->c, &cpus, &err), 0);
	assert_int_equal(slots_open_rings(&f->c, 8, &err), 0);
	f->attach = (struct attach){ .session = &f->session,
				     .slots = f->c.slots,
				     .n_slots = f->c.n_slots,
				     .cap_slots = f->c.cap_slots,
				     .cgroup = -1 };
}

/* All but tracer_go() for target @pid; what tracer_attach() said of @attach(@f). */
static int try_attach_to(struct fix *f, pid_t pid, bool children,
			 int (*attach)(void *arg, struct err *err), struct err *err)
{
	memset(f, 0, sizeof(*f));
	open_slots(f);
	assert_int_equal(queue_init(&f->ctl, 1 << 16), 0);
	f->ctl.hurry = -1;
	f->child_end = NOT_YET;
	f->pid = pid;
	f->tracer = tracer_create(&(struct tracer_config){ .attach = &f->attach,
							   .slots = f->c.slots,
							   .n_slots = f->c.n_slots,
							   .signal = SIGURG,
							   .threads = true,
							   .children = children,
							   .ctl = &f->ctl,
							   .kick = eventfd(0, 0),
							   .child = f->pid,
							   .child_end = &f->child_end,
							   .refusal = &f->refusal,
							   .work = &f->c.others });
	f->attach.hooks = tracer_hooks(f->tracer);
	return tracer_attach(f->tracer, attach, f, err);
}

static int try_attach_by(struct fix *f, bool children, int (*attach)(void *arg, struct err *err),
			 struct err *err)
{
	return try_attach_to(f, start_target(), children, attach, err);
}

static int try_attach(struct fix *f, bool children, struct err *err)
{
	return try_attach_by(f, children, attach_target, err);
}

static void attach_with(struct fix *f, bool children)
{
	struct err err = { 0 };

	assert_int_equal(try_attach(f, children, &err), 0);
}

static void begin_with(struct fix *f, bool children)
{
	attach_with(f, children);
	tracer_go(f->tracer, true);
}

static void begin(struct fix *f)
{
	begin_with(f, true);
}

static void end(struct fix *f)
{
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	attach_deinit(&f->attach);
	slots_deinit(&f->c);
	queue_deinit(&f->ctl);
}

/* As a reader does: whose thread is held, which then is given back; 0: none is. */
static pid_t take_held(struct fix *f)
{
	for (uint32_t i = 0; i < f->c.n_slots; i++) {
		struct handover *h = &f->c.slots[i].handover;
		pid_t tid;
		uint32_t turn = handover_held(h, &tid);

		uint64_t ran_on = h->ran_on_ns, now = now_ns();

		if (turn)
			memcpy(f->regs, h->regs, sizeof(f->regs));
		if (!turn || !handover_release(h, turn))
			continue;
		f->ran_on_ns = ran_on;
		f->released_ns = now;
		return tid;
	}
	usleep(100);
	return 0;
}

/* Until @tid was held @times. What takes a minute hangs. */
static void until_held(struct fix *f, pid_t tid, int times)
{
	time_t begin = time(NULL);

	while (times > 0) {
		times -= take_held(f) == tid;
		assert_true(time(NULL) - begin < PATIENCE_S);
	}
}

#define until(f, condition)                                          \
	for (time_t begin_ = time(NULL); !(condition); take_held(f)) \
	assert_true(time(NULL) - begin_ < PATIENCE_S)

#define patiently_until(condition)                                  \
	for (time_t begin_ = time(NULL); !(condition); usleep(100)) \
	assert_true(time(NULL) - begin_ < PATIENCE_S)

/* --- as recordings begin it --- */

static void add_note(void *arg, const char *text)
{
	char *notes = arg;

	strncat(notes, text, NOTES - strlen(notes) - 1);
}

/* It comes to threads that have events by then. */
static int attach_in_vain(void *arg, struct err *err)
{
	attach_target(arg, err);
	return -EBUSY;
}

/* A target that does @what. What is told: @notes. */
static int attach_as_a_capture(struct fix *f, int what,
			       int (*attach)(void *arg, struct err *err), char *notes)
{
	const struct note note = { .take = add_note, .arg = notes };
	struct tracer_config c;
	struct err err = { 0 };
	int r;

	memset(f, 0, sizeof(*f));
	open_slots(f);
	f->child_end = NOT_YET;
	f->pid = start_target();
	shared->what = what;
	patiently_until(shared->child);
	c = (struct tracer_config){ .attach = &f->attach,
				    .slots = f->c.slots,
				    .n_slots = f->c.n_slots,
				    .ctl = &f->ctl,
				    .kick = -1,
				    .child = f->pid,
				    .child_end = &f->child_end,
				    .refusal = &f->refusal,
				    .work = &f->c.others };
	r = capture_stop.attach(&(struct capture_attach){ .attach = attach,
							  .arg = f,
							  .pids = &f->pid,
							  .n_pids = 1,
							  .note = &note,
							  .tracer = &c,
							  .ret_tracer = &f->tracer },
				&err);
	assert_non_null(f->tracer);
	assert_int_equal(c.signal, SIGURG);
	return r;
}

/* Of a target of which one thread blocks all signals, if @deaf. */
static void begin_as_a_capture(struct fix *f, bool deaf, char *notes)
{
	assert_int_equal(attach_as_a_capture(f, deaf ? 'l' : 's', attach_target, notes), 0);
	tracer_go(f->tracer, true);
}

/* The rest of its threads are stopped; that one is not, and it is told. */
static void a_deaf_thread_is_told_of(void **state)
{
	char notes[NOTES] = "";
	struct fix f;

	begin_as_a_capture(&f, true, notes);
	assert_non_null(strstr(notes, "SIGURG stops a thread for each of its samples"));
	assert_non_null(strstr(notes, "1 thread blocks SIGURG and can't be stopped"));
	until_held(&f, f.pid, SOME);
	assert_int_equal(tracer_stop(f.tracer).pending, 0);
	end(&f);
}

static uint64_t real_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

/* The end of the tracer's thread is waited for until a time ahead, whatever part of a second it is now. */
static void its_end_is_waited_for(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct timespec now;
		struct fix f;

		begin(&f);
		waited_until.tv_sec = 0;
		clock_gettime(CLOCK_REALTIME, &now);
		tracer_stop(f.tracer);
		assert_in_range(waited_until.tv_nsec, 0, 999999999);
		assert_true(real_ns(&waited_until) > real_ns(&now));
		end(&f);
	}
}

static void of_others_nothing_is_told(void **state)
{
	char notes[NOTES] = "";
	struct fix f;

	begin_as_a_capture(&f, false, notes);
	assert_non_null(strstr(notes, "SIGURG stops a thread for each of its samples"));
	assert_null(strstr(notes, "can't be stopped"));
	until_held(&f, f.pid, SOME);
	tracer_stop(f.tracer);
	end(&f);
}

/* Nor of who was not attached to, whatever its threads block. */
static void of_a_failure_nothing_else_is_told(void **state)
{
	char notes[NOTES] = "";
	struct fix f;

	assert_int_equal(attach_as_a_capture(&f, 'l', attach_in_vain, notes), -EBUSY);
	assert_null(strstr(notes, "can't be stopped"));
	tracer_stop(f.tracer);
	end(&f);
}

/* Before anything is attached to. */
static void a_target_that_is_gone_gets_no_tracer(void **state)
{
	char notes[NOTES] = "";
	const struct note note = { .take = add_note, .arg = notes };
	struct tracer_config c = { 0 };
	struct tracer *tracer = NULL;
	struct err err = { 0 };
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	assert_int_equal(capture_stop.attach(&(struct capture_attach){ .pids = &pid,
								       .n_pids = 1,
								       .note = &note,
								       .tracer = &c,
								       .ret_tracer = &tracer },
					     &err),
			 -ESRCH);
	assert_null(tracer);
	assert_string_equal(notes, "");
}

/* --- tests --- */

/* What a signal's default action is, a sample is never the end of it; and after us no sample
 * is taken, however long it runs on. */
static void held_and_let_go(void **state)
{
	struct fix f;
	uint64_t count, spun, released;

	begin(&f);
	until_held(&f, f.pid, SOME);
	released = f.released_ns;
	until_held(&f, f.pid, 1);
	assert_in_range(f.ran_on_ns, released, f.released_ns);
	assert_int_equal(f.child_end, NOT_YET);
	assert_int_equal(tracer_stop(f.tracer).pending, 0);
	count = attach_count(&f.attach, 0);
	assert_true(count > 0);
	spun = shared->spun;
	until(&f, shared->spun > spun + 20000000);
	assert_int_equal(attach_count(&f.attach, 0), count);
	end(&f);
}

/* Its registers are what the target has: it was forked here, and spins. */
static void registers_of_the_held(void **state)
{
	extern const char __executable_start, etext;
	uint64_t here = (uintptr_t)__builtin_frame_address(0);
	struct fix f;

	begin(&f);
	until_held(&f, f.pid, SOME);
	assert_in_range(f.regs[arch_host->sp], here - (1 << 16), here + (1 << 16));
	assert_in_range(f.regs[arch_host->ip], (uintptr_t)&__executable_start,
			(uintptr_t)&etext);
	tracer_stop(f.tracer);
	end(&f);
}

/* What others send it gets, the signal that samples use too; of samples it hears nothing. */
static void signals_of_others(void **state)
{
	struct fix f;
	pid_t heard;

	begin(&f);
	shared->what = 'h';
	until(&f, shared->child);
	until_held(&f, f.pid, SOME);
	assert_int_equal(shared->child, 1);
	until(&f, kill(f.pid, SIGURG) == 0 && shared->child > 1);
	for (int i = 0; i < SOME; i++) { /* some were sent: the last ones are on their way */
		heard = shared->child;
		until_held(&f, f.pid, SOME);
	}
	assert_int_equal(shared->child, heard);
	kill(f.pid, SIGUSR1);
	until(&f, f.child_end != NOT_YET);
	assert_true(WIFSIGNALED(f.child_end));
	assert_int_equal(WTERMSIG(f.child_end), SIGUSR1);
	tracer_stop(f.tracer);
	end(&f);
}

/* When holding has cost what it may, nobody is held for a while, and all are afterwards. */
static void quiet_for_a_while(void **state)
{
	enum { WHILE_NS = 200000000 };
	struct fix f;
	uint32_t held = 0;
	uint64_t until;

	begin(&f);
	until_held(&f, f.pid, SOME);
	until = now_ns() + WHILE_NS;
	for (uint32_t i = 0; i < f.c.n_slots; i++)
		atomic_store(&f.c.slots[i].handover.quiet_until, until);
	while (now_ns() < until)
		held += take_held(&f) != 0;
	assert_true(held <= 2 * f.c.n_slots); /* there already, or on their way */
	until_held(&f, f.pid, SOME);
	for (uint32_t i = 0; i < f.c.n_slots; i++) {
		assert_int_equal(f.c.slots[i].handover.quiet_until, 0);
		assert_in_range(f.c.slots[i].handover.since, until, now_ns());
	}
	until = now_ns(); /* those who are held later begin no new time */
	until_held(&f, f.pid, SOME);
	for (uint32_t i = 0; i < f.c.n_slots; i++)
		assert_in_range(f.c.slots[i].handover.since, 1, until);
	tracer_stop(f.tracer);
	end(&f);
}

/* A child that is not followed is let go, also one that passes for a thread. */
static void children_are_let_go(void **state)
{
	struct proc_status s = { 0 };
	struct fix f;
	uint64_t was;

	begin_with(&f, false);
	shared->what = 'c';
	until(&f, shared->child);
	until(&f, proc_status(shared->child, &s) == 0 && !s.tracer);
	was = shared->spun;
	until(&f, shared->spun > was + 1000);
	assert_false(attach_has(&f.attach, shared->child));
	tracer_stop(f.tracer);
	kill(shared->child, SIGKILL);
	end(&f);
}

static void children_too(void **state)
{
	struct fix f;

	begin(&f);
	shared->what = 'f';
	until(&f, shared->child);
	until_held(&f, shared->child, SOME);
	assert_int_equal(f.child_end, NOT_YET);
	kill(f.pid, SIGKILL);
	until(&f, f.child_end != NOT_YET);
	assert_int_equal(WTERMSIG(f.child_end), SIGKILL);
	tracer_stop(f.tracer);
	end(&f);
}

/* A thread that begins before the recording does has events, which count from its beginning on. */
static void thread_before_the_beginning(void **state)
{
	uint64_t spun;
	struct fix f;

	attach_with(&f, true);
	shared->what = 't';
	until(&f, shared->child);
	spun = shared->spun;
	until(&f, shared->spun > spun + 1000000);
	assert_int_equal(attach_count(&f.attach, 0), 0);
	tracer_go(f.tracer, true);
	until_held(&f, shared->child, SOME);
	tracer_stop(f.tracer);
	assert_int_equal(f.stats.unattached, 0);
	end(&f);
}

static int refusal;

static int refuse(void *arg, pid_t tid, struct err *err)
{
	return refusal;
}

/* One that can't be given events is told of, unless it has ended. */
static void thread_that_is_refused(void **state)
{
	static const int rows[] = { -EMFILE, -ESRCH };
	uint64_t spun;
	struct fix f;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		attach_with(&f, true);
		refusal = rows[i];
		f.attach.hooks.seize = refuse;
		shared->what = 't';
		until(&f, shared->child);
		spun = shared->spun;
		until(&f, shared->spun > spun + 1000000);
		tracer_go(f.tracer, true);
		tracer_stop(f.tracer);
		assert_int_equal(f.stats.unattached > 0, rows[i] != -ESRCH);
		end(&f);
	}
}

static void send(const struct fix *f, pid_t tid)
{
	assert_int_equal(syscall(SYS_tgkill, f->pid, tid, SIGUSR1), 0);
}

/* Of all descriptors that are free one is left: that is not enough for a thread's events. */
static void leave_one_descriptor(const struct rlimit *was)
{
	struct rlimit few = { .rlim_max = was->rlim_max };
	int next = dup(0);

	assert_true(next >= 0);
	close(next);
	few.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

/* A thread that can't have its events is counted once, however often it stops, and why is told. It
 * is not tried at each stop; but it gets them when there is room. */
static void thread_without_events(void **state)
{
	uint64_t begin_ns = now_ns(), tries;
	struct rlimit was;
	struct fix f;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	begin(&f);
	until_held(&f, f.pid, SOME);
	leave_one_descriptor(&was);
	seizes = 0;
	shared->what = 'n';
	until(&f, shared->child);
	for (int i = 1; i <= MANY; i++) {
		send(&f, shared->child);
		until(&f, shared->heard == i);
	}
	tries = seizes;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(f.stats.unattached, 1);
	assert_true(f.refusal.there);
	assert_int_equal(f.refusal.err.code, -EMFILE);
	assert_non_null(strstr(f.refusal.err.text, "'ulimit -n'"));
	assert_in_range(tries, 1, 2 + (now_ns() - begin_ns) / 1000000000);
	until(&f, (send(&f, shared->child), attach_has(&f.attach, shared->child)));
	until_held(&f, shared->child, SOME);
	assert_int_equal(f.stats.unattached, 1);
	tracer_stop(f.tracer);
	end(&f);
}

/* Who stops while other threads are being attached to goes on meanwhile. */
static void stop_while_attaching(void **state)
{
	struct err err;
	struct fix f;

	assert_int_equal(try_attach_by(&f, true, attach_slowly, &err), 0);
	tracer_stop(f.tracer);
	end(&f);
}

/* Nobody is deaf who was born meanwhile and is not looked at yet. */
static void birth_while_attaching(void **state)
{
	struct err err;
	struct fix f;

	assert_int_equal(try_attach_by(&f, true, attach_until_born, &err), 0);
	assert_int_equal(tracer_deaf(f.tracer), 0);
	tracer_stop(f.tracer);
	end(&f);
}

/* Who has no events is let go at the end, too. */
static void birth_at_the_end(void **state)
{
	struct fix f;

	attach_with(&f, true);
	birth.parent = f.pid;
	tracer_stop(f.tracer);
	assert_true(birth.tid);
	assert_true(birth.heard_of);
	end(&f);
}

static bool is_pending(pid_t tid)
{
	struct proc_status s;

	assert_int_equal(proc_status(tid, &s), 0);
	return s.pending >> (SIGURG - 1) & 1;
}

enum { ENDLESS = 10000000 }; /* nobody deals with as many in a few seconds */

static void begin_storm(const struct fix *f)
{
	storms = f->pid;
	storm = ENDLESS;
}

static void end_storm(void)
{
	assert_true(storm > 0);
	storm = 0;
}

/* All threads have their events, and something stops. What was begun is not gone on with. */
static int attach_and_stop(void *arg, struct err *err)
{
	struct fix *f = arg;

	if (attach_target(f, err) < 0)
		return -ESRCH;
	storms = f->pid;
	storm = 1;
	return -EBUSY;
}

/* Nobody waits for the tracer to look at each thread. */
static void stop_while_looking_who_is_deaf(void **state)
{
	struct err err;
	struct fix f;

	unclear = 0;
	assert_int_equal(try_attach_by(&f, true, attach_and_stop, &err), -EBUSY);
	assert_int_equal(unclear, 0);
	assert_int_equal(storm, 0);
	tracer_stop(f.tracer);
	end(&f);
}

/* Stops that come faster than they are dealt with keep nobody from the beginning. */
static void stops_without_end_before_the_beginning(void **state)
{
	struct fix f;

	attach_with(&f, true);
	begin_storm(&f);
	patiently_until(storm < ENDLESS);
	tracer_go(f.tracer, true);
	until_held(&f, f.pid, SOME);
	end_storm();
	tracer_stop(f.tracer);
	end(&f);
}

/* Nor do they keep anybody from the end. */
static void stops_without_end_at_the_end(void **state)
{
	struct fix f;

	begin(&f);
	until_held(&f, f.pid, SOME);
	begin_storm(&f);
	assert_int_equal(tracer_stop(f.tracer).pending, 0);
	end_storm();
	assert_false(is_pending(f.pid));
	end(&f);
}

/* Where no signal is on its way nobody waits for one. */
static void the_end_of_a_quiet_target(void **state)
{
	struct fix f;

	attach_with(&f, true);
	tracer_go(f.tracer, false);
	tracer_await_events(f.tracer);
	pauses = 0;
	assert_int_equal(tracer_stop(f.tracer).pending, 0);
	assert_int_equal(pauses, 1);
	end(&f);
}

/* Where it can't be told whether one is, it may be: how often the tracer pauses for that. */
static unsigned pauses_without_descriptors(void)
{
	struct rlimit was;
	struct fix f;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	attach_with(&f, true);
	tracer_go(f.tracer, false);
	tracer_await_events(f.tracer);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, was.rlim_max }), 0);
	pauses = 0;
	assert_int_equal(tracer_stop(f.tracer).pending, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	end(&f);
	return pauses;
}

/* On a busy machine the first pause may take all of the time. */
static void the_end_without_descriptors(void **state)
{
	unsigned most = 0;

	for (int i = 0; i < SOME && most <= 1; i++)
		most = pauses_without_descriptors();
	assert_true(most > 1);
}

/* Until they count, but no longer than a second. */
static void events_are_awaited(void **state)
{
	enum { SECOND_NS = 1000000000 };
	uint64_t before;
	struct fix f;

	attach_with(&f, true);
	tracer_go(f.tracer, true);
	before = now_ns();
	awaited.asked = true;
	awaited.ret = -1;
	tracer_await_events(f.tracer);
	awaited.asked = false;
	assert_int_equal(awaited.ret, 0);
	assert_in_range(awaited.until_ns, before + SECOND_NS, now_ns() + SECOND_NS);
	until_held(&f, f.pid, SOME);
	tracer_stop(f.tracer);
	end(&f);
}

static void ends_by_itself(void **state)
{
	struct fix f;

	begin(&f);
	until_held(&f, f.pid, SOME);
	shared->what = 'q';
	until(&f, f.child_end != NOT_YET);
	assert_true(WIFEXITED(f.child_end));
	assert_int_equal(WEXITSTATUS(f.child_end), STATUS);
	tracer_stop(f.tracer);
	end(&f);
}

/* What it ran before its exec was its parent's; the control thread is told. */
static void child_of_vfork(void **state)
{
	const struct queue_record *rec;
	struct ctl_msg m;
	struct fix f;

	begin(&f);
	shared->what = 'v';
	until(&f, shared->child);
	until_held(&f, shared->child, SOME);
	rec = queue_peek(&f.ctl);
	assert_non_null(rec);
	assert_int_equal(rec->type, CTL_BEGUN);
	memcpy(&m, rec->data, sizeof(m));
	assert_int_equal(m.pid, shared->child);
	assert_int_equal(f.stats.side_lost, 0);
	tracer_stop(f.tracer);
	kill(shared->child, SIGKILL);
	end(&f);
}

/* The thread that calls exec gets the process's number, and the first one is gone: of both the
 * events of one are left, and what both have counted. */
static void exec_by_another_thread(void **state)
{
	struct fix f;

	begin(&f);
	until_held(&f, f.pid, MANY);
	shared->what = 'e';
	until(&f, shared->child == f.pid); /* the new program says so */
	until_held(&f, f.pid, SOME);
	tracer_stop(f.tracer);
	assert_int_equal(f.attach.n_attached, 1);
	assert_int_equal(f.attach.attached[0].tid, f.pid);
	assert_true(attach_count(&f.attach, 0) >= (uint64_t)MANY * PERIOD_NS);
	end(&f);
}

/* The kernel's number of the first event that is open for the target's first thread. */
static uint64_t first_event(const struct fix *f)
{
	uint64_t id = 0;

	assert_int_equal(f->attach.n_attached, 1);
	assert_int_equal(f->attach.attached[0].tid, f->pid);
	assert_int_equal(ioctl(f->attach.attached[0].fds[0], PERF_EVENT_IOC_ID, &id), 0);
	return id;
}

/* The first thread keeps its number in its exec, and the events that it has. */
static void exec_by_the_first_thread(void **state)
{
	uint64_t event;
	struct fix f;

	begin(&f);
	until_held(&f, f.pid, SOME);
	event = first_event(&f);
	shared->what = 'k';
	until(&f, shared->child == f.pid); /* the new program says so */
	until_held(&f, f.pid, SOME);
	tracer_stop(f.tracer);
	assert_true(first_event(&f) == event);
	end(&f);
}

/* A thread that will not take our signal keeps it: that is told. */
static void signal_is_blocked(void **state)
{
	struct fix f;

	begin(&f);
	shared->what = 'b';
	until(&f, shared->child == f.pid);
	until(&f, is_pending(f.pid));
	assert_int_equal(tracer_stop(f.tracer).pending, 1);
	end(&f);
}

static void spins_without_a_signal(struct fix *f, pid_t tid)
{
	enum { TICKS = 100000000 };
	uint64_t spun = shared->spun;

	until(f, shared->spun > spun + TICKS);
	assert_false(is_pending(tid));
}

/* One that blocks it since it began gets none; it does once it blocks it no more. */
static void thread_begins_deaf(void **state)
{
	struct tracer_rest rest;
	struct fix f;

	begin(&f);
	shared->what = 'd';
	until(&f, shared->child);
	for (int i = 0; i < SOME; i++)
		spins_without_a_signal(&f, shared->child);
	shared->what = 'u';
	until_held(&f, shared->child, SOME);
	rest = tracer_stop(f.tracer);
	assert_int_equal(rest.pending, 0);
	assert_int_equal(rest.deaf, 1);
	end(&f);
}

/* What it blocked before its exec it still blocks: it gets no signal until it does not. */
static void exec_of_a_deaf_thread(void **state)
{
	struct fix f;

	begin(&f);
	shared->what = 'x';
	until(&f, shared->child == f.pid);
	spins_without_a_signal(&f, f.pid);
	shared->what = 'u';
	until_held(&f, f.pid, SOME);
	tracer_stop(f.tracer);
	end(&f);
}

/* A program of another process, which began without us, is looked at as well. */
static void vforked_child_is_deaf(void **state)
{
	struct fix f;

	begin(&f);
	shared->what = 'V';
	until(&f, shared->child && attach_has(&f.attach, shared->child));
	spins_without_a_signal(&f, shared->child);
	shared->what = 'u';
	until_held(&f, shared->child, SOME);
	tracer_stop(f.tracer);
	kill(shared->child, SIGKILL);
	end(&f);
}

/* One that can't be looked at, for no descriptor is left, has not ended: a person is told of it. */
static void vforked_child_without_descriptors(void **state)
{
	struct rlimit was;
	struct fix f;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	begin(&f);
	until_held(&f, f.pid, SOME);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, was.rlim_max }), 0);
	shared->what = 'V';
	until(&f, atomic_load(&f.refusal.there));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(f.refusal.err.code, -EMFILE);
	assert_int_equal(f.stats.unattached, 1);
	tracer_stop(f.tracer);
	kill(shared->child, SIGKILL);
	end(&f);
}

/* Who blocks it later hears of one or two, until its reader says that it did not stop. */
static void thread_becomes_deaf(void **state)
{
	struct handover *h;
	struct fix f;
	pid_t heard;

	begin(&f);
	h = &f.c.slots[0].handover;
	shared->what = 'w';
	until(&f, shared->heard >= SOME);
	atomic_store(&h->untaken, f.pid);
	until(&f, !atomic_load(&h->untaken));
	until_held(&f, shared->child, SOME);
	heard = shared->heard;
	until_held(&f, shared->child, MANY);
	assert_in_range(shared->heard, heard, heard + 1); /* it was on its way */
	assert_int_equal(tracer_stop(f.tracer).pending, 0);
	end(&f);
}

/* Without timers nobody is traced, and it is said why. */
static void no_timers(void **state)
{
	struct rlimit was, none = { 0 };
	struct proc_status s = { 0 };
	struct err err = { 0 };
	struct fix f;

	assert_int_equal(getrlimit(RLIMIT_SIGPENDING, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	assert_int_equal(try_attach(&f, true, &err), -EAGAIN);
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &was), 0);
	assert_non_null(strstr(err.text, "ulimit -i"));
	assert_int_equal(proc_status(f.pid, &s), 0);
	assert_int_equal(s.tracer, 0);
	tracer_stop(f.tracer);
	end(&f);
}

/* Where one of them can't be had those before it are given back. */
static void not_all_timers(void **state)
{
	for (int which = 1; which <= 3; which++) {
		struct err err = { 0 };
		struct fix f;

		timers.there = timers.asked = 0;
		timers.refused = which;
		assert_int_equal(try_attach(&f, true, &err), -EAGAIN);
		timers.refused = 0;
		assert_non_null(strstr(err.text, "three timers"));
		tracer_stop(f.tracer);
		assert_int_equal(timers.asked, which);
		assert_int_equal(timers.there, 0);
		end(&f);
	}
}

/* One that only can't take it yet does not block it. */
static void signal_is_on_its_way(void **state)
{
	struct proc_status s = { 0 };
	struct fix f;

	begin(&f);
	kill(f.pid, SIGSTOP);
	until(&f, proc_status(f.pid, &s) == 0 && (s.state == 't' || s.state == 'T') &&
			  !take_held(&f));
	assert_int_equal(syscall(SYS_tgkill, f.pid, f.pid, SIGURG), 0);
	assert_int_equal(tracer_stop(f.tracer).pending, 0);
	end(&f);
}

static bool stands_still(struct fix *f)
{
	uint64_t was = shared->spun;
	struct proc_status s = { 0 };

	usleep(100000);
	return !take_held(f) && shared->spun == was && proc_status(f->pid, &s) == 0 &&
	       (s.state == 't' || s.state == 'T');
}

/* Whoever is stopped by others stays so until they have it go on, by whichever signal. */
static void stopped_by_others(void **state)
{
	static const int signals[] = { SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct fix f;
		uint64_t was;

		begin(&f);
		setpgid(f.pid, f.pid); /* with a parent elsewhere, or the kernel drops them */
		kill(f.pid, signals[i]);
		until(&f, stands_still(&f));
		was = shared->spun;
		kill(f.pid, SIGCONT);
		until(&f, shared->spun > was + 1000);
		assert_int_equal(tracer_stop(f.tracer).pending, 0);
		end(&f);
	}
}

/* Another one traces it: whose, and which it is, is said. */
static void traced_by_another(void **state)
{
	pid_t target = fork(), other;
	char want[64];
	struct seizer s;
	struct err err;
	int told[2];
	char c;

	if (target == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_int_equal(pipe(told), 0);
	other = fork();
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		c = ptrace(PTRACE_SEIZE, target, NULL, 0) == 0;
		for (;;)
			if (write(told[1], &c, 1) == 1)
				pause();
	}
	assert_int_equal(read(told[0], &c, 1), 1);
	assert_int_equal(c, 1);
	assert_int_equal(seizer_init(&s, 0), 0);
	assert_int_equal(seizer_seize(&s, target, &err), -EPERM);
	snprintf(want, sizeof(want), "thread %d is traced by process %d (", target, other);
	assert_non_null(strstr(err.text, want));
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	assert_int_equal(seizer_seize(&s, target, &err), 0);
	seizer_deinit(&s);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	close(told[0]);
	close(told[1]);
}

static void *rest(void *arg)
{
	shared->child = gettid();
	for (;;)
		pause();
	return arg;
}

/* Becomes another program when it is told to, which ends its other thread. */
static pid_t start_execer(void)
{
	pthread_t thread;
	pid_t pid;

	*shared = (struct shared){ 0 };
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_create(&thread, NULL, rest, NULL);
	while (!shared->what)
		usleep(100);
	if (shared->what == 'x')
		exec_spinner();
	execat_spinner();
	return 0;
}

static pid_t start_waiter(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

/* Traces @tid, and has it stopped as it ends. */
static pid_t start_holder(pid_t tid)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	shared->spun = 1 + (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACEEXIT) == 0);
	for (;;)
		pause();
	return 0;
}

/* A process in an exec, which waits for a thread that another tracer, @holder, holds. */
static pid_t start_exec_by(int what, int number, pid_t *holder)
{
	struct proc_wait w = { 0 };
	pid_t pid = start_execer();

	patiently_until(shared->child);
	*holder = start_holder(shared->child);
	patiently_until(shared->spun);
	assert_int_equal(shared->spun, 2);
	shared->what = what;
	patiently_until(proc_wait(pid, pid, &w) == 0 && w.syscall == number);
	return pid;
}

/* Nobody can be seized there until it is over, and nobody waits for that. */
static void in_an_exec_by(int what, int number)
{
	pid_t holder, pid = start_exec_by(what, number, &holder), other = start_waiter();
	struct itimerspec again = { 0 };
	struct seizer s;
	struct err err;

	nudge_init();
	assert_int_equal(seizer_init(&s, 0), 0);
	assert_int_equal(seizer_seize(&s, pid, &err), -EAGAIN);
	assert_int_equal(seizer_next(&s), 0);
	assert_int_equal(seizer_seize(&s, other, &err), 0);
	assert_int_equal(timer_gettime(s.limit.timer, &again), 0);
	assert_true(again.it_interval.tv_nsec > 0); /* it is looked at again all the same */
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	patiently_until(shared->child == pid); /* the new program says so */
	assert_int_equal(seizer_next(&s), pid);
	assert_int_equal(seizer_next(&s), 0); /* once */
	assert_int_equal(seizer_seize(&s, pid, &err), 0);
	seizer_deinit(&s);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void in_an_exec(void **state)
{
	in_an_exec_by('x', SYS_execve);
	in_an_exec_by('y', SYS_execveat);
}

static _Atomic pid_t in_exec;

/* Another one is in an exec. */
static int attach_but_one(void *arg, struct err *err)
{
	struct fix *f = arg;
	int r = attach_target(f, err);

	if (r == 0 && attach_process(&f->attach, in_exec, NULL, 0, err) != -EAGAIN)
		r = -EBUSY;
	return r;
}

/* Who is in an exec as all others end is traced once it is over. */
static void in_an_exec_when_all_others_end(void **state)
{
	pid_t holder, pid = start_exec_by('x', SYS_execve, &holder);
	struct err err;
	struct fix f;

	in_exec = pid;
	assert_int_equal(try_attach_to(&f, start_waiter(), true, attach_but_one, &err), 0);
	tracer_go(f.tracer, true);
	alone = 0;
	kill(f.pid, SIGKILL);
	patiently_until(alone);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	until_held(&f, pid, SOME);
	tracer_stop(f.tracer);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	end(&f);
}

/* A CPU that comes online has a ring like the others'. */
static void slot_of_another_cpu(void **state)
{
	struct cpus cpus, first = { 0 };
	struct fix f = { 0 };
	struct err err;
	int last = 0;

	assert_int_equal(cpus_system(&cpus, "online"), 0);
	for (int cpu = 0; (cpu = cpus_next(&cpus, cpu)) >= 0; cpu++)
		last = cpu;
	cpus_add(&first, cpus_next(&cpus, 0));
	configure(&f);
	f.c.cap_slots = 2;
	assert_int_equal(slots_init(&f.c, &first, &err), 0);
	assert_int_equal(slots_open_rings(&f.c, 8, &err), 0);
	assert_int_equal(slots_add(&f.c, last, &err), 0);
	assert_int_equal(f.c.n_slots, 2);
	assert_int_equal(f.c.slots[1].cpu, last);
	assert_int_equal(f.c.slots[1].ring.cpu, last);
	assert_int_equal(f.c.slots[1].ring.size, f.c.slots[0].ring.size);
	assert_int_equal(slots_add(&f.c, last, &err), -ENOMEM); /* no room is left */
	slots_deinit(&f.c);
}

enum { SHARED_FD = 200 };

static void map_shared(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
	if (shared == MAP_FAILED)
		_exit(1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(held_and_let_go),	  cmocka_unit_test(children_too),
		cmocka_unit_test(registers_of_the_held),  cmocka_unit_test(signals_of_others),
		cmocka_unit_test(quiet_for_a_while),	  cmocka_unit_test(children_are_let_go),
		cmocka_unit_test(ends_by_itself),	  cmocka_unit_test(child_of_vfork),
		cmocka_unit_test(exec_by_another_thread), cmocka_unit_test(signal_is_blocked),
		cmocka_unit_test(signal_is_on_its_way),	  cmocka_unit_test(stopped_by_others),
		cmocka_unit_test(traced_by_another),	  cmocka_unit_test(in_an_exec),
		cmocka_unit_test(thread_begins_deaf),	  cmocka_unit_test(thread_becomes_deaf),
		cmocka_unit_test(no_timers),		  cmocka_unit_test(exec_of_a_deaf_thread),
		cmocka_unit_test(not_all_timers),	  cmocka_unit_test(events_are_awaited),
		cmocka_unit_test(slot_of_another_cpu),	  cmocka_unit_test(thread_before_the_beginning),
		cmocka_unit_test(thread_that_is_refused),
		cmocka_unit_test(stops_without_end_before_the_beginning),
		cmocka_unit_test(thread_without_events),
		cmocka_unit_test(stops_without_end_at_the_end),
		cmocka_unit_test(a_deaf_thread_is_told_of),
		cmocka_unit_test(exec_by_the_first_thread),
		cmocka_unit_test(its_end_is_waited_for),
		cmocka_unit_test(stop_while_attaching),
		cmocka_unit_test(in_an_exec_when_all_others_end),
		cmocka_unit_test(birth_while_attaching),
		cmocka_unit_test(birth_at_the_end),
		cmocka_unit_test(stop_while_looking_who_is_deaf),
		cmocka_unit_test(of_others_nothing_is_told),
		cmocka_unit_test(of_a_failure_nothing_else_is_told),
		cmocka_unit_test(vforked_child_is_deaf),
		cmocka_unit_test(vforked_child_without_descriptors),
		cmocka_unit_test(the_end_of_a_quiet_target),
		cmocka_unit_test(the_end_without_descriptors),
		cmocka_unit_test(a_target_that_is_gone_gets_no_tracer),
	};
	int fd;

	if (!strcmp(argv[0], "spinner")) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		map_shared();
		spin_deaf(NULL);
	}
	fd = memfd_create("shared", 0);
	if (fd < 0 || ftruncate(fd, 4096) < 0 || dup2(fd, SHARED_FD) < 0)
		return 1;
	close(fd);
	map_shared();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
