/* SPDX-License-Identifier: MIT
 *
 * stop: its part of a reader's work, drain by drain: when a thread is read before its stop,
 * which stop is whose, how long samples wait for theirs, and what a hold costs.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"
#include "fake_drain.h"

extern const struct capture_ops capture_stop;

static int here; /* the CPU that we are on */

int sched_getcpu(void)
{
	return here;
}

enum { OTHER = FAKE_TID + 1, STOP_MS = 100, EARLY_NS = 1000000, WAKE_NS = 50000 };

/* The sample of the tests is not old, however slow this machine is. */
static struct reader *begin_stopping(struct fake *f)
{
	struct reader *r = begin(f);

	f->c.capture = &capture_stop;
	f->t = now_ns() + 3600 * SECOND;
	r->woke_ns = f->t;
	here = 0;
	return r;
}

static void end_stopping(struct fake *f, struct reader *r)
{
	reader_drain(r, 0, true);
	reader_destroy(r);
	while (*fake_next(f))
		;
	assert_int_equal(f->page[0].data_tail, f->page[0].data_head);
}

static void regs_of(struct fake *f, uint64_t *regs, uint64_t add)
{
	for (int i = 0; i < arch_host->n_regs; i++)
		regs[i] = i == arch_host->sp ? f->sp : (uint64_t)(1000 + i) + add;
}

/* The tracer takes the offer, of a stop that ended at @ns. */
static void accept(struct fake *f, uint64_t ns, uint64_t add)
{
	struct handover *h = &f->slots[0].handover;

	assert_true(h->offer != 0);
	regs_of(f, h->accepted_regs, add);
	h->accepted_ns = ns;
	h->accepted_ran_on_ns = 0;
	h->offer |= HANDOVER_ACCEPTED;
}

/* The tracer holds @tid. */
static void hold(struct fake *f, pid_t tid)
{
	struct handover *h = &f->slots[0].handover;

	regs_of(f, h->regs, 0);
	h->ran_on_ns = 0;
	h->tid = tid;
	h->turn += 1 + (h->turn & 1);
}

/* --- reads before the stop --- */

/* Only soon after the sample, and where the thread can't run meanwhile. */
static void when_threads_are_read_early(void **state)
{
	static const struct {
		uint64_t later;
		int cpu;
		bool early;
	} rows[] = {
		{ 0, 0, true },
		{ EARLY_NS, 0, true },
		{ EARLY_NS + 1, 0, false },
		{ 0, 1, false },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct reader *r = begin_stopping(f);

		fake_take(f, (struct fake_event){ 0 });
		r->woke_ns = f->t + rows[i].later;
		here = rows[i].cpu;
		reader_drain(r, 0, false);
		assert_int_equal(r->early.tid, rows[i].early ? FAKE_TID : 0);
		assert_int_equal((uint32_t)f->slots[0].handover.offer, r->early.tid);
		assert_int_equal(r->n_pend, 1);
		assert_int_equal(r->pend[0].early, rows[i].early);
		end_stopping(f, r);
		assert_int_equal(f->slots[0].handover.offer, 0);
	}
}

/* The newest one's thread, for all its samples; others wait as they are. */
static void whose_samples_are_read_early(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);

	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .tid = OTHER });
	fake_take(f, (struct fake_event){ .after = 1 });
	reader_drain(r, 0, false);
	assert_int_equal(r->early.tid, FAKE_TID);
	assert_true(r->pend[0].early && r->pend[2].early);
	assert_false(r->pend[1].early);
	accept(f, f->t + 20 * US, 0);
	reader_drain(r, 0, false);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->slots[0].handover.untaken, 0);
	assert_int_equal(r->n_pend, 1);
	assert_int_equal(r->early.tid, OTHER); /* its turn */
	end_stopping(f, r);
}

