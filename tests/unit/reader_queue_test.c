/* SPDX-License-Identifier: MIT
 *
 * reader: which records and samples are queued, and with what: frames, registers, stack bytes;
 * and what is told to the control thread.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"
#include "fake_ring.h"

/* --- other records --- */

/* Births and ends go to the resolver as they came, and what matters to the control thread. */
static void tasks(void **state)
{
	struct fake *f = *state;
	struct record r;

	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 91, 90, 91, 92 }, 1);
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, 90, 93, 90 }, 2);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 90, 90, 93, 90 }, 3);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 91, 90, 91, 90 }, 4);
	record_comm(&r, PERF_RECORD_MISC_COMM_EXEC, "x", f->t + 5);
	fake_write(f, 0, &r);
	record_comm(&r, 0, "y", f->t + 6);
	fake_write(f, 0, &r);
	fake_run(f);
	fake_expect_control(f, CTL_FORK, (struct ctl_msg){ 91, 90, 92, f->t + 1 });
	fake_expect_control(f, CTL_EXIT, (struct ctl_msg){ .pid = 91 });
	fake_expect_control(f, CTL_EXEC, (struct ctl_msg){ .pid = 70, .time = f->t + 5 });
	fake_expect_control(f, 0, (struct ctl_msg){ 0 });
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->n_side, 6);
}

/* Where events are not inherited the control thread opens them on each new thread. */
static void tasks_are_told(void **state)
{
	struct fake *f = *state;

	f->c.tell_threads = true;
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, 90, 93, 90 }, 2);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 90, 90, 93, 90 }, 3);
	fake_run(f);
	fake_expect_control(f, CTL_THREAD, (struct ctl_msg){ .pid = 90, .ptid = 93 });
	fake_expect_control(f, CTL_ENDED, (struct ctl_msg){ .pid = 90, .ptid = 93 });
	fake_expect_control(f, 0, (struct ctl_msg){ 0 });
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

/* Those behind its end are in the books: events are switched off one after the other, and count
 * until then. */
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
	assert_int_equal(f->slots[0].seen[0].n, 3);
	assert_int_equal(f->slots[0].seen[0].period, 3000);
}

/* A fixed period is not in the samples. */
static void fixed_period(void **state)
{
	struct fake *f = *state;

	f->c.sample_type &= ~(uint64_t)PERF_SAMPLE_PERIOD;
	f->session.events[0].attr.sample_period = 333;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.period, 333);
	assert_int_equal(f->slots[0].seen[0].period, 333);
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
	fake_expect_control(f, CTL_UNKNOWN, (struct ctl_msg){ .pid = 1 });
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

/* One sample of a thread whose struct pthread lies so far above its stack pointer; where its stack
 * bytes end, and where they do if nothing else is known. */
static raddr stack_end(struct fake *f, raddr above, raddr *usual)
{
	const struct q_sample *q;

	f->c.native = true;
	world_put(f->w, f->ts, f->w->l.tstate.thread_id, f->sp + above, 8);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	q = fake_sample(f);
	assert_memory_equal(q_stack(q), world_mem(f->w, q->stack_at), q->n_stack);
	*usual = q_anchors(q)->at + 4096;
	return q->stack_at + q->n_stack;
}

static void stack_to_its_end(void **state)
{
	struct fake *f = *state;
	raddr usual;

	assert_int_equal(stack_end(f, FAKE_STACK + 20000, &usual), f->sp + FAKE_STACK + 20000);
}

/* As another thread's does in the child of a fork. */
static void stack_whose_end_lies_elsewhere(void **state)
{
	raddr usual, end = stack_end(*state, 1 << 20, &usual);

	assert_int_equal(end, usual);
}

static void stack_far_away(void **state)
{
	struct fake *f = *state;
	const struct q_sample *q;

	f->c.native = true;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	q = fake_sample(f);
	assert_int_equal(q->stack_at, f->sp - 128);
	assert_int_equal(q->n_stack, 128 + FAKE_STACK);
	assert_int_equal(q->far_at, (q_anchors(q)->at - (16 << 10)) & ~(raddr)7);
	assert_int_equal(q->n_far, q_anchors(q)->at + 4096 - q->far_at);
	assert_memory_equal(q_far(q), world_mem(f->w, q->far_at), q->n_far);
	/* Where that can't be read it begins nearer. */
	fake_hole(f, q->far_at);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(q->far_at, (q_anchors(q)->at - (2 << 10)) & ~(raddr)7);
	assert_int_equal(q->n_far, q_anchors(q)->at + 4096 - q->far_at);
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
	f->target->none_ns = UINT64_MAX;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "nopython");
	assert_int_equal(fake_sample(f)->n_stack, FAKE_STACK); /* nobody reads there */
	f->target->state = TARGET_PENDING;
	f->c.crowded = true;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	assert_true(fake_sample(f)->undecided);
	assert_int_equal(fake_sample(f)->n_stack, FAKE_STACK); /* nor here */
	f->c.crowded = false;
	f->target->state = TARGET_NOPYTHON;
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

	f->c.max_frames = 4;
	fake_python(f, "abc");
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3 c3");
	assert_false(fake_sample(f)->sample.truncated);
	fake_python(f, "abcde");
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3 c3 d3");
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

/* Nor for a code. */
static void no_room_at_all(void **state)
{
	struct fake *f = *state;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	queue_deinit(&f->slots[0].queue);
	assert_int_equal(queue_init(&f->slots[0].queue, 128), 0);
	f->slots[0].queue.hurry = -1;
	fake_run(f);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, lost), 1);
}

/* Codes that were met just now are not told to be gone. */
static void codes_stay(void **state)
{
	const struct queue_record *rec;
	struct fake *f = *state;
	unsigned n = 0;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	for (; (rec = queue_peek(&f->slots[0].queue)); queue_pop(&f->slots[0].queue)) {
		assert_int_not_equal(rec->type, Q_CODES_GONE);
		n += rec->type == Q_CODE;
	}
	assert_int_equal(n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(tasks),
		FAKE_TEST(tasks_are_told),
		FAKE_TEST(lost_records),
		FAKE_TEST(outside_of_the_recording),
		FAKE_TEST(several_events),
		FAKE_TEST(fixed_period),
		FAKE_TEST(switches_as_event),
		FAKE_TEST(strangers),
		FAKE_TEST(very_many),
		FAKE_TEST(kernel_frames),
		FAKE_TEST(stack_bytes), FAKE_TEST(stack_to_its_end), FAKE_TEST(stack_whose_end_lies_elsewhere),
		cmocka_unit_test_setup_teardown(stack_far_away, fake_setup_far, fake_teardown),
		FAKE_TEST(stack_without_python),
		FAKE_TEST(truncated),
		FAKE_TEST(full_queue),
		FAKE_TEST(no_room_at_all),
		FAKE_TEST(codes_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
