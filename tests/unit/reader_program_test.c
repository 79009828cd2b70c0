/* SPDX-License-Identifier: MIT
 *
 * reader: whose stack it is: processes that were forked, became another program or have no
 * Python; and threads that are stopped, or left alone for the budget.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

#include "unit.h"
#include "fake_ring.h"
#include "watch/proof.h"

/* --- what the process is --- */

static const char *sample_now(struct fake *f)
{
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	return fake_next(f);
}

/* It has become another program since the sample, or since it was looked at. */
static void execed(void **state)
{
	struct fake *f = *state;
	struct record r;

	record_exec(&r, (uint32_t)getpid(), FAKE_TID, f->t + 5 * US, 1, 99);
	/* In another CPU's ring: seen as that is looked into for the thread. */
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_write(f, 1, &r);
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	assert_int_equal(fake_counted(f, torn_exec), 1);
	assert_false(fake_sample(f)->undecided);
	/* Samples of the new program: nobody has looked at it yet. */
	f->t += 6 * US;
	assert_string_equal(sample_now(f), "torn");
	assert_int_equal(fake_counted(f, torn_exec), 0);
	assert_true(fake_sample(f)->undecided);
	assert_ptr_equal(fake_sample(f)->program, f->target);
	f->target->begun_ns = f->t;
	assert_string_equal(sample_now(f), "exact a3 b3");
}

static void states_of_a_target(void **state)
{
	struct fake *f = *state;

	f->target->state = TARGET_PENDING;
	assert_string_equal(sample_now(f), "torn");
	assert_true(fake_sample(f)->undecided);
	fake_expect_control(f, CTL_LOOK, (struct ctl_msg){ .pid = getpid(), .time = f->t });
	assert_int_equal(f->c.asked, 1);
	assert_string_equal(sample_now(f), "torn"); /* it is asked for once */
	fake_expect_control(f, 0, (struct ctl_msg){ 0 });
	f->target->state = TARGET_NOPYTHON;
	f->target->none_ns = UINT64_MAX;
	assert_string_equal(sample_now(f), "nopython");
	/* Since it was looked at nobody may have seen what it maps. */
	f->target->none_ns = f->t;
	f->c.blind_ns = f->t;
	assert_string_equal(sample_now(f), "torn");
	f->c.blind_ns = f->t - 1;
	assert_string_equal(sample_now(f), "nopython");
	f->c.blind_ns = 0;
	f->target->state = TARGET_QUARANTINED;
	assert_string_equal(sample_now(f), "torn");
	assert_int_equal(fake_counted(f, torn_quarantined), 1);
	f->target->state = TARGET_STARTING;
	assert_string_equal(sample_now(f), "torn");
	world_put(f->w, f->w->runtime, f->w->l.runtime.interp_head, 0, 8);
	assert_string_equal(sample_now(f), "nopython");
}

enum { PARENT = 77 };

/* The target is our process' parent; of ours the control thread has not heard. */
static void know_parent_alone(struct fake *f)
{
	targets_remove(&f->targets, getpid());
	f->target = target_create(PARENT);
	f->target->state = TARGET_PYTHON;
	f->target->py = (struct pystack_target){
		.pid = PARENT, .program = 1, .layout = f->w->l, .walk = f->w->walk
	};
	assert_int_equal(targets_publish(&f->targets, &f->target, 1), 0);
	f->c.follow = true;
}

/* A sample of a child whose fork the control thread has not heard of: its parent's copy. */
static void forked_child(void **state)
{
	struct fake *f = *state;
	pid_t child = getpid(), parent = PARENT;

	know_parent_alone(f);
	fake_task(f, PERF_RECORD_FORK,
		  (const uint32_t[]){ (uint32_t)child, (uint32_t)parent, (uint32_t)child,
				      (uint32_t)parent },
		  0);
	assert_string_equal(sample_now(f), "exact a3 b3");
	/* The parent itself became another program before. */
	f->target->begun_ns = f->t + 1;
	f->t += 2;
	assert_string_equal(sample_now(f), "torn");
	assert_true(fake_sample(f)->undecided);
	/* Nobody has looked at the parent yet: what is noted of it is nothing. */
	f->target->begun_ns = 0;
	f->target->state = TARGET_PENDING;
	fake_task(f, PERF_RECORD_FORK,
		  (const uint32_t[]){ (uint32_t)child, (uint32_t)parent, (uint32_t)child,
				      (uint32_t)parent },
		  0);
	f->t += 2;
	assert_string_equal(sample_now(f), "torn");
	assert_true(fake_sample(f)->undecided);
}

/* With the kernel's table a reader does not look into the other rings for who ran. It looks for
 * what they tell of a process that it does not know, before it reads: a child that another CPU's
 * ring alone tells of is read as its parent's copy. */
