/* SPDX-License-Identifier: MIT
 *
 * births: what records tell of execs and of mapped code, also those that wrap and those that
 * come in another order than they were written.
 */
#include <stdlib.h>

#include "unit.h"
#include "targets/births.h"
#include "perf_records.h"
#include "targets/target.h"

/* Those of record_trailer(). */
enum { PID = 70, TID = 71, RING = 4096 };

struct fix {
	struct births *b;
	struct perf_ring ring;
	struct perf_event_mmap_page page;
	uint64_t at; /* where the next record goes */
	_Alignas(8) unsigned char data[RING];
};

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->b = births_create();
	assert_non_null(f->b);
	f->ring = (struct perf_ring){ .page = &f->page, .data = f->data, .size = RING };
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	births_destroy(f->b);
	free(f);
	return 0;
}

static void note(struct fix *f, const struct record *r)
{
	for (size_t i = 0; i < r->n; i++)
		f->data[(f->at + i) & (RING - 1)] = r->bytes[i];
	births_note(f->b, &f->ring, f->at,
		    (const struct perf_event_header *)(const void *)r->bytes,
		    r->bytes + r->n - PERF_TRAILER);
	f->at += r->n;
}

static void note_comm(struct fix *f, bool exec, uint64_t time)
{
	struct record r;

	record_comm(&r, exec ? PERF_RECORD_MISC_COMM_EXEC : 0, "x", time);
	note(f, &r);
}

static void note_map_of(struct fix *f, const char *path, uint16_t misc, uint64_t addr,
			uint64_t ino, uint64_t time)
{
	struct record r;

	record_map(&r, misc, PID, TID, addr, ino, path);
	record_trailer(&r, TID, time);
	note(f, &r);
}

static void note_map(struct fix *f, uint16_t misc, uint64_t addr, uint64_t ino, uint64_t time)
{
	note_map_of(f, "/lib/x", misc, addr, ino, time);
}

/* A thread is born, or ends: PERF_RECORD_FORK, PERF_RECORD_EXIT. */
static void note_task(struct fix *f, uint32_t type, uint32_t tid, uint64_t time)
{
	struct record r;

	record_begin(&r, type, 0);
	record_u32(&r, PID, PID);
	record_u32(&r, tid, PID);
	record_u64(&r, time);
	record_trailer(&r, TID, time);
	note(f, &r);
}

/* From its EXIT record on, for a second; however long the machine has been up. */
static void ends(void **state)
{
	static const uint64_t day = 86400000000000, ms = 1000000;
	static const uint64_t days[] = { 1, 50, 51, 60, 101, 102, 400 };
	struct fix *f = *state;

	assert_false(births_ending(f->b, TID, 1));
	for (size_t i = 0; i < ARRAY_SIZE(days); i++) {
		uint64_t end = days[i] * day;

		note_task(f, PERF_RECORD_EXIT, TID, end);
		assert_false(births_ending(f->b, TID, end - ms));
		assert_true(births_ending(f->b, TID, end));
		assert_true(births_ending(f->b, TID, end + 999 * ms));
		assert_false(births_ending(f->b, TID, end + 1000 * ms));
		assert_false(births_ending(f->b, TID + BIRTHS, end));
	}
}

/* The last one with a number, and who shares its place. */
static void born_last(void **state)
{
	struct fix *f = *state;

	assert_int_equal(births_born(f->b, TID), 0);
	note_task(f, PERF_RECORD_EXIT, TID, 5000000);
	assert_int_equal(births_born(f->b, TID), 0);
	note_task(f, PERF_RECORD_FORK, TID, 6000000);
	note_task(f, PERF_RECORD_FORK, TID, 4000000);
	note_task(f, PERF_RECORD_FORK, TID + 1, 7000000);
	assert_int_equal(births_born(f->b, TID), 6000000);
	note_task(f, PERF_RECORD_FORK, TID + BIRTHS, 8000000);
	assert_int_equal(births_born(f->b, TID), 8000000);
	assert_int_equal(births_born(NULL, TID), 0);
}

