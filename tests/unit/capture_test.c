/* SPDX-License-Identifier: MIT
 *
 * capture: the rule that tells exact from late, a row for each reason; which capture a name
 * picks; and what captures do that have nothing of their own to do.
 */
#include <errno.h>
#include <signal.h>

#include "unit.h"
#include "base/base.h"
#include "capture/capture.h"
#include "capture/preempt.h"
#include "capture/reader_int.h"
#include "fake_machine.h"
#include "sample/perf_decode.h"

extern const struct capture_ops capture_preempt, capture_stop, capture_async;

/* Flags: k the event was in the kernel, p preempted, b backlog, r ran again; s, m a
 * witness saw the same registers, or others. The sample is at 1000 ns. */
struct judge_row {
	const char *what, *flags;
	uint64_t t_out, gap_max_ns;
	enum judgement want;
};

static const struct judge_row judge_rows[] = {
	{ "held at once", "p", 1100, 200, JUDGE_EXACT },
	{ "held at the last moment", "p", 1100, 100, JUDGE_EXACT },
	{ "left a moment too late", "p", 1100, 99, JUDGE_GAP },
	{ "left by its own will", "", 1100, 200, JUDGE_VOLUNTARY },
	{ "no record of leaving", "p", 0, 200, JUDGE_NOSWITCH },
	{ "came back", "pr", 1100, 200, JUDGE_RAN },
	{ "came back before us", "pb", 1100, 200, JUDGE_BACKLOG },
	/* The kernel may work on, and wait, before the thread leaves. */
	{ "preempted in the kernel", "kp", 999000, 200, JUDGE_EXACT },
	{ "waited in the kernel", "k", 999000, 200, JUDGE_EXACT },
	{ "kernel, came back", "kr", 999000, 200, JUDGE_RAN },
	{ "kernel, came back before us", "kb", 999000, 200, JUDGE_BACKLOG },
	{ "kernel, no record", "k", 0, 200, JUDGE_NOSWITCH },
	/* A witness knows better than time and manner, but not than a way back. */
	{ "late, same registers", "ps", 999000, 99, JUDGE_EXACT },
	{ "own will, same registers", "s", 1100, 200, JUDGE_EXACT },
	{ "soon, other registers", "pm", 1100, 200, JUDGE_GAP },
	{ "kernel, other registers", "kpm", 1100, 200, JUDGE_GAP },
	{ "same registers, came back", "psr", 1100, 200, JUDGE_RAN },
	{ "same registers, backlog", "psb", 1100, 200, JUDGE_BACKLOG },
	{ "same registers, no record", "ps", 0, 200, JUDGE_NOSWITCH },
	/* Of several reasons the one that says most. */
	{ "all of them", "br", 0, 0, JUDGE_BACKLOG },
	{ "no record, came back", "pr", 0, 200, JUDGE_NOSWITCH },
	{ "own will, came back", "r", 1100, 200, JUDGE_RAN },
	{ "own will, too late", "", 1100, 0, JUDGE_VOLUNTARY },
	/* A record from before the sample proves nothing. */
	{ "left before", "p", 900, 200, JUDGE_GAP },
};

static void judge(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(judge_rows); i++) {
		const struct judge_row *row = &judge_rows[i];
		const struct hold h = {
			.t0 = 1000,
			.t_out = row->t_out,
			.t_end = 2000000,
			.in_kernel = strchr(row->flags, 'k'),
			.preempted = strchr(row->flags, 'p'),
			.backlog = strchr(row->flags, 'b'),
			.ran = strchr(row->flags, 'r'),
			.gap_max_ns = row->gap_max_ns,
			.witness = strchr(row->flags, 's') ? WITNESS_SAME :
				   strchr(row->flags, 'm') ? WITNESS_MOVED :
							     WITNESS_NONE,
		};

		if (capture_judge_held(&h) != row->want)
			fail_msg("%s: %d", row->what, capture_judge_held(&h));
		assert_int_equal(capture_preempt.judge(&h), row->want);
	}
}

static struct preempt_plan nothing_known;
static const struct capture_want in_general = { .named = true, .plan = &nothing_known };

/* Exact by the witness alone. */
static void async_needs_the_witness(void **state)
{
	struct hold h = { .t0 = 1000, .t_out = 1100, .gap_max_ns = 200, .preempted = true };

	assert_int_equal(capture_async.judge(&h), JUDGE_CAPTURE);
	h.witness = WITNESS_MOVED;
	assert_int_equal(capture_async.judge(&h), JUDGE_CAPTURE);
	h.witness = WITNESS_SAME;
	assert_int_equal(capture_async.judge(&h), JUDGE_EXACT);
	h.t_out = 1200;
	assert_int_equal(capture_async.judge(&h), JUDGE_EXACT);
	h.t_out = 1201;
	assert_int_equal(capture_async.judge(&h), JUDGE_CAPTURE);
	h.counted = true; /* then how long it took tells no more */
	assert_int_equal(capture_async.judge(&h), JUDGE_EXACT);
	h.witness = WITNESS_MOVED;
	assert_int_equal(capture_async.judge(&h), JUDGE_CAPTURE);
	h.witness = WITNESS_SAME;
	h.t_out = 1100;
	h.ran = true;
	assert_int_equal(capture_async.judge(&h), JUDGE_RAN);
	h.backlog = true;
	assert_int_equal(capture_async.judge(&h), JUDGE_BACKLOG);
	assert_int_equal(capture_async.possible(&in_general, NULL), 0);
	assert_int_equal(capture_async.thread_begin(NULL, 0), 0);
	assert_true(capture_async.waits_begin(NULL) < 0);
}

