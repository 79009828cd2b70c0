/* SPDX-License-Identifier: MIT
 *
 * reader: from the bytes of the rings to what is queued, on a made-up process: which stacks
 * are called exact, which late, which torn, and why.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "fake_ring.h"

enum { US = 1000, IN = 0 };

static int setup(void **state)
{
	struct fake *f = fake_create(0x030c);

	fake_python(f, "ab");
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fake_destroy(*state);
	return 0;
}

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

/* --- other records --- */

static void task_record(struct fake *f, uint32_t type, const uint32_t ids[4], uint64_t after)
{
	struct record r;

	record_begin(&r, type, 0);
	record_u32(&r, ids[0], ids[1]);
	record_u32(&r, ids[2], ids[3]);
	record_u64(&r, f->t + after);
	record_u32(&r, ids[0], ids[2]);
	record_u64(&r, f->t + after);
	record_u32(&r, 0, 0);
	record_u64(&r, FAKE_ID);
	fake_write(f, 0, &r);
}

static void expect_control(struct fake *f, uint32_t type, struct ctl_msg m)
{
	uint32_t got;
	struct ctl_msg c = fake_control(f, &got);

	assert_int_equal(got, type);
	assert_int_equal(c.pid, m.pid);
	assert_int_equal(c.ppid, m.ppid);
	assert_int_equal(c.ptid, m.ptid);
	assert_int_equal(c.time, m.time);
}

/* Births and ends go to the resolver as they came, and what matters to the control thread. */
static void tasks(void **state)
{
	struct fake *f = *state;
	struct record r;

	task_record(f, PERF_RECORD_FORK, (const uint32_t[]){ 91, 90, 91, 92 }, 1);
	task_record(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, 90, 93, 90 }, 2);
	task_record(f, PERF_RECORD_EXIT, (const uint32_t[]){ 90, 90, 93, 90 }, 3);
	task_record(f, PERF_RECORD_EXIT, (const uint32_t[]){ 91, 90, 91, 90 }, 4);
	record_comm(&r, PERF_RECORD_MISC_COMM_EXEC, "x", f->t + 5);
	fake_write(f, 0, &r);
	record_comm(&r, 0, "y", f->t + 6);
	fake_write(f, 0, &r);
	fake_run(f);
	expect_control(f, CTL_FORK, (struct ctl_msg){ 91, 90, 92, f->t + 1 });
	expect_control(f, CTL_EXIT, (struct ctl_msg){ .pid = 91 });
	expect_control(f, CTL_EXEC, (struct ctl_msg){ .pid = 70, .time = f->t + 5 });
	expect_control(f, 0, (struct ctl_msg){ 0 });
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->n_side, 6);
}

/* Where events are not inherited the control thread opens them on each new thread. */
static void tasks_are_told(void **state)
{
	struct fake *f = *state;

	f->c.tell_threads = true;
	task_record(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, 90, 93, 90 }, 2);
	task_record(f, PERF_RECORD_EXIT, (const uint32_t[]){ 90, 90, 93, 90 }, 3);
	fake_run(f);
	expect_control(f, CTL_THREAD, (struct ctl_msg){ .pid = 90, .ptid = 93 });
	expect_control(f, CTL_ENDED, (struct ctl_msg){ .pid = 90, .ptid = 93 });
	expect_control(f, 0, (struct ctl_msg){ 0 });
}

static void lost_record(struct fake *f, uint64_t n, uint64_t after)
{
	struct record r;

	record_begin(&r, PERF_RECORD_LOST, 0);
	record_u64(&r, 1);
	record_u64(&r, n);
	record_trailer(&r, FAKE_TID, f->t + after);
	fake_write(f, 0, &r);
}

/* What was lost in the recording is told, what was lost before it is not. */
static void lost_records(void **state)
{
	struct fake *f = *state;

	f->c.start_ns = f->t + 10;
	lost_record(f, 3, 9);
	fake_run(f);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->n_side, 0);
	lost_record(f, 3, 10);
	fake_run(f);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->n_side, 1);
	assert_int_equal(f->side.type, PERF_RECORD_LOST);
}

/* --- which samples --- */

static void outside_of_the_recording(void **state)
{
	struct fake *f = *state;

	f->c.start_ns = f->t;
	f->c.end_ns = f->t + 2;
	f->t--;
	for (uint64_t i = 0; i < 4; i++)
		fake_take(f, (struct fake_event){ .after = i });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.time, f->t + 1);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.time, f->t + 2);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, outside), 2);
	assert_int_equal(f->slots[0].seen[0].n, 2);
	assert_int_equal(f->slots[0].seen[0].period, 2000);
}

