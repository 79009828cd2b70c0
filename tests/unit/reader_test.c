/* SPDX-License-Identifier: MIT
 *
 * reader: from the bytes of the rings to what is queued, on a made-up process: which stacks
 * are called exact, which late, which torn, and why.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"

#include <sys/wait.h>

#include "capture/reader_int.h"
#include "fake_ring.h"
#include "sys/proc.h"

/* --- what is exact --- */

static void held(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 30 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.time, f->t);
	assert_int_equal(fake_sample(f)->sample.pid, getpid());
	assert_int_equal(fake_sample(f)->sample.tid, FAKE_TID);
	assert_int_equal(fake_sample(f)->sample.period, 1000);
	assert_int_equal(fake_sample(f)->user_ip, 1000 + arch_host->ip);
	assert_true(fake_sample(f)->sample.late_ns >= 30 * US);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->page[0].data_tail, f->page[0].data_head);
}

/* Without a witness: in user code only for a moment may pass until the thread is held. */
static void gap(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 40 * US);
	fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1 });
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 40 * US + 1);
	fake_run(f);
	while (strcmp(fake_next(f), "late a3 b3") != 0)
		assert_int_not_equal(fake_sample(f)->sample.tid, FAKE_TID);
	assert_int_equal(fake_counted(f, late_gap), 1);
}

/* In the kernel the way to the switch is as long as it likes. */
static void gap_in_kernel(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ .misc = PERF_RECORD_MISC_KERNEL });
	fake_leave(f, 400 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	f->session.events[0].attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 400 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	f->session.events[0].attr.config = PERF_COUNT_SW_TASK_CLOCK;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 400 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
}

static void no_switch(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT, FAKE_TID + 1, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_noswitch), 1);
}

static void left_by_itself(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT, FAKE_TID, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_voluntary), 1);
}

/* It came back to its CPU before the reader came. */
static void back_on_our_cpu(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_switch(f, 0, IN, FAKE_TID, 20 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_backlog), 1);
}

/* The first time that it leaves counts. */
static void leaves_twice(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_leave(f, 90 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
}

/* Another CPU's ring tells that it went on there. */
static void ran_elsewhere(void **state)
{
	static const struct {
		uint64_t after;
		pid_t tid;
		const char *text;
	} rows[] = {
		{ 20 * US, FAKE_TID, "late a3 b3" },
		{ 10 * US, FAKE_TID, "exact a3 b3" }, /* that was before */
		{ 20 * US, FAKE_TID + 1, "exact a3 b3" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		f->t += 1000000;
		fake_take(f, (struct fake_event){ 0 });
		fake_leave(f, 10 * US);
		fake_switch(f, 1, IN, rows[i].tid, rows[i].after);
		fake_run(f);
		assert_string_equal(fake_next(f), rows[i].text);
		assert_int_equal(fake_counted(f, late_ran), i == 0);
		f->page[1].data_tail = f->page[1].data_head;
	}
}

/* The same for the reader of the last CPU. */
static void ran_on_the_first_cpu(void **state)
{
	struct fake *f = *state;

	f->own = 1;
	for (int ran = 0; ran < 2; ran++) {
		f->t += 1000000;
		fake_take(f, (struct fake_event){ .cpu = 1 });
		fake_switch(f, 1,
			    PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
			    FAKE_TID, 10 * US);
		fake_switch(f, 0, IN, FAKE_TID + !ran, 20 * US);
		fake_run(f);
		assert_string_equal(fake_next(f), ran ? "late a3 b3" : "exact a3 b3");
		assert_int_equal(fake_sample(f)->sample.cpu, 1);
	}
}

/* Another reader has taken the record from its ring already. */
static void ran_as_noted(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	for (size_t i = 0; i < LAST_IN; i++)
		f->c.last_in[i] = f->t + 11 * US;
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_ran), 1);
	assert_int_equal(fake_counted(f, late_unwatched), 0);
	assert_int_equal(fake_counted(f, late_blind), 0);
	/* Before it left. */
	f->t += 1000000;
	for (size_t i = 0; i < LAST_IN; i++)
		f->c.last_in[i] = f->t + 10 * US;
	f->c.blind_ns = f->t + 10 * US;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
}

