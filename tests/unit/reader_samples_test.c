/* SPDX-License-Identifier: MIT
 *
 * reader: which records are samples, of which event; and what switches and witnesses tell of
 * those that wait.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"
#include "fake_drain.h"

/* --- samples --- */

/* Whether an event happens in the kernel is known by its kind, or by the mode. */
static void events_of_the_kernel(void **state)
{
	static const struct {
		uint32_t type;
		uint64_t config;
		uint16_t misc;
		bool in_kernel;
		enum witness witness;
	} rows[] = {
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, PERF_RECORD_MISC_USER, false },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, PERF_RECORD_MISC_USER, false },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, PERF_RECORD_MISC_KERNEL, true },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, PERF_RECORD_MISC_GUEST_USER,
		  true },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK,
		  PERF_RECORD_MISC_USER | PERF_RECORD_MISC_EXACT_IP, false },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, PERF_RECORD_MISC_USER, true },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_RECORD_MISC_USER,
		  true, WITNESS_SAME },
		{ PERF_TYPE_TRACEPOINT, PERF_COUNT_SW_CPU_CLOCK, PERF_RECORD_MISC_USER, true },
		{ PERF_TYPE_TRACEPOINT, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_RECORD_MISC_USER,
		  true },
		{ PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, PERF_RECORD_MISC_USER, false },
		{ PERF_TYPE_HARDWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_RECORD_MISC_USER,
		  false },
		{ PERF_TYPE_RAW, PERF_COUNT_SW_PAGE_FAULTS, PERF_RECORD_MISC_USER, false },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pending p;

		f->session.events[0].attr.type = rows[i].type;
		f->session.events[0].attr.config = rows[i].config;
		fake_take(f, (struct fake_event){ .misc = rows[i].misc });
		p = take_one(f);
		if (p.hold.in_kernel != rows[i].in_kernel ||
		    p.hold.witness != rows[i].witness)
			fail_msg("row %zu", i);
	}
}

/* A thread that ends works on in the kernel, and runs nothing of its own any more. */
static void threads_that_end(void **state)
{
	static const struct {
		uint16_t misc;
		pid_t tid;
		uint64_t ended, sampled;
		bool ending;
	} rows[] = {
		{ PERF_RECORD_MISC_KERNEL, FAKE_TID, 0, 2 * US, true },
		{ PERF_RECORD_MISC_USER, FAKE_TID, 0, 2 * US, false },
		{ PERF_RECORD_MISC_KERNEL, FAKE_TID + 1, 0, 2 * US, false },
		{ PERF_RECORD_MISC_KERNEL, FAKE_TID, 9 * US, 2 * US, false },
	};
	struct fake *f = *state;
	uint32_t me = (uint32_t)getpid();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		f->t += 10000000000;
		fake_task(f, PERF_RECORD_EXIT,
			  (const uint32_t[]){ me, me, (uint32_t)rows[i].tid, me },
			  rows[i].ended);
		fake_take(f, (struct fake_event){ .misc = rows[i].misc,
						  .after = rows[i].sampled });
		if (take_one(f).hold.ending != rows[i].ending)
			fail_msg("row %zu", i);
	}
}

/* What is known of a sample's event goes with it. */
static void samples_of_probes(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	f->session.n_events = 3;
	f->session.how[1].probe = f->session.how[1].jumps = true;
	f->session.how[2].probe = true;
	for (uint64_t e = 0; e < 3; e++)
		fake_take(f, (struct fake_event){ .id = FAKE_ID + e, .after = e });
	r = take(f);
	assert_int_equal(r->n_pend, 3);
	for (uint32_t e = 0; e < 3; e++) {
		assert_int_equal(r->pend[e].event, e);
		assert_int_equal(r->pend[e].probe, e > 0);
		assert_int_equal(r->pend[e].jumps, e == 1);
		assert_int_equal(r->pend[e].hold.t0, f->t + e);
		assert_int_equal(r->pend[e].s.time, f->t + e);
	}
	assert_int_equal(r->sampled, 7);
	assert_int_equal(r->pend[0].pos, 0);
	assert_int_equal(r->pend[2].pos, 2 * r->pend[1].pos);
	assert_int_equal(f->page[0].data_tail, 0); /* they wait where they are */
	reader_destroy(r);
}

static uint64_t seen_then;

static void flush_and_look(struct reader *r)
{
	seen_then = r->slot->seen[0].n;
	count_flush(r);
}

/* As many as there is room for wait; one more is the end of that for all of them, and is not
 * taken before: their reads may hang. */