static void several_events(void **state)
{
	struct fake *f = *state;

	f->session.n_events = 3;
	f->session.how[2].read = true;
	f->c.sample_type |= PERF_SAMPLE_READ;
	fake_take(f,
		  (struct fake_event){ .id = FAKE_ID + 2, .instructions = 55, .period = 7 });
	fake_take(f, (struct fake_event){ .id = FAKE_ID + 1 });
	fake_take(f, (struct fake_event){ .id = 12345 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.event, 2);
	assert_int_equal(fake_sample(f)->sample.period, 7);
	assert_int_equal(fake_sample(f)->n_reads, 2);
	assert_int_equal(q_reads(fake_sample(f))[0].value, 77);
	assert_int_equal(q_reads(fake_sample(f))[0].event, 1);
	assert_int_equal(q_reads(fake_sample(f))[1].value, 55);
	assert_int_equal(q_reads(fake_sample(f))[1].event, 2);
	assert_int_equal(q_reads(fake_sample(f))[1].id, FAKE_ID + 2);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.event, 1);
	assert_int_equal(fake_sample(f)->n_reads, 0);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, unknown), 1);
}

/* A context switch's own sample is its witness: it has the registers that it has. */
static void switches_as_event(void **state)
{
	struct fake *f = *state;

	f->session.n_events = 2;
	f->session.events[1].attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
	f->c.witness = true;
	event_ids_add(f->ids, FAKE_WITNESS, 2);
	/* It bears the witness's id. */
	fake_take(f, (struct fake_event){ .id = FAKE_WITNESS });
	fake_leave(f, 400 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.event, 1);
}

static void strangers(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ .pid = 1, .tid = 1 });
	fake_take(f, (struct fake_event){ .pid = 1, .tid = 1 });
	fake_run(f);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, foreign), 2);
	/* With children it may be one. */
	f->c.follow = true;
	fake_take(f, (struct fake_event){ .pid = 1, .tid = 1 });
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	assert_true(fake_sample(f)->undecided);
	assert_null(fake_sample(f)->program);
	expect_control(f, CTL_UNKNOWN, (struct ctl_msg){ .pid = 1 });
}

/* Many samples wait: the oldest are served first, and none is lost. */
static void very_many(void **state)
{
	struct fake *f = *state;
	uint32_t n = 0, late = 0;

	for (uint64_t i = 0; i < 300; i++)
		fake_take(f, (struct fake_event){ .after = i, .no_stack = true });
	fake_leave(f, 10 * US);
	fake_run(f);
	for (const char *text; *(text = fake_next(f)); n++) {
		late += strcmp(text, "late a3 b3") == 0;
		assert_int_equal(fake_sample(f)->sample.time, f->t + n);
	}
	assert_int_equal(n, 300);
	assert_int_equal(late, 256);
	assert_int_equal(fake_counted(f, late_backlog), 256);
}

/* --- what goes to the resolver --- */

static void kernel_frames(void **state)
{
	const uint64_t chain[] = { PERF_CONTEXT_KERNEL, 0xffffffff81000001,
				   PERF_CONTEXT_MAX - 1, PERF_CONTEXT_MAX, PERF_CONTEXT_USER };
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ .chain = chain, .n_chain = ARRAY_SIZE(chain) });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->n_kernel, 2);
	assert_int_equal(q_kernel(fake_sample(f))[0], chain[1]);
	assert_int_equal(q_kernel(fake_sample(f))[1], chain[2]);
}

/* Registers, the red zone, the bytes that came and what of the stack lies above them, up to a
 * page beyond the outermost activation. */
static void stack_bytes(void **state)
{
	struct fake *f = *state;
	const struct q_sample *q;
	raddr anchor, end;

	f->c.native = true;
	for (size_t i = 0; i < FAKE_STACK; i++)
		((unsigned char *)world_mem(f->w, f->sp))[i] = (unsigned char)(i * 7);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	q = fake_sample(f);
	assert_int_equal(q->n_anchors, 1);
	anchor = q_anchors(q)->at;
	assert_int_equal(q_anchors(q)->n, 2);
	end = anchor + 4096;
	assert_int_equal(q->n_regs, arch_host->n_regs);
	assert_int_equal(load_u64(q_regs(q)), 1000);
	assert_int_equal(load_u64(q_regs(q) + 8 * arch_host->sp), f->sp);
	assert_int_equal(q->stack_at, f->sp - 128);
	assert_int_equal(q->stack_at + q->n_stack, end);
	assert_memory_equal(q_stack(q), world_mem(f->w, q->stack_at), q->n_stack);
	assert_int_equal(q->n_far, 0);
	/* Not held: what was read later is of another moment. */
	fake_take(f, (struct fake_event){ 0 });
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	q = fake_sample(f);
	assert_int_equal(q->stack_at, f->sp);
	assert_int_equal(q->n_stack, FAKE_STACK);
	assert_memory_equal(q_stack(q), world_mem(f->w, f->sp), FAKE_STACK);
}

/* A thread without Python: so much more of its stack as can be read. */
static void stack_without_python(void **state)
{
	struct fake *f = *state;
	const struct q_sample *q;
	raddr hole;

	f->c.native = true;
	f->target->state = TARGET_QUARANTINED;
	f->target->nopython = true;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "nopython");
	assert_int_equal(fake_sample(f)->n_stack, FAKE_STACK); /* nobody reads there */
	f->target->state = TARGET_NOPYTHON;
	f->target->none_ns = UINT64_MAX;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "nopython");
	q = fake_sample(f);
	assert_int_equal(q->stack_at, f->sp - 128);
	assert_int_equal(q->n_stack, 128 + FAKE_STACK + (16 << 10));
	assert_memory_equal(q_stack(q), world_mem(f->w, q->stack_at), q->n_stack);
	/* Up to a hole. */
	hole = fake_hole(f, f->sp + FAKE_STACK + 8192);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "nopython");
	q = fake_sample(f);
	assert_int_equal(q->stack_at + q->n_stack, hole);
}

