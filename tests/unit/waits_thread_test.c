/* SPDX-License-Identifier: MIT
 *
 * waits: its thread, step by step. It sleeps until this test lets it go on, uses as much CPU
 * time as the test says, and reads the stack of a made-up Python (fake_ring.h).
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"
#include "no_memory.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "capture/reader_int.h"
#include "capture/wait_post.h"
#include "capture/waits.h"
#include "capture/waits_int.h"
#include "fake_ring.h"

static const uint64_t PERIOD = 8000000, START = 1000000000; /* no machine is younger */

static struct {
	bool gated; /* else sleeps are not ours */
	bool deaf;  /* a nudge does not end a sleep */
	bool nudged; /* one has ended a sleep */
	uint64_t until;
	sem_t asleep, go;
	_Atomic bool open;	/* it no longer waits for us */
	uint64_t cpu, cpu_step; /* ns of CPU time, and how many each look at it takes */
	uint64_t stands_ns;	/* what the clock says; 0: it runs */
	int busy; /* so often its end is waited for in vain */
	void (*on_nap)(void);
	void (*on_nap_late)(void); /* the same, behind more time than readers have */
	void *arg;
	_Atomic bool hangs; /* reads do, until the other end of this is closed */
	_Atomic bool hung; /* one does */
	int hang[2];
} gate;

static _Atomic int nice_is, policy_is; /* what a thread made itself */

int setpriority(__priority_which_t which, id_t who, int nice)
{
	nice_is = who ? 1 : nice;
	return 0;
}

int sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
	policy_is = pid || param->sched_priority ? -1 : policy;
	return 0;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
			 const struct iovec *from, unsigned long n_from, unsigned long flags)
{
	char c;

	gate.hung = gate.hangs && gettid() != getpid();
	while (gate.hung && read(gate.hang[0], &c, 1) < 0)
		;
	return syscall(SYS_process_vm_readv, pid, to, n_to, from, n_from, flags);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
		    struct timespec *left)
{
	assert_true(gate.gated && clock == CLOCK_MONOTONIC && flags == TIMER_ABSTIME);
	assert_in_range(t->tv_nsec, 0, 999999999);
	gate.until = (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
	if (!gate.nudged)
		sem_post(&gate.asleep);
	gate.nudged = false;
	while (!gate.nudged && !gate.open && sem_wait(&gate.go) < 0)
		gate.nudged = !gate.deaf;
	return gate.nudged ? EINTR : 0;
}

/* As it wakes a reader. */
int eventfd_write(int fd, eventfd_t n)
{
	int (*f)(int, eventfd_t) = dlsym(RTLD_NEXT, "eventfd_write");

	if (gate.on_nap_late) {
		usleep(5000);
		now_ns();
		gate.on_nap = gate.on_nap_late;
		gate.on_nap_late = NULL;
	}
	return f(fd, n);
}

static bool no_thread;

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
	int (*f)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");

	return no_thread ? EAGAIN : f(t, a, run, arg);
}

/* It is told to stop by now: no tick comes before that. */
int pthread_timedjoin_np(pthread_t thread, void **ret, const struct timespec *until)
{
	int (*f)(pthread_t, void **, const struct timespec *) =
		dlsym(RTLD_NEXT, "pthread_timedjoin_np");

	if (gate.busy-- > 0)
		return ETIMEDOUT;
	if (!atomic_exchange(&gate.open, true))
		sem_post(&gate.go);
	return f(thread, ret, until);
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	int (*f)(const struct timespec *, struct timespec *) = dlsym(RTLD_NEXT, "nanosleep");

	if (gate.on_nap && gettid() != getpid())
		gate.on_nap();
	return f(t, left);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int (*f)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
	static _Thread_local struct timespec stood;

	if (clock == CLOCK_MONOTONIC && gate.stands_ns) {
		*t = (struct timespec){ .tv_sec = (time_t)(gate.stands_ns / SECOND),
					.tv_nsec = (long)(gate.stands_ns % SECOND) };
		return 0;
	}
	if (clock == CLOCK_MONOTONIC) {
		if (!gate.on_nap || gettid() == getpid() || !stood.tv_sec)
			f(clock, &stood);
		*t = stood;
		return 0;
	}
	if (clock != CLOCK_THREAD_CPUTIME_ID)
		return f(clock, t);
	gate.cpu += gate.cpu_step;
	*t = (struct timespec){ .tv_sec = (time_t)(gate.cpu / 1000000000),
				.tv_nsec = (long)(gate.cpu % 1000000000) };
	return 0;
}

struct fix {
	struct fake *f;
	struct waits *w;
	uint64_t tick; /* when the next one comes */
	uint64_t distance;
};

/* Where it sleeps next. */
static void arrive(struct fix *x)
{
	sem_wait(&gate.asleep);
	x->distance = gate.until - x->tick;
	x->tick = gate.until;
}

static void let_go(struct fix *x)
{
	sem_post(&gate.go);
	arrive(x);
}

static void begin(struct fix *x)
{
	x->tick = START;
	assert_int_equal(0, waits_start(x->w, PERIOD, START));
	arrive(x);
}

static int setup(void **state)
{
	static const pid_t nobody = 1;
	struct fix *x = calloc(1, sizeof(*x));

	fake_setup((void **)&x->f);
	fake_lay(x->f);
	memset(&gate, 0, sizeof(gate));
	sem_init(&gate.asleep, 0, 0);
	sem_init(&gate.go, 0, 0);
	gate.gated = true;
	x->f->c.n_tids = 1; /* of those that are there already, nobody */
	x->f->c.tids = &nobody;
	x->w = waits_create(&x->f->c);
	assert_non_null(x->w);
	x->f->c.waits = waits_post(x->w);
	*state = x;
	return 0;
}

/* Those that go on end now. */
static void end(struct fix *x)
{
	waits_stop(x->w);
}

static int teardown(void **state)
{
	struct fix *x = *state;

	end(x);
	waits_destroy(x->w);
	fake_destroy(x->f);
	free(x);
	return 0;
}

static void post(struct fix *x, uint32_t cpu, pid_t tid, uint64_t time, const char *what)
{
	wait_post_switch(waits_post(x->w), &x->f->slots[cpu], getpid(), tid, time,
			 what[0] != 'i', !strcmp(what, "preempted"));
}

/* The next sample or end of a wait: "exact a3 b3 sleep", "torn sleep unread", "over"; "". */
static const char *next(struct fix *x, struct q_wait *over)
{
	static const char *const states[] = { "?", "sleep", "disk", "runnable", "gil" };
	struct queue *q = waits_queue(x->w);
	const struct queue_record *rec;
	static char text[8 * WORLD_FRAMES + 100];
	const char *s;

	while ((rec = queue_peek(q)) && rec->type == Q_CODE) {
		fake_code(x->f, rec);
		queue_pop(q);
	}
	if (!rec)
		return "";
	if (rec->type == Q_WAIT) {
		memcpy(over, rec->data, sizeof(*over));
		queue_pop(q);
		return "over";
	}
	s = fake_next_of(x->f, q, 0);
	snprintf(text, sizeof(text), "%s %s%s", s, states[fake_sample(x->f)->wait],
		 fake_sample(x->f)->unread ? " unread" : "");
	return text;
}

