/* SPDX-License-Identifier: MIT
 *
 * wait_table: what is taken stands for all; waiting: stacks until their waits are over.
 */
#include "unit.h"
#include "no_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "capture/wait_table.h"
#include "stacks/waiting.h"

static void a_wait_is_what_lies_between_two_switches(void **state)
{
	struct wait_table t = { .since = 100 };
	struct wait over;
	const uint64_t regs[2] = { 7, 8 };

	(void)state;
	wait_table_regs(&t, 5, 990, regs, 2);
	assert_non_null(wait_table_out(&t, 1, 5, 1000, false, &over));
	assert_int_equal(over.ticks, 0);
	assert_int_equal(wait_table_tick(&t, 900, 100), 0); /* before it */
	assert_int_equal(wait_table_tick(&t, 1200, 300), 1);
	wait_table_in(&t, 5, 1250, false, &over);
	assert_int_equal(over.ticks, 1);
	assert_int_equal(over.pid, 1);
	assert_true(over.regs_known);
	assert_int_equal(over.regs[1], 8);
	/* Shorter than the longest distance: it stands for the distance of its tick. */
	assert_int_equal(wait_table_weight(&t, &over, 1250), 300);
	/* Longer: for itself. */
	assert_int_equal(wait_table_weight(&t, &over, 1301), 301);
	assert_int_equal(wait_table_tick(&t, 1300, 100), 0);
	/* Its registers are of the last time. */
	wait_table_out(&t, 1, 5, 1400, true, &over);
	wait_table_tick(&t, 1500, 100);
	wait_table_in(&t, 5, 1600, true, &over);
	assert_true(over.preempted);
	assert_false(over.regs_known);
	wait_table_in(&t, 5, 1700, false, &over);
	assert_int_equal(over.ticks, 0);
	wait_table_deinit(&t);
}

/* What readers tell of before a thread's end may come behind it, from another CPU: it sleeps no
 * more. What is told of later is of another thread with that number, as after an exec by one that
 * is not the first. */
static void what_comes_behind_an_end(void **state)
{
	enum { KNOWN = 5, UNKNOWN, SECOND = 1000000000 };
	struct wait_table t = { 0 };
	struct wait over;

	(void)state;
	wait_table_out(&t, 1, KNOWN, 100, false, &over);
	wait_table_know(&t, 1, UNKNOWN);
	for (pid_t tid = KNOWN; tid <= UNKNOWN; tid++) {
		wait_table_in(&t, tid, 300, true, &over);
		assert_false(wait_table_out(&t, 1, tid, 200, false, &over)->asleep);
	}
	assert_int_equal(wait_table_tick(&t, 300 + SECOND - 1, 10), 0);
	assert_int_equal(t.n, 2);
	wait_table_out(&t, 1, KNOWN, 400, false, &over);
	assert_int_equal(wait_table_tick(&t, 300 + SECOND, 10), 1);
	assert_int_equal(t.n, 1);
	for (int ended = 1; ended >= 0; ended--) {
		wait_table_in(&t, KNOWN, 350, ended, &over); /* told late */
		assert_int_equal(over.ticks, 0);
	}
	assert_int_equal(wait_table_tick(&t, 400 + SECOND, 10), 1);
	wait_table_in(&t, KNOWN, 500 + SECOND, true, &over);
	assert_int_equal(over.ticks, 2);
	assert_int_equal(wait_table_tick(&t, 500 + 2ull * SECOND, 10), 0);
	assert_int_equal(t.n, 0);
	wait_table_deinit(&t);
}

/* A thread that is forgotten takes no other's wait along, wherever both were kept; nor has who gets
 * its number later none. */
static void who_is_forgotten(void **state)
{
	enum { N = 3, SECOND = 1000000000 };

	(void)state;
	for (pid_t gone = 1; gone <= N; gone++) {
		struct wait_table t = { 0 };
		struct wait over;

		for (pid_t tid = 1; tid <= N; tid++)
			wait_table_out(&t, 7 * tid, tid, 100, false, &over);
		assert_int_equal(wait_table_tick(&t, 150, 10), N);
		wait_table_in(&t, gone, 200, true, &over);
		assert_int_equal(wait_table_tick(&t, 200 + SECOND, 10), N - 1);
		assert_int_equal(t.n, N - 1);
		assert_non_null(wait_table_out(&t, 9, gone, 300 + SECOND, false, &over));
		assert_int_equal(t.n, N);
		assert_int_equal(wait_table_tick(&t, 400 + SECOND, 10), N);
		for (pid_t tid = 1; tid <= N; tid++) {
			wait_table_in(&t, tid, 500 + SECOND, false, &over);
			assert_int_equal(over.tid, tid);
			assert_int_equal(over.pid, tid == gone ? 9 : 7 * tid);
			assert_int_equal(over.ticks, tid == gone ? 1 : 3);
		}
		wait_table_deinit(&t);
	}
}