/* A ring was too full for all records: nothing would tell. */
static void ran_blind(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	f->c.blind_ns = f->t + 11 * US;
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_ran), 1);
	assert_int_equal(fake_counted(f, late_blind), 1);
}

/* A CPU whose events are not open yet: nothing would tell. */
static void ran_unwatched(void **state)
{
	struct fake *f = *state;

	f->c.cap_slots = FAKE_CPUS + 1;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_unwatched), 1);
}

/* What is read after the target has ended may be of another with its number. A thread that is
 * held lives, so nobody asks then. */
static void number_may_be_another_s(void **state)
{
	struct fake *f = *state;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	close(f->target->pidfd);
	f->target->pidfd = proc_pidfd(pid);
	assert_true(f->target->pidfd >= 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	fake_take(f, (struct fake_event){ 0 });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT, FAKE_TID, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	assert_int_equal(fake_counted(f, torn_moved), 1);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 30 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
}

/* One read serves both: the earlier is not exact if the thread moved before the later. */
static void earlier_with_later(void **state)
{
	struct fake *f = *state;

	f->c.witness = true;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .after = US, .regs_add = 8 });
	fake_take(f, (struct fake_event){ .after = 10 * US, .witness = true });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_sample(f)->sample.time, f->t);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_sample(f)->sample.time, f->t + US);
}

/* --- the witness --- */

static const char *witnessed(struct fake *f, struct fake_event e)
{
	e.witness = true;
	e.after = 300 * US;
	fake_take(f, (struct fake_event){ .instructions = 5000 });
	fake_take(f, e);
	fake_leave(f, 300 * US);
	fake_run(f);
	f->t += 1000000;
	return fake_next(f);
}

static void witness(void **state)
{
	struct fake *f = *state;

	f->c.witness = true;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	assert_string_equal(witnessed(f, (struct fake_event){ 0 }), "exact a3 b3");
	assert_string_equal(witnessed(f, (struct fake_event){ .regs_add = 1 }), "late a3 b3");
	assert_int_equal(fake_counted(f, late_gap), 1);
	assert_string_equal(witnessed(f, (struct fake_event){ .no_regs = true }),
			    "late a3 b3");
	/* Another thread's tells nothing of ours. */
	assert_string_equal(witnessed(f, (struct fake_event){ .tid = FAKE_TID + 1 }),
			    "late a3 b3");
	assert_string_equal(fake_next(f), "");
}

/* The same registers, but instructions were executed meanwhile: a loop. */
static void counter(void **state)
{
	struct fake *f = *state;

	f->c.witness = f->c.counter = true;
	f->c.sample_type |= PERF_SAMPLE_READ;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	assert_string_equal(witnessed(f, (struct fake_event){ .instructions = 5000 }),
			    "exact a3 b3");
	assert_string_equal(witnessed(f, (struct fake_event){ .instructions = 5008 }),
			    "exact a3 b3");
	assert_int_equal(fake_counted(f, late_loop), 0);
	assert_string_equal(witnessed(f, (struct fake_event){ .instructions = 5009 }),
			    "late a3 b3");
	assert_int_equal(fake_counted(f, late_loop), 1);
	assert_string_equal(
		witnessed(f, (struct fake_event){ .instructions = 6000, .regs_add = 1 }),
		"late a3 b3");
	assert_int_equal(fake_counted(f, late_loop), 0);
}

/* --- late, torn, nopython --- */

static raddr top_at, other_top;

static void thread_moves(void)
{
	memcpy(fake_memory(top_at), &other_top, sizeof(other_top));
}

/* A late stack counts only if the thread still stands where it stood. */
static void late_and_moved(void **state)
{
	struct fake *f = *state;

	top_at = world_get(f->w, f->ts, f->w->l.tstate.cframe) +
		 pyoff_get(f->w->l.cframe.current_frame);
	other_top = f->w->frame[1];
	fake_on_judge = thread_moves;
	fake_take(f, (struct fake_event){ 0 });
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	assert_int_equal(fake_counted(f, torn_moved), 1);
	assert_int_equal(fake_counted(f, late_noswitch), 0);
	/* What moves after it was held was exact. */
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
}

