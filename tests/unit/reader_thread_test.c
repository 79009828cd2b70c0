/* SPDX-License-Identifier: MIT
 *
 * reader: its thread, from one wake-up to the next: how long it sleeps, when the hold budget
 * is used up, where it is; and how it is woken, given up and taken back.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "base/sparse.h"
#include "fake_drain.h"

/* --- a thread that sleeps when the test says so --- */

static struct {
	struct fake *f;
	/* On the reader's thread, instead of sleep number @i. False: it shall end. */
	bool (*wakes)(struct fake *f, struct reader *r, unsigned i);
	unsigned n;
	int ms; /* how long it would have slept */
	_Atomic bool over;
} sleeps;

int epoll_wait(int fd, struct epoll_event *ev, int n, int ms)
{
	struct reader *volatile *r = (void *)&sleeps.f->slots[0].reader;

	while (!*r) /* reader_start() has not ended yet */
		usleep(100);
	sleeps.ms = ms;
	if (!sleeps.over && !sleeps.wakes(sleeps.f, *r, sleeps.n++))
		sleeps.over = (*r)->stop = true;
	return 0;
}

/* The whole life of a reader. */
static void live(struct fake *f, bool (*wakes)(struct fake *f, struct reader *r, unsigned i))
{
	sleeps.f = f;
	sleeps.wakes = wakes;
	sleeps.n = 0;
	sleeps.over = false;
	fake_start(f);
	while (!sleeps.over)
		usleep(100);
	fake_stop(f);
}

static bool no_thread;

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
	int (*f)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");

	return no_thread ? EAGAIN : f(t, a, run, arg);
}

static void put_record(struct fake *f)
{
	struct record r;

	record_comm(&r, 0, "x", f->t);
	fake_write(f, 0, &r);
}

/* It looks again soon where it has found something; else it sleeps until it is woken, and says
 * so. */
static bool sleep_by_what_was_found(struct fake *f, struct reader *r, unsigned i)
{
	static const int ms[] = { 200, 200, -1, 200, 10, -1 };

	assert_int_equal(sleeps.ms, ms[i]);
	assert_int_equal(r->asleep, ms[i] < 0);
	if (i == 0 || i == 2)
		put_record(f);
	f->slots[0].handover.quiet_until = i == 3 ? now_ns() + 3600 * SECOND : 0;
	return i + 1 < ARRAY_SIZE(ms);
}

static void how_long_it_sleeps(void **state)
{
	live(*state, sleep_by_what_was_found);
	assert_int_equal(sleeps.n, 6);
}

/* Who tells of new threads looks for them, whatever was found. */
static bool sleep_for_threads(struct fake *f, struct reader *r, unsigned i)
{
	static const int ms[] = { 3, 3, 10 };

	assert_int_equal(sleeps.ms, ms[i]);
	assert_false(r->asleep);
	f->slots[0].handover.quiet_until = i == 1 ? now_ns() + 3600 * SECOND : 0;
	return i + 1 < ARRAY_SIZE(ms);
}

static void how_long_it_sleeps_between_threads(void **state)
{
	struct fake *f = *state;

	f->c.tell_threads = true;
	live(f, sleep_for_threads);
}

/* --- the hold budget --- */

enum { BUDGET = 40 }; /* percent */
static const uint64_t NOW = 100000 * SECOND, SPENT = BUDGET * (SECOND / 100);

static _Atomic bool stands; /* the clock, at NOW */

int clock_gettime(clockid_t clock, struct timespec *t)
{
	static int (*f)(clockid_t clock, struct timespec *t);

	if (!f)
		f = dlsym(RTLD_NEXT, "clock_gettime");
	if (!stands || clock != CLOCK_MONOTONIC)
		return f(clock, t);
	*t = (struct timespec){ .tv_sec = (time_t)(NOW / SECOND) };
	return 0;
}