/* Who has the number of one that has ended does not end; its birth may be told before that end
 * or after its own. */
static void born_with_that_number(void **state)
{
	struct fix *f = *state;

	note_task(f, PERF_RECORD_EXIT, TID, 5000000);
	note_task(f, PERF_RECORD_FORK, TID, 6000000);
	assert_false(births_ending(f->b, TID, 7000000));
	note_task(f, PERF_RECORD_EXIT, TID, 8000000);
	note_task(f, PERF_RECORD_FORK, TID, 6000000);
	assert_true(births_ending(f->b, TID, 9000000));
	note_task(f, PERF_RECORD_FORK, TID, 12000000);
	note_task(f, PERF_RECORD_EXIT, TID, 11000000); /* of another ring */
	assert_false(births_ending(f->b, TID, 13000000));
	note_task(f, PERF_RECORD_EXIT, TID, 14000000);
	assert_true(births_ending(f->b, TID, 15000000));
}

/* A thread that is not the main one calls exec: that one ends, and its number is the other's.
 */
static void execed_with_that_number(void **state)
{
	struct fix *f = *state;

	note_task(f, PERF_RECORD_EXIT, PID, 5000000);
	assert_true(births_ending(f->b, PID, 5500000));
	note_comm(f, true, 6000000);
	assert_false(births_ending(f->b, PID, 7000000));
	note_comm(f, true, 9000000);
	note_task(f, PERF_RECORD_EXIT, PID, 8000000); /* of another ring */
	assert_false(births_ending(f->b, PID, 9500000));
	note_task(f, PERF_RECORD_EXIT, PID, 10000000);
	assert_true(births_ending(f->b, PID, 10500000));
}

static void execs(void **state)
{
	struct fix *f = *state;

	assert_int_equal(births_execed(f->b, PID), 0);
	note_comm(f, false, 5);
	assert_int_equal(births_execed(f->b, PID), 0);
	note_comm(f, true, 20);
	note_comm(f, true, 10); /* of another ring, whose turn comes later */
	assert_int_equal(births_execed(f->b, PID), 20);
	assert_int_equal(births_execed(f->b, PID + 1), 0);
	assert_int_equal(births_execed(f->b, PID + BIRTHS),
			 20); /* errs on the side of looking */
	assert_int_equal(births_execed(NULL, PID), 0);
}

static void mapped_code(void **state)
{
	struct fix *f = *state;

	note_map(f, PERF_RECORD_MISC_MMAP_DATA, 0x7000, 9, 10); /* no code */
	note_map(f, 0, 0x7000, 0, 20);				/* no file */
	assert_int_equal(births_mapped(f->b, PID), 0);
	note_map(f, 0, 0x7000, 9, 30);
	assert_int_equal(births_mapped(f->b, PID), 30);
}

/* Also where the name wraps in the ring, and of a long path. */
static void mapped_python(void **state)
{
	struct fix *f = *state;
	char path[300] = "";

	note_map(f, 0, 0x7000, 9, 10);
	note_map_of(f, "/python3/lib/libc.so.6", 0, 0x7000, 9, 20);
	note_map_of(f, "/lib/json.cpython-313.so", 0, 0x7000, 9, 30);
	note_map_of(f, "/lib/libpython3.11.so", 0, 0x7000, 0, 40); /* no file */
	assert_int_equal(births_python(f->b, PID), 0);
	for (uint64_t time = 50; time < 50 + 100; time++) {
		note_map_of(f, "/lib/libpython3.11.so.1.0", 0, 0x7000, 9, time);
		assert_int_equal(births_python(f->b, PID), time);
	}
	memset(path, 'x', sizeof(path) - 1);
	memcpy(path + sizeof(path) - 20, "/libpython3.13.so", 18);
	note_map_of(f, path, 0, 0x7000, 9, 200);
	assert_int_equal(births_python(f->b, PID), 200);
	assert_int_equal(births_python(f->b, PID + 1), 0);
	assert_int_equal(births_python(NULL, PID), 0);
}