static void expect_over(struct fix *x, pid_t tid, uint64_t out, uint64_t end, uint64_t weight)
{
	struct q_wait over;

	assert_string_equal("over", next(x, &over));
	assert_int_equal(tid, over.tid);
	assert_int_equal(out, over.out);
	assert_int_equal(end, over.time);
	assert_int_equal(weight, over.weight);
}

static void expect_sample(struct fix *x, const char *text, pid_t tid, uint64_t time)
{
	struct q_wait none;

	assert_string_equal(text, next(x, &none));
	assert_int_equal(getpid(), fake_sample(x->f)->sample.pid);
	assert_int_equal(tid, fake_sample(x->f)->sample.tid);
	assert_int_equal(time, fake_sample(x->f)->sample.time);
}

static void expect_none(struct fix *x)
{
	struct q_wait none;

	assert_string_equal("", next(x, &none));
}

/* --- a wait --- */

/* It is read at the first tick that falls into it, and when it is over it stands for the
 * distance of that tick, or, if it is longer than any, for itself. */
static void a_wait_is_read_once_and_given_when_over(void **state)
{
	struct fix *x = *state;
	uint64_t out, distance;

	begin(x);
	out = x->tick - 1000;
	distance = x->distance;
	post(x, 0, FAKE_TID, out, "out");
	expect_none(x);
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out);
	assert_int_equal(0, fake_sample(x->f)->user_ip); /* it is no thread of ours */
	post(x, 1, FAKE_TID, out + 2000, "in");
	expect_none(x);
	let_go(x);
	expect_over(x, FAKE_TID, out, out + 2000, distance);
	expect_none(x);
	/* One into which no tick falls is not taken. */
	post(x, 0, FAKE_TID, out + 3000, "out");
	post(x, 0, FAKE_TID, out + 3100, "in");
	let_go(x);
	expect_none(x);
	/* A long one. */
	out = x->tick;
	post(x, 0, FAKE_TID, out, "out");
	let_go(x);
	expect_none(x); /* that tick was when it began */
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out);
	for (int i = 0; i < 4; i++)
		let_go(x);
	post(x, 0, FAKE_TID, x->tick, "in"); /* as the tick comes */
	distance = x->tick - out;
	let_go(x);
	expect_over(x, FAKE_TID, out, out + distance, distance);
	expect_none(x);
	assert_int_equal(0, fake_counted(x->f, waits_unread));
	assert_int_equal(0, fake_counted(x->f, side_lost));
	assert_false(waits_stuck(x->w));
	assert_int_equal(0, waits_watch(x->w));
	assert_null(queue_peek(waits_messages(x->w)));
	end(x); /* it runs, and waits for nothing */
	expect_none(x);
}

static const struct preempt_plan *begun_with;

static int begin_there(const struct preempt_plan *p)
{
	begun_with = p;
	return 0;
}

/* Its capture makes it as urgent as readers are. */
static void it_begins_as_its_capture_wants(void **state)
{
	struct fix *x = *state;
	struct capture_ops capture = *x->f->c.capture;
	static char plan;

	capture.waits_begin = begin_there;
	x->f->c.capture = &capture;
	x->f->c.plan = (const struct preempt_plan *)&plan;
	begun_with = NULL;
	nice_is = policy_is = 0;
	begin(x);
	assert_ptr_equal(&plan, begun_with);
	assert_int_equal(0, nice_is);
	assert_int_equal(0, policy_is);
	end(x); /* what it has to do then is not urgent */
	assert_int_equal(-10, nice_is);
	assert_int_equal(SCHED_OTHER | SCHED_RESET_ON_FORK, policy_is);
}

static int begin_in_vain(const struct preempt_plan *p)
{
	return -EPERM;
}

/* Where that is refused it is as urgent as it may be otherwise. */
static void it_begins_as_it_may(void **state)
{
	struct fix *x = *state;
	struct capture_ops capture = *x->f->c.capture;

	capture.waits_begin = begin_in_vain;
	x->f->c.capture = &capture;
	nice_is = policy_is = 0;
	begin(x);
	assert_int_equal(-10, nice_is);
	assert_int_equal(SCHED_OTHER | SCHED_RESET_ON_FORK, policy_is);
	end(x);
}

/* What is told of a later time is kept until then. */
static void what_comes_later_waits(void **state)
{
	struct fix *x = *state;
	uint64_t out;

	begin(x);
	out = x->tick + 1;
	post(x, 0, FAKE_TID, out, "out");
	post(x, 0, FAKE_TID, x->tick - 1, "in");
	let_go(x);
	expect_none(x);
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out);
}

/* A wait whose program is not known yet is read again: after 1, 2, 4 ticks, and at the end. */
static void until_its_program_is_known(void **state)
{
	struct fix *x = *state;
	struct q_wait over;
	uint64_t out;

	begin(x);
	out = x->tick - 1000;
	atomic_store(&x->f->target->state, TARGET_PENDING);
	post(x, 0, FAKE_TID, out, "out");
	for (int tick = 1; tick <= 5; tick++) {
		let_go(x);
		if (tick == 3 || tick == 5)
			expect_none(x);
		else
			expect_sample(x, "torn sleep", FAKE_TID, out);
	}
	atomic_store(&x->f->target->state, TARGET_PYTHON);
	end(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(FAKE_TID, over.tid);
	expect_none(x);
}

/* Whom another thread took its CPU from waits for one. Registers tell where a thread stands
 * if it left with them; they are told in any order, by several CPUs. */
static void what_a_thread_waits_for(void **state)
{
	struct fix *x = *state;
	uint64_t regs[ARCH_MAX_REGS], out, distance;

	for (size_t i = 0; i < ARCH_MAX_REGS; i++)
		regs[i] = 500 + i;
	regs[arch_host->sp] = x->f->sp;
	begin(x);
	out = x->tick - 1000;
	post(x, 0, FAKE_TID, out, "preempted");
	post(x, 0, FAKE_TID, out + 2000, "in");
	post(x, 0, FAKE_TID, out + 2001, "out");
	wait_post_regs(waits_post(x->w), &x->f->slots[1], FAKE_TID, out, regs);
	distance = x->distance;
	let_go(x);
	expect_sample(x, "exact a3 b3 runnable", FAKE_TID, out);
	assert_int_equal(500 + arch_host->ip, fake_sample(x->f)->user_ip);
	let_go(x);
	expect_over(x, FAKE_TID, out, out + 2000, distance);
	/* They are of that time alone. */
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out + 2001);
	assert_int_equal(0, fake_sample(x->f)->user_ip);
}