static const struct {
	uint64_t since, held; /* ns: how long this second has lasted, and of it holds */
	uint64_t quiet_until;
	uint64_t left; /* 0: nothing is shed */
	uint64_t paid; /* of the holds, by that second and those since */
} budgets[] = {
	{ 0, SPENT - 1, 0, 0, 0 },
	{ 0, SPENT, 0, SECOND, 0 },
	{ SECOND / 2, SPENT, 0, SECOND / 2, 0 },
	{ SECOND - 1, SECOND, 0, 1, 0 },
	{ SECOND, SPENT, 0, 0, SPENT }, /* that was another one */
	{ SECOND, 2 * SPENT - 1, 0, 0, SPENT },
	{ SECOND, 2 * SPENT, 0, SECOND, SPENT },
	{ 3 * SECOND, 4 * SPENT, 0, SECOND, 3 * SPENT },
	{ 5 * SECOND, 4 * SPENT, 0, 0, 4 * SPENT },
	/* Threads are quiet until the tracer ends that, also if it is late. */
	{ 0, 0, NOW - 5, 1, 0 },
	{ 0, 0, NOW, 1, 0 },
	{ 0, 0, NOW + 7, 7, 0 },
};

static struct {
	unsigned n;
	uint64_t left;
} shed;

static void note_left(struct reader *r, uint64_t left)
{
	shed.n++;
	shed.left = left;
}

static bool spend(struct fake *f, struct reader *r, unsigned i)
{
	if (i == 0) {
		assert_false(f->c.over_budget);
		stands = true;
	} else {
		assert_int_equal(shed.n, budgets[i - 1].left != 0);
		assert_int_equal(shed.left, budgets[i - 1].left);
		assert_int_equal(f->c.over_budget, i >= 2);
		assert_int_equal(fake_counted(f, shed), shed.n);
		assert_int_equal(r->woke_ns, NOW);
		assert_int_equal(r->held_ns, budgets[i - 1].held - budgets[i - 1].paid);
		assert_int_equal(r->window_ns,
				 NOW - (budgets[i - 1].paid ? 0 : budgets[i - 1].since));
	}
	if (i == ARRAY_SIZE(budgets)) {
		f->slots[0].handover.quiet_until = 0;
		stands = false;
		return false;
	}
	memset(&shed, 0, sizeof(shed));
	memset(&f->stats, 0, sizeof(f->stats));
	r->window_ns = NOW - budgets[i].since;
	r->held_ns = budgets[i].held;
	f->slots[0].handover.quiet_until = budgets[i].quiet_until;
	if (budgets[i].left)
		fake_take(f, (struct fake_event){ .after = i });
	return true;
}

static void the_budget_of_a_second(void **state)
{
	struct fake *f = *state;
	struct capture_ops capture = fake_capture;

	capture.shed = note_left;
	f->c.capture = &capture;
	f->c.hold_budget = BUDGET;
	live(f, spend);
}

/* --- where it is --- */

static struct {
	unsigned begun;
	int begins; /* what thread_begin() says */
	bool moved;
	bool unfit_in_read, unfit_at_end;
} place;

static int begin_there(const struct preempt_plan *p, int cpu)
{
	place.begun++;
	return place.begins;
}

static bool was_moved(const struct reader *r)
{
	return place.moved;
}

static void note_fitness(struct reader *r)
{
	place.unfit_in_read = r->unfit;
}

static void note_fitness_at_end(struct reader *r)
{
	place.unfit_at_end = r->unfit;
}

static bool move(struct fake *f, struct reader *r, unsigned i)
{
	static const unsigned begun[] = { 1, 1, 2, 3, 4, 4 };
	static const bool unfit[] = { false, false, false, true, false, false },
			  was_unfit[] = { false, false, true, true, true, false };

	assert_int_equal(r->tid, gettid());
	assert_int_equal(place.begun, begun[i]);
	assert_int_equal(r->unfit, unfit[i]);
	assert_int_equal(place.unfit_in_read, was_unfit[i]);
	/* It holds nobody, and begins anew: until that succeeds, moved or not. */
	place.moved = i == 1 || i == 2 || i == 5;
	place.begins = i == 2 ? -EPERM : 0;
	return i < 5;
}