/* As many samples as can wait, all of one thread, end with its stop. */
static void as_many_as_can_wait(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);

	for (uint64_t i = 0; i < PEND_MAX; i++)
		fake_take(f, (struct fake_event){ .after = i, .no_stack = true });
	reader_drain(r, 0, false);
	assert_int_equal(r->n_pend, PEND_MAX);
	assert_int_equal(r->early.tid, FAKE_TID);
	accept(f, f->t + 20 * US, 0);
	reader_drain(r, 0, false);
	for (int i = 0; i < PEND_MAX; i++)
		assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
	assert_int_equal(r->n_pend, 0);
	end_stopping(f, r);
}

/* A stranger's is not read, and does not keep the next from it. */
static void strangers_are_not_read_early(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);

	fake_take(f, (struct fake_event){ .pid = 1, .tid = 1 });
	reader_drain(r, 0, false);
	assert_int_equal(r->early.tid, 0);
	assert_int_equal(f->slots[0].handover.offer, 0);
	assert_int_equal(r->n_pend, 0);
	fake_take(f, (struct fake_event){ 0 });
	reader_drain(r, 0, false);
	assert_int_equal(r->early.tid, FAKE_TID);
	end_stopping(f, r);
}

/* A read that was offered is withdrawn when a sample of another thread comes, or a stop: then
 * its samples wait for theirs as before. */
static void reads_that_are_withdrawn(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);
	uint64_t offer;

	fake_take(f, (struct fake_event){ 0 });
	reader_drain(r, 0, false);
	offer = f->slots[0].handover.offer;
	reader_drain(r, 0, false); /* nothing new: it stands */
	assert_true(f->slots[0].handover.offer == offer);
	fake_take(f, (struct fake_event){ .tid = OTHER, .after = 1 });
	reader_drain(r, 0, false);
	assert_int_equal(r->early.tid, OTHER);
	assert_int_equal((uint32_t)f->slots[0].handover.offer, OTHER);
	assert_int_equal(r->n_pend, 2);
	assert_false(r->pend[0].early);
	hold(f, FAKE_TID);
	reader_drain(r, 0, false);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->slots[0].handover.turn & 1, 0);
	assert_int_equal(r->n_pend, 1);
	assert_int_equal(r->early.tid, OTHER);
	end_stopping(f, r);
}

/* Who sheds offers no read any more: its samples wait for their stop; those of a stop that took
 * the offer are over. */
static void reads_of_who_sheds(void **state)
{
	struct fake *f = *state;

	for (int accepted = 0; accepted < 2; accepted++) {
		struct reader *r = begin_stopping(f);

		fake_take(f, (struct fake_event){ 0 });
		reader_drain(r, 0, false);
		assert_int_equal(r->early.tid, FAKE_TID);
		if (accepted)
			accept(f, f->t + 20 * US, 0);
		capture_stop.shed(r, 1);
		assert_int_equal(r->early.tid, 0);
		assert_int_equal(f->slots[0].handover.offer, 0);
		assert_string_equal(fake_next(f), accepted ? "exact a3 b3" : "");
		assert_int_equal(r->n_pend, !accepted);
		assert_true(accepted || !r->pend[0].early);
		end_stopping(f, r);
	}
}

static struct fake *stops; /* NULL: it was stopped */
static pid_t who_stops;

/* That one's stop comes while the thread is read. */
static void stop_meanwhile(void *arg, raddr at, const void *bytes, size_t n, int ret)
{
	if (stops)
		hold(stops, who_stops);
	stops = NULL;
}

/* Then the read ends the stop, of that thread alone. */
static void stopped_while_it_is_read(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);
	uint32_t turn = f->slots[0].handover.turn;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, now_ns() - f->t); /* before it runs on */
	stops = f;
	who_stops = FAKE_TID;
	r->mem.saw = stop_meanwhile;
	reader_drain(r, 0, false);
	assert_null(stops);
	assert_int_equal(f->slots[0].handover.turn, turn + 2); /* given and taken back */
	assert_int_equal(f->slots[0].handover.offer, 0);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_true(r->held_ns > 0);
	assert_int_equal(r->n_pend, 0);
	end_stopping(f, r);
}

/* The stop of another meanwhile tells nothing of this one, whose read is offered on, and is dealt
 * with in the next drain. */