/* The state that it runs is named by a register that it left with. */
static void a_state_that_a_register_names(void **state)
{
	struct fix *x = *state;
	uint64_t regs[ARCH_MAX_REGS] = { 0 };

	fake_python(x->f, "");
	x->f->ts = world_thread(x->f->w, x->f->interp, FAKE_TID + 1, true);
	fake_python(x->f, "ab");
	fake_lay(x->f);
	regs[arch_host->sp] = x->f->sp;
	regs[NAMED] = x->f->ts;
	begin(x);
	post(x, 0, FAKE_TID, x->tick - 1000, "preempted");
	wait_post_regs(waits_post(x->w), &x->f->slots[1], FAKE_TID, x->tick - 1000, regs);
	let_go(x);
	expect_sample(x, "exact a3 b3 runnable", FAKE_TID, x->tick - x->distance - 1000);
}

static struct {
	_Atomic int tid;
	_Atomic bool over;
} waiter;

static void *wait_in_futex(void *futex)
{
	waiter.tid = gettid();
	while (!waiter.over)
		syscall(SYS_futex, futex, FUTEX_WAIT_PRIVATE, *(int *)futex, NULL, NULL, 0);
	return NULL;
}

static pthread_t start_waiter(void *futex)
{
	pthread_t t;

	waiter.tid = 0;
	waiter.over = false;
	assert_int_equal(0, pthread_create(&t, NULL, wait_in_futex, futex));
	while (!waiter.tid || proc_state(getpid(), waiter.tid) != 'S')
		usleep(100);
	return t;
}

static void end_waiter(pthread_t t, void *futex)
{
	waiter.over = true;
	while (pthread_tryjoin_np(t, NULL))
		syscall(SYS_futex, futex, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Who sleeps in a futex that lies in the GIL waits for that; in one behind it, for anything. */
static void who_waits_for_the_gil(void **state)
{
	struct fix *x = *state;
	struct fake *f = x->f;
	const size_t size = f->w->l.gil.size;
	raddr gil = world_take(f->w, size + 8);

	world_put(f->w, f->interp, f->w->l.interp.gil, gil, 8);
	begin(x);
	for (int i = 0; i < 2; i++) {
		void *futex = fake_memory(gil + (i ? (size + 3) & ~(size_t)3 : 8));
		pthread_t t;

		fake_lay(f);
		t = start_waiter(futex);
		f->ts = world_thread(f->w, f->interp, (uint64_t)waiter.tid, true);
		fake_python(f, "ab");
		fake_lay(f);
		post(x, 0, waiter.tid, x->tick - 1000, "out");
		let_go(x);
		expect_sample(x, i ? "exact a3 b3 sleep" : "exact a3 b3 gil", waiter.tid,
			      x->tick - x->distance - 1000);
		end_waiter(t, futex);
	}
}

/* Of a stack that can't be had nothing is believed, nor that its thread waits for the GIL. */
static void a_waiter_whose_stack_is_broken(void **state)
{
	struct fix *x = *state;
	struct fake *f = x->f;
	raddr gil = world_take(f->w, f->w->l.gil.size);
	void *futex;
	pthread_t t;

	world_put(f->w, f->interp, f->w->l.interp.gil, gil, 8);
	begin(x);
	fake_lay(f);
	futex = fake_memory(gil + 8);
	t = start_waiter(futex);
	f->ts = world_thread(f->w, f->interp, (uint64_t)waiter.tid, true);
	fake_python(f, "ab");
	world_put(f->w, f->w->frame[1], f->w->l.frame.previous, 8, 8);
	fake_lay(f);
	post(x, 0, waiter.tid, x->tick - 1000, "out");
	let_go(x);
	expect_sample(x, "torn sleep", waiter.tid, x->tick - x->distance - 1000);
	end_waiter(t, futex);
}

/* --- those that are no targets any more --- */

static void begin_with_ours(struct fix *x)
{
	x->f->c.ours = ours_create(NULL);
	ours_set(x->f->c.ours, getpid(), true);
	begin(x);
}

static void end_with_ours(struct fix *x)
{
	end(x);
	ours_destroy(x->f->c.ours);
	x->f->c.ours = NULL;
}

/* Waits of who is no target any more end at the second tick, for an end may have been told
 * behind the first. */
static void waits_of_strangers_end(void **state)
{
	struct fix *x = *state;
	uint64_t out, last;
	struct q_wait over;

	begin_with_ours(x);
	out = x->tick - 1000;
	post(x, 0, FAKE_TID, out, "out");
	for (int i = 0; i < 3; i++)
		let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out);
	ours_set(x->f->c.ours, getpid(), false);
	let_go(x);
	expect_none(x);
	last = x->tick;
	let_go(x);
	expect_over(x, FAKE_TID, out, last, last - out);
	/* A thread that ran at the first is not over at the second. */
	post(x, 0, FAKE_TID, x->tick - 900, "out");
	post(x, 0, FAKE_TID, x->tick - 800, "in");
	let_go(x);
	out = x->tick - 1000;
	post(x, 0, FAKE_TID, out, "out");
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out);
	last = x->tick;
	let_go(x);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(out, over.out);
	assert_int_equal(last, over.time);
	end_with_ours(x);
	expect_none(x);
}

/* The reader of CPU 0 takes the record at @at, which is the last one, from its ring. */
static void note_record(struct fix *x, uint64_t at)
{
	struct perf_event_mmap_page *page = &x->f->page[0];

	births_note(x->f->c.births, &x->f->slots[0].ring, at, (const void *)(x->f->map[0] + at),
		    x->f->map[0] + page->data_head - PERF_TRAILER);
	page->data_tail = page->data_head;
}

static void note_exec(struct fix *x, uint64_t time)
{
	uint64_t at = x->f->page[0].data_head;
	struct record r;

	record_exec(&r, (uint32_t)getpid(), FAKE_TID, time, 0, FAKE_ID);
	fake_write(x->f, 0, &r);
	note_record(x, at);
}

/* A thread of ours begins or ends. */
static void note_thread(struct fix *x, uint32_t type, pid_t tid, uint64_t time)
{
	const uint32_t us = (uint32_t)getpid(), ids[] = { us, us, (uint32_t)tid, FAKE_TID };
	uint64_t at = x->f->page[0].data_head;

	fake_task(x->f, type, ids, time - x->f->t);
	note_record(x, at);
}

/* What it waits for as the program that it has become is nobody's business: what was read of it is
 * taken back. */
static void waits_behind_an_exec_are_nobodys(void **state)
{
	struct fix *x = *state;
	uint64_t out[2], last;

	begin_with_ours(x);
	for (int i = 0; i < 2; i++) {
		out[i] = x->tick - 1000;
		post(x, 0, FAKE_TID + i, out[i], "out");
		let_go(x);
		let_go(x);
	}
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out[0]);
	expect_sample(x, "nopython sleep", FAKE_TID + 1, out[1]);
	note_exec(x, out[1]);
	ours_set(x->f->c.ours, getpid(), false);
	let_go(x);
	last = x->tick;
	let_go(x);
	expect_over(x, FAKE_TID + 1, out[1], last, 0);
	expect_over(x, FAKE_TID, out[0], last, last - out[0]);
	expect_none(x);
	end_with_ours(x);
	expect_none(x);
}

