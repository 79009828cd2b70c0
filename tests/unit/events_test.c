/* SPDX-License-Identifier: MIT
 *
 * events: what is sampled where the kernel has no event of the processor, which CPUs have no
 * event, and on which it is tried.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>

#include "unit.h"
#include "attach/events.h"
#include "events/perf_names.h"
#include "real_syscall.h"
#include "record/recorder_int.h"

enum { SLOWEST_LIMIT = 60000, MOST_HZ = 50000 };

/* PMUs that are made up: AMD's IBS, msr; kinds of core, each with one of this type and the next. */
enum { IBS = 11, MSR = 12, KIND = 100, KINDS = 2 };

static uint64_t most_hz; /* of the events that were opened */
static struct cpus kind[KINDS];
static bool nothing_on_cpus; /* lacks the right */
static bool old_kernel;	     /* before inherit_thread */

static int refuse(int code)
{
	errno = code;
	return -1;
}

/* x86_pmu_event_init() of a hybrid machine. */
static bool other_kind(uint32_t type, int cpu)
{
	return type >= KIND && type < KIND + KINDS && cpu >= 0 && !cpus_has(&kind[type - KIND], cpu);
}

/* perf_ibs_init(), msr_event_init(): nothing can be excluded; the one has no period of 0, the other
 * no period. */
static bool is_invalid(const struct perf_event_attr *a)
{
	if (old_kernel && a->inherit_thread)
		return true;
	if (a->type != IBS && a->type != MSR)
		return false;
	return a->exclude_user || a->exclude_kernel || a->exclude_hv ||
	       (a->type == IBS) == !a->sample_period;
}

static long fake_syscall(long nr, const long a[SYSCALL_ARGS])
{
	const struct perf_event_attr *attr = (const void *)a[0];

	/* Any map and program. */
	if (nr == SYS_bpf && (a[0] == BPF_MAP_CREATE || a[0] == BPF_PROG_LOAD))
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (nr == SYS_bpf)
		return 0;
	if (nr != SYS_perf_event_open)
		return real_syscall(nr, a);
	if (attr->type == PERF_TYPE_HARDWARE || other_kind(attr->type, (int)a[2]))
		return refuse(ENOENT);
	if (is_invalid(attr))
		return refuse(EINVAL);
	if (nothing_on_cpus && (int)a[1] < 0)
		return refuse(EACCES);
	most_hz = attr->freq ? MAX(most_hz, (uint64_t)attr->sample_freq) : most_hz;
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Chooses @names at @hz, and what is said of it. */
static void choose(struct session *s, const char *names, uint64_t hz, char said[256])
{
	struct perf_options o = { .freq = true, .value = hz };
	static struct perf_spec specs[4];
	struct err err;
	size_t n = 0;

	*s = (struct session){ 0 };
	most_hz = 0;
	assert_int_equal(perf_names_parse(names, specs, ARRAY_SIZE(specs), &n, &err), 0);
	assert_int_equal(events_choose(s, specs, n, &o, 0, said, &err), 0);
}

/* The clock that stands in for cycles comes no more often than one that is named, and a line says
 * so. Where both are named they are one event. */
static void a_clock_for_cycles_is_slowed_down(void **state)
{
	static const struct {
		const char *names;
		uint64_t hz, had;
	} rows[] = {
		{ "cycles", SLOWEST_LIMIT, MOST_HZ },
		{ "cycles:u", MOST_HZ + 1, MOST_HZ },
		{ "cycles", MOST_HZ, MOST_HZ },
		{ "cycles", 99, 99 },
		{ "cpu-clock,cycles", SLOWEST_LIMIT, MOST_HZ },
	};

	if (perf_event_max_rate() < SLOWEST_LIMIT)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct session s;
		char said[256];

		choose(&s, rows[i].names, rows[i].hz, said);
		assert_int_equal(s.n_events, 1);
		assert_true(perf_event_is_clock(&s.events[0].attr));
		assert_int_equal(s.events[0].attr.sample_freq, rows[i].had);
		assert_int_equal(most_hz, rows[i].had);
		assert_non_null(strstr(said, "instead of cycles"));
		assert_int_equal(strstr(said, "every 20 us") != NULL, rows[i].hz > MOST_HZ);
	}
}

/* A set of CPUs @list; "": the event is on all. */
static struct event_how on(const char *list)
{
	struct event_how how = { .some_cpus = *list };

	if (*list)
		assert_int_equal(cpus_parse(&how.cpus, list), 0);
	return how;
}

/* Of a hybrid CPU's events, those of both kinds are everywhere, as long as no CPU is meant that may
 * come later. */