static void forked_child_of_another_ring(void **state)
{
	static _Atomic uint64_t words[4 << 16];
	static struct run_table table = { .at = words };
	struct fake *f = *state;
	uint32_t child = (uint32_t)getpid();

	know_parent_alone(f);
	f->c.table = &table;
	fake_task_on(f, 1, PERF_RECORD_FORK,
		     (const uint32_t[]){ child, PARENT, child, PARENT }, 0);
	/* That it was held can't be told: the table does not know the thread. */
	assert_string_equal(sample_now(f), "late a3 b3");
	assert_false(fake_sample(f)->undecided);
}

/* --- a thread whose switches are hidden --- */

/* The reader is on CPU 0, as its ring is. */
static void on_cpu_0(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		skip();
}

static sem_t told, rested;

/* A thread that was on CPU 0 last. */
static void *rest(void *arg)
{
	*(pid_t *)arg = gettid();
	sem_post(&told);
	sem_wait(&rested);
	return NULL;
}

static void hold_at_once(struct fake *f, pid_t tid)
{
	fake_take(f, (struct fake_event){ .tid = tid });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
		    tid, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
}

/* Where the kernel hides switches, a thread is held that is still where it was. */
static void switches_are_hidden(void **state)
{
	struct fake *f = *state;
	pthread_t thread;
	uint64_t turn, more;
	pid_t tid;

	f->c.switches_hidden = true;
	assert_string_equal(sample_now(f), "late a3 b3"); /* no such thread: nobody knows */
	assert_int_equal(fake_counted(f, late_unseen), 1);
	on_cpu_0();
	sem_init(&told, 0, 0);
	sem_init(&rested, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, rest, &tid), 0);
	sem_wait(&told);
	f->ts = world_thread(f->w, f->interp, (uint64_t)tid, true);
	fake_python(f, "ab");
	hold_at_once(f, tid);
	f->c.last_out = calloc(LAST_IN, sizeof(*f->c.last_out));
	hold_at_once(f, tid);
	/* Which CPU it left is noted, for the readers of all others. */
	assert_false(proof_left_another(&f->c, &f->slots[0], tid, f->t));
	assert_true(proof_left_another(&f->c, &f->slots[1], tid, f->t));
	/* It was on another CPU meanwhile, which it left. */
	fake_take(f, (struct fake_event){ .tid = tid });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
		    tid, 10 * US);
	proof_note_out(&f->c, &f->slots[1], tid, f->t + 50 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_unseen), 1);
	free(f->c.last_out);
	f->c.last_out = NULL;
	/* To ask where it is may hang, and is guarded as reads of its memory are. */
	turn = guard_look(&f->slots[0].guard);
	hold_at_once(f, tid);
	more = guard_look(&f->slots[0].guard) - turn;
	f->c.switches_hidden = false;
	turn = guard_look(&f->slots[0].guard);
	hold_at_once(f, tid);
	assert_int_equal(guard_look(&f->slots[0].guard) - turn, more - 2);
	sem_post(&rested);
	pthread_join(thread, NULL);
}

/* --- a thread that is stopped --- */

extern const struct capture_ops capture_stop;
static struct capture_ops stopping;

/* The tracer holds the thread with @add in each register. */
static void stop_with(struct fake *f, uint64_t add)
{
	struct handover *h = &f->slots[0].handover;

	stopping = capture_stop;
	stopping.thread_begin = fake_begin;
	stopping.judge = fake_judge;
	f->c.capture = &stopping;
	h->tid = FAKE_TID;
	for (int i = 0; i < arch_host->n_regs; i++)
		h->regs[i] = i == arch_host->sp ? f->sp : (uint64_t)(1000 + i) + add;
	h->turn = 7;
}

static void stopped(void **state)
{
	struct fake *f = *state;

	stop_with(f, 0);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 400 * US);
	fake_run(f);
	assert_int_equal(f->slots[0].handover.turn, 8); /* given back, once */
	assert_string_equal(fake_next(f), "exact a3 b3");
	stop_with(f, 1);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 400 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(f->slots[0].handover.turn, 8);
	/* It holds another thread: ours is read at the end, and was not held. */
	stop_with(f, 0);
	f->slots[0].handover.tid = FAKE_TID + 1;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 400 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(f->slots[0].handover.turn, 8);
}

/* Its thread is read before its stop, which will have @add in its registers, and offered. */
static void offered(struct fake *f, uint64_t add)
{
	struct handover *h = &f->slots[0].handover;

	stop_with(f, add);
	h->turn = 6;			 /* not yet */
	f->t = now_ns() + 3600 * SECOND; /* the reader waits for its stop as long as it takes */
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 1);
	fake_start(f);
	for (int i = 0; i < 100000 && (uint32_t)h->offer != FAKE_TID; i++)
		usleep(100);
}

/* Its thread is read before its stop, and offered; then it stops, with @add in its registers.
 */