static void a_reader_that_is_moved(void **state)
{
	struct fake *f = *state;
	struct capture_ops capture = fake_capture;

	capture.thread_begin = begin_there;
	capture.moved_away = was_moved;
	capture.read = note_fitness;
	capture.flush = note_fitness_at_end;
	f->c.capture = &capture;
	memset(&place, 0, sizeof(place));
	live(f, move);
	assert_int_equal(place.begun, 4);
	assert_true(place.unfit_at_end);
}

static bool move_at_the_end(struct fake *f, struct reader *r, unsigned i)
{
	place.moved = true;
	return false;
}

/* Who was moved as it was told to end holds nobody any more. */
static void a_reader_that_is_moved_at_its_end(void **state)
{
	struct fake *f = *state;
	struct capture_ops capture = fake_capture;

	capture.thread_begin = begin_there;
	capture.moved_away = was_moved;
	capture.flush = note_fitness_at_end;
	f->c.capture = &capture;
	memset(&place, 0, sizeof(place));
	live(f, move_at_the_end);
	assert_true(place.unfit_at_end);
}

/* --- how urgent it is --- */

static struct {
	int policy, nice;
} urgency;

int sched_getscheduler(pid_t pid)
{
	return urgency.policy;
}

int setpriority(__priority_which_t which, id_t who, int nice)
{
	assert_int_equal(0, who);
	urgency.nice = nice;
	return 0;
}

static bool end_at_once(struct fake *f, struct reader *r, unsigned i)
{
	return false;
}

/* Whom its capture does not make more urgent than all has the user's nice. */
static void who_is_as_nice_as_its_user(void **state)
{
	static const int policies[] = { SCHED_OTHER, SCHED_BATCH | SCHED_RESET_ON_FORK,
					SCHED_FIFO | SCHED_RESET_ON_FORK };
	enum { NICE = 7, NOT_SET = 99 };
	struct fake *f = *state;

	f->c.nice = NICE;
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		urgency.policy = policies[i];
		urgency.nice = NOT_SET;
		live(f, end_at_once);
		assert_int_equal(i < 2 ? NICE : NOT_SET, urgency.nice);
	}
}

/* --- what it says of itself --- */

static bool nothing(struct fake *f, struct reader *r, unsigned i)
{
	return false;
}

/* The last one of all is waited for. */
static void the_last_one_that_is_ready(void **state)
{
	struct fake *f = *state;

	sleeps.f = f;
	sleeps.over = true;
	sem_init(&f->c.all_ready, 0, 0);
	for (uint32_t before = 0; before < FAKE_CPUS; before++) {
		fake_lay(f);
		f->c.n_ready = before;
		assert_int_equal(reader_start(&f->c, &f->slots[0]), 0);
		readers_stop(&f->slots[0], 1);
		assert_int_equal(f->c.n_ready, before + 1);
		assert_int_equal(sem_trywait(&f->c.all_ready), before + 1 < FAKE_CPUS ? -1 : 0);
	}
}

static bool look_at_times(struct fake *f, struct reader *r, unsigned i)
{
	static uint64_t before;

	if (i == 0) {
		assert_true(f->slots[0].drained_ns >= f->t);
		assert_true(f->slots[0].drained_ns <= now_ns());
		assert_int_equal(r->first_pos, f->page[0].data_head);
		put_record(f);
		before = now_ns();
		return true;
	}
	assert_int_equal(f->slots[0].drained_ns, r->woke_ns);
	assert_in_range(r->woke_ns, before, now_ns());
	assert_true(r->first_pos < f->page[0].data_head);
	assert_true(f->slots[0].work.n[WORK_wakeups] == i);
	return false;
}

/* By when its ring was empty; once it has ended nobody waits for that. */
static void by_when_its_ring_was_empty(void **state)
{
	struct fake *f = *state;

	put_record(f);
	f->c.start_ns = UINT64_MAX;
	live(f, look_at_times);
	assert_true(f->slots[0].drained_ns == UINT64_MAX);
}

