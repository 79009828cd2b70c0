/* SPDX-License-Identifier: MIT
 *
 * memory_plan: machines of all sizes: what is planned fits, and what is refused could not.
 */
#include <errno.h>
#include <string.h>

#include "unit.h"
#include "base/base.h"
#include "attach/memory_plan.h"

enum { KIB = 1024, MIB = 1 << 20, PAGE = 4096, LEAST = 33 * PAGE + (512 + 512) * KIB };

static struct memory_plan plan(size_t cpus, size_t limit, size_t ring_pages, size_t queue)
{
	struct memory_wants w = { limit, cpus, PAGE, ring_pages, queue, 1 };
	struct memory_plan p;
	struct err err;

	assert_int_equal(memory_plan_make(&w, &p, &err), 0);
	return p;
}

/* 99 Hz and 999 Hz by default. */
static void usual_machines(void **state)
{
	static const struct {
		size_t cpus, ring_pages, queue, want_pages, want_queue;
	} rows[] = {
		{ 2, 64, 2 * MIB, 64, 2 * MIB },    { 64, 64, 2 * MIB, 64, 2 * MIB },
		{ 128, 64, 2 * MIB, 64, 1 * MIB },  { 256, 64, 2 * MIB, 32, MIB / 2 },
		{ 1024, 64, 2 * MIB, 32, MIB / 2 }, { 2, 256, 4 * MIB, 256, 4 * MIB },
		{ 64, 256, 4 * MIB, 256, 2 * MIB }, { 128, 256, 4 * MIB, 128, MIB / 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct memory_plan p =
			plan(rows[i].cpus, 0, rows[i].ring_pages, rows[i].queue);
		bool less = rows[i].ring_pages != rows[i].want_pages ||
			    rows[i].queue != rows[i].want_queue;

		if (p.ring_pages != rows[i].want_pages || p.queue != rows[i].want_queue)
			fail_msg("row %zu: %zu pages, %zu KiB", i, p.ring_pages,
				 p.queue / KIB);
		assert_int_equal(less, p.why[0] != '\0');
	}
	/* As many as it takes. */
	assert_int_equal(plan(1024, 0, 64, 2 * MIB).bytes, 1024ul * LEAST);
}

static void check(const struct memory_wants *w)
{
	struct memory_plan p;
	struct err err;
	int r = memory_plan_make(w, &p, &err);

	if (w->limit && w->limit < w->cpus * LEAST) {
		assert_int_equal(r, -ENOMEM);
		return;
	}
	assert_int_equal(r, 0);
	assert_true(p.bytes <= MAX(w->limit ? w->limit : MEMORY_DEFAULT, w->cpus * LEAST));
	assert_int_equal(p.bytes,
			 w->cpus * ((p.ring_pages + 1) * PAGE + p.queue + MEMORY_READER));
	assert_in_range(p.ring_pages, 32, w->ring_pages);
	assert_in_range(p.queue, MEMORY_QUEUE_MIN, w->queue);
	assert_int_equal(p.queue & (p.queue - 1), 0);
	assert_int_equal(p.ring_pages & (p.ring_pages - 1), 0);
	/* The next larger step of what was made smaller would not fit. */
	if (p.queue < w->queue && p.ring_pages == w->ring_pages)
		assert_true(p.bytes + w->cpus * p.queue >
			    (w->limit ? w->limit : MEMORY_DEFAULT));
}

static void sizes(void **state)
{
	for (size_t cpus = 1; cpus <= 8192; cpus = cpus * 3 / 2 + 1)
		for (size_t limit = 0; limit < 4096ul * MIB; limit = limit * 3 / 2 + KIB)
			for (size_t pages = 32; pages <= 2048; pages *= 2)
				for (size_t q = 2 * MIB; q <= 32 * MIB; q *= 2)
					check(&(struct memory_wants){ limit, cpus, PAGE, pages,
								      q, 1 });
}

static void queues_of_rates(void **state)
{
	assert_int_equal(memory_plan_queue(0, true, 1024), 2 * MIB);
	assert_int_equal(memory_plan_queue(99, true, 1024), 2 * MIB);
	assert_int_equal(memory_plan_queue(999, true, 1024), 4 * MIB);
	assert_int_equal(memory_plan_queue(999, false, 1024), 2 * MIB);
	assert_int_equal(memory_plan_queue(1000000, true, 1024), 32 * MIB);
	/* 250 KiB of frames and activations with each. */
	assert_int_equal(memory_plan_queue(99, false, 8000), 4 * MIB);
	assert_int_equal(memory_plan_queue(99, true, 8000), 4 * MIB);
	assert_int_equal(memory_plan_queue(999, false, 8000), 32 * MIB);
}

/* The longest sample of a deep stack has room twice, and the reader for what it reads. */
static void deep_stacks(void **state)
{
	struct memory_wants w = { 1, 4, PAGE, 64, 8 * MIB, 8000 };
	struct memory_plan p;
	struct err err;

	assert_int_equal(memory_plan_make(&w, &p, &err), -ENOMEM);
	assert_int_equal(p.queue, MIB);
	assert_int_equal(p.bytes, 4ul * (33 * PAGE + MIB + MEMORY_READER + 8000 * 256));
	w.frames = 1024; /* none is deep */
	assert_int_equal(memory_plan_make(&w, &p, &err), -ENOMEM);
	assert_int_equal(p.queue, MEMORY_QUEUE_MIN);
}

static void sentences(void **state)
{
	struct memory_wants w = { 8 * MIB, 64, PAGE, 64, 2 * MIB, 1 };
	struct memory_plan p;
	struct err err;

	assert_int_equal(memory_plan_make(&w, &p, &err), -ENOMEM);
	assert_string_equal(err.text, "--memory 8192K is too little: the rings, queues and "
				      "readers of 64 CPUs need 73M at least");
	w.limit = 73 * MIB;
	assert_int_equal(memory_plan_make(&w, &p, &err), 0);
	assert_string_equal(p.why, "within 73 MiB (--memory) 64 CPUs get rings of 128 KiB and "
				   "queues of 512 KiB, where 256 and 2048 were wanted: a busy "
				   "machine may lose samples sooner (lost=)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usual_machines),  cmocka_unit_test(sizes),
		cmocka_unit_test(queues_of_rates), cmocka_unit_test(deep_stacks),
		cmocka_unit_test(sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