static void room_for_samples(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	for (uint64_t i = 0; i < PEND_MAX; i++)
		fake_take(f, (struct fake_event){ .after = i, .no_stack = true });
	r = take(f);
	assert_int_equal(r->n_pend, PEND_MAX);
	assert_int_equal(flushed, 0);
	assert_false(r->pend[0].hold.backlog || r->pend[PEND_MAX - 1].hold.backlog);
	fake_take(f, (struct fake_event){ .after = PEND_MAX });
	keeping.flush = flush_and_look;
	reader_drain(r, 0, false);
	assert_int_equal(flushed, 1);
	assert_int_equal(seen_then, PEND_MAX);
	assert_int_equal(f->slots[0].seen[0].n, PEND_MAX + 1);
	assert_int_equal(r->n_pend, 1);
	assert_int_equal(r->pend[0].s.time, f->t + PEND_MAX);
	assert_false(r->pend[0].hold.backlog);
	reader_destroy(r);
}

/* An id that nobody knows is taken for the only event's where all that a CPU runs is sampled;
 * else it is that of an event which was closed. */
static void ids_that_nobody_knows(void **state)
{
	static const struct {
		bool table;
		uint32_t n_events;
		uint64_t taken, unknown;
	} rows[] = {
		{ true, 1, 1, 0 },
		{ false, 1, 0, 1 },
		{ true, 2, 0, 1 },
	};
	static const struct run_table table;
	struct fake *f = *state;
	struct record r;

	f->c.split = true;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		f->c.table = rows[i].table ? &table : NULL;
		f->session.n_events = rows[i].n_events;
		fake_take(f, (struct fake_event){ .id = 12345 });
		assert_int_equal(n_waiting(f), rows[i].taken);
		assert_int_equal(fake_counted(f, unknown), rows[i].unknown);
		/* One without an id, and one with half of what it must have. */
		record_begin(&r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
		fake_write(f, 0, &r);
		assert_int_equal(n_waiting(f), 0);
		assert_int_equal(fake_counted(f, unknown), rows[i].unknown);
		record_u64(&r, FAKE_ID);
		fake_write(f, 0, &r);
		assert_int_equal(n_waiting(f), 0);
		assert_int_equal(fake_counted(f, unknown), 0);
	}
}

/* Samples of an event on threads, which will be on CPUs later, are that event's; but no new
 * period of the CPU's own begins by them. */
static void events_that_move(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	f->c.witness = true;
	f->session.n_events = 2;
	event_ids_add(f->ids, 888, (uint8_t)session_early_number(&f->session, 0));
	event_ids_add(f->ids, 889, (uint8_t)session_early_number(&f->session, 1));
	fake_take(f, (struct fake_event){ .id = 888 });
	fake_take(f, (struct fake_event){ .id = 889 });
	r = take(f);
	assert_int_equal(r->n_pend, 2);
	assert_int_equal(r->pend[0].event, 0);
	assert_int_equal(r->pend[1].event, 1);
	assert_int_equal(r->sampled, 0);
	fake_take(f, (struct fake_event){ .id = FAKE_ID + 1 });
	reader_drain(r, 0, false);
	assert_int_equal(r->n_pend, 3);
	assert_int_equal(r->sampled, 2);
	reader_destroy(r);
}

/* --- switches --- */

/* A thread leaves and comes: what its samples know of it, and those of others do not. */
static void a_thread_leaves_and_comes(void **state)
{
	enum { OUT = PERF_RECORD_MISC_SWITCH_OUT };
	struct fake *f = *state;
	struct reader *r;

	fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1 });
	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .after = US });
	fake_switch(f, 0, OUT, FAKE_TID, 10 * US);
	r = take(f);
	for (uint32_t i = 1; i < 3; i++) {
		assert_int_equal(r->pend[i].hold.t_out, f->t + 10 * US);
		assert_false(r->pend[i].hold.preempted || r->pend[i].hold.backlog);
	}
	assert_int_equal(r->way_out, 10 * US);
	fake_switch(f, 0, IN, FAKE_TID, 20 * US);
	fake_switch(f, 0, IN, FAKE_TID, 30 * US);
	fake_leave(f, 40 * US);
	reader_drain(r, 0, false);
	for (uint32_t i = 1; i < 3; i++) {
		assert_true(r->pend[i].hold.backlog);
		assert_int_equal(r->pend[i].t_in, f->t + 20 * US);
		assert_int_equal(r->pend[i].hold.t_out, f->t + 10 * US);
		assert_false(r->pend[i].hold.preempted);
	}
	assert_int_equal(r->way_out, 10 * US);
	assert_int_equal(r->pend[0].hold.t_out, 0);
	assert_false(r->pend[0].hold.backlog);
	/* Not as long as the way of the others, and by no will of its own. */
	fake_switch(f, 0, OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, FAKE_TID + 1, 2 * US);
	fake_switch(f, 0, IN, FAKE_TID + 1, 3 * US);
	reader_drain(r, 0, false);
	assert_int_equal(r->pend[0].hold.t_out, f->t + 2 * US);
	assert_true(r->pend[0].hold.preempted && r->pend[0].hold.backlog);
	assert_int_equal(r->pend[0].t_in, 0);
	assert_int_equal(r->way_out, 10 * US);
	reader_destroy(r);
}