static bool lose(struct fake *f, struct reader *r, unsigned i)
{
	struct record lost;

	record_begin(&lost, PERF_RECORD_LOST, 0);
	record_u64(&lost, 1);
	record_u64(&lost, 3);
	record_trailer(&lost, FAKE_TID, f->t);
	if (i == 0)
		fake_write(f, 0, &lost);
	f->c.start_ns = 1;
	return i == 0;
}

/* What a ring loses before it is emptied for the first time was lost before the recording, if that
 * has not begun by then. A reader that takes the place of another one finds a ring that was
 * emptied. */
static void what_a_ring_lost(void **state)
{
	static const struct {
		uint64_t drained_ns, start_ns;
		size_t n_side;
	} rows[] = {
		{ 0, UINT64_MAX, 1 },
		{ UINT64_MAX, UINT64_MAX, 2 },
		{ 0, 1, 2 }, /* it came late */
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		f->slots[0].drained_ns = rows[i].drained_ns;
		f->c.start_ns = rows[i].start_ns;
		f->n_side = 0;
		put_record(f);
		live(f, lose);
		assert_string_equal(fake_next(f), "");
		assert_int_equal(f->n_side, rows[i].n_side);
	}
}

/* --- woken, given up, taken back --- */

static int kicks;

int pthread_kill(pthread_t thread, int sig)
{
	int (*f)(pthread_t, int) = dlsym(RTLD_NEXT, "pthread_kill");

	kicks++;
	return f(thread, sig);
}

/* Only who sleeps without end, and has something to look at. */
static void who_is_woken(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin(f);

	kicks = 0;
	r->thread = pthread_self();
	r->asleep = true;
	reader_wake(&f->slots[0]); /* it has no reader */
	assert_int_equal(kicks, 0);
	f->slots[0].reader = r;
	reader_wake(&f->slots[0]);
	assert_int_equal(kicks, 0);
	put_record(f);
	r->asleep = false;
	reader_wake(&f->slots[0]);
	assert_int_equal(kicks, 0);
	r->asleep = true;
	reader_wake(&f->slots[0]);
	assert_int_equal(kicks, 1);
	f->slots[0].reader = NULL;
	reader_destroy(r);
}

static sem_t over;

static void *wait_in_vain(void *arg)
{
	*(_Atomic pid_t *)arg = gettid();
	while (sem_wait(&over) < 0)
		;
	return NULL;
}

enum { HANGING = 4711 }; /* a process */

/* A reader whose thread waits, inside a read, and with it the samples that its ring had. */
static struct reader *hang_at(struct fake *f, struct cpu_slot *slot, struct reader *r, pid_t pid)
{
	_Atomic pid_t tid = 0;

	reader_drain(r, 0, false);
	assert_int_equal(pthread_create(&r->thread, NULL, wait_in_vain, (void *)&tid), 0);
	while (!tid)
		usleep(100);
	r->tid = tid;
	while (proc_state(getpid(), tid) == 'R')
		usleep(100);
	slot->reader = r;
	slot->drained_ns = 5;
	guarded_target(&r->mem, pid, 0);
	slot->guard.turn |= 1;
	epoch_enter(&f->targets.epoch, &slot->targets);
	return r;
}

static struct reader *hang(struct fake *f, pid_t pid)
{
	return hang_at(f, &f->slots[0], begin(f), pid);
}

static void let_return(struct reader *r)
{
	sem_post(&over);
	r->mem.returned = true;
}

/* A record, a sample that was queued, and one behind it that waits. */
static struct reader *hang_between_samples(struct fake *f)
{
	struct reader *r;

	sem_init(&over, 0, 0);
	put_record(f);
	fake_take(f, (struct fake_event){ .after = 1 });
	fake_take(f, (struct fake_event){ .after = 2 });
	r = hang(f, HANGING);
	assert_int_equal(r->n_pend, 2);
	r->pend[0].done = true;
	return r;
}

