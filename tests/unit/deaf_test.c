/* SPDX-License-Identifier: MIT
 *
 * deaf: which threads' events send the signal of --capture stop. The threads are real; a pipe
 * stands for each one's event, and tells whether it would send one. Time is played.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/nudge.h"
#include "capture/deaf.h"
#include "sys/proc.h"

enum { THREADS = 3, AGAIN_MS = 10, US = 1000, MS = 1000000 };

static const uint64_t BEGIN = 7000000000, FIRST = 200 * US, LAST = 1600 * (uint64_t)MS;

/* A thread that blocks what it is told to. */
struct listener {
	pthread_t thread;
	pid_t tid;
	int how, sig; /* sig 0: it ends */
	sem_t told, done;
	int event, other_end;
};

static struct {
	struct listener of[THREADS];
	struct attached attached[THREADS];
	struct session session;
	struct attach attach;
	struct deaf deaf;
} fix;

static struct itimerspec timer_set; /* the last */
static uint64_t now;

/* Instead of the C library's: nobody needs to be nudged. */
int timer_settime(timer_t timer, int flags, const struct itimerspec *at,
		  struct itimerspec *restrict old)
{
	assert_ptr_equal(timer, fix.deaf.timer);
	assert_int_equal(TIMER_ABSTIME, flags);
	assert_in_range(at->it_value.tv_nsec, 0, 999999999);
	timer_set = *at;
	return 0;
}

/* Instead of the C library's, of the clock that recordings have. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, clock, t);
	*t = (struct timespec){ (time_t)(now / 1000000000), (long)(now % 1000000000) };
	return 0;
}

static void *listen_main(void *arg)
{
	struct listener *l = arg;
	sigset_t set;

	l->tid = gettid();
	do {
		sem_post(&l->done);
		while (sem_wait(&l->told) < 0)
			;
		sigemptyset(&set);
		if (l->sig)
			sigaddset(&set, l->sig);
		pthread_sigmask(l->how, &set, NULL);
	} while (l->sig);
	return NULL;
}

static void tell(size_t i, int how, int sig)
{
	struct listener *l = &fix.of[i];

	l->how = how;
	l->sig = sig;
	sem_post(&l->told);
	if (sig) {
		sem_wait(&l->done);
		return;
	}
	pthread_join(l->thread, NULL);
	while (proc_exists(l->tid)) /* a moment longer */
		sched_yield();
}

static void begin_listener(struct listener *l)
{
	int ends[2];

	sem_init(&l->told, 0, 0);
	sem_init(&l->done, 0, 0);
	assert_int_equal(0, pthread_create(&l->thread, NULL, listen_main, l));
	sem_wait(&l->done);
	l->sig = 1;
	assert_int_equal(0, pipe(ends));
	l->event = ends[0];
	l->other_end = ends[1];
	fcntl(l->event, F_SETFL, O_ASYNC);
}

static int setup(void **state)
{
	memset(&fix, 0, sizeof(fix));
	timer_set = (struct itimerspec){ 0 };
	now = BEGIN;
	nudge_init();
	for (size_t i = 0; i < THREADS; i++) {
		begin_listener(&fix.of[i]);
		fix.attached[i] = (struct attached){ .tid = fix.of[i].tid,
						     .fds = &fix.of[i].event };
	}
	fix.session.n_events = 1;
	fix.attach = (struct attach){ .session = &fix.session,
				      .n_slots = 1,
				      .cap_slots = 1,
				      .attached = fix.attached,
				      .n_attached = THREADS };
	return deaf_init(&fix.deaf, &fix.attach, SIGURG);
}

static int teardown(void **state)
{
	for (size_t i = 0; i < THREADS; i++) {
		if (fix.of[i].sig)
			tell(i, SIG_UNBLOCK, 0);
		close(fix.of[i].event);
		close(fix.of[i].other_end);
	}
	deaf_deinit(&fix.deaf);
	return 0;
}