/* A thread that ends is forgotten, also one that is about to, by what the rings say. */
static void ends(void **state)
{
	struct fix *x = *state;
	uint64_t out, distance;
	size_t known;

	begin(x);
	out = x->tick - 1000;
	distance = x->distance;
	post(x, 0, FAKE_TID, out, "out");
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out);
	wait_post_ended(waits_post(x->w), &x->f->slots[1], getpid(), FAKE_TID, out + 2000);
	let_go(x);
	expect_over(x, FAKE_TID, out, out + 2000, distance);
	/* Of one that was not known yet readers of other CPUs may tell later that it left them. */
	wait_post_ended(waits_post(x->w), &x->f->slots[1], getpid(), FAKE_TID + 2, x->tick - 900);
	let_go(x);
	post(x, 0, FAKE_TID + 2, x->tick - x->distance - 1000, "out");
	let_go(x);
	expect_none(x);
	/* Nothing is kept of those that are no targets. */
	known = x->w->table.n;
	wait_post_ended(waits_post(x->w), &x->f->slots[1], 0, FAKE_TID + 3, x->tick - 900);
	let_go(x);
	assert_int_equal(known, x->w->table.n);
	note_thread(x, PERF_RECORD_EXIT, FAKE_TID, x->tick - 5000);
	post(x, 0, FAKE_TID, x->tick - 1000, "out");
	post(x, 0, FAKE_TID + 1, x->tick - 1000, "out");
	out = x->tick - 1000;
	let_go(x);
	expect_sample(x, "nopython sleep", FAKE_TID + 1, out);
	expect_none(x);
}

/* That it leaves its CPU for the last time may be told before its end, which lies in another ring:
 * it waits for nothing, and what was read of it is taken back. Who has its number by then waits. */
static void an_end_behind_the_last_leaving(void **state)
{
	enum { FIRST = FAKE_TID + 1, NEXT = FAKE_TID + 2 };
	struct fix *x = *state;
	uint64_t out, last;

	begin(x);
	out = x->tick - 1000;
	post(x, 0, FIRST, out, "out");
	post(x, 0, NEXT, out, "out");
	let_go(x);
	expect_sample(x, "nopython sleep", FIRST, out);
	expect_sample(x, "nopython sleep", NEXT, out);
	for (pid_t tid = FIRST; tid <= NEXT; tid++) {
		note_thread(x, PERF_RECORD_EXIT, tid, out - 5000);
		wait_post_ended(waits_post(x->w), &x->f->slots[1], getpid(), tid, out - 5000);
	}
	note_thread(x, PERF_RECORD_FORK, NEXT, out - 2000);
	let_go(x);
	expect_over(x, FIRST, out, out, 0);
	assert_int_equal(FIRST, x->w->table.all[0].tid);
	assert_true(x->w->table.all[0].ended);
	let_go(x);
	expect_none(x);
	post(x, 1, NEXT, x->tick - 1000, "in");
	last = x->tick - 1000;
	let_go(x);
	expect_over(x, NEXT, out, last, last - out);
	end(x);
	expect_none(x);
}

/* Where the kernel hides switches of some, whoever is not seen to sleep may have run. */
static void hidden_switches(void **state)
{
	struct fix *x = *state;
	uint64_t out, distance;

	x->f->c.switches_hidden = true;
	begin(x);
	out = x->tick - 1000;
	distance = x->distance;
	post(x, 0, FAKE_TID, out, "out"); /* /proc knows no such thread */
	let_go(x);
	expect_sample(x, "late a3 b3 sleep", FAKE_TID, out);
	post(x, 0, FAKE_TID, out + 2000, "in");
	post(x, 0, FAKE_TID, x->tick - 1000, "preempted");
	let_go(x);
	expect_over(x, FAKE_TID, out, out + 2000, distance);
	expect_sample(x, "exact a3 b3 runnable", FAKE_TID, x->tick - x->distance - 1000);
}

/* --- who reads when --- */

/* Reads have a part of the time between ticks: who was not read by the end of its wait is told
 * of as that, and ticks come less often until reads keep up again. */
static void reads_have_a_budget(void **state)
{
	struct fix *x = *state;
	uint64_t out = 0, distance = 0, period = PERIOD;

	begin(x);
	gate.cpu_step = 200000000;
	for (int i = 0; i < 120; i++) {
		uint64_t last = distance, ended = out + 2000;

		if (i == 30)
			gate.cpu_step = 0;
		assert_in_range(x->distance, period / 2, period / 2 + period - 1);
		out = x->tick - 1000;
		distance = x->distance;
		post(x, 0, FAKE_TID, out, i % 2 ? "out" : "preempted");
		post(x, 0, FAKE_TID, out + 2000, "in");
		let_go(x);
		if (i > 0 && i <= 30) {
			expect_sample(x, i % 2 ? "torn runnable unread" : "torn sleep unread",
				      FAKE_TID, ended);
			assert_int_equal(last, fake_sample(x->f)->sample.period);
			assert_int_equal(i, fake_counted(x->f, waits_unread));
		}
		while (queue_peek(waits_queue(x->w)) && i >= 30)
			queue_pop(waits_queue(x->w));
		expect_none(x);
		/* A quarter more while they do not, at most a second; a sixteenth less. */
		if (i > 0 && i < 30)
			period = MIN(period + period / 4, (uint64_t)1000000000);
		else if (i >= 30)
			period = MAX(period - period / 16, PERIOD);
	}
	assert_int_equal(PERIOD, period);
	assert_int_equal(30, fake_counted(x->f, waits_unread));
}

/* Who came back before it was read runs: its stack is nobody's any more. */
static void who_runs_again_is_not_read(void **state)
{
	struct fix *x = *state;
	uint64_t out;

	begin(x);
	out = x->tick - 1000;
	gate.cpu_step = 200000000;
	post(x, 0, FAKE_TID, out, "out");
	let_go(x);
	expect_none(x);
	gate.cpu_step = 0;
	post(x, 0, FAKE_TID, out + 2000, "in");
	let_go(x);
	expect_sample(x, "torn sleep unread", FAKE_TID, out + 2000);
	expect_none(x);
}

/* Who was left over comes before those that were read. */
static void each_has_its_turn(void **state)
{
	static const int order[] = { 0, 1, 2, 0 };
	struct fix *x = *state;
	uint64_t out = 0, again;

	begin(x);
	gate.cpu_step = 600000; /* one read a tick */
	for (int i = 0; i < 3; i++)
		post(x, 0, FAKE_TID + i, x->tick - 1000, "out");
	again = out = x->tick - 1000;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		struct q_wait over;
		const char *got;

		let_go(x);
		do
			got = next(x, &over);
		while (!strcmp(got, "over") || strstr(got, "unread"));
		assert_string_not_equal("", got);
		assert_int_equal(FAKE_TID + order[i], fake_sample(x->f)->sample.tid);
		assert_int_equal(order[i] ? out : again, fake_sample(x->f)->sample.time);
		expect_none(x);
		if (i && i < 2)
			continue;
		/* The first one sleeps anew. */
		post(x, 0, FAKE_TID, x->tick - 2000, "in");
		post(x, 0, FAKE_TID, x->tick - 1000, "out");
		again = x->tick - 1000;
	}
}