/* A thread without a thread state: also that is known only if it was held. */
static void without_state(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1, .no_regs = true });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
		    FAKE_TID + 1, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "nopython");
	fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1, .no_regs = true });
	fake_run(f);
	assert_string_equal(fake_next(f), "late");
}

static void faulty(void **state)
{
	struct fake *f = *state;
	raddr top = world_get(f->w, f->ts, f->w->l.tstate.cframe);

	world_put(f->w, top, f->w->l.cframe.current_frame, WORLD_NOWHERE, 8);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	assert_int_equal(fake_counted(f, torn_fault), 1);
	fake_python(f, "ab");
	world_put(f->w, f->w->frame[0], f->w->l.frame.code, f->w->type | 0, 8);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	assert_int_equal(fake_counted(f, torn_badcode), 1);
}

/* A process in its exec has dropped its memory: it runs no Python. */
static void memory_is_gone(void **state)
{
	struct fake *f = *state;

	f->target->py.walk.interp_head = WORLD_NOWHERE;
	world_put(f->w, f->ts, f->w->l.tstate.native_tid, 1, 8);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "nopython");
	/* When it was not held, that may be of another moment. */
	fake_take(f, (struct fake_event){ 0 });
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
}

/* --- what lasts --- */

/* A CPU's next reader gives codes other numbers: those of the one before may still be queued.
 */
static void codes_of_the_next_reader(void **state)
{
	struct fake *f = *state;
	size_t n;

	fake_take(f, (struct fake_event){ 0 });
	fake_run(f);
	fake_next(f);
	n = f->n_codes;
	assert_int_equal(n, 2);
	fake_take(f, (struct fake_event){ 0 });
	fake_run(f);
	fake_next(f);
	assert_int_equal(f->n_codes, 2 * n);
	for (size_t i = 0; i < n; i++)
		for (size_t k = n; k < 2 * n; k++)
			assert_int_not_equal(f->code_id[i], f->code_id[k]);
}

/* Of capture @early_capture, at the beginning of each drain. */
static struct {
	_Atomic unsigned drains;
	uint64_t in[2]; /* what may be seen in the first two is above that */
} early;

static void early_scan(struct reader *r)
{
	if (early.drains < ARRAY_SIZE(early.in))
		early.in[early.drains] = r->slot->targets.in;
	r->early.tid = early.drains == 0 ? FAKE_TID : 0;
	epoch_retire(&r->c->targets->epoch);
	early.drains++;
}

/* A stack that waits for its thread's stop keeps what it was read by, into the next drain. */
static void keeps_what_waits(void **state)
{
	struct capture_ops waits = fake_capture;
	struct fake *f = *state;

	waits.scan = early_scan;
	f->c.capture = &waits;
	memset(&early, 0, sizeof(early));
	fake_start(f);
	fake_stop(f);
	assert_true(early.drains >= 2);
	assert_int_not_equal(early.in[0], 0);
	assert_int_equal(early.in[0], early.in[1]);
	assert_int_equal(f->slots[0].targets.in, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(held),
		FAKE_TEST(gap),
		FAKE_TEST(gap_in_kernel),
		FAKE_TEST(no_switch),
		FAKE_TEST(left_by_itself),
		FAKE_TEST(number_may_be_another_s),
		FAKE_TEST(back_on_our_cpu),
		FAKE_TEST(leaves_twice),
		FAKE_TEST(ran_elsewhere),
		FAKE_TEST(ran_on_the_first_cpu),
		FAKE_TEST(ran_as_noted),
		FAKE_TEST(ran_blind),
		FAKE_TEST(ran_unwatched),
		FAKE_TEST(earlier_with_later),
		FAKE_TEST(witness),
		FAKE_TEST(counter),
		FAKE_TEST(late_and_moved),
		FAKE_TEST(without_state),
		FAKE_TEST(faulty),
		FAKE_TEST(memory_is_gone),
		FAKE_TEST(codes_of_the_next_reader),
		FAKE_TEST(keeps_what_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