/* "+-+": whose events send the signal. */
static const char *who_is_signalled(void)
{
	static char text[THREADS + 1];

	for (size_t i = 0; i < THREADS; i++)
		text[i] = fcntl(fix.of[i].event, F_GETFL) & O_ASYNC ? '+' : '-';
	return text;
}

/* When the tracer is nudged; and again, where it was just about to wait. 0: never. */
static uint64_t nudged(void)
{
	uint64_t at = (uint64_t)timer_set.it_value.tv_sec * 1000000000 +
		      (uint64_t)timer_set.it_value.tv_nsec;

	assert_int_equal(0, timer_set.it_interval.tv_sec);
	assert_int_equal(at ? AGAIN_MS * MS : 0, timer_set.it_interval.tv_nsec);
	return at;
}

static void look_after(uint64_t ns)
{
	now += ns;
	deaf_look(&fix.deaf);
}

/* No thread can be looked at until @was is the limit again. */
static void run_out_of_descriptors(struct rlimit *was)
{
	struct rlimit none = { 0 };

	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, was));
	none.rlim_max = was->rlim_max;
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &none));
}

static void have_descriptors(const struct rlimit *was)
{
	assert_int_equal(0, setrlimit(RLIMIT_NOFILE, was));
}

/* Nor is it deafness to block the signals next to it in number. */
static void who_does_not_block_it_is_signalled(void **state)
{
	tell(0, SIG_BLOCK, SIGURG - 1);
	tell(2, SIG_BLOCK, SIGURG + 1);
	deaf_find(&fix.deaf);
	assert_int_equal(0, fix.deaf.n);
	assert_int_equal(0, nudged());
	assert_string_equal("+++", who_is_signalled());
}