static void cpus_that_have_no_event(void **state)
{
	static const struct {
		const char *first, *second, *cpus;
		bool left_out;
	} rows[] = {
		{ "0-1", NULL, "0-3", true },	{ "0-1", "2-3", "0-3", false },
		{ "0-1", "2-3", "0-4", true },	{ "0-1", "", "0-3", false },
		{ "", "0-1", "0-3", false },	{ "", NULL, "0-3", false },
		{ "0-1", "0-1", "0-3", true },	{ "0-7", NULL, "0-3", false },
		{ "2-3", "0-1", "0-3", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct session s = { .n_events = rows[i].second ? 2 : 1 };
		struct cpus cpus;

		assert_int_equal(cpus_parse(&cpus, rows[i].cpus), 0);
		s.how[0] = on(rows[i].first);
		if (rows[i].second)
			s.how[1] = on(rows[i].second);
		assert_int_equal(events_leave_out(&s, &cpus), rows[i].left_out);
	}
}

/* Whether events may be on CPUs no CPU of the other kind tells: the kernel refuses them there. */
static void cpus_where_it_is_tried(void **state)
{
	static const struct {
		const char *first, *second, *cpus;
		bool denied, may;
	} rows[] = {
		{ "2-3", "0-1", "0-3", false, true },  { "2-3", "0-1", "0-3", true, false },
		{ "2-3", "0-1", "0-1", false, true },  { "2-3", "0-1", "3", false, true },
		{ "0-1", "2-3", "0-3", false, true },  { "2-3", NULL, "0-3", false, true },
		{ "2-3", NULL, "0-1", false, true },   { "2-3", NULL, "0-1", true, false },
		{ "2-3", "0-1", "0-1", true, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct session s = { .n_events = rows[i].second ? 2 : 1 };
		struct cpus cpus;

		assert_int_equal(cpus_parse(&cpus, rows[i].cpus), 0);
		s.events[0].attr.type = KIND, s.how[0] = on(rows[i].first);
		s.events[1].attr.type = KIND + 1, s.how[1] = on(rows[i].second ?: "");
		for (size_t k = 0; k < KINDS; k++)
			kind[k] = s.how[k].cpus;
		nothing_on_cpus = rows[i].denied;
		if (events_can_wide(&s, &cpus) != rows[i].may)
			fail_msg("row %zu", i);
	}
	nothing_on_cpus = false;
}

/* Such an event excludes nothing; all others what they did. */
static void events_of_every_mode(void **state)
{
	static const struct {
		struct perf_spec spec;
		bool kernel, threads_only, old;
		int code;
		bool excludes_hv;
	} rows[] = {
		{ { .type = IBS }, true, false, false, 0, false },
		{ { .type = IBS }, true, true, false, 0, false },
		{ { .type = IBS }, true, true, true, 0, false },
		{ { .type = IBS }, false, false, false, -ENOENT, true },
		{ { .type = IBS, .user = true }, true, false, false, -ENOENT, true },
		{ { .type = IBS, .kernel = true }, true, false, false, -ENOENT, true },
		{ { .type = MSR }, true, false, false, -ENOENT, false },
		{ { .type = PERF_TYPE_RAW }, true, false, false, 0, true },
		{ { .type = PERF_TYPE_RAW }, true, true, false, 0, true },
		{ { .type = PERF_TYPE_RAW }, true, true, true, 0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct perf_options o = { .freq = true,
					  .value = 99,
					  .kernel = rows[i].kernel,
					  .inherit = rows[i].threads_only,
					  .threads_only = rows[i].threads_only };
		const struct perf_event_attr *a;
		struct session s = { 0 };
		char said[256];
		struct err err;

		old_kernel = rows[i].old;
		if (events_choose(&s, &rows[i].spec, 1, &o, 0, said, &err) != rows[i].code)
			fail_msg("row %zu: %s", i, err.text);
		a = &s.events[0].attr;
		if (rows[i].code == 0 && (a->exclude_hv != rows[i].excludes_hv ||
					  a->inherit_thread != (o.inherit && !rows[i].old)))
			fail_msg("row %zu: exclude_hv %d, inherit_thread %d", i, a->exclude_hv,
				 a->inherit_thread);
		if (rows[i].spec.type == MSR)
			assert_non_null(strstr(err.text, "can be counted but not sampled"));
	}
	old_kernel = false;
}

static struct recorder recorder;

/* Of a session of these @n types of events, each of a period: where they count, with all rights. */
static enum event_place place_of(struct session *s, const uint32_t *types, size_t n)
{
	static const struct capture_ops holds = { .name = "fake" };
	struct recorder *r = &recorder;
	struct err err;

	*s = (struct session){ .n_events = n };
	for (size_t i = 0; i < n; i++)
		s->events[i].attr = (struct perf_event_attr){ .type = types[i],
							      .sample_period = 1000000 };
	*r = (struct recorder){ .session = s, .capture = &holds, .o.child = 1, .cgroup = -1 };
	r->attach.witness = true;
	cpus_add(&r->cpus, 0);
	assert_int_equal(recorder_choose_place(r, true, false, 1, &err), 0);
	stranger_filter_deinit(&r->filter);
	return r->place;
}

/* Threads count what CPUs sample, which AMD's IBS can't: it stays on threads. */
static void what_only_samples_is_on_threads(void **state)
{
	static const uint32_t one[] = { IBS, PERF_TYPE_RAW }, other[] = { PERF_TYPE_RAW, IBS };
	struct session s;

	assert_int_equal(place_of(&s, one, 1), PLACE_THREADS);
	assert_false(s.how[0].on_cpus);
	assert_non_null(strstr(recorder.place_why, "without samples"));
	assert_false(recorder.place_facts.eligible);
	assert_int_equal(place_of(&s, one, 2), PLACE_THREADS_FIRST);
	assert_false(s.how[0].on_cpus);
	assert_true(s.how[1].on_cpus);
	assert_int_equal(place_of(&s, other, 2), PLACE_THREADS_FIRST);
	assert_true(s.how[0].on_cpus && !s.how[1].on_cpus);
	assert_int_equal(place_of(&s, other, 1), PLACE_THREADS_FIRST);
	assert_true(s.how[0].on_cpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clock_for_cycles_is_slowed_down),
		cmocka_unit_test(cpus_that_have_no_event),
		cmocka_unit_test(cpus_where_it_is_tried),
		cmocka_unit_test(events_of_every_mode),
		cmocka_unit_test(what_only_samples_is_on_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