/* Who is at its end runs no more Python, whatever else is known of it. */
static void one_that_ends_stays_as_it_was(void **state)
{
	struct hold h = { .t0 = 1000, .t_out = 2000, .gap_max_ns = 200, .ending = true };

	h.backlog = h.ran = true;
	h.witness = WITNESS_MOVED;
	assert_int_equal(capture_async.judge(&h), JUDGE_EXACT);
	assert_int_equal(capture_preempt.judge(&h), JUDGE_EXACT);
	h.witness = WITNESS_NONE;
	h.t_out = 0;
	assert_int_equal(capture_async.judge(&h), JUDGE_EXACT);
	assert_int_equal(capture_preempt.judge(&h), JUDGE_EXACT);
}

/* --- what a capture does that has nothing of its own to do --- */

static int attached_by_us(void *arg, struct err *err)
{
	*(struct err **)arg = err;
	return -ENXIO;
}

/* It says nothing, into any buffer; refuses nothing; its readers are where they were, and
 * nobody comes back. Events are opened by the thread that asks for it. */
static void nothing_of_its_own(void **state)
{
	char buf[4] = "abc";
	struct err err, *given = NULL;
	const struct capture_attach a = { .attach = attached_by_us, .arg = &given };

	assert_ptr_equal(buf, capture_async.stall(buf, 0));
	assert_string_equal("abc", buf);
	assert_ptr_equal(buf, capture_async.stall(buf, sizeof(buf)));
	assert_memory_equal("\0bc", buf, 4);
	buf[0] = 'a';
	assert_ptr_equal(buf, capture_async.caveat(&nothing_known, buf, 1));
	assert_memory_equal("\0bc", buf, 4);
	assert_int_equal(0, capture_async.slot_begin(NULL));
	assert_int_equal(-ENXIO, capture_async.attach(&a, &err));
	assert_ptr_equal(&err, given);
	assert_false(capture_async.moved_away(NULL));
	assert_false(capture_async.comes_back(NULL));
}

/* Who is over the budget sleeps for what is left, but looks at the ring now and then. */
static void shedding_sleeps_in_steps(void **state)
{
	static const uint64_t left[][2] = { { 0, 0 },
					    { 1, 1 },
					    { CAPTURE_SHED_NS - 1, CAPTURE_SHED_NS - 1 },
					    { CAPTURE_SHED_NS, CAPTURE_SHED_NS },
					    { CAPTURE_SHED_NS + 1, CAPTURE_SHED_NS },
					    { UINT64_MAX, CAPTURE_SHED_NS } };

	machine_begin(0);
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		capture_async.shed(NULL, left[i][0]);
		assert_int_equal(i + 1, machine.n_sleeps);
		assert_int_equal(0, machine.sleep.tv_sec);
		assert_int_equal(left[i][1], machine.sleep.tv_nsec);
	}
}

static int pick(const char *name, const struct capture_ops **ret, struct err *why,
		struct err *err)
{
	*ret = NULL;
	*why = (struct err){ .text = "stale" };
	*err = (struct err){ 0 };
	return capture_pick(name, &in_general, ret, why, err);
}

static void pick_by_name(void **state)
{
	const struct capture_ops *ops;
	struct err why, err;

	for (size_t i = 0; captures[i]; i++) {
		int r = pick(captures[i]->name, &ops, &why, &err);

		assert_ptr_equal(ops, captures[i]);
		assert_int_equal(r, captures[i]->possible(&in_general, NULL));
		assert_int_equal(r == 0, err.text[0] == '\0');
		assert_string_equal(why.text, "");
	}
}

/* The first that is possible; of a worse one it is told why. */
static void pick_auto(void **state)
{
	const struct capture_ops *ops;
	struct err why, err;

	assert_int_equal(pick("auto", &ops, &why, &err), 0);
	if (capture_preempt.possible(&in_general, NULL) == 0) {
		assert_ptr_equal(ops, &capture_preempt);
		assert_string_equal(why.text, "");
	} else {
		assert_ptr_equal(ops, &capture_stop);
		assert_non_null(strstr(why.text, "SCHED_FIFO"));
	}
}

/* By name one gets what one asked for, and what it says of that; auto says of each better one
 * why not, in their order. */