/* Nor does one that came back without having left know when it ran on. */
static void a_thread_comes(void **state)
{
	struct fake *f = *state;
	struct pending p;

	fake_take(f, (struct fake_event){ 0 });
	fake_switch(f, 0, IN, FAKE_TID, 20 * US);
	p = take_one(f);
	assert_true(p.hold.backlog);
	assert_int_equal(p.t_in, 0);
}

static bool always(const struct hold *h)
{
	return true;
}

/* Where a thread may be preempted on the way to its stop, its last leaving counts. */
static void a_thread_comes_back(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	fake_take(f, (struct fake_event){ 0 });
	r = begin(f);
	keeping.comes_back = always;
	fake_leave(f, 10 * US);
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT, FAKE_TID, 30 * US);
	reader_drain(r, 0, false);
	assert_int_equal(r->pend[0].hold.t_out, f->t + 30 * US);
	assert_false(r->pend[0].hold.preempted);
	assert_int_equal(r->way_out, 30 * US);
	reader_destroy(r);
}

/* With the kernel's table no record tells that a thread came back: its next sample does. */
static void sampled_after_it_left(void **state)
{
	static const struct run_table table;
	struct fake *f = *state;

	for (int with = 0; with < 2; with++) {
		struct reader *r;

		f->c.table = with ? &table : NULL;
		fake_take(f, (struct fake_event){ 0 });
		fake_take(f, (struct fake_event){ .after = US });
		fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1, .after = 2 * US });
		fake_leave(f, 10 * US);
		fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1, .after = 20 * US });
		r = take(f);
		for (uint32_t i = 0; i < 4; i++)
			assert_false(r->pend[i].hold.backlog);
		fake_take(f, (struct fake_event){ .after = 30 * US });
		reader_drain(r, 0, false);
		for (uint32_t i = 0; i < 5; i++)
			assert_int_equal(r->pend[i].hold.backlog, with && i < 2);
		reader_destroy(r);
		f->page[0].data_tail = f->page[0].data_head;
	}
}

/* --- the witness --- */

/* The first time that a thread leaves is a witness for each of its samples with registers. */
static void witness_of_several(void **state)
{
	static const enum witness want[] = { WITNESS_SAME, WITNESS_NONE, WITNESS_NONE,
					     WITNESS_MOVED };
	struct fake *f = *state;
	struct reader *r;

	f->c.witness = true;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1 });
	fake_take(f, (struct fake_event){ .no_regs = true });
	fake_take(f, (struct fake_event){ .regs_add = 1 });
	fake_take(f, (struct fake_event){ .witness = true, .no_regs = true });
	r = take(f);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(r->pend[i].hold.witness, WITNESS_NONE);
	fake_take(f, (struct fake_event){ .witness = true, .after = 5 });
	fake_take(f, (struct fake_event){ .witness = true, .after = 6, .regs_add = 1 });
	reader_drain(r, 0, false);
	assert_int_equal(r->n_pend, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(r->pend[i].hold.witness, want[i]);
		assert_false(r->pend[i].hold.counted);
		assert_int_equal(r->pend[i].hold.t_out, 0);
	}
	assert_int_equal(fake_counted(f, unknown), 0);
	reader_destroy(r);
}

/* Behind a record whose size is no multiple of 8 all are copied before they are looked at: each
 * sample that waits keeps its own bytes, also while its witness is looked at. */
static void samples_behind_an_odd_one_keep_their_bytes(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	f->c.witness = true;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1, .cut = 4 });
	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .regs_add = 1 });
	fake_take(f, (struct fake_event){ .witness = true });
	r = take(f);
	assert_int_equal(r->n_pend, 3);
	assert_int_equal(r->pend[1].hold.witness, WITNESS_SAME);
	assert_int_equal(r->pend[2].hold.witness, WITNESS_MOVED);
	assert_int_equal(r->pend[0].s.stack.n, FAKE_STACK - 4);
	for (int i = 1; i < 3; i++)
		assert_memory_equal(r->pend[i].s.stack.at, world_mem(f->w, f->sp), FAKE_STACK);
	assert_int_equal(flushed, 0);
	for (int i = 0; i < 100; i++)
		fake_take(f, (struct fake_event){ .after = (uint64_t)i });
	reader_drain(r, 0, false);
	assert_int_equal(flushed, 1); /* there was no room for more */
	assert_in_range(r->n_pend, 1, 99);
	assert_memory_equal(r->pend[r->n_pend - 1].s.stack.at, world_mem(f->w, f->sp), FAKE_STACK);
	reader_destroy(r);
}