static void events_of_those_that_block_it_send_none(void **state)
{
	tell(0, SIG_BLOCK, SIGURG);
	tell(2, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	assert_int_equal(2, fix.deaf.n);
	assert_string_equal("-+-", who_is_signalled());
}

static void a_thread_without_events_is_nobody(void **state)
{
	tell(2, SIG_BLOCK, SIGURG);
	fix.attach.n_attached = 2;
	deaf_find(&fix.deaf);
	deaf_process(&fix.deaf, getpid());
	assert_int_equal(2, fix.deaf.n);
	assert_string_equal("--+", who_is_signalled());
}

/* When the tracer lets others' events send signals again. */
static void the_deaf_stay_deaf_when_all_events_may_send(void **state)
{
	tell(1, SIG_BLOCK, SIGURG);
	tell(2, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	attach_signal(&fix.attach, 0, true);
	deaf_leave(&fix.deaf);
	assert_string_equal("+--", who_is_signalled());
}

static void those_that_block_it_no_more_are_signalled(void **state)
{
	for (size_t i = 0; i < THREADS; i++)
		tell(i, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	tell(0, SIG_UNBLOCK, SIGURG);
	look_after(FIRST);
	assert_string_equal("+--", who_is_signalled());
	tell(2, SIG_UNBLOCK, SIGURG);
	look_after(LAST);
	assert_string_equal("+-+", who_is_signalled());
	tell(1, SIG_UNBLOCK, SIGURG);
	look_after(LAST);
	assert_string_equal("+++", who_is_signalled());
	assert_int_equal(0, nudged()); /* nobody is left to look at */
	look_after(LAST);
	assert_int_equal(0, nudged());
}

static void one_that_has_ended_is_not_looked_at_for_ever(void **state)
{
	tell(1, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	assert_int_equal(1, fix.deaf.n);
	tell(1, SIG_BLOCK, 0);
	look_after(FIRST);
	assert_int_equal(0, fix.deaf.n);
}

static void nobody_is_looked_at_before_it_is_time(void **state)
{
	tell(1, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	tell(1, SIG_UNBLOCK, SIGURG);
	look_after(FIRST - 1);
	assert_string_equal("+-+", who_is_signalled());
	look_after(1);
	assert_string_equal("+++", who_is_signalled());
}

/* The tracer is nudged for it. No pause is longer than 1.6 s. */
static void each_look_comes_when_it_was_deaf_for_a_quarter_longer(void **state)
{
	uint64_t pause = FIRST;

	tell(1, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	for (int i = 0; i < 60; i++) {
		assert_int_equal(now + pause, nudged());
		look_after(pause);
		pause = MIN(MAX((now - BEGIN) / 4, FIRST), LAST);
	}
	assert_int_equal(LAST, pause);
}

/* Each has a time of its own. */
static void only_those_are_looked_at_whose_time_it_is(void **state)
{
	tell(0, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	now += FIRST / 2;
	tell(1, SIG_BLOCK, SIGURG);
	deaf_suspect(&fix.deaf, fix.of[1].tid);
	assert_int_equal(BEGIN + FIRST, nudged());
	tell(0, SIG_UNBLOCK, SIGURG);
	tell(1, SIG_UNBLOCK, SIGURG);
	look_after(FIRST / 2);
	assert_string_equal("+-+", who_is_signalled());
	assert_int_equal(BEGIN + FIRST + FIRST / 2, nudged());
	look_after(FIRST / 2);
	assert_string_equal("+++", who_is_signalled());
}

/* Until it was looked at: as it begins it may block all signals for a moment. */
static void who_begins_is_deaf_at_first(void **state)
{
	deaf_begin(&fix.deaf, fix.of[1].tid);
	assert_string_equal("+-+", who_is_signalled());
	assert_int_equal(now + FIRST, nudged());
	look_after(FIRST);
	assert_string_equal("+++", who_is_signalled());
	assert_int_equal(0, fix.deaf.n_later);
}

/* Its numbers may be those of threads that were deaf before. */
static void who_begins_once_more_begins_anew(void **state)
{
	tell(1, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	look_after(LAST);
	deaf_begin(&fix.deaf, fix.of[1].tid);
	assert_int_equal(1, fix.deaf.n);
	assert_int_equal(now + FIRST, nudged());
	tell(1, SIG_UNBLOCK, SIGURG);
	look_after(FIRST);
	assert_string_equal("+++", who_is_signalled());
}

static void all_threads_of_a_process_that_execs_begin(void **state)
{
	deaf_process(&fix.deaf, getpid());
	assert_int_equal(THREADS, fix.deaf.n);
	assert_string_equal("---", who_is_signalled());
	look_after(FIRST);
	assert_string_equal("+++", who_is_signalled());
}

static void a_process_that_is_gone_has_none(void **state)
{
	deaf_process(&fix.deaf, 1 << 30);
	assert_int_equal(0, fix.deaf.n);
}

/* Who has not taken its signal in time may only have been slow. */
static void a_suspect_that_blocks_it_gets_no_further_one(void **state)
{
	tell(1, SIG_BLOCK, SIGURG);
	deaf_suspect(&fix.deaf, fix.of[0].tid);
	assert_int_equal(0, fix.deaf.n);
	deaf_suspect(&fix.deaf, fix.of[1].tid);
	assert_string_equal("+-+", who_is_signalled());
	look_after(LAST);
	deaf_suspect(&fix.deaf, fix.of[1].tid); /* as is known: it is looked at no sooner */
	assert_int_equal(1, fix.deaf.n);
	assert_int_equal(now + LAST / 4, nudged());
}

/* A person has been told of those that were deaf at the beginning. */
static void who_is_deaf_later_for_more_than_a_moment_is_counted_once(void **state)
{
	enum { MOMENT = 100 * MS };

	tell(0, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	tell(1, SIG_BLOCK, SIGURG);
	deaf_begin(&fix.deaf, fix.of[1].tid);
	deaf_begin(&fix.deaf, fix.of[2].tid);
	look_after(MOMENT - 1);
	assert_int_equal(0, fix.deaf.n_later);
	assert_string_equal("--+", who_is_signalled());
	look_after(MOMENT);
	assert_int_equal(1, fix.deaf.n_later);
	look_after(LAST);
	assert_int_equal(1, fix.deaf.n_later);
}

/* They were not seen not to block it, nor to block it, which would be counted. */
static void who_can_not_be_looked_at_stays_deaf(void **state)
{
	struct rlimit was;

	tell(1, SIG_BLOCK, SIGURG);
	deaf_find(&fix.deaf);
	deaf_begin(&fix.deaf, fix.of[2].tid);
	run_out_of_descriptors(&was);
	look_after(FIRST);
	look_after(LAST);
	have_descriptors(&was);
	assert_string_equal("+--", who_is_signalled());
	assert_int_equal(0, fix.deaf.n_later);
	look_after(LAST);
	assert_string_equal("+-+", who_is_signalled());
	assert_int_equal(0, fix.deaf.n_later);
}

/* Nor is a person told of them at the beginning. */
static void who_can_not_be_looked_at_is_deaf_until_it_is(void **state)
{
	struct rlimit was;

	tell(1, SIG_BLOCK, SIGURG);
	run_out_of_descriptors(&was);
	deaf_suspect(&fix.deaf, fix.of[1].tid);
	have_descriptors(&was);
	assert_string_equal("+-+", who_is_signalled());
	run_out_of_descriptors(&was);
	assert_int_equal(0, deaf_find(&fix.deaf));
	have_descriptors(&was);
	assert_string_equal("---", who_is_signalled());
	look_after(LAST);
	assert_string_equal("+-+", who_is_signalled());
	assert_int_equal(1, fix.deaf.n_later);
}

/* From the moment on. */
static void a_moment_is_a_tenth_of_a_second(void **state)
{
	tell(1, SIG_BLOCK, SIGURG);
	deaf_begin(&fix.deaf, fix.of[1].tid);
	look_after(100 * MS);
	assert_int_equal(1, fix.deaf.n_later);
}

/* More than there was room for at first. */
static void any_number_may_be_deaf(void **state)
{
	enum { MANY = 40 };

	for (int i = 0; i < MANY; i++)
		deaf_begin(&fix.deaf, 1000000000 + i);
	deaf_begin(&fix.deaf, fix.of[2].tid);
	assert_int_equal(MANY + 1, fix.deaf.n);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(1000000000 + i, fix.deaf.thread[i].tid);
	assert_string_equal("++-", who_is_signalled());
	look_after(FIRST);
	assert_int_equal(0, fix.deaf.n);
	assert_string_equal("+++", who_is_signalled());
}

#define DEAF_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEAF_TEST(who_does_not_block_it_is_signalled),
		DEAF_TEST(events_of_those_that_block_it_send_none),
		DEAF_TEST(a_thread_without_events_is_nobody),
		DEAF_TEST(the_deaf_stay_deaf_when_all_events_may_send),
		DEAF_TEST(those_that_block_it_no_more_are_signalled),
		DEAF_TEST(one_that_has_ended_is_not_looked_at_for_ever),
		DEAF_TEST(nobody_is_looked_at_before_it_is_time),
		DEAF_TEST(each_look_comes_when_it_was_deaf_for_a_quarter_longer),
		DEAF_TEST(only_those_are_looked_at_whose_time_it_is),
		DEAF_TEST(who_begins_is_deaf_at_first),
		DEAF_TEST(who_begins_once_more_begins_anew),
		DEAF_TEST(all_threads_of_a_process_that_execs_begin),
		DEAF_TEST(a_process_that_is_gone_has_none),
		DEAF_TEST(a_suspect_that_blocks_it_gets_no_further_one),
		DEAF_TEST(who_is_deaf_later_for_more_than_a_moment_is_counted_once),
		DEAF_TEST(who_can_not_be_looked_at_stays_deaf),
		DEAF_TEST(who_can_not_be_looked_at_is_deaf_until_it_is),
		DEAF_TEST(a_moment_is_a_tenth_of_a_second),
		DEAF_TEST(any_number_may_be_deaf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