static void pick_what_is_impossible(void **state)
{
	struct preempt_plan isolated = { .targets = { .cpus = cpus_from(1, 1),
						      .spared = cpus_from(1, 1) } };
	struct capture_want want = { .plan = &isolated };
	const struct capture_ops *ops = NULL;
	struct err why = { .text = "stale" }, err = { 0 };
	const char *second;

	assert_int_equal(0, capture_pick("auto", &want, &ops, &why, &err));
	assert_ptr_equal(ops, &capture_async);
	assert_ptr_equal(why.text, strstr(why.text, "the targets run on CPU 1 alone"));
	second = strstr(why.text, "is given; --capture stop samples user mode only");
	assert_non_null(second);
	/* Named, stop takes events of both modes; of none but the kernel's not even then. */
	assert_int_equal(0, capture_pick("stop", &want, &ops, &why, &err));
	assert_ptr_equal(ops, &capture_stop);
	assert_string_equal("", why.text);
	want.kernel_only = true;
	assert_int_equal(-ENOENT, capture_pick("stop", &want, &ops, &why, &err));
	assert_non_null(strstr(err.text, "user mode only"));
	assert_int_equal(-EPERM, capture_pick("preempt", &want, &ops, &why, &err));
	assert_ptr_equal(ops, &capture_preempt);
	/* With stop possible, its reason is none. */
	want = (struct capture_want){ .plan = &isolated, .user_only = true };
	assert_int_equal(0, capture_pick("auto", &want, &ops, &why, &err));
	assert_ptr_equal(ops, &capture_stop);
	assert_null(strstr(why.text, "; --capture"));
}

static void pick_errors(void **state)
{
	static const char *const rows[][2] = {
		{ "bpf", "not built" }, { "nosuch", "'nosuch'" },
		{ "Async", "'Async'" }, { "", "auto, preempt, stop, async" },
		{ "stop ", "'stop '" },
	};
	const struct capture_ops *ops;
	struct err why, err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(pick(rows[i][0], &ops, &why, &err), -EINVAL);
		assert_string_equal("", why.text);
		assert_null(ops);
		assert_int_equal(err.code, -EINVAL);
		assert_non_null(strstr(err.text, rows[i][1]));
	}
}

/* With a red zone, whole or without its bytes: no byte behind its record is touched. */
static void stack_bytes(void **state)
{
	enum { SP = 0x7000, STACK = 64, GUARD = 256 };
	static struct reader_config c = { .native = true };
	static struct reader r = { .c = &c };
	unsigned char regs[8 * ARCH_MAX_REGS], stack[STACK];
	const struct pending p = {
		.s = { .user_sp = SP, .regs = regs, .stack = { stack, STACK } }, .held = true
	};
	const struct walk w = { .res.end = PYSTACK_NOPYTHON, .rest.red_end = SP };
	_Alignas(8) unsigned char buf[4096];
	struct q_sample *q = (void *)buf;

	memset(regs, 1, sizeof(regs));
	memset(r.red, 2, sizeof(r.red));
	memset(stack, 3, sizeof(stack));
	for (int drop = 0; drop < 2; drop++) {
		memset(buf, 0xee, sizeof(buf));
		*q = (struct q_sample){ 0 };
		rest_size(&r, &p, &w, q);
		assert_int_equal(RED_BYTES + STACK, q->n_stack);
		if (drop)
			q_drop_stack(q);
		rest_copy(&r, &p.s, q);
		assert_int_equal(1, q_regs(q)[8 * q->n_regs - 1]);
		assert_int_equal(drop ? 0xee : 2, q_stack(q)[0]);
		assert_int_equal(drop ? 0xee : 3, q_stack(q)[RED_BYTES + STACK - 1]);
		for (size_t i = q_bytes(q); i < q_bytes(q) + GUARD; i++)
			assert_int_equal(0xee, buf[i]);
	}
}

/* Who has the tracer open its events is let use ptrace(2), by its name and by "auto". Who holds
 * threads does not judge as if nobody did. */
static void what_names_do_not_tell(void **state)
{
	bool any = false;

	(void)state;
	for (size_t i = 0; captures[i]; i++) {
		bool tracer = captures[i]->attach != capture_attach_here;

		assert_ptr_equal(captures[i], capture_named(captures[i]->name));
		assert_int_equal(tracer, captures[i]->traces);
		assert_int_equal(tracer, capture_may_trace(captures[i]->name));
		assert_int_equal(captures[i]->judge != capture_judge_unheld,
				 captures[i]->holds);
		any |= tracer;
	}
	assert_true(any);
	assert_true(capture_may_trace("auto"));
	assert_null(capture_named("auto"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(judge),
		cmocka_unit_test(one_that_ends_stays_as_it_was),
		cmocka_unit_test(async_needs_the_witness),
		cmocka_unit_test(nothing_of_its_own),
		cmocka_unit_test_teardown(shedding_sleeps_in_steps, machine_end),
		cmocka_unit_test(pick_by_name),
		cmocka_unit_test(pick_auto),
		cmocka_unit_test(pick_what_is_impossible),
		cmocka_unit_test(pick_errors),
		cmocka_unit_test(stack_bytes),
		cmocka_unit_test(what_names_do_not_tell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