/* --- readers that are behind --- */

static void reader_comes(void)
{
	struct fix *x = gate.arg;

	gate.on_nap = NULL;
	post(x, 1, FAKE_TID, x->tick - 1000, "out");
	x->f->page[1].data_tail = x->f->page[1].data_head;
}

static bool is_woken(struct fix *x, uint32_t cpu)
{
	struct pollfd p = { .fd = waits_post(x->w)->poke[cpu], .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Those whose rings hold something are woken, and waited for. */
static void readers_pass_on_what_they_have(void **state)
{
	struct fix *x = *state;
	uint64_t told;

	begin(x);
	let_go(x);
	assert_false(is_woken(x, 0) || is_woken(x, 1));
	x->f->page[1].data_head = 8;
	gate.arg = x;
	gate.on_nap = reader_comes;
	let_go(x);
	assert_false(is_woken(x, 0));
	assert_true(is_woken(x, 1));
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, x->tick - x->distance - 1000);
	told = x->tick - x->distance;
	assert_int_equal(told, waits_told_ns(x->w));
	/* Who does not come is not waited for long; what it has not told is not called told. */
	x->f->page[0].data_head = 8;
	let_go(x);
	assert_true(is_woken(x, 0));
	assert_int_equal(told, waits_told_ns(x->w));
	x->f->page[0].data_tail = 8;
	let_go(x);
	assert_int_equal(x->tick - x->distance, waits_told_ns(x->w));
}

/* They get a moment also where it had no CPU itself for as long as it waits for them. */
static void readers_that_are_woken_late(void **state)
{
	struct fix *x = *state;

	begin(x);
	x->f->page[1].data_head = 8;
	gate.arg = x;
	gate.on_nap_late = reader_comes;
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, x->tick - x->distance - 1000);
	assert_int_equal(x->tick - x->distance, waits_told_ns(x->w));
}

/* Also the reader of a CPU whose slot was made when waits were read already. */
static void reader_of_a_later_cpu(void **state)
{
	struct fix *x = *state;
	struct cpu_slot *slot = &x->f->slots[1];
	struct reader *r;
	struct pollfd p = { .events = POLLIN };

	slot->handover.posted = -1; /* as slots_add() has it */
	r = reader_create(&x->f->c, slot);
	assert_non_null(r);
	p.fd = r->wake;
	assert_int_equal(0, poll(&p, 1, 0));
	assert_int_equal(0, eventfd_write(waits_post(x->w)->poke[1], 1));
	assert_int_equal(1, poll(&p, 1, 0));
	reader_destroy(r);
}

/* What they had no room for is told of once. */
static void messages_without_room(void **state)
{
	struct fix *x = *state;

	begin(x);
	let_go(x);
	assert_int_equal(0, fake_counted(x->f, side_lost));
	gate.deaf = true;
	for (int i = 0; i < 60000; i++)
		post(x, 0, FAKE_TID + 5, x->tick - 1000, "in");
	let_go(x);
	let_go(x);
	assert_int_equal(1, fake_counted(x->f, side_lost));
}

/* Nor is there memory to keep them. */
static void messages_without_memory(void **state)
{
	struct fix *x = *state;

	begin(x);
	for (int i = 0; i < 1000; i++)
		post(x, 0, FAKE_TID + 5, x->tick - 1000, "in");
	no_memory_from(1, false);
	let_go(x);
	assert_int_equal(NO_MEMORY_FAILS, no_memory_end());
	assert_int_equal(NO_MEMORY_FAILS, fake_counted(x->f, side_lost));
	let_go(x);
	assert_int_equal(NO_MEMORY_FAILS, fake_counted(x->f, side_lost));
}

/* Samples of waits for which the queue has no room are lost, each counted; ends that have none are
 * missed by who has the sample. */
static void waits_without_room(void **state)
{
	enum { MANY = 28000 };
	struct fix *x = *state;
	uint64_t samples = 0, ends = 0;
	struct q_wait over;
	const char *text;

	begin(x);
	for (int i = 0; i < MANY; i++)
		post(x, i & 1, FAKE_TID + i, x->tick - 1000, "out");
	let_go(x);
	for (int i = 0; i < MANY; i++)
		post(x, i & 1, FAKE_TID + i, x->tick - 900, "in");
	let_go(x);
	while (*(text = next(x, &over))) {
		ends += strcmp(text, "over") == 0;
		samples += strcmp(text, "over") != 0;
	}
	assert_int_equal(0, fake_counted(x->f, side_lost));
	assert_in_range(samples + ends, 1000, 2 * MANY - 1000);
	assert_int_equal(MANY, samples + fake_counted(x->f, lost));
}

/* Ticks may be far apart: what was told is taken before, when half of the room is used. */
static void messages_are_taken_between_ticks(void **state)
{
	const struct timespec step = { .tv_nsec = 100000 };
	struct fix *x = *state;
	struct queue *told = &waits_post(x->w)->in[0];
	int naps = 5000; /* for the thread to come to it */
	uint64_t out;

	begin(x);
	out = x->tick - 2000;
	post(x, 0, FAKE_TID, out, "out");
	for (int i = 0; i < 60000; i++) {
		post(x, 0, FAKE_TID + 5, x->tick - 1000, "in");
		if (queue_half_full(told) && naps-- > 0)
			nanosleep(&step, NULL);
	}
	expect_none(x);
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, out);
	assert_int_equal(0, fake_counted(x->f, side_lost));
}

/* --- the beginning and the end --- */

static struct {
	sem_t begun, end;
	_Atomic int sleeper, runner;
	_Atomic bool over;
} others;

static void *sleep_on(void *arg)
{
	others.sleeper = gettid();
	sem_post(&others.begun);
	while (sem_wait(&others.end) < 0)
		;
	return NULL;
}

static void *run_on(void *arg)
{
	others.runner = gettid();
	sem_post(&others.begun);
	while (!others.over)
		;
	return NULL;
}

/* Starts a thread that sleeps, and one that runs until others.over. */
static void start_others(pthread_t t[2])
{
	sem_init(&others.begun, 0, 0);
	sem_init(&others.end, 0, 0);
	others.over = false;
	pthread_create(&t[0], NULL, sleep_on, NULL);
	pthread_create(&t[1], NULL, run_on, NULL);
	sem_wait(&others.begun);
	sem_wait(&others.begun);
	while (proc_state(getpid(), others.sleeper) != 'S')
		usleep(100);
}

static void end_runner(const pthread_t t[2])
{
	others.over = true;
	pthread_join(t[1], NULL);
}

static void end_sleeper(const pthread_t t[2])
{
	sem_post(&others.end);
	pthread_join(t[0], NULL);
}

/* Of those that are there, these alone. */
static void want_others(struct fix *x)
{
	static pid_t tids[2];

	tids[0] = others.runner;
	tids[1] = others.sleeper;
	x->f->c.tids = tids;
	x->f->c.n_tids = 2;
}