/* The same file's code tells where the interpreter lies: the newest mapping since the exec. */
static void known_interpreter(void **state)
{
	struct pyfind_code code = {
		.maj = 8, .min = 1, .ino = 9, .pgoff = 0x3000, .at = 0x5000, .build_id_n = 20
	};
	struct target target = { .pid = 1, .runtime = 0x4711, .inner_tids = true };
	const struct births_code *known;
	struct fix *f = *state;
	uint64_t at;

	note_map(f, 0, 0x555500007000, 9, 10);
	assert_null(births_interpreter(f->b, PID, 0, &at)); /* nobody was taught */
	births_teach(f->b, &code, &target);
	births_teach(f->b, &code, &target);
	for (uint64_t time = 20; time < 20 + 200; time++) /* over the ring's end, too */
		note_map(f, 0, 0x7f0000000000 + (time << 12), 9, time);
	note_map(f, 0, 0x1000, 10, 500); /* another file */
	note_map(f, 0, 0x1000, 9, 19);	 /* an older one */
	known = births_interpreter(f->b, PID, 100, &at);
	assert_non_null(known);
	assert_int_equal(known->runtime, 0x4711);
	assert_true(known->inner_tids);
	assert_int_equal(at, 0x7f0000000000 + (219ull << 12));
	assert_null(births_interpreter(f->b, PID, 219, &at)); /* the old program's */
	assert_null(births_interpreter(f->b, PID + 1, 0, &at));
	assert_null(births_interpreter(f->b, PID + BIRTHS, 0, &at));
}

/* Without a build-id a file can't be known again, and only some are remembered. */
static void few_are_taught(void **state)
{
	struct pyfind_code code = { .maj = 8, .min = 1, .pgoff = 0x3000, .at = 0x5000 };
	struct target target = { .pid = 1 };
	struct fix *f = *state;
	uint64_t at;

	code.ino = 9;
	births_teach(f->b, &code, &target);
	note_map(f, 0, 0x7000, 9, 10);
	assert_null(births_interpreter(f->b, PID, 0, &at));
	code.build_id_n = 20;
	for (uint64_t ino = 1; ino <= 2 * BIRTHS_CODES; ino++) {
		code.ino = ino;
		births_teach(f->b, &code, &target);
	}
	note_map(f, 0, 0x7000, BIRTHS_CODES + 1, 20);
	assert_null(births_interpreter(f->b, PID, 0, &at));
	note_map(f, 0, 0x7000, BIRTHS_CODES, 30);
	assert_non_null(births_interpreter(f->b, PID, 0, &at));
}

static void short_records(void **state)
{
	struct fix *f = *state;
	struct record r;

	record_begin(&r, PERF_RECORD_MMAP2, 0);
	for (int i = 0; i < 9; i++) {
		births_note(f->b, &f->ring, 0, record_header(&r), r.bytes);
		record_u64(&r, UINT64_MAX);
	}
	assert_int_equal(births_mapped(f->b, PID), 0);
	assert_int_equal(births_mapped(f->b, -1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ends, setup, teardown),
		cmocka_unit_test_setup_teardown(born_last, setup, teardown),
		cmocka_unit_test_setup_teardown(born_with_that_number, setup, teardown),
		cmocka_unit_test_setup_teardown(execed_with_that_number, setup, teardown),
		cmocka_unit_test_setup_teardown(execs, setup, teardown),
		cmocka_unit_test_setup_teardown(mapped_code, setup, teardown),
		cmocka_unit_test_setup_teardown(mapped_python, setup, teardown),
		cmocka_unit_test_setup_teardown(known_interpreter, setup, teardown),
		cmocka_unit_test_setup_teardown(few_are_taught, setup, teardown),
		cmocka_unit_test_setup_teardown(short_records, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