/* Where another profiler's event is of its kind it bears that one's id, and is told by its
 * length; a longer one is not the witness. */
static void witness_with_the_id_of_another(void **state)
{
	struct fake *f = *state;
	struct pending p;

	f->c.witness = true;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .witness = true, .id = 12345 });
	p = take_one(f);
	assert_int_equal(p.hold.witness, WITNESS_SAME);
	assert_int_equal(fake_counted(f, unknown), 0);
	fake_take(f, (struct fake_event){ .id = 12345 });
	assert_int_equal(n_waiting(f), 0);
	assert_int_equal(fake_counted(f, unknown), 1);
	/* With the witness's id it is of the user's own event, if there is one. */
	fake_take(f, (struct fake_event){ .id = FAKE_WITNESS });
	assert_int_equal(n_waiting(f), 0);
	assert_int_equal(fake_counted(f, unknown), 0);
	f->session.n_events = 3;
	f->session.events[2].attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
	event_ids_add(f->ids, FAKE_WITNESS + 1, 3);
	fake_take(f, (struct fake_event){ .id = FAKE_WITNESS + 1 });
	assert_int_equal(take_one(f).event, 2);
	/* Of as many events as there may be none is. */
	f->session.n_events = SESSION_MAX_EVENTS;
	f->session.events[2].attr.config = PERF_COUNT_SW_CPU_CLOCK;
	event_ids_add(f->ids, FAKE_WITNESS + 2, SESSION_MAX_EVENTS);
	fake_take(f, (struct fake_event){ .id = FAKE_WITNESS + 2 });
	assert_int_equal(n_waiting(f), 0);
	assert_int_equal(fake_counted(f, unknown), 0);
}

/* With the kernel's table it stands for the record that the thread left. */
static void witness_instead_of_a_switch(void **state)
{
	static const struct run_table table;
	struct fake *f = *state;
	struct pending p;

	f->c.witness = f->c.counter = true;
	f->c.sample_type |= PERF_SAMPLE_READ;
	f->c.table = &table;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	fake_take(f, (struct fake_event){ .instructions = 1000 });
	fake_take(f, (struct fake_event){ .witness = true, .after = 7, .instructions = 1001 });
	p = take_one(f);
	assert_int_equal(p.hold.t_out, f->t + 7);
	assert_false(p.hold.preempted);
	assert_true(p.hold.counted);
	assert_int_equal(p.hold.witness, WITNESS_SAME);
}

/* --- who takes over from a reader that hangs --- */

/* It goes on where that one stood, with what waits, and knows whose events are to begin anew. */
static void what_a_reader_takes_over(void **state)
{
	enum { SAMPLED = 5, PACE = 77 };
	struct fake *f = *state;
	struct reader *was, *r;

	for (int i = 0; i < 2; i++)
		fake_take(f, (struct fake_event){ .after = (uint64_t)i });
	was = take(f);
	assert_int_equal(was->n_pend, 2);
	was->sampled = SAMPLED;
	was->pace = PACE;
	was->pend[0].early = true;
	r = reader_create(&f->c, &f->slots[0]);
	scan_take_over(r, was);
	assert_int_equal(r->sampled, SAMPLED);
	assert_int_equal(r->pace, PACE);
	assert_int_equal(r->pos, was->pos);
	assert_int_equal(r->n_pend, 2);
	for (uint32_t i = 0; i < r->n_pend; i++) {
		assert_int_equal(r->pend[i].pos, was->pend[i].pos);
		assert_int_equal(r->pend[i].s.time, f->t + i);
		assert_false(r->pend[i].early);
	}
	reader_destroy(r);
	reader_destroy(was);
}