/* The sleeper's, which began then. */
static void expect_sample_since(struct fix *x, uint64_t before, uint64_t after)
{
	struct q_wait none;

	assert_string_equal("nopython sleep", next(x, &none));
	assert_int_equal(others.sleeper, fake_sample(x->f)->sample.tid);
	assert_in_range(fake_sample(x->f)->sample.time, before, after);
}

/* Of a process that joins, who sleeps waits since then. */
static void who_joins_asleep_waits(void **state)
{
	struct fix *x = *state;
	struct q_wait over;
	pthread_t t[2];
	uint64_t before, after;

	start_others(t);
	begin(x);
	want_others(x);
	before = now_ns();
	waits_joined(x->w, getpid());
	after = now_ns();
	end_runner(t);
	end(x);
	expect_sample_since(x, before, after);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(others.sleeper, over.tid);
	assert_in_range(over.out, before, after);
	expect_none(x);
	end_sleeper(t);
}

/* That it left a CPU may lie in a ring that was not read before it joined, and that it came onto
 * another one in one that was, when it was nobody's. */
static void what_a_switch_told_before_it_joined_is_over(void **state)
{
	struct fix *x = *state;
	uint64_t out, joined;
	struct q_wait over;
	pthread_t t[2];

	start_others(t);
	begin(x);
	want_others(x);
	out = x->tick - 1000;
	post(x, 0, others.sleeper, out, "preempted");
	let_go(x);
	expect_sample(x, "nopython runnable", others.sleeper, out);
	joined = now_ns();
	waits_joined(x->w, getpid());
	end_runner(t);
	end(x);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(out, over.out);
	assert_true(over.time >= joined);
	assert_string_equal("nopython sleep", next(x, &over));
	assert_string_equal("over", next(x, &over));
	assert_true(over.out >= joined);
	expect_none(x);
	end_sleeper(t);
}

/* Its switches have told of it once, and then, while it was no target, of nothing. */
static void who_joins_again_asleep_waits(void **state)
{
	struct fix *x = *state;
	struct q_wait over;
	pthread_t t[2];
	uint64_t before;

	start_others(t);
	begin(x);
	want_others(x);
	post(x, 0, others.sleeper, x->tick - 2000, "out");
	post(x, 0, others.sleeper, x->tick - 1000, "in");
	let_go(x);
	before = now_ns();
	waits_joined(x->w, getpid());
	end_runner(t);
	end(x);
	assert_string_equal("nopython sleep", next(x, &over));
	assert_int_equal(others.sleeper, fake_sample(x->f)->sample.tid);
	assert_string_equal("over", next(x, &over));
	assert_true(over.out >= before);
	expect_none(x);
	end_sleeper(t);
}

/* Nothing tells any more of a thread that has ended by the time that its sleep is heard of. */
static void who_joins_asleep_and_ends_has_no_wait(void **state)
{
	struct fix *x = *state;
	pthread_t t[2];

	start_others(t);
	begin(x);
	want_others(x);
	waits_joined(x->w, getpid());
	others.over = true;
	sem_post(&others.end);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	while (proc_state(getpid(), others.sleeper))
		usleep(100);
	end(x);
	expect_none(x);
	assert_int_equal(0, fake_counted(x->f, waits_unread));
}

/* Where a record may be missing that told of it, who sleeps does so since that was seen. */
static void who_fell_asleep_untold_waits(void **state)
{
	struct fix *x = *state;
	uint64_t before, after;
	struct q_wait over;
	pthread_t t[2];

	start_others(t);
	begin(x);
	want_others(x);
	let_go(x);
	before = now_ns();
	x->f->c.blind_ns = before;
	for (int i = 0; i < 3; i++)
		let_go(x);
	after = now_ns();
	end_runner(t);
	end(x);
	expect_sample_since(x, before, after);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(others.sleeper, over.tid);
	expect_none(x);
	end_sleeper(t);
}

/* The same happens again and again: who sleeps is looked for once a second, for each look at a
 * thread costs. */
static void who_fell_asleep_untold_is_looked_for_once_a_second(void **state)
{
	struct fix *x = *state;
	const uint64_t first = now_ns() - 2 * SECOND;
	struct q_wait over;
	pthread_t t[2];

	start_others(t);
	begin(x);
	want_others(x);
	x->f->c.n_tids = 1; /* the runner */
	gate.stands_ns = first;
	for (uint64_t i = 0; i < 3; i++) {
		x->f->c.blind_ns = first - 3 + i;
		let_go(x);
		let_go(x);
		x->f->c.n_tids = 2;
		gate.stands_ns = first + SECOND - 1 + i;
	}
	gate.stands_ns = 0;
	end_runner(t);
	end(x);
	end_sleeper(t);
	expect_sample_since(x, first + SECOND, first + SECOND);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(others.sleeper, over.tid);
	expect_none(x);
}

/* Who sleeps when the recording begins has done so since then, for us, and is read after
 * those that fell asleep later; waits that go on at the end are over then. */
static void from_the_beginning_to_the_end(void **state)
{
	struct fix *x = *state;
	struct proc_wait at;
	struct q_wait over;
	pthread_t t[2];
	uint64_t before, out;

	start_others(t);
	want_others(x);
	begin(x);
	end_runner(t);
	assert_int_equal(0, proc_syscall(getpid(), others.sleeper, &at));
	post(x, 0, FAKE_TID, x->tick - 1000, "out");
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, x->tick - x->distance - 1000);
	expect_sample(x, "nopython sleep", others.sleeper, START);
	assert_int_equal(at.pc, fake_sample(x->f)->user_ip);
	out = x->tick - 1;
	post(x, 0, FAKE_TID + 1, out, "out"); /* into which the end falls alone */
	before = now_ns();
	gate.cpu = 3600 * SECOND; /* that it has used until now */
	end(x);
	expect_sample(x, "nopython sleep", FAKE_TID + 1, out);
	for (int i = 0; i < 2; i++) {
		assert_string_equal("over", next(x, &over));
		assert_int_equal(i ? FAKE_TID : others.sleeper, over.tid);
		assert_in_range(over.time, before, now_ns());
		assert_int_equal(over.time - over.out, over.weight);
	}
	assert_string_equal("over", next(x, &over));
	assert_int_equal(FAKE_TID + 1, over.tid);
	assert_int_equal(over.time - (x->tick - x->distance), over.weight);
	expect_none(x);
	end_sleeper(t);
}

/* Who left its CPU while events were opened, and wants one when those are listed who sleep, waits
 * since the start: there are no maps of before. What it did before makes it late all the same: it
 * may have come back, as a ring tells that is not read yet. */