static void another_is_stopped_while_it_is_read(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);
	uint32_t turn = f->slots[0].handover.turn;

	fake_take(f, (struct fake_event){ 0 });
	stops = f;
	who_stops = OTHER;
	r->mem.saw = stop_meanwhile;
	reader_drain(r, 0, false);
	assert_null(stops);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->slots[0].handover.turn, turn + 1);
	assert_int_equal((uint32_t)f->slots[0].handover.offer, FAKE_TID);
	assert_int_equal(r->early.tid, FAKE_TID);
	assert_int_equal(r->turn, 0);
	reader_drain(r, 0, false);
	assert_int_equal(f->slots[0].handover.turn, turn + 2);
	assert_int_equal(r->n_pend, 1);
	end_stopping(f, r);
}

static void hear_no_drain(struct reader *r, uint64_t head, uint64_t left, bool last)
{
}

static void hear_no_target(struct reader *r, pid_t pid, const struct target *t)
{
}

static void hear_no_look(struct reader *r, enum tap_look what, pid_t tid)
{
}

static void hear_no_looked(struct reader *r, enum tap_look what, pid_t tid, uint64_t own)
{
}

static void hear_no_judgement(struct reader *r, const struct pending *p)
{
}

/* The tracer takes the offer as the reader has been told that it holds the thread. */
static void accept_then(struct reader *r, enum tap_answer what, uint64_t key, uint64_t *value)
{
	if (what != TAP_HELD || !*value || !stops)
		return;
	accept(stops, stops->t + 20 * US, 0);
	stops->slots[0].handover.turn++;
	stops = NULL;
}

static void stop_once(void *arg, raddr at, const void *bytes, size_t n, int ret)
{
	if (stops && !(stops->slots[0].handover.turn & 1))
		hold(stops, FAKE_TID);
}

/* A stop that came before the offer, and has ended by it before the read could end it. */
static void a_stop_that_takes_the_offer(void **state)
{
	static const struct tap_ops taker = { hear_no_drain,  hear_no_look, hear_no_looked,
					      hear_no_target, accept_then,  hear_no_judgement };
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	stops = f;
	r->mem.saw = stop_once;
	r->tap = &taker;
	reader_drain(r, 0, false);
	assert_null(stops);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(f->slots[0].handover.offer, 0);
	assert_int_equal(f->slots[0].handover.turn & 1, 0);
	assert_int_equal(r->held_ns, 10 * US);
	assert_int_equal(r->early.tid, 0);
	assert_int_equal(r->n_pend, 0);
	end_stopping(f, r);
}

/* --- which stop is whose --- */

/* The stop that the thread makes with registers that differ by @add, when it had run on @ran_on
 * before (+: after) its sample. */
static const struct its_stop {
	uint64_t add;
	int64_t ran_on;
	const char *want;
} its_stops[] = {
	{ 0, -1, "exact a3 b3" },
	{ 0, 0, "late a3 b3" },
	{ 0, 1, "late a3 b3" },
	{ 1, -1, "late a3 b3" },
};

static struct fake *moving;
static const struct its_stop *how;

static void hold_as(struct fake *f, const struct its_stop *stop)
{
	hold(f, FAKE_TID);
	regs_of(f, f->slots[0].handover.regs, stop->add);
	f->slots[0].handover.ran_on_ns = f->t + (uint64_t)stop->ran_on;
}

static void moves_meanwhile(void *arg, raddr at, const void *bytes, size_t n, int ret)
{
	if (moving)
		hold_as(moving, how);
	moving = NULL;
}

static void ends_as(struct fake *f, struct reader *r, const struct its_stop *stop)
{
	reader_drain(r, 0, false);
	assert_string_equal(fake_next(f), stop->want);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(r->n_pend, 0);
	end_stopping(f, r);
}

/* Only one with the registers of the sample, and not an earlier one: of a thread that is read
 * before it, in it, or when it has come while the thread was read. */