static const char *read_before_its_stop(struct fake *f, uint64_t add)
{
	struct handover *h = &f->slots[0].handover;

	offered(f, add);
	handover_give(h, FAKE_TID);
	assert_true(handover_accepted(h));
	fake_stop(f);
	assert_int_equal(h->offer, 0);
	return fake_next(f);
}

static void stopped_after_the_read(void **state)
{
	struct fake *f = *state;

	on_cpu_0();
	assert_string_equal(read_before_its_stop(f, 0), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
	/* It ran on between sample and stop: what was read is not the sample's. */
	assert_string_equal(read_before_its_stop(f, 1), "late a3 b3");
	assert_string_equal(fake_next(f), "");
}

/* Each sample has a stop of its own. One whose stop is over when the thread is held has come
 * back to the same registers, whether it was read before that stop or now. */
static void stopped_for_a_later_sample(void **state)
{
	struct fake *f = *state;
	struct handover *h = &f->slots[0].handover;

	on_cpu_0();
	h->ran_on_ns = UINT64_MAX;
	assert_string_equal(read_before_its_stop(f, 0), "late a3 b3");
	assert_string_equal(fake_next(f), "");
	stop_with(f, 0);
	h->ran_on_ns = f->t + 5 * US;
	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .after = 5 * US });
	fake_take(f, (struct fake_event){ .after = 6 * US });
	fake_leave(f, 400 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
}

/* Its stop ended the read, and before the reader sees that it is stopped for another event,
 * whose sample is still to come: nothing is left to read, it is let go. */
static void stopped_again_after_the_read(void **state)
{
	struct fake *f = *state;
	struct handover *h = &f->slots[0].handover;

	on_cpu_0();
	offered(f, 0);
	handover_give(h, FAKE_TID);
	h->turn = 7;
	eventfd_write(f->slots[0].ring.fd, 1);
	for (int i = 0; i < 100000 && h->turn == 7; i++)
		usleep(100);
	assert_int_equal(h->turn, 8);
	fake_stop(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
}

/* Its stop never came: it was not held. */
static void never_stopped(void **state)
{
	struct fake *f = *state;

	on_cpu_0();
	stop_with(f, 0);
	f->slots[0].handover.turn = 6;
	f->t = now_ns();
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 1);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->slots[0].handover.offer, 0);
	/* One that has waited long is not kept waiting: others' stops may come. */
	f->t = now_ns() - 200000000;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 1);
	fake_start(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(f->page[0].data_tail, f->page[0].data_head);
	fake_stop(f);
}

/* A sample that waits for its stop stays in the ring. */
static void waits_for_its_stop(void **state)
{
	struct fake *f = *state;

	stop_with(f, 0);
	f->slots[0].handover.turn = 6;
	f->t = now_ns() + 3600 * SECOND;
	fake_switch(f, 0, IN, FAKE_TID + 1, 0);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 1);
	fake_start(f);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->page[0].data_tail, 8 + 32); /* only what is before it is gone */
	f->slots[0].handover.turn = 7;
	f->slots[0].handover.tid = FAKE_TID;
	eventfd_write(f->slots[0].ring.fd, 1);
	for (int i = 0; i < 100000 && f->slots[0].handover.turn == 7; i++)
		usleep(100);
	assert_int_equal(f->slots[0].handover.turn, 8);
	fake_stop(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
}

extern const struct capture_ops capture_preempt;
static struct capture_ops pinning;

/* A sample that comes while the reader of @cpu sleeps. */
static const char *sample_on(struct fake *f, int cpu)
{
	pinning = capture_preempt;
	pinning.thread_begin = fake_begin;
	pinning.judge = fake_judge;
	f->c.capture = &pinning;
	f->slots[0].cpu = cpu;
	fake_start(f);
	f->t = now_ns();
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 1);
	while (f->page[0].data_tail != f->page[0].data_head) {
		eventfd_write(f->slots[0].ring.fd, 1);
		usleep(1000);
	}
	fake_stop(f); /* which moves it */
	return fake_next(f);
}

/* A reader that holds threads by being on their CPU holds none from elsewhere. */
static void reader_elsewhere(void **state)
{
	struct fake *f = *state;

	on_cpu_0();
	assert_string_equal(sample_on(f, 0), "exact a3 b3");
	assert_string_equal(sample_on(f, 1), "late a3 b3");
	assert_int_equal(fake_counted(f, late_capture), 1);
}

/* Held or not: it became another program after its sample, as another CPU's ring tells. */
static void stopped_in_another_program(void **state)
{
	struct fake *f = *state;
	struct record r;

	stop_with(f, 0);
	record_exec(&r, (uint32_t)getpid(), FAKE_TID, f->t + 5 * US, 1, 99);
	fake_write(f, 1, &r);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	assert_int_equal(fake_counted(f, torn_exec), 1);
}