static void what_was_before_counts_from_the_start(void **state)
{
	struct fix *x = *state;
	uint64_t in, distance;

	begin(x);
	post(x, 0, FAKE_TID, START - 1000, "preempted");
	let_go(x);
	expect_sample(x, "exact a3 b3 runnable", FAKE_TID, START);
	in = x->tick - 1000;
	post(x, 0, FAKE_TID, in, "in");
	post(x, 0, FAKE_TID + 1, START - 1000, "out");
	fake_switch(x->f, 1, 0, FAKE_TID + 1, START - 500 - x->f->t);
	distance = x->distance;
	let_go(x);
	expect_over(x, FAKE_TID, START, in, in - START);
	expect_sample(x, "late sleep", FAKE_TID + 1, START);
	/* Its sample comes first, whatever time is told. */
	x->f->page[1].data_tail = x->f->page[1].data_head;
	post(x, 1, FAKE_TID + 1, START - 500, "in");
	let_go(x);
	expect_over(x, FAKE_TID + 1, START, START, distance);
	expect_none(x);
}

/* The same of one that nobody could read. */
static void what_was_before_and_is_unread_counts_from_the_start(void **state)
{
	struct fix *x = *state;

	begin(x);
	gate.cpu_step = 200000000;
	post(x, 0, FAKE_TID, START - 1000, "out");
	let_go(x);
	expect_none(x);
	gate.cpu_step = 0;
	post(x, 0, FAKE_TID, START - 500, "in");
	let_go(x);
	expect_sample(x, "torn sleep unread", FAKE_TID, START);
	expect_none(x);
}

/* However long it takes to end, as where it gets no CPU: what it uses stays until then. */
static void ends_late(void **state)
{
	struct fix *x = *state;
	struct q_wait over;

	begin(x);
	post(x, 0, FAKE_TID, x->tick - 1000, "out");
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, x->tick - x->distance - 1000);
	gate.busy = 1000;
	end(x);
	assert_string_equal("over", next(x, &over));
}

/* The sleeper leaves as @what says, and a ring that is too full may have dropped that it came back:
 * what is read is late. */
static void leave_blind(struct fix *x, const char *what)
{
	uint64_t out = x->tick - 1000;

	post(x, 0, others.sleeper, out, what);
	while (x->f->page[1].data_head <= FAKE_RING - PERF_RECORD_BYTES)
		fake_switch(x->f, 1, PERF_RECORD_MISC_SWITCH_OUT, FAKE_TID + 9, 0);
	let_go(x);
	x->f->page[1].data_tail = x->f->page[1].data_head;
	expect_sample(x, *what == 'o' ? "late sleep" : "late runnable", others.sleeper, out);
	expect_none(x);
	assert_int_equal(1, fake_counted(x->f, late_blind));
}

/* The wait that was late until now begins anew now, and is read. */
static void expect_anew(struct fix *x, uint64_t out)
{
	uint64_t before = now_ns(), anew;
	struct q_wait over;

	let_go(x);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(out, over.out);
	assert_in_range(over.time, before, now_ns());
	assert_int_equal(over.time - out, over.weight);
	expect_none(x);
	anew = over.time;
	let_go(x);
	expect_sample(x, "nopython sleep", others.sleeper, anew);
	let_go(x);
	let_go(x);
	expect_none(x);
	end(x);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(anew, over.out);
	assert_int_equal(over.time - anew, over.weight);
}

/* Who sleeps still when rings are read again does not stay late. */
static void a_wait_that_a_full_ring_hid(void **state)
{
	struct fix *x = *state;
	uint64_t out;
	pthread_t t[2];

	start_others(t);
	end_runner(t);
	begin(x);
	out = x->tick - 1000;
	leave_blind(x, "out");
	expect_anew(x, out);
	expect_none(x);
	assert_int_equal(1, fake_counted(x->f, late_blind));
	end_sleeper(t);
}

/* The same where its reader has emptied that ring meanwhile. Of a thread that is not seen to sleep
 * nothing more is known. */
static void a_wait_that_a_full_ring_had_hidden(void **state)
{
	struct fix *x = *state;
	struct q_wait over;
	uint64_t out;
	pthread_t t[2];

	start_others(t);
	begin(x);
	out = x->tick - 1000;
	post(x, 0, others.sleeper, out, "out");
	post(x, 0, others.runner, out, "out");
	x->f->c.blind_ns = now_ns();
	let_go(x);
	expect_sample(x, "late sleep", others.sleeper, out);
	assert_non_null(strstr(next(x, &over), "late "));
	assert_int_equal(2, fake_counted(x->f, late_blind));
	expect_anew(x, out);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(others.runner, over.tid);
	assert_int_equal(out, over.out);
	expect_none(x);
	end_runner(t);
	end_sleeper(t);
}

/* Nor of one that wants a CPU: that it has none does not show. */
static void who_wants_a_cpu_stays_late(void **state)
{
	struct fix *x = *state;
	pthread_t t[2];

	start_others(t);
	end_runner(t);
	begin(x);
	leave_blind(x, "preempted");
	for (int tick = 2; tick <= 5; tick++) {
		let_go(x);
		expect_none(x);
	}
	end_sleeper(t);
}

/* Where a record may be missing of any end, whoever is gone waits no more. */
static void ends_that_nobody_tells(void **state)
{
	struct fix *x = *state;
	uint64_t out, before;
	struct q_wait over;
	pthread_t t[2];

	start_others(t);
	end_runner(t);
	begin(x);
	post(x, 0, others.sleeper, x->tick - 1000, "out");
	let_go(x);
	expect_sample(x, "nopython sleep", others.sleeper, x->tick - x->distance - 1000);
	for (pid_t tid = FAKE_TID; tid < FAKE_TID + 2; tid++) { /* no thread of this machine */
		out = x->tick - 1000;
		post(x, 0, tid, out, "out");
		let_go(x);
		expect_sample(x, tid == FAKE_TID ? "exact a3 b3 sleep" : "nopython sleep", tid, out);
		let_go(x);
		expect_none(x);
		before = now_ns();
		if (tid == FAKE_TID)
			waits_post(x->w)->blind = true;
		else
			x->f->c.blind_ns = before;
		let_go(x);
		assert_string_equal("over", next(x, &over));
		assert_int_equal(tid, over.tid);
		assert_in_range(over.time, before, now_ns());
		expect_none(x);
	}
	end(x);
	assert_string_equal("over", next(x, &over));
	assert_int_equal(others.sleeper, over.tid);
	expect_none(x);
	end_sleeper(t);
}

/* The read that hung ends, of which whoever left the process alone is told. */
static void expect_returned(struct fix *x)
{
	pid_t pid;

	assert_true(waits_stuck(x->w));
	while (!(pid = waits_returned(x->w)))
		usleep(100);
	assert_int_equal(getpid(), pid);
	assert_int_equal(0, waits_returned(x->w));
	assert_false(waits_stuck(x->w));
	close(gate.hang[0]);
}

/* A read that hangs as it ends takes no other wait with it: what was read is given, what was
 * not is told. */