static void stops_of_a_sample(void **state)
{
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(its_stops); i++) {
		struct reader *r = begin_stopping(f);

		fake_take(f, (struct fake_event){ 0 });
		reader_drain(r, 0, false);
		accept(f, f->t + 20 * US, its_stops[i].add);
		f->slots[0].handover.accepted_ran_on_ns = f->t + (uint64_t)its_stops[i].ran_on;
		ends_as(f, r, &its_stops[i]);

		r = begin_stopping(f);
		here = 1;
		fake_take(f, (struct fake_event){ 0 });
		hold_as(f, &its_stops[i]);
		ends_as(f, r, &its_stops[i]);

		r = begin_stopping(f);
		fake_take(f, (struct fake_event){ 0 });
		moving = f;
		how = &its_stops[i];
		r->mem.saw = moves_meanwhile;
		ends_as(f, r, &its_stops[i]);
		assert_null(moving);
	}
}

/* --- how long samples wait --- */

/* One that was read before its stop waits no longer than others. */
static void stops_that_do_not_come(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);

	fake_take(f, (struct fake_event){ 0 });
	reader_drain(r, 0, false);
	assert_int_equal(r->early.tid, FAKE_TID);
	r->pend[0].s.time = now_ns() - (STOP_MS + 1) * (uint64_t)1000000;
	reader_drain(r, 0, false);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_nostop), 1);
	assert_int_equal(f->slots[0].handover.offer, 0);
	assert_int_equal(f->slots[0].handover.untaken, FAKE_TID); /* it may block the signal */
	assert_int_equal(r->n_pend, 0);
	end_stopping(f, r);
}

/* A younger one does; on a busy machine not each time, for it grows older. */
static void samples_that_wait(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);
	bool waits = false;

	here = 1;
	for (int i = 0; i < 100 && !waits; i++) {
		f->t = now_ns();
		fake_take(f, (struct fake_event){ 0 });
		reader_drain(r, 0, false);
		waits = r->n_pend == 1;
	}
	assert_true(waits);
	end_stopping(f, r);
}

static void samples_that_wait_too_long(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);
	const uint64_t ahead = f->t;

	here = 1;
	f->t = now_ns() - (STOP_MS + 1) * (uint64_t)1000000;
	fake_take(f, (struct fake_event){ .tid = OTHER });
	f->t = ahead;
	fake_take(f, (struct fake_event){ 0 });
	reader_drain(r, 0, false);
	assert_string_not_equal(fake_next(f), "");
	assert_int_equal(fake_sample(f)->sample.tid, OTHER);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(r->n_pend, 1);
	assert_int_equal(r->pend[0].s.tid, FAKE_TID);
	assert_int_equal(f->slots[0].handover.untaken, OTHER);
	assert_int_equal(fake_counted(f, late_nostop), 1);
	reader_drain(r, 0, true);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_nostop), 2);
	reader_destroy(r);
}

/* --- what a hold costs --- */

/* From its leaving to when it could run on: that it waited for other threads then is not our
 * doing. */
static void costs_of_a_read_before_the_stop(void **state)
{
	static const struct {
		uint64_t out, resumed, in; /* 0: no record */
		uint64_t charged;
	} rows[] = {
		{ 10 * US, 30 * US, 0, 20 * US },
		{ 10 * US, 30 * US, 40 * US, 30 * US },
		{ 10 * US, 30 * US, 30 * US + WAKE_NS, 20 * US + WAKE_NS },
		{ 10 * US, 30 * US, 200 * US, 20 * US + WAKE_NS },
		{ 10 * US, 30 * US, 20 * US, 20 * US },
		{ 30 * US, 30 * US, 0, 0 },
		{ 40 * US, 30 * US, 0, 0 },
		{ 0, 30 * US, 0, 0 },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct reader *r = begin_stopping(f);

		fake_take(f, (struct fake_event){ 0 });
		reader_drain(r, 0, false);
		if (rows[i].out)
			fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT, FAKE_TID, rows[i].out);
		if (rows[i].in)
			fake_switch(f, 0, IN, FAKE_TID, rows[i].in);
		accept(f, f->t + rows[i].resumed, 0);
		reader_drain(r, 0, false);
		assert_string_equal(fake_next(f), "exact a3 b3");
		if (r->held_ns != rows[i].charged)
			fail_msg("row %zu: %lu", i, (unsigned long)r->held_ns);
		assert_int_equal(r->early.tid, 0);
		end_stopping(f, r);
	}
}