static void wait_until_given_up(struct cpu_slot *slot)
{
	while (!reader_stuck(slot))
		usleep(GUARD_HANGS_NS / 1000);
}

/* All that the ring had was taken out of it once, and the queue has the sample that waited. */
static void expect_one(struct fake *f, const char *sample)
{
	assert_string_equal(fake_next(f), sample);
	assert_int_equal(fake_sample(f)->sample.time, f->t + 2);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->n_side, 1);
	assert_int_equal(f->slots[0].seen[0].n, 2);
}

/* What one that is given up has taken out of its ring the next one does not take again; what
 * waited there waits for it. */
static void what_waits_goes_to_the_next(void **state)
{
	struct fake *f = *state;
	struct cpu_slot *slot = &f->slots[0];
	struct reader *was = hang_between_samples(f);
	uint64_t waits = was->pend[1].pos;

	wait_until_given_up(slot);
	assert_int_equal(f->page[0].data_tail, waits);
	f->c.capture = &fake_capture;
	live(f, nothing);
	expect_one(f, "late a3 b3");
	assert_int_equal(f->page[0].data_tail, f->page[0].data_head);
	let_return(was);
	assert_int_equal(reader_returned(slot), HANGING);
}

/* As long as no thread can be made, and the one that hung has returned meanwhile. */
static void what_waits_is_kept(void **state)
{
	struct fake *f = *state;
	struct cpu_slot *slot = &f->slots[0];
	struct reader *was = hang_between_samples(f);

	wait_until_given_up(slot);
	let_return(was);
	no_thread = true;
	assert_int_equal(reader_start(&f->c, slot), -EAGAIN);
	no_thread = false;
	assert_int_equal(reader_returned(slot), 0);
	f->c.capture = &fake_capture;
	live(f, nothing);
	expect_one(f, "late a3 b3");
	assert_int_equal(reader_returned(slot), HANGING);
}

/* At the end nobody comes next. */
static void what_waits_at_the_end_is_torn(void **state)
{
	struct fake *f = *state;
	struct cpu_slot *slot = &f->slots[0];
	struct reader *was = hang_between_samples(f);

	readers_stop(slot, 1);
	expect_one(f, "torn");
	assert_int_equal(fake_counted(f, torn_quarantined), 1);
	readers_stop(slot, 1);
	assert_string_equal(fake_next(f), "");
	let_return(was);
	assert_int_equal(reader_returned(slot), HANGING);
}

/* A reader that hangs since the look before is given up. */
static struct reader *give_up(struct fake *f, pid_t pid)
{
	struct cpu_slot *slot = &f->slots[0];
	struct reader *r = hang(f, pid);
	unsigned char *read = (unsigned char *)r + reader_bytes(&f->c) - 2 * 4096;
	pid_t at_once;

	memset(read, 1, 4096);
	assert_int_equal(reader_stuck(slot), 0);
	assert_int_equal(read[0] & read[4095], 1);
	assert_ptr_equal(slot->reader, r);
	assert_true(slot->targets.in != 0);
	assert_int_equal(slot->drained_ns, 5);
	/* The control thread may be woken again at once: that read may be over soon. */
	stands = true; /* this thread may lose its CPU for longer than a hang takes */
	slot->guard.since_ns = now_ns();
	at_once = reader_stuck(slot);
	stands = false;
	assert_int_equal(at_once, 0);
	assert_ptr_equal(slot->reader, r);
	slot->guard.since_ns = now_ns();
	usleep(GUARD_HANGS_NS / 1000);
	assert_int_equal(reader_stuck(slot), pid);
	assert_null(slot->reader);
	assert_ptr_equal(slot->stuck, r);
	assert_true(slot->drained_ns == UINT64_MAX);
	assert_int_equal(slot->targets.in, 0);
	assert_true(!read[0] || !read[4095]); /* what it has read takes no memory any more */
	return r;
}