/* Python frames beyond the limit are said to be missing. */
static void truncated(void **state)
{
	struct fake *f = *state;

	f->c.max_frames = 3;
	fake_python(f, "abc");
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3 c3");
	assert_false(fake_sample(f)->sample.truncated);
	fake_python(f, "abcd");
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3 c3");
	assert_true(fake_sample(f)->sample.truncated);
	assert_int_equal(fake_counted(f, truncated), 1);
}

/* Without room in the queue samples are counted, and before that native stacks are cut. */
static void full_queue(void **state)
{
	struct fake *f = *state;
	uint64_t n = 0, cut = 0, lost, dropped;

	f->c.native = true;
	for (int i = 0; i < 200; i++)
		fake_take(f, (struct fake_event){ .no_stack = i & 1 });
	fake_leave(f, 10 * US);
	queue_deinit(&f->slots[0].queue);
	assert_int_equal(queue_init(&f->slots[0].queue, 16 << 10), 0);
	f->slots[0].queue.hurry = -1;
	fake_run(f);
	lost = fake_counted(f, lost);
	dropped = fake_counted(f, stack_dropped);
	assert_int_equal(lost, fake_counted(f, queue_full));
	for (; *fake_next(f); n++)
		cut += !fake_sample(f)->n_stack;
	assert_int_equal(n + lost, 200);
	assert_true(lost > 0 && dropped > 0 && cut > 0);
}

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

	record_begin(&r, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	record_u32(&r, (uint32_t)getpid(), FAKE_TID);
	record_str(&r, "x");
	record_u32(&r, (uint32_t)getpid(), FAKE_TID);
	record_u64(&r, f->t + 5 * US);
	record_u32(&r, 1, 0);
	record_u64(&r, 99);
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
	expect_control(f, CTL_LOOK, (struct ctl_msg){ .pid = getpid(), .time = f->t });
	assert_int_equal(f->c.asked, 1);
	assert_string_equal(sample_now(f), "torn"); /* it is asked for once */
	expect_control(f, 0, (struct ctl_msg){ 0 });
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

/* A sample of a child whose fork the control thread has not heard of: its parent's copy. */
static void forked_child(void **state)
{
	struct fake *f = *state;
	pid_t child = getpid(), parent = 77;

	assert_int_equal(targets_publish(&f->targets, child, NULL), 0);
	f->target = target_create(parent);
	f->target->state = TARGET_PYTHON;
	f->target->py = (struct pystack_target){
		.pid = parent, .program = 1, .layout = f->w->l, .walk = f->w->walk
	};
	assert_int_equal(targets_publish(&f->targets, parent, f->target), 0);
	f->c.follow = true;
	task_record(f, PERF_RECORD_FORK,
		    (const uint32_t[]){ (uint32_t)child, (uint32_t)parent, (uint32_t)child,
					(uint32_t)parent },
		    0);
	assert_string_equal(sample_now(f), "exact a3 b3");
	/* The parent itself became another program before. */
	f->target->begun_ns = f->t + 1;
	f->t += 2;
	assert_string_equal(sample_now(f), "torn");
	assert_true(fake_sample(f)->undecided);
}

/* --- a thread that is stopped --- */

static const struct capture_ops stopping = { .name = "stopping",
					     .holds = true,
					     .stops = true,
					     .thread_begin = fake_begin,
					     .judge = fake_judge };

/* The tracer holds the thread with @add in each register. */
static void stop_with(struct fake *f, uint64_t add)
{
	struct handover *h = &f->slots[0].handover;

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

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(held),
		TEST(gap),
		TEST(gap_in_kernel),
		TEST(no_switch),
		TEST(left_by_itself),
		TEST(back_on_our_cpu),
		TEST(leaves_twice),
		TEST(ran_elsewhere),
		TEST(ran_as_noted),
		TEST(ran_unwatched),
		TEST(earlier_with_later),
		TEST(witness),
		TEST(counter),
		TEST(late_and_moved),
		TEST(without_state),
		TEST(faulty),
		TEST(memory_is_gone),
		TEST(tasks),
		TEST(tasks_are_told),
		TEST(lost_records),
		TEST(outside_of_the_recording),
		TEST(several_events),
		TEST(switches_as_event),
		TEST(strangers),
		TEST(very_many),
		TEST(kernel_frames),
		TEST(stack_bytes),
		TEST(stack_without_python),
		TEST(truncated),
		TEST(full_queue),
		TEST(execed),
		TEST(states_of_a_target),
		TEST(forked_child),
		TEST(stopped),
		TEST(quiet),
		TEST(over_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
