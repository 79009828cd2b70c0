/* SPDX-License-Identifier: MIT
 *
 * event_place: where events count, for every combination of rights and wishes, and when births
 * make them go over to CPUs.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"
#include "attach/event_place.h"
#include "fake_rights.h"

static const struct place_facts all = {
	.eligible = true, .follows = true, .wide = true, .filter = true, .rate = 99
};

static void expect(struct place_facts f, enum event_place want, const char *word)
{
	char why[256];

	assert_int_equal(event_place_choose(&f, why), want);
	assert_non_null(strstr(why, word));
}

static void test_rights_and_wishes(void **state)
{
	struct place_facts f = all;

	(void)state;
	expect(f, PLACE_CPUS, "less than a period");
	f.rate = PLACE_CHEAP_HZ;
	expect(f, PLACE_CPUS, "");
	f.rate = PLACE_CHEAP_HZ + 1;
	expect(f, PLACE_THREADS_FIRST, "born often");
	f.rate = 0;
	expect(f, PLACE_THREADS_FIRST, "");
	f.rate = PLACE_MOST_HZ;
	expect(f, PLACE_THREADS_FIRST, "");
	f.rate = PLACE_MOST_HZ + 1;
	expect(f, PLACE_THREADS, "1000 Hz");
	f.cgroup = true; /* costs nobody anything, at any rate, and needs no filter */
	expect(f, PLACE_CGROUP, "cgroup");
	f.filter = false;
	expect(f, PLACE_CGROUP, "cgroup");
	f.wide = false;
	expect(f, PLACE_THREADS, "CAP_PERFMON");
}

static void test_what_forbids(void **state)
{
	struct place_facts f = all;

	(void)state;
	f.filter = false;
	expect(f, PLACE_THREADS, "CAP_BPF");
	f.wide = false;
	expect(f, PLACE_THREADS, "CAP_PERFMON");
	f = all, f.on_threads = "capture stop needs them";
	expect(f, PLACE_THREADS, "capture stop");
	f = all, f.follows = false;
	expect(f, PLACE_THREADS, "-t");
	f.probes = true;
	expect(f, PLACE_THREADS, "probes");
	f = all, f.eligible = false, f.cgroup = true;
	expect(f, PLACE_THREADS, "each occurrence");
	f = all, f.tied = true, f.wide = false;
	expect(f, PLACE_THREADS, "another event");
}

static struct event_info event(uint32_t type, bool freq, uint64_t value)
{
	return (struct event_info){
		.attr = { .type = type, .freq = freq, .sample_period = value }
	};
}

static void test_which_events_may(void **state)
{
	struct event_how none = { 0 }, grouped = { .leader = 1 }, probe = { .probe = true };
	struct event_info clock = event(PERF_TYPE_SOFTWARE, true, 99);
	struct event_info cycles = event(PERF_TYPE_HARDWARE, false, 1000000);
	struct event_info fault = event(PERF_TYPE_SOFTWARE, false, 1);
	struct event_info access = event(PERF_TYPE_BREAKPOINT, false, 100);
	struct event_info tracepoint = event(PERF_TYPE_TRACEPOINT, true, 99);
	struct event_info faults = event(PERF_TYPE_SOFTWARE, true, 99), many = faults;

	(void)state;
	faults.attr.config = many.attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	many.attr.freq = 0;
	assert_false(event_place_may(&faults, &none));
	assert_true(event_place_may(&many, &none));
	assert_true(event_place_may(&clock, &none));
	assert_true(event_place_may(&cycles, &none));
	assert_false(event_place_may(&cycles, &grouped));
	assert_false(event_place_may(&cycles, &probe));
	assert_false(event_place_may(&fault, &none));
	assert_false(event_place_may(&access, &none));
	assert_false(event_place_may(&tracepoint, &none));
}

static void test_births_that_matter(void **state)
{
	const uint64_t second = 1000000000;

	(void)state;
	assert_false(event_place_needed(0, 0, second));
	assert_false(event_place_needed(3, 0, second)); /* a start is no habit */
	assert_true(event_place_needed(4, 0, second));
	assert_true(event_place_needed(62, 999, second));   /* turns of 8 ms */
	assert_false(event_place_needed(5, 999, second));   /* of 100 ms */
	assert_false(event_place_needed(20, 1000, second)); /* 1 % of the samples is lost */
	assert_true(event_place_needed(21, 1000, second));
	assert_false(event_place_needed(62, 1001, second)); /* too dear for others */
	assert_true(event_place_needed(62, 2000, 2 * second));
}

