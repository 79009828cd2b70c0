/* SPDX-License-Identifier: MIT
 *
 * perf_event: what is asked of the kernel for each kind of event.
 */
#include <time.h>

#include "unit.h"
#include "base/base.h"
#include "perf_event.h"
#include "sample/perf_decode.h"

static struct perf_event_attr attr_of(const char *name, const struct perf_options *o)
{
	static struct perf_spec s[4];
	size_t n = 0;

	assert_int_equal(perf_names_parse(name, s, 4, &n, NULL), 0);
	return perf_event_attr_of(&s[n - 1], o);
}

/* No setting may let the kernel collect samples, as Intel's PEBS can (docs/EVENTS.md). */
static void samples_are_immediate(void **state)
{
	static const char *const names[] = { "cycles:upp", "cycles:ppp", "faults",
					     "mem:0x1000" };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(names); i++) {
		struct perf_options o = { .freq = i & 1, .value = 1000, .stack = 1024 };
		struct perf_event_attr a = attr_of(names[i / 2], &o);

		assert_int_equal(a.wakeup_events, 1);
		assert_false(a.watermark);
		assert_true(a.use_clockid && a.clockid == CLOCK_MONOTONIC);
		assert_true(a.sample_type & PERF_SAMPLE_STACK_USER);
	}
}

/* No record of ours needs more room than that: of a mapped file's path, or of a stack and as long a
 * chain as the kernel gives. */
static void records_have_a_longest(void **state)
{
	enum { STACK = 16 << 10, MMAP = 8 + 64 + 4096 + PERF_TRAILER, LOST = 24 + PERF_TRAILER };
	size_t chain = 8 * ((size_t)perf_event_sysctl("perf_event_max_stack", 0) +
			    (size_t)perf_event_sysctl("perf_event_max_contexts_per_stack", 0)),
	       none = perf_record_longest(0, false), least = perf_record_longest(0, true);

	assert_true(none >= MMAP + LOST);
	assert_int_equal(MIN(none + chain, (size_t)PERF_RECORD_BYTES), least);
	assert_int_equal(MIN(least + STACK, (size_t)PERF_RECORD_BYTES),
			 perf_record_longest(STACK, true));
	assert_int_equal(PERF_RECORD_BYTES, perf_record_longest(65528, false));
	if (chain <= 8 * (127 + 8)) /* as kernels have it */
		assert_true(perf_record_longest(STACK, true) < 32 << 10);
}

static void triggers_take_each(void **state)
{
	struct perf_options o = { .freq = true, .value = 99 };
	struct perf_event_attr a = attr_of("mem:0x1000/8:w", &o);

	assert_true(!a.freq && a.sample_period == 1);
	assert_true(a.bp_type == 2 && a.bp_addr == 0x1000 && a.bp_len == 8);
	o.said = true;
	a = attr_of("mem:0x1000", &o);
	assert_true(a.freq && a.sample_freq == 99);
	assert_true(a.sample_type & PERF_SAMPLE_PERIOD);
	o.freq = false;
	assert_false(attr_of("r1", &o).sample_type & PERF_SAMPLE_PERIOD);
	o.some_freq = true; /* all events have one sample_type */
	a = attr_of("r1", &o);
	assert_true(a.sample_type & PERF_SAMPLE_PERIOD && a.sample_period == 99 && !a.freq);
	o.freq = true;
	o.said = false;
	a = attr_of("faults", &o);
	assert_true(a.freq && a.sample_freq == 99);
}

static void members_are_read(void **state)
{
	struct perf_options o = { .freq = true, .value = 99, .read = true };
	struct perf_event_attr leader = attr_of("{cycles}:S", &o);
	struct perf_event_attr member = attr_of("{cycles,faults}:S", &o);

	assert_true(leader.freq && leader.sample_freq == 99);
	assert_true(!member.freq && member.sample_period == 0);
	assert_int_equal(leader.sample_type, member.sample_type);
	assert_true(leader.sample_type & PERF_SAMPLE_READ);
	assert_int_equal(leader.read_format, PERF_FORMAT_GROUP | PERF_FORMAT_ID |
						     PERF_FORMAT_TOTAL_TIME_ENABLED |
						     PERF_FORMAT_TOTAL_TIME_RUNNING);
}