static void records_out_of_order_and_missing_ones_do_no_harm(void **state)
{
	struct wait_table t = { 0 };
	struct wait over;

	(void)state;
	wait_table_in(&t, 9, 50, false, &over); /* never seen */
	assert_int_equal(over.ticks, 0);
	wait_table_out(&t, 1, 9, 100, false, &over);
	wait_table_in(&t, 9, 90, false, &over); /* older than its leaving */
	assert_int_equal(over.ticks, 0);
	wait_table_tick(&t, 150, 10);
	wait_table_out(&t, 1, 9, 100, false, &over); /* told twice */
	assert_int_equal(over.ticks, 0);
	wait_table_out(&t, 1, 9, 200, false, &over); /* its coming is missing */
	assert_int_equal(over.ticks, 1);
	assert_int_equal(over.out, 100);
	wait_table_in(&t, 9, 300, false, &over);
	assert_int_equal(over.ticks, 0);
	wait_table_out(&t, 1, 9, 250, false, &over); /* late, and over by now */
	assert_int_equal(wait_table_tick(&t, 400, 10), 0);
	/* What was before the recording does not count. */
	t.since = 1000;
	t.longest = 10;
	wait_table_out(&t, 1, 9, 900, false, &over);
	wait_table_tick(&t, 1100, 10);
	wait_table_in(&t, 9, 1500, false, &over);
	assert_int_equal(wait_table_weight(&t, &over, 1500), 500);
	wait_table_deinit(&t);
}

/* Each thread has its own wait, whoever came and went beside it. */
static void many_threads(void **state)
{
	enum { N = 500 };
	struct wait_table t = { 0 };
	struct wait over;
	uint64_t regs[WAIT_REGS + 1] = { 0 };

	(void)state;
	for (int i = 1; i <= N; i++) {
		regs[WAIT_REGS - 1] = (uint64_t)i;
		wait_table_regs(&t, i, 900, regs, WAIT_REGS);
		assert_non_null(
			wait_table_out(&t, 7 * i, i, 1000 + (uint64_t)i, i % 2, &over));
		assert_int_equal(0, over.ticks);
	}
	assert_int_equal(N, t.n);
	/* Those behind the tick are not in it. */
	assert_int_equal(300, wait_table_tick(&t, 1301, 50));
	for (int i = 3; i <= N; i += 3) {
		wait_table_in(&t, i, 2000, true, &over);
		assert_int_equal(i, over.tid);
		assert_int_equal(i <= 300, over.ticks);
	}
	assert_int_equal(N - N / 3, wait_table_tick(&t, 2000, 70));
	for (int i = N; i >= 1; i--) {
		bool gone = i % 3 == 0;

		wait_table_in(&t, i, 2001, true, &over);
		assert_int_equal(gone ? 0 : i <= 300 ? 2 : 1, over.ticks);
		if (gone)
			continue;
		assert_int_equal(i, over.tid);
		assert_int_equal(7 * i, over.pid);
		assert_int_equal(1000 + i, over.out);
		assert_int_equal(i % 2, over.preempted);
		assert_true(over.regs_known);
		assert_int_equal(i, over.regs[WAIT_REGS - 1]);
		assert_int_equal(i <= 300 ? 120 : 70, wait_table_weight(&t, &over, 1040));
	}
	assert_int_equal(0, wait_table_tick(&t, 2001 + 1000000000, 70));
	assert_int_equal(0, t.n);
	wait_table_deinit(&t);
}