/* Records that the other had to copy it copies itself: the other's memory is gone some day. */
static void what_it_takes_over_is_its_own(void **state)
{
	struct fake *f = *state;
	struct reader *was, *r;

	fake_take(f, (struct fake_event){ .cut = 4 });
	for (uint64_t i = 1; i < 3; i++)
		fake_take(f, (struct fake_event){ .regs_add = i });
	was = take(f);
	r = reader_create(&f->c, &f->slots[0]);
	scan_take_over(r, was);
	memset(was->bounce, 0xff, sizeof(was->bounce));
	assert_int_equal(r->n_pend, 3);
	for (uint64_t i = 1; i < 3; i++) {
		assert_int_equal(load_u64(r->pend[i].s.regs), 1000 + i);
		assert_memory_equal(r->pend[i].s.stack.at, world_mem(f->w, f->sp), FAKE_STACK);
	}
	reader_destroy(r);
	reader_destroy(was);
}

/* Where none does, what was not judged is torn, be it read or not. */
static void what_nobody_takes_over(void **state)
{
	struct fake *f = *state;
	struct reader *was;

	for (int i = 0; i < 3; i++)
		fake_take(f, (struct fake_event){ .after = (uint64_t)i });
	was = take(f);
	was->pend[0].done = true;
	was->pend[2].early = true;
	f->slots[0].stuck = was;
	f->slots[0].reader = NULL;
	readers_stop(&f->slots[0], 1);
	assert_int_equal(was->n_pend, 0);
	for (uint32_t i = 1; i < 3; i++) {
		assert_string_equal(fake_next(f), "torn");
		assert_int_equal(fake_sample(f)->sample.time, f->t + i);
	}
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, torn_quarantined), 2);
	f->slots[0].stuck = NULL;
	reader_destroy(was);
}

/* @was has been given up, and the recording ends. */
static void end_without(struct fake *f, struct reader *was)
{
	f->slots[0].stuck = was;
	f->slots[0].reader = NULL;
	readers_stop(&f->slots[0], 1);
	assert_int_equal(was->n_pend, 0);
	assert_int_equal(flushed, 0); /* nothing is read: that may hang */
	f->slots[0].stuck = NULL;
}

/* Nor was what came behind it read, be it more than can wait: it is torn as well. */
static void what_nobody_has_read(void **state)
{
	enum { MORE = PEND_MAX + 2 };
	struct fake *f = *state;
	struct reader *was;

	fake_take(f, (struct fake_event){ 0 });
	was = take(f);
	for (uint64_t i = 1; i < MORE; i++)
		fake_take(f, (struct fake_event){ .after = i, .no_stack = true });
	end_without(f, was);
	for (uint64_t i = 0; i < MORE; i++) {
		assert_string_equal(fake_next(f), "torn");
		assert_int_equal(fake_sample(f)->sample.time, f->t + i);
	}
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, torn_quarantined), MORE);
	assert_int_equal(f->slots[0].seen[0].n, MORE);
	assert_int_equal(f->page[0].data_tail, f->page[0].data_head);
	reader_destroy(was);
}

/* Samples of a process that is not followed are nobody's, as they are where they are read. */
static void strangers_that_nobody_has_read(void **state)
{
	struct fake *f = *state;
	struct reader *was;

	fake_take(f, (struct fake_event){ .pid = getppid() });
	was = take(f);
	fake_take(f, (struct fake_event){ .pid = getppid(), .after = 1 });
	end_without(f, was);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, torn_quarantined), 0);
	assert_int_equal(fake_counted(f, foreign), 2);
	reader_destroy(was);
}

/* What another reader has read since is not read again. */
static void what_the_next_one_has_read(void **state)
{
	struct fake *f = *state;
	struct reader *was = take(f);

	fake_take(f, (struct fake_event){ 0 });
	f->page[0].data_tail = f->page[0].data_head;
	end_without(f, was);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, torn_quarantined), 0);
	assert_int_equal(f->slots[0].seen[0].n, 0);
	reader_destroy(was);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(events_of_the_kernel),
		FAKE_TEST(threads_that_end),
		FAKE_TEST(samples_of_probes),
		FAKE_TEST(room_for_samples),
		FAKE_TEST(ids_that_nobody_knows),
		FAKE_TEST(events_that_move),
		FAKE_TEST(a_thread_leaves_and_comes),
		FAKE_TEST(a_thread_comes),
		FAKE_TEST(a_thread_comes_back),
		FAKE_TEST(sampled_after_it_left),
		FAKE_TEST(witness_of_several),
		FAKE_TEST(samples_behind_an_odd_one_keep_their_bytes),
		FAKE_TEST(witness_with_the_id_of_another),
		FAKE_TEST(witness_instead_of_a_switch),
		FAKE_TEST(what_a_reader_takes_over),
		FAKE_TEST(what_it_takes_over_is_its_own),
		FAKE_TEST(what_nobody_takes_over),
		FAKE_TEST(what_nobody_has_read),
		FAKE_TEST(strangers_that_nobody_has_read),
		FAKE_TEST(what_the_next_one_has_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