/* In the kernel, whatever the recording may count there. */
static void some_lie_in_the_kernel(void **state)
{
	static const uint64_t switches[] = { PERF_COUNT_SW_CONTEXT_SWITCHES,
					     PERF_COUNT_SW_CPU_MIGRATIONS,
					     PERF_COUNT_SW_CGROUP_SWITCHES };
	struct perf_options o = { .value = 1, .kernel = false };
	struct perf_spec s = { .type = PERF_TYPE_TRACEPOINT };

	assert_false(perf_event_attr_of(&s, &o).exclude_kernel);
	s.type = PERF_TYPE_SOFTWARE;
	assert_true(perf_event_attr_of(&s, &o).exclude_kernel);
	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		s.config = switches[i];
		assert_false(perf_event_attr_of(&s, &o).exclude_kernel);
	}
}

/* Where and when an event is opened decides the rest of its attr. */
static void openings_differ(void **state)
{
	struct perf_options o = { .freq = true,
				  .value = 99,
				  .inherit = true,
				  .threads_only = true,
				  .on_exec = true };
	const struct perf_event_attr chosen = attr_of("cpu-clock", &o);
	const struct perf_event_attr faults = attr_of("faults", &o);
	struct perf_event_attr a =
		perf_event_final(&chosen, &(struct perf_use){ .inherit = true, .side = true });

	assert_true(a.inherit && a.inherit_thread && a.disabled && a.enable_on_exec);
	assert_true(a.mmap && a.comm_exec && a.task && !a.context_switch && !a.exclude_idle);
	assert_true(a.freq && a.sample_freq == 99);
	a = perf_event_final(&chosen, &(struct perf_use){ .begins = true, .switches = true });
	assert_false(a.inherit || a.inherit_thread || a.disabled || a.enable_on_exec);
	assert_false(a.mmap || a.context_switch);
	a = perf_event_final(&chosen, &(struct perf_use){ .later = true, .counts = true });
	assert_true(a.disabled && !a.enable_on_exec);
	assert_true(!a.freq && !a.sample_period && !(a.sample_type & PERF_SAMPLE_PERIOD));
	a = perf_event_final(&chosen, &(struct perf_use){ .cpu = true,
							  .inherit = true,
							  .side = true,
							  .switches = true });
	assert_false(a.inherit || a.disabled || a.enable_on_exec);
	assert_true(a.exclude_idle && a.context_switch);
	a = perf_event_side(&chosen);
	assert_true(a.inherit && a.inherit_thread && a.disabled && a.enable_on_exec);
	assert_true(a.config == PERF_COUNT_SW_DUMMY && a.sample_id_all && !a.sample_period);
	assert_false(
		perf_event_final(&faults, &(struct perf_use){ .cpu = true }).exclude_idle);
}

/* A ring of 64 bytes: a record lies whole, wraps into the bounce, or is none. Behind one whose
 * copy of a stack was cut at the end of memory records begin anywhere, and so may the head wrap. */
static void records_begin_anywhere(void **state)
{
	_Alignas(8) unsigned char data[64] = { 0 }, bounce[PERF_RECORD_BYTES];
	struct perf_ring r = { .data = data, .size = sizeof(data) };
	struct perf_event_header *h = (void *)(data + 48);

	*h = (struct perf_event_header){ .type = 7, .size = 16 };
	assert_ptr_equal(perf_ring_at(&r, 64 + 48, bounce), h);
	h->size = 24;
	data[7] = 0x5a;
	assert_ptr_equal(perf_ring_at(&r, 48, bounce), bounce);
	assert_int_equal(bounce[23], 0x5a);
	for (uint16_t size = 1; size < 24; size++) {
		h->size = size;
		assert_int_equal(!perf_ring_at(&r, 48, bounce), size < 8);
	}
	for (uint64_t at = 49; at < 64; at++) {
		const struct perf_event_header odd = { .type = 7, .misc = 9, .size = 13 };
		const struct perf_event_header *got;
		unsigned char record[13] = { 0 }, end[4];

		memcpy(record, &odd, sizeof(odd));
		memcpy(record + 9, "last", 4);
		for (size_t i = 0; i < sizeof(record); i++)
			data[(at + i) % sizeof(data)] = record[i];
		got = perf_ring_at(&r, at, bounce);
		assert_int_equal(0, (uintptr_t)got % 8);
		assert_memory_equal(got, record, sizeof(record));
		assert_int_equal(13, perf_ring_peek(&r, at, end, sizeof(end)).size);
		assert_memory_equal(end, "last", 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_begin_anywhere),
		cmocka_unit_test(samples_are_immediate),
		cmocka_unit_test(records_have_a_longest),
		cmocka_unit_test(triggers_take_each),
		cmocka_unit_test(members_are_read),
		cmocka_unit_test(openings_differ),
		cmocka_unit_test(some_lie_in_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