/* Registers are those of a wait if the thread has left with them just then. */
static void registers_of_this_time(void **state)
{
	static const struct {
		uint64_t at, in, out;
		bool known;
	} rows[] = {
		{ 5000000, 0, 5000000, true },	      { 5000000, 0, 5000001, true },
		{ 5000001, 0, 5000000, false },	      { 5000000, 0, 5999999, true },
		{ 5000000, 0, 6000000, false },	      { 5000000, 5000000, 5000500, true },
		{ 5000000, 5000001, 5000500, false },
	};
	const uint64_t regs[WAIT_REGS + 1] = { 7 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wait_table t = { 0 };
		struct wait over, *w;

		wait_table_out(&t, 1, 5, 1, false, &over);
		wait_table_regs(&t, 5, rows[i].at, regs, 1);
		/* More than there is room for are none. */
		wait_table_regs(&t, 5, rows[i].out, regs, WAIT_REGS + 1);
		wait_table_in(&t, 5, MAX(rows[i].in, 2), false, &over);
		w = wait_table_out(&t, 0, 5, rows[i].out, false, &over);
		assert_int_equal(1, w->pid); /* as it was told before */
		assert_true(w->asleep);
		assert_int_equal(rows[i].out, w->out);
		if (w->regs_known != rows[i].known)
			fail_msg("row %zu", i);
		wait_table_deinit(&t);
	}
}

/* A reader may tell late of the CPU that the thread left before this one. */
static void registers_of_an_earlier_time(void **state)
{
	const uint64_t old[1] = { 7 }, new[1] = { 9 }, newer[1] = { 10 };

	(void)state;
	for (int late = 0; late < 2; late++) {
		struct wait_table t = { 0 };
		struct wait over, *w;

		for (int i = 0; i < 2; i++) {
			if (i == late) {
				wait_table_regs(&t, 5, 990, old, 1);
				wait_table_out(&t, 1, 5, 1000, false, &over);
				wait_table_in(&t, 5, 1100, false, &over);
			} else {
				wait_table_regs(&t, 5, 1190, new, 1);
				wait_table_out(&t, 1, 5, 1200, false, &over);
			}
		}
		wait_table_regs(&t, 5, 995, old, 1);
		w = wait_table_out(&t, 1, 5, 1200, false, &over);
		assert_true(w->asleep && w->regs_known);
		assert_int_equal(1200, w->out);
		assert_int_equal(9, w->regs[0]);
		wait_table_regs(&t, 5, 1190, newer, 1); /* at once */
		assert_int_equal(10, w->regs[0]);
		wait_table_in(&t, 5, 1300, false, &over);
		wait_table_regs(&t, 5, 1299, old, 1); /* of before it came */
		assert_int_equal(10, w->regs[0]);
		wait_table_regs(&t, 5, 1300, old, 1);
		assert_int_equal(7, w->regs[0]);
		wait_table_deinit(&t);
	}
}

/* What is told twice, or in another order, ends no wait twice, and none that began later. */
static void comings(void **state)
{
	struct wait_table t = { 0 };
	struct wait over;

	(void)state;
	wait_table_out(&t, 1, 5, 100, false, &over);
	wait_table_tick(&t, 101, 10);
	wait_table_in(&t, 5, 300, false, &over);
	assert_int_equal(1, over.ticks);
	wait_table_in(&t, 5, 301, false, &over);
	assert_int_equal(0, over.ticks);
	wait_table_in(&t, 5, 200, false, &over);
	assert_false(wait_table_out(&t, 1, 5, 250, false, &over)->asleep);
	assert_false(wait_table_out(&t, 1, 5, 300, false, &over)->asleep);
	assert_true(wait_table_out(&t, 1, 5, 301, false, &over)->asleep);
	wait_table_in(&t, 5, 301, false, &over); /* at once */
	assert_false(wait_table_out(&t, 1, 5, 300, false, &over)->asleep);
	wait_table_deinit(&t);
}

/* What a wait stands for. */
static void weights(void **state)
{
	static const struct {
		uint64_t out, since, end, weight;
	} rows[] = {
		{ 1000, 0, 1100, 30 },	/* as long as the longest distance */
		{ 1000, 0, 1101, 101 }, /* longer */
		{ 1000, 1000, 1101, 101 }, { 1000, 1050, 1150, 30 }, /* of what counts */
		{ 1000, 1050, 1151, 101 }, { 1000, 1500, 1499, 30 }, /* nothing of it does */
		{ 1000, 0, 900, 30 },
	};
	struct wait w = { .ticks = 1, .weight = 30 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wait_table t = { .longest = 100, .since = rows[i].since };

		w.began = rows[i].out;
		if (wait_table_weight(&t, &w, rows[i].end) != rows[i].weight)
			fail_msg("row %zu", i);
	}
	/* Also by a tick that came with the one before. */
	w = (struct wait){ .began = 1000, .ticks = 1 };
	assert_int_equal(101, wait_table_weight(&(struct wait_table){ .longest = 100 }, &w, 1101));
	w = (struct wait){ .began = 1000 }; /* not taken */
	assert_int_equal(0, wait_table_weight(&(struct wait_table){ 0 }, &w, 5000));
}