static void a_read_hangs_at_the_end(void **state)
{
	struct fix *x = *state;
	struct q_wait over;

	begin(x);
	post(x, 0, FAKE_TID, x->tick - 1000, "out");
	let_go(x);
	expect_sample(x, "exact a3 b3 sleep", FAKE_TID, x->tick - x->distance - 1000);
	post(x, 0, FAKE_TID + 1, x->tick - 1, "out");
	post(x, 0, FAKE_TID + 2, x->tick - 1, "out");
	assert_int_equal(0, pipe(gate.hang));
	gate.hangs = true;
	end(x);
	assert_true(waits_stuck(x->w));
	assert_string_equal("over", next(x, &over));
	assert_int_equal(FAKE_TID, over.tid);
	for (int i = 1; i <= 2; i++) {
		assert_string_equal("torn sleep unread", next(x, &over));
		assert_int_equal(FAKE_TID + i, fake_sample(x->f)->sample.tid);
		assert_true(fake_sample(x->f)->sample.period > 0);
	}
	expect_none(x);
	assert_int_equal(2, fake_counted(x->f, waits_unread));
	close(gate.hang[1]);
	expect_returned(x);
}

/* The read of a wait does. */
static void hang(struct fix *x)
{
	post(x, 0, FAKE_TID, x->tick - 1000, "out");
	assert_int_equal(0, pipe(gate.hang));
	gate.hangs = true;
	sem_post(&gate.go);
	while (!gate.hung)
		usleep(100);
}

static void wait_until_given_up(struct fix *x)
{
	pid_t pid = 0;

	while (!pid)
		pid = waits_watch(x->w);
	assert_int_equal(getpid(), pid);
	gate.hangs = false;
	close(gate.hang[1]);
}

/* One that hangs before is told as unread when it is over, and not read again. */
static void a_read_hangs(void **state)
{
	struct fix *x = *state;
	struct epoch *epoch = &x->f->targets.epoch;
	uint64_t retired;

	begin(x);
	hang(x);
	retired = epoch_retire(epoch);
	assert_true(epoch_safe(epoch, NULL) < retired); /* it may use what it has found */
	wait_until_given_up(x);
	arrive(x);
	assert_true(epoch_safe(epoch, NULL) >= retired);
	post(x, 0, FAKE_TID, x->tick - 500, "in");
	let_go(x);
	expect_sample(x, "torn sleep unread", FAKE_TID, x->tick - x->distance - 500);
	expect_none(x);
	assert_int_equal(1, fake_counted(x->f, waits_unread));
	expect_returned(x);
}

/* While no thread can be made in its place nothing is read: waits that end are unread, and what
 * readers tell takes no room. Then there is one. */
static void nobody_reads(void **state)
{
	struct fix *x = *state;
	uint64_t in;

	begin(x);
	hang(x);
	no_thread = true;
	wait_until_given_up(x);
	in = waits_told_ns(x->w);
	assert_in_range(in, x->tick + 1, now_ns());
	assert_true(waits_bare(x->w));
	post(x, 0, FAKE_TID, in, "in");
	while (waits_told_ns(x->w) <= in)
		assert_int_equal(0, waits_watch(x->w));
	expect_sample(x, "torn sleep unread", FAKE_TID, in);
	post(x, 0, FAKE_TID + 1, in + 1, "out");
	no_thread = false;
	while (waits_bare(x->w))
		waits_watch(x->w);
	arrive(x);
	let_go(x);
	expect_sample(x, "nopython sleep", FAKE_TID + 1, in + 1);
	expect_none(x);
	assert_int_equal(1, fake_counted(x->f, waits_unread));
	assert_int_equal(0, fake_counted(x->f, side_lost));
	expect_returned(x);
}

/* --- ticks --- */

static void ticks_come_at_random(void **state)
{
	uint64_t least = UINT64_MAX, most = 0, sum = 0;
	struct fix *x = *state;

	begin(x);
	for (int i = 0; i < 400; i++) {
		assert_in_range(x->distance, PERIOD / 2, PERIOD / 2 + PERIOD - 1);
		least = MIN(least, x->distance);
		most = MAX(most, x->distance);
		sum += x->distance;
		let_go(x);
	}
	assert_true(least < PERIOD / 100 * 55 && most > PERIOD / 100 * 145);
	assert_true(sum / 400 > PERIOD / 100 * 90 && sum / 400 < PERIOD / 100 * 110);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_wait_is_read_once_and_given_when_over, setup,
						teardown),
		cmocka_unit_test_setup_teardown(it_begins_as_its_capture_wants, setup, teardown),
		cmocka_unit_test_setup_teardown(it_begins_as_it_may, setup, teardown),
		cmocka_unit_test_setup_teardown(what_comes_later_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_thread_waits_for, setup, teardown),
		cmocka_unit_test_setup_teardown(a_state_that_a_register_names, setup, teardown),
		cmocka_unit_test_setup_teardown(who_waits_for_the_gil, setup, teardown),
		cmocka_unit_test_setup_teardown(a_waiter_whose_stack_is_broken, setup, teardown),
		cmocka_unit_test_setup_teardown(waits_of_strangers_end, setup, teardown),
		cmocka_unit_test_setup_teardown(waits_behind_an_exec_are_nobodys, setup, teardown),
		cmocka_unit_test_setup_teardown(until_its_program_is_known, setup, teardown),
		cmocka_unit_test_setup_teardown(ends, setup, teardown),
		cmocka_unit_test_setup_teardown(an_end_behind_the_last_leaving, setup, teardown),
		cmocka_unit_test_setup_teardown(hidden_switches, setup, teardown),
		cmocka_unit_test_setup_teardown(reads_have_a_budget, setup, teardown),
		cmocka_unit_test_setup_teardown(who_runs_again_is_not_read, setup, teardown),
		cmocka_unit_test_setup_teardown(each_has_its_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(readers_pass_on_what_they_have, setup,
						teardown),
		cmocka_unit_test_setup_teardown(readers_that_are_woken_late, setup, teardown),
		cmocka_unit_test_setup_teardown(reader_of_a_later_cpu, setup, teardown),
		cmocka_unit_test_setup_teardown(messages_without_room, setup, teardown),
		cmocka_unit_test_setup_teardown(messages_without_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(waits_without_room, setup, teardown),
		cmocka_unit_test_setup_teardown(messages_are_taken_between_ticks, setup,
						teardown),
		cmocka_unit_test_setup_teardown(from_the_beginning_to_the_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_was_before_counts_from_the_start, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_was_before_and_is_unread_counts_from_the_start,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_fell_asleep_untold_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(who_fell_asleep_untold_is_looked_for_once_a_second,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_joins_asleep_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_switch_told_before_it_joined_is_over,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_joins_again_asleep_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(who_joins_asleep_and_ends_has_no_wait, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_wait_that_a_full_ring_hid, setup, teardown),
		cmocka_unit_test_setup_teardown(a_wait_that_a_full_ring_had_hidden, setup, teardown),
		cmocka_unit_test_setup_teardown(who_wants_a_cpu_stays_late, setup, teardown),
		cmocka_unit_test_setup_teardown(ends_that_nobody_tells, setup, teardown),
		cmocka_unit_test_setup_teardown(a_read_hangs_at_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(a_read_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_reads, setup, teardown),
		cmocka_unit_test_setup_teardown(ends_late, setup, teardown),
		cmocka_unit_test_setup_teardown(ticks_come_at_random, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