/* Samples of a time in which nobody is stopped are counted, not read. */
static void quiet(void **state)
{
	struct fake *f = *state;

	f->slots[0].handover.since = f->t + 1;
	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .after = 1 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_int_equal(fake_counted(f, shed), 1);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.time, f->t + 1);
	assert_string_equal(fake_next(f), "");
}

/* preempt's own part of a reader's work, where it needs no right. */
static struct capture_ops urgent(void)
{
	struct capture_ops c = capture_preempt;

	c.thread_begin = fake_begin;
	c.moved_away = capture_stays;
	return c;
}

enum { LONG_AGO_NS = 50000000 };

/* How long a thread that left was kept from its CPU is charged, but not how long it might have
 * waited there for others; where no record tells that it left, it was kept by nobody. */
static void holds_are_charged(void **state)
{
	const struct capture_ops capture = urgent();
	struct fake *f = *state;
	uint64_t held;

	f->c.capture = &capture;
	f->t -= LONG_AGO_NS;
	fake_take(f, (struct fake_event){ 0 });
	fake_start(f);
	assert_int_equal(0, f->slots[0].reader->held_ns);
	fake_stop(f);
	fake_take(f, (struct fake_event){ .after = 1 });
	fake_leave(f, 10 * US);
	f->slots[0].work.n[WORK_reads] = 1000000; /* of other threads */
	fake_start(f);
	held = f->slots[0].reader->held_ns;
	fake_stop(f);
	assert_true(held >= 200 * US && held < 210 * US);
}

/* A reader that sleeps is woken, and takes a sample. */
static void take_awoken(struct fake *f)
{
	fake_start(f);
	fake_take(f, (struct fake_event){ 0 });
	while (f->page[0].data_tail != f->page[0].data_head) {
		eventfd_write(f->slots[0].ring.fd, 1);
		usleep(1000);
	}
	fake_stop(f);
}

/* A reader that comes long after its sample is told of; not one that comes in time. */
static void late_readers_are_told_of(void **state)
{
	const struct capture_ops capture = urgent();
	struct fake *f = *state;

	f->c.capture = &capture;
	f->t -= LONG_AGO_NS;
	take_awoken(f);
	assert_int_equal(1, fake_counted(f, stalled));
	f->t += 1000 * (uint64_t)LONG_AGO_NS;
	take_awoken(f);
	assert_int_equal(0, fake_counted(f, stalled));
}

static int not_here(const struct preempt_plan *p, int cpu)
{
	return -EACCES;
}

/* One that may not go to its CPU is late for each. */
static void unfit_readers_do_not_stall(void **state)
{
	struct capture_ops capture = urgent();
	struct fake *f = *state;

	capture.thread_begin = not_here;
	f->c.capture = &capture;
	f->t -= LONG_AGO_NS;
	take_awoken(f);
	assert_int_equal(0, fake_counted(f, stalled));
	assert_string_equal(fake_next(f), "late a3 b3");
}

/* The budget is used up: samples are counted, not read. */
static void over_budget(void **state)
{
	struct fake *f = *state;

	f->c.hold_budget = 0;
	fake_start(f);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	while (f->page[0].data_tail != f->page[0].data_head) {
		eventfd_write(f->slots[0].ring.fd, 1);
		usleep(1000);
	}
	fake_stop(f);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, shed), 1);
	assert_true(f->c.over_budget);
}

/* --- the end --- */

static _Atomic bool judged;

static void judge_slowly(void)
{
	uint64_t end = now_ns() + 200000000;

	while (now_ns() < end)
		;
	judged = true;
}

/* A reader is ended when it has dealt with all, however long that takes. */
static void end_is_waited_for(void **state)
{
	struct fake *f = *state;

	fake_on_judge = judge_slowly;
	fake_start(f);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_stop(f);
	assert_true(judged);
	assert_string_equal(fake_next(f), "exact a3 b3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(execed),
		FAKE_TEST(states_of_a_target),
		FAKE_TEST(forked_child),
		FAKE_TEST(forked_child_of_another_ring),
		FAKE_TEST(switches_are_hidden),
		FAKE_TEST(stopped),
		FAKE_TEST(stopped_after_the_read),
		FAKE_TEST(stopped_for_a_later_sample),
		FAKE_TEST(stopped_again_after_the_read),
		FAKE_TEST(never_stopped),
		FAKE_TEST(waits_for_its_stop),
		FAKE_TEST(stopped_in_another_program),
		FAKE_TEST(reader_elsewhere),
		FAKE_TEST(quiet),
		FAKE_TEST(holds_are_charged),
		FAKE_TEST(late_readers_are_told_of),
		FAKE_TEST(unfit_readers_do_not_stall),
		FAKE_TEST(over_budget),
		FAKE_TEST(end_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