/* A wait that counts as two stands for what it would have stood for as one. */
static void waits_that_begin_anew(void **state)
{
	static const struct {
		uint64_t anew, end, weight[2];
	} rows[] = {
		{ 1510, 1900, { 510, 390 } }, /* longer than the longest distance */
		{ 1210, 1250, { 200, 0 } },
		{ 1210, 1550, { 200, 350 } },
	};
	const uint64_t regs[1] = { 7 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wait_table t = { .longest = 300 };
		struct wait over, *w;

		wait_table_regs(&t, 5, 1000, regs, 1);
		w = wait_table_out(&t, 1, 5, 1000, false, &over);
		wait_table_tick(&t, 1200, 200);
		w->tried = w->read = w->late = true;
		wait_table_anew(&t, w, rows[i].anew, &over);
		assert_int_equal(1000, over.out);
		assert_true(over.read && over.regs_known);
		assert_int_equal(rows[i].weight[0], wait_table_weight(&t, &over, rows[i].anew));
		assert_false(w->tried || w->read || w->late || w->regs_known);
		/* Its end is behind that; ticks may be told late. */
		assert_int_equal(1, wait_table_tick(&t, rows[i].anew - 5, 0));
		wait_table_in(&t, 5, rows[i].anew - 1, false, &over);
		assert_int_equal(0, over.ticks);
		wait_table_in(&t, 5, rows[i].end, false, &over);
		assert_int_equal(rows[i].anew, over.out);
		assert_int_equal(rows[i].weight[1], wait_table_weight(&t, &over, rows[i].end));
		/* The next one is another. */
		w = wait_table_out(&t, 1, 5, 3000, false, &over);
		wait_table_tick(&t, 3001, 60);
		assert_int_equal(60, wait_table_weight(&t, w, 3002));
		wait_table_deinit(&t);
	}
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 0x2545f4914f6cdd1d >> 33) % below;
}

/* Waits of each length stand for their time in the mean, also where they and what is between
 * them come at regular distances. */
static void what_is_taken_stands_for_all(void **state)
{
	static const uint64_t lengths[] = { 50, 400, 1000, 1700, 12000 };

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(lengths); k++) {
		uint64_t seed = 88172645463325252u + k, now = 0, tick = 0, distance, truth = 0,
			 got = 0;
		struct wait_table t = { 0 };
		struct wait over;

		distance = 500 + draw(&seed, 1000);
		for (int i = 0; i < 40000; i++) {
			uint64_t end = now + lengths[k];

			wait_table_out(&t, 1, 2, now, false, &over);
			for (; tick + distance <= end; distance = 500 + draw(&seed, 1000)) {
				tick += distance;
				wait_table_tick(&t, tick, distance);
			}
			wait_table_in(&t, 2, end, false, &over);
			if (over.ticks)
				got += wait_table_weight(&t, &over, end);
			truth += lengths[k];
			now = end + 1000;
			/* Ticks between two waits. */
			for (; tick + distance <= now; distance = 500 + draw(&seed, 1000)) {
				tick += distance;
				wait_table_tick(&t, tick, distance);
			}
		}
		assert_true(got > truth / 100 * 96 && got < truth / 100 * 104);
		wait_table_deinit(&t);
	}
}