/* Two hang; the first comes back, then the second. */
static void readers_that_hang(void **state)
{
	struct fake *f = *state;
	struct cpu_slot *slot = &f->slots[0];
	struct reader *first, *second;

	sem_init(&over, 0, 0);
	assert_int_equal(reader_returned(slot), 0);
	first = give_up(f, HANGING);
	second = give_up(f, HANGING + 1);
	assert_ptr_equal(second->next, first);
	assert_int_equal(reader_returned(slot), 0);
	sem_post(&over), sem_post(&over);
	first->mem.returned = true;
	assert_int_equal(reader_returned(slot), HANGING);
	assert_ptr_equal(slot->stuck, second);
	assert_null(second->next);
	assert_int_equal(reader_returned(slot), 0);
	second->mem.returned = true;
	assert_int_equal(reader_returned(slot), HANGING + 1);
	assert_null(slot->stuck);
}

/* One that hangs while all end is waited for now and then, until it is given up. */
static void one_that_hangs_at_the_end(void **state)
{
	struct fake *f = *state;
	struct cpu_slot *slot = &f->slots[0];
	struct reader *r;

	sem_init(&over, 0, 0);
	r = hang(f, HANGING);
	kicks = 0;
	readers_stop(slot, 1);
	assert_null(slot->reader);
	assert_ptr_equal(slot->stuck, r);
	assert_true(r->stop);
	assert_in_range(kicks, 2, 10);
	sem_post(&over);
	r->mem.returned = true;
	assert_int_equal(reader_returned(slot), HANGING);
}

static struct reader *last_one;

/* Sleeps until the last reader is asked to end. */
static void *wait_for_last(void *arg)
{
	struct reader *r = arg;

	r->tid = gettid();
	while (!last_one->stop)
		usleep(100);
	return NULL;
}

/* All are asked before one is waited for: of many that hang the end waits no longer than of one. */
static void all_are_asked_to_end_at_once(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin(f);
	void *room = sparse_alloc(reader_bytes(&f->c));

	f->slots[1].room = room; /* it stays, for who looks at it late */
	last_one = f->slots[1].reader = reader_create(&f->c, &f->slots[1]);
	f->slots[0].reader = r;
	for (int i = 0; i < FAKE_CPUS; i++)
		assert_int_equal(pthread_create(&f->slots[i].reader->thread, NULL, wait_for_last,
						f->slots[i].reader),
				 0);
	while (!r->tid)
		usleep(100);
	guarded_target(&r->mem, HANGING, 0);
	f->slots[0].guard.turn |= 1;
	readers_stop(f->slots, FAKE_CPUS);
	for (int i = 0; i < FAKE_CPUS; i++) {
		assert_null(f->slots[i].reader);
		assert_null(f->slots[i].stuck);
	}
	free(room);
}

/* Until when threads were waited for. */
static struct {
	struct timespec last;
	unsigned n, times; /* times: of so many other ones */
} joins;

int pthread_timedjoin_np(pthread_t t, void **ret, const struct timespec *until)
{
	int (*f)(pthread_t, void **, const struct timespec *) =
		dlsym(RTLD_NEXT, "pthread_timedjoin_np");

	joins.n++;
	joins.times += memcmp(until, &joins.last, sizeof(*until)) != 0;
	joins.last = *until;
	return f(t, ret, until);
}

static void those_that_hang_at_the_end_have_the_same_time(void **state)
{
	struct fake *f = *state;
	struct reader *r[FAKE_CPUS];

	sem_init(&over, 0, 0);
	r[0] = hang(f, HANGING);
	r[1] = hang_at(f, &f->slots[1], reader_create(&f->c, &f->slots[1]), HANGING + 1);
	joins.n = joins.times = 0;
	readers_stop(f->slots, FAKE_CPUS);
	assert_true(joins.times < joins.n);
	for (int i = 0; i < FAKE_CPUS; i++) {
		assert_ptr_equal(f->slots[i].stuck, r[i]);
		let_return(r[i]);
		assert_int_equal(reader_returned(&f->slots[i]), HANGING + i);
	}
}