/* Where threads take the samples each one has a period that is not over at the end, also where
 * CPUs might have taken them. */
static void test_why_samples_are_missing(void **state)
{
	const struct place_facts f = { .eligible = true, .follows = true, .wide = true,
				       .filter = true };
	const struct place_facts timed = { .rate = 99 };
	const struct place_facts tied = { .eligible = true, .follows = true, .tied = true };
	char buf[EVENT_PLACE_REMEDY];

	(void)state;
	assert_non_null(strstr(event_place_remedy(&f, PLACE_THREADS, buf), "their next"));
	/* Up to 1000 Hz they count on CPUs only where threads are many, or born often. */
	assert_non_null(strstr(event_place_remedy(&f, PLACE_THREADS, buf), "--events-on cpus"));
	event_place_remedy(&f, PLACE_THREADS_FIRST, buf);
	assert_non_null(strstr(buf, "ran no further"));
	assert_non_null(strstr(buf, "250 Hz"));
	assert_null(strstr(event_place_remedy(&f, PLACE_CPUS, buf), "threads"));
	/* An event that is no time has no rate. */
	assert_null(strstr(event_place_remedy(&f, PLACE_CPUS, buf), "-F"));
	assert_non_null(strstr(event_place_remedy(&timed, PLACE_CPUS, buf), "-F"));
	/* No right would bring the others onto CPUs. */
	assert_null(strstr(event_place_remedy(&tied, PLACE_THREADS, buf), "CPUs"));
}

/* Rights are there, and a cgroup needs no filter: threads were asked for. */
static void test_who_has_all_rights_is_not_asked_for_them(void **state)
{
	const struct place_facts f = {
		.eligible = true, .follows = true, .wide = true, .cgroup = true
	};
	char buf[EVENT_PLACE_REMEDY];

	(void)state;
	rights_begin(0, RIGHT(CAP_SYS_NICE) | RIGHT(CAP_PERFMON) | RIGHT(CAP_BPF));
	event_place_remedy(&f, PLACE_THREADS, buf);
	assert_non_null(strstr(buf, "use --events-on cpus"));
	assert_null(strstr(buf, "root has"));
}

/* Root of a container is not told to become root. */
static void test_rights_are_asked_for_by_who_asks(void **state)
{
	static const char all_three[] = "CAP_PERFMON, CAP_BPF and CAP_SYS_NICE";
	static const char lacks[] = "this root lacks a right";
	const uint64_t nice = RIGHT(CAP_SYS_NICE), perfmon = RIGHT(CAP_PERFMON);
	const struct {
		uid_t euid;
		uint64_t caps;
		const char *on_threads, *begin, *end;
	} rows[] = {
		{ 1, 0, NULL, "run as root, or with ", all_three },
		{ 0, nice, NULL, lacks, all_three },
		{ 0, nice | perfmon, NULL, lacks, all_three },
		{ 0, nice | perfmon | RIGHT(CAP_BPF), NULL, "root has ", "run outside of that" },
		{ 1, 0, "stop", "use --capture preempt: run as root, or with ", "CAP_SYS_NICE" },
		{ 0, 0, "stop", "use --capture preempt: this root lacks", "CAP_SYS_NICE" },
		{ 0, nice, "stop", "use --capture preempt", "preempt" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct place_facts f = { .eligible = true,
					       .follows = true,
					       .on_threads = rows[i].on_threads };
		char buf[EVENT_PLACE_REMEDY], end[120];
		const char *advice;

		rights_begin(rows[i].euid, rows[i].caps);
		advice = strstr(event_place_remedy(&f, PLACE_THREADS, buf), "; ");
		assert_non_null(advice);
		assert_ptr_equal(advice + 2, strstr(advice + 2, rows[i].begin));
		snprintf(end, sizeof(end), "%s%s", rows[i].end,
			 f.on_threads ? "" : ": then events count on CPUs, which loses none");
		assert_string_equal(buf + strlen(buf) - strlen(end), end);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rights_and_wishes),
		cmocka_unit_test(test_what_forbids),
		cmocka_unit_test(test_which_events_may),
		cmocka_unit_test(test_births_that_matter),
		cmocka_unit_test(test_why_samples_are_missing),
		cmocka_unit_test_teardown(test_who_has_all_rights_is_not_asked_for_them,
					  rights_end),
		cmocka_unit_test_teardown(test_rights_are_asked_for_by_who_asks, rights_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