static void a_stack_is_kept_until_its_wait_is_over(void **state)
{
	struct frame frames[2] = { { .kind = FRAME_NATIVE, .ip = 1 },
				   { .kind = FRAME_NATIVE, .ip = 2 } };
	struct stack stack = { .n = 2, .frames = frames };
	struct waiting w = { 0 };
	struct waiting_one one;

	(void)state;
	for (int tid = 1; tid <= 200; tid++) {
		struct sample s = { .tid = tid, .time = 1000u + (uint64_t)tid };

		frames[0].ip = (uint64_t)tid;
		assert_int_equal(waiting_keep(&w, &s, &stack, Q_WAIT_SLEEP, false), 0);
	}
	assert_false(waiting_take(&w, 7, 1, &one)); /* an earlier wait of it */
	for (int tid = 1; tid <= 200; tid += 2) {
		assert_true(waiting_take(&w, tid, 1000u + (uint64_t)tid, &one));
		assert_int_equal(one.n, 3);
		assert_ptr_equal(one.frames[0].name, waiting_marker(Q_WAIT_SLEEP));
		assert_int_equal(one.frames[1].ip, tid);
		free(one.frames);
		assert_false(waiting_take(&w, tid, 1000u + (uint64_t)tid, &one));
	}
	/* A new one takes the place of one whose end was never told. */
	assert_int_equal(
		waiting_keep(&w, &(struct sample){ .tid = 2, .time = 5 }, &stack, Q_WAIT_DISK, false),
		0);
	assert_false(waiting_take(&w, 2, 1002, &one));
	assert_true(waiting_take(&w, 2, 5, &one));
	assert_string_equal(one.frames[0].name, "[disk]");
	assert_string_equal(waiting_marker(Q_WAIT_STOPPED), "[stopped]");
	free(one.frames);
	waiting_deinit(&w);
}

/* Beyond a bound of their frames new ones are unnamed, until others are over. */
static void deep_stacks_of_many_waits(void **state)
{
	enum { DEEP = 1000, FIT = 5 };
	static struct frame frames[DEEP];
	struct stack stack = { .n = DEEP, .frames = frames };
	struct waiting w = { .most_frames = FIT * DEEP + DEEP / 2 };
	struct waiting_one one;

	(void)state;
	for (int tid = 1; tid <= 2 * FIT; tid++) {
		struct sample s = { .tid = tid, .time = 9, .prov = PROV_EXACT };

		assert_int_equal(waiting_keep(&w, &s, &stack, Q_WAIT_SLEEP, false), tid > FIT);
	}
	for (int tid = 1; tid <= 2 * FIT; tid++) {
		assert_true(waiting_take(&w, tid, 9, &one));
		assert_string_equal(one.frames[0].name, "[sleep]");
		assert_int_equal(one.n, tid > FIT ? 2 : DEEP + 1);
		if (tid > FIT)
			assert_string_equal(one.frames[1].name, "[unnamed]");
		assert_int_equal(one.sample.prov, PROV_EXACT);
		free(one.frames);
	}
	for (int i = 0; i <= FIT; i++) { /* one after the other in the same place */
		struct sample s = { .tid = 7, .time = 10 };

		assert_int_equal(waiting_keep(&w, &s, &stack, Q_WAIT_SLEEP, false), 0);
	}
	assert_int_equal(w.n_frames, DEEP + 1);
	waiting_deinit(&w);
}

/* Threads for which there is no memory are not in the table, whichever allocation fails; all
 * others are, and later they can be too. */
static void threads_without_memory(void **state)
{
	enum { MANY = 300 };

	(void)state;
	for (int alone = 0; alone < 2; alone++)
		for (long n = 1, more = NO_MEMORY_FAILS; more; n++) {
			struct wait_table t = { 0 };
			bool in[MANY + 1];
			struct wait over;
			size_t n_in = 0;

			no_memory_from(n, alone);
			for (pid_t tid = 1; tid <= MANY; tid++)
				in[tid] = wait_table_out(&t, 1, tid, 100, false, &over);
			more = no_memory_end();
			for (pid_t tid = 1; tid <= MANY; tid++)
				n_in += in[tid];
			assert_int_equal(wait_table_tick(&t, 150, 10), n_in);
			for (pid_t tid = 1; tid <= MANY; tid++) {
				assert_non_null(wait_table_out(&t, 1, tid, 200, false, &over));
				assert_int_equal(over.ticks, in[tid]);
			}
			assert_int_equal(t.n, MANY);
			assert_int_equal(wait_table_tick(&t, 300, 10), MANY);
			wait_table_deinit(&t);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_is_what_lies_between_two_switches),
		cmocka_unit_test(what_comes_behind_an_end),
		cmocka_unit_test(who_is_forgotten),
		cmocka_unit_test(records_out_of_order_and_missing_ones_do_no_harm),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(threads_without_memory),
		cmocka_unit_test(registers_of_this_time),
		cmocka_unit_test(registers_of_an_earlier_time),
		cmocka_unit_test(comings),
		cmocka_unit_test(weights),
		cmocka_unit_test(waits_that_begin_anew),
		cmocka_unit_test(what_is_taken_stands_for_all),
		cmocka_unit_test(a_stack_is_kept_until_its_wait_is_over),
		cmocka_unit_test(deep_stacks_of_many_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