/* Without a descriptor nobody can say whether it waits for its CPU: it has a second then. */
static void one_that_hangs_without_descriptors(void **state)
{
	struct fake *f = *state;
	struct cpu_slot *slot = &f->slots[0];
	struct rlimit was, none;
	struct reader *r;

	sem_init(&over, 0, 0);
	r = hang(f, HANGING);
	assert_int_equal(reader_stuck(slot), 0);
	getrlimit(RLIMIT_NOFILE, &was);
	none = (struct rlimit){ .rlim_max = was.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	slot->guard.since_ns -= SECOND / 2;
	assert_int_equal(reader_stuck(slot), 0);
	slot->guard.since_ns -= SECOND / 2;
	assert_int_equal(reader_stuck(slot), HANGING);
	setrlimit(RLIMIT_NOFILE, &was);
	let_return(r);
	assert_int_equal(reader_returned(slot), HANGING);
}

/* Codes bear the number of their reader, and those of the one before are gone: when the
 * numbers are used up they begin anew. */
static void readers_have_numbers(void **state)
{
	enum { READER = 40, SLOT = 52, INDEX = 5 };
	struct fake *f = *state;
	struct cpu_slot *slot = &f->slots[0];
	const struct queue_record *record;
	struct q_codes_gone gone;

	fake_lay(f);
	readers_stop(slot, 1); /* there is none */
	slot->index = INDEX;
	slot->generation = 0;
	emit_generation(slot);
	assert_int_equal(slot->generation, 1);
	assert_null(queue_peek(&slot->queue));
	slot->generation = EMIT_GENERATIONS - 1;
	for (uint64_t last = slot->generation; last <= EMIT_GENERATIONS; last++) {
		emit_generation(slot);
		assert_int_equal(slot->generation, last == EMIT_GENERATIONS ? 1 : last + 1);
		record = queue_peek(&slot->queue);
		assert_non_null(record);
		assert_int_equal(record->type, Q_CODES_GONE);
		memcpy(&gone, record->data, sizeof(gone));
		assert_int_equal(gone.from, ((uint64_t)INDEX << SLOT) + (last << READER));
		assert_int_equal(gone.below, gone.from + (UINT64_C(1) << READER));
		assert_in_range(gone.time, 1, now_ns());
		queue_pop(&slot->queue);
	}
	slot->index = 0;
}

/* No thread can be made: that is told, not a lack of memory. Whoever starts one later, after that
 * nobody tries again. */
static void a_reader_without_a_thread(void **state)
{
	struct fake *f = *state;

	f->slots[0].bare = true;
	no_thread = true;
	assert_int_equal(reader_start(&f->c, &f->slots[0]), -EAGAIN);
	no_thread = false;
	assert_null(f->slots[0].reader);
	assert_true(f->slots[0].bare);
	live(f, nothing);
	assert_false(f->slots[0].bare);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(how_long_it_sleeps),
		FAKE_TEST(how_long_it_sleeps_between_threads),
		FAKE_TEST(the_budget_of_a_second),
		FAKE_TEST(a_reader_that_is_moved),
		FAKE_TEST(who_is_as_nice_as_its_user),
		FAKE_TEST(a_reader_that_is_moved_at_its_end),
		FAKE_TEST(the_last_one_that_is_ready),
		FAKE_TEST(by_when_its_ring_was_empty),
		FAKE_TEST(what_a_ring_lost),
		FAKE_TEST(who_is_woken),
		FAKE_TEST(readers_that_hang),
		FAKE_TEST(one_that_hangs_at_the_end),
		FAKE_TEST(all_are_asked_to_end_at_once),
		FAKE_TEST(those_that_hang_at_the_end_have_the_same_time),
		FAKE_TEST(one_that_hangs_without_descriptors),
		FAKE_TEST(what_waits_goes_to_the_next),
		FAKE_TEST(what_waits_is_kept),
		FAKE_TEST(what_waits_at_the_end_is_torn),
		FAKE_TEST(readers_have_numbers),
		FAKE_TEST(a_reader_without_a_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