/* Who was not held costs nothing; who was, from its leaving on. */
static void costs_of_a_stop(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);

	here = 1;
	fake_take(f, (struct fake_event){ 0 });
	hold(f, FAKE_TID); /* without a record that it left */
	reader_drain(r, 0, false);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(r->held_ns, 0);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 1);
	reader_drain(r, 0, true);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(r->held_ns, 0);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 1);
	hold(f, FAKE_TID);
	reader_drain(r, 0, false);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_true(r->held_ns > 0);
	end_stopping(f, r);
}

/* A stop whose thread has no sample here is given back, and proves nothing of others. */
static void a_stop_of_another(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);

	here = 1;
	fake_take(f, (struct fake_event){ 0 });
	hold(f, OTHER);
	reader_drain(r, 0, false);
	assert_int_equal(f->slots[0].handover.turn & 1, 0);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(r->n_pend, 1);
	assert_int_equal(r->pend[0].hold.witness, WITNESS_NONE);
	assert_int_equal(r->turn, 0);
	end_stopping(f, r);
}

/* More samples of others than can wait are flushed meanwhile: the thread that is held is read and
 * given back all the same, whether its sample is the first one or the last. */
static void a_stop_behind_more_than_can_wait(void **state)
{
	struct fake *f = *state;

	for (uint64_t at = 0; at <= PEND_MAX; at += PEND_MAX) {
		struct reader *r = begin_stopping(f);
		uint64_t exact = 0;

		here = 1;
		for (uint64_t i = 0; i <= PEND_MAX; i++)
			fake_take(f, (struct fake_event){ .tid = i == at ? FAKE_TID : OTHER,
							  .after = i,
							  .no_stack = true });
		hold(f, FAKE_TID);
		reader_drain(r, 0, false);
		assert_int_equal(f->slots[0].handover.turn & 1, 0);
		assert_int_equal(r->turn, 0);
		for (const char *s; *(s = fake_next(f));)
			exact += strncmp(s, "exact", 5) == 0;
		assert_int_equal(exact, 1);
		end_stopping(f, r);
	}
}

/* One that the thread takes after that, when it was given back, waits for a stop of its own. */
static void a_sample_behind_a_stop_that_was_flushed(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_stopping(f);
	uint64_t exact = 0;

	here = 1;
	for (uint64_t i = 0; i <= PEND_MAX + 1; i++)
		fake_take(f, (struct fake_event){ .tid = i % (PEND_MAX + 1) ? OTHER : FAKE_TID,
						  .after = i,
						  .no_stack = true });
	hold(f, FAKE_TID);
	reader_drain(r, 0, false);
	for (const char *s; *(s = fake_next(f));)
		exact += strncmp(s, "exact", 5) == 0;
	assert_int_equal(exact, 1);
	assert_int_equal(r->n_pend, 2);
	assert_int_equal(r->pend[1].s.tid, FAKE_TID);
	assert_int_equal(r->pend[1].hold.witness, WITNESS_NONE);
	end_stopping(f, r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(when_threads_are_read_early),
		FAKE_TEST(whose_samples_are_read_early),
		FAKE_TEST(as_many_as_can_wait),
		FAKE_TEST(strangers_are_not_read_early),
		FAKE_TEST(reads_that_are_withdrawn),
		FAKE_TEST(reads_of_who_sheds),
		FAKE_TEST(stopped_while_it_is_read),
		FAKE_TEST(another_is_stopped_while_it_is_read),
		FAKE_TEST(a_stop_that_takes_the_offer),
		FAKE_TEST(stops_of_a_sample),
		FAKE_TEST(stops_that_do_not_come),
		FAKE_TEST(samples_that_wait),
		FAKE_TEST(samples_that_wait_too_long),
		FAKE_TEST(costs_of_a_read_before_the_stop),
		FAKE_TEST(costs_of_a_stop),
		FAKE_TEST(a_stop_of_another),
		FAKE_TEST(a_stop_behind_more_than_can_wait),
		FAKE_TEST(a_sample_behind_a_stop_that_was_flushed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
