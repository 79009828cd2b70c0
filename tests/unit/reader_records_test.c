/* SPDX-License-Identifier: MIT
 *
 * reader: whom records that are no samples are told, and what a drain leaves in the ring.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"
#include "base/hash.h"
#include "capture/wait_post.h"
#include "fake_drain.h"

/* --- what those who read waits are told --- */

static struct wait_message told(struct queue *q)
{
	const struct queue_record *rec = queue_peek(q);
	struct wait_message m = { 0 };

	if (!rec)
		return m;
	memcpy(&m, rec->data, MIN(sizeof(m), rec->n - sizeof(*rec)));
	queue_pop(q);
	return m;
}

static void put_trailer(struct fake *f, struct record *r, pid_t pid)
{
	record_u32(r, (uint32_t)pid, (uint32_t)pid);
	record_u64(r, f->t);
	record_u32(r, 0, 0);
	record_u64(r, 1);
	fake_write(f, 0, r);
}

/* An end of which the kernel does not say whose. */
static void end_of_nobody(struct fake *f)
{
	struct record r;

	record_begin(&r, PERF_RECORD_EXIT, 0);
	record_u64(&r, 0);
	put_trailer(f, &r, 90);
}

static void expect_told(struct queue *q, struct wait_message want)
{
	struct wait_message m = told(q);

	assert_int_equal(m.type, want.type);
	assert_int_equal(m.tid, want.tid);
	assert_int_equal(m.pid, want.pid);
	assert_int_equal(m.time, want.time);
	assert_int_equal(m.n_regs, want.n_regs);
}

enum { SWITCH_PID = 70 }; /* of record_switch() */

/* When threads leave and come, with which registers, and that they ended. */
static void waits_are_told(void **state)
{
	struct fake *f = *state;
	struct queue in[FAKE_CPUS];
	int poke[FAKE_CPUS] = { -1, -1 };
	struct wait_post post = { .in = in, .poke = poke };

	assert_int_equal(queue_init(&in[0], 1 << 16), 0);
	f->c.waits = &post;
	f->c.witness = true;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT, FAKE_TID, 1);
	fake_leave(f, 2);
	fake_switch(f, 0, IN, FAKE_TID + 1, 3);
	fake_take(f, (struct fake_event){ .witness = true, .after = 4 });
	fake_take(f, (struct fake_event){ .witness = true, .no_regs = true, .after = 5 });
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, 90, 93, 90 }, 6);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 90, 90, 93, 90 }, 7);
	end_of_nobody(f);
	assert_int_equal(n_waiting(f), 0);
	expect_told(&in[0], (struct wait_message){ .type = WAIT_MSG_OUT,
						   .pid = SWITCH_PID,
						   .tid = FAKE_TID,
						   .time = f->t + 1 });
	expect_told(&in[0], (struct wait_message){ .type = WAIT_MSG_PREEMPTED,
						   .pid = SWITCH_PID,
						   .tid = FAKE_TID,
						   .time = f->t + 2 });
	expect_told(&in[0], (struct wait_message){ .type = WAIT_MSG_IN,
						   .pid = SWITCH_PID,
						   .tid = FAKE_TID + 1,
						   .time = f->t + 3 });
	expect_told(&in[0], (struct wait_message){ .type = WAIT_MSG_REGS,
						   .tid = FAKE_TID,
						   .n_regs = arch_host->n_regs,
						   .time = f->t + 4 });
	expect_told(&in[0], (struct wait_message){
				    .type = WAIT_MSG_ENDED, .pid = 90, .tid = 93, .time = f->t + 7 });
	expect_told(&in[0], (struct wait_message){ 0 });
	/* Of who is no target any more nothing but that. */
	f->c.ours = ours_create(NULL);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 90, 90, 94, 90 }, 8);
	assert_int_equal(n_waiting(f), 0);
	expect_told(&in[0], (struct wait_message){
				    .type = WAIT_MSG_ENDED, .tid = 94, .time = f->t + 8 });
	ours_destroy(f->c.ours);
	f->c.ours = NULL;
	assert_false(post.blind);
	queue_deinit(&in[0]);
}

/* Of how many of these two switches, and of a witness between them, is told? */
static int n_told(struct fake *f, struct queue *q)
{
	int n = 0;

	fake_switch(f, 0, IN, FAKE_TID, 1);
	fake_take(f, (struct fake_event){ .witness = true, .after = 2 });
	fake_switch(f, 0, IN, FAKE_TID + 1, 3);
	n_waiting(f);
	while (told(q).type)
		n++;
	return n;
}

/* Only of threads that are wanted, of targets. */
static void waits_of_whom(void **state)
{
	static const pid_t tids[] = { FAKE_TID + 2, FAKE_TID };
	struct fake *f = *state;
	struct queue in[FAKE_CPUS];
	int poke[FAKE_CPUS] = { -1, -1 };
	struct wait_post post = { .in = in, .poke = poke };

	assert_int_equal(queue_init(&in[0], 1 << 16), 0);
	f->c.waits = &post;
	f->c.witness = true;
	event_ids_add(f->ids, FAKE_WITNESS, 1);
	assert_int_equal(n_told(f, &in[0]), 3);
	f->c.tids = tids;
	f->c.n_tids = 1;
	assert_int_equal(n_told(f, &in[0]), 0);
	f->c.n_tids = 2;
	assert_int_equal(n_told(f, &in[0]), 2);
	f->c.n_tids = 0;
	f->c.ours = ours_create(NULL);
	assert_int_equal(n_told(f, &in[0]), 0);
	ours_set(f->c.ours, SWITCH_PID, true);
	assert_int_equal(n_told(f, &in[0]), 2);
	ours_set(f->c.ours, SWITCH_PID, false);
	ours_set(f->c.ours, getpid(), true);
	assert_int_equal(n_told(f, &in[0]), 1); /* the witness */
	ours_set(f->c.ours, getpid(), false);
	f->c.split = true; /* other records than samples are of targets alone */
	assert_int_equal(n_told(f, &in[0]), 3);
	ours_destroy(f->c.ours);
	queue_deinit(&in[0]);
}

/* --- other records --- */

static void comm_of_thread(struct fake *f, pid_t pid, pid_t tid, uint16_t misc)
{
	struct record r;

	record_begin(&r, PERF_RECORD_COMM, misc);
	record_u32(&r, (uint32_t)pid, (uint32_t)tid);
	record_str(&r, "x");
	put_trailer(f, &r, pid);
}

static void comm(struct fake *f, pid_t pid, uint16_t misc)
{
	comm_of_thread(f, pid, pid, misc);
}

static void map_file(struct fake *f, pid_t pid, uint64_t ino, const char *path)
{
	struct record r;

	record_begin(&r, PERF_RECORD_MMAP2, 0);
	record_u32(&r, (uint32_t)pid, (uint32_t)pid);
	for (int i = 0; i < 4; i++)
		record_u64(&r, 0);
	record_u64(&r, ino);
	record_u64(&r, 0);
	record_u64(&r, 0);
	record_str(&r, path);
	put_trailer(f, &r, pid);
}

static void map(struct fake *f, pid_t pid)
{
	map_file(f, pid, 0, "/lib/x");
}

static void lost(struct fake *f, uint64_t n)
{
	struct record r;

	record_begin(&r, PERF_RECORD_LOST, 0);
	record_u64(&r, 1);
	record_u64(&r, n);
	put_trailer(f, &r, 1);
}

static void bare(struct fake *f, uint32_t type)
{
	struct record r;

	record_begin(&r, type, 0);
	record_u64(&r, 0);
	put_trailer(f, &r, 1);
}

/* How many records of these were passed on. */
static size_t n_passed(struct fake *f)
{
	struct reader *r = begin(f);

	r->first_pos = 1; /* it has emptied the ring before */
	reader_drain(r, 0, false);
	reader_destroy(r);
	f->page[0].data_tail = f->page[0].data_head;
	f->n_side = 0;
	assert_string_equal(fake_next(f), "");
	return f->n_side;
}

/* Records about strangers are nobody's business; but a stranger that was looked at already is
 * worth another look when it may have become a target. */
static void records_of_strangers(void **state)
{
	static const struct {
		uint32_t type;
		pid_t pid, ppid;
		uint16_t misc;
		bool passed, another_look;
	} rows[] = {
		{ PERF_RECORD_COMM, 90, 90, 0, false, false },
		{ PERF_RECORD_COMM, 91, 91, PERF_RECORD_MISC_COMM_EXEC, false, true },
		{ PERF_RECORD_MMAP2, 92, 92, 0, false, true },
		{ PERF_RECORD_FORK, 93, 93, 0, false, false }, /* a thread */
		{ PERF_RECORD_FORK, 94, 93, 0, false, true },
		{ PERF_RECORD_EXIT, 95, 95, 0, false, false },
		{ PERF_RECORD_EXIT, 96, 95, 0, false, false },
		{ PERF_RECORD_MMAP2, -1, 0, 0, true, false }, /* the kernel's own */
		{ PERF_RECORD_MMAP2, 0, 0, 0, false, false }, /* of another PID namespace */
		{ PERF_RECORD_LOST, 1, 0, 0, true, false },
		{ PERF_RECORD_THROTTLE, 1, 0, 0, true, false },
		{ 77, 1, 0, 0, true, false }, /* whatever that is */
	};
	struct fake *f = *state;

	f->c.ours = ours_create(NULL);
	ours_set(f->c.ours, 50, true);
	f->c.follow = true;
	f->c.strangers = ours_create(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_t pid = rows[i].pid;
		uint32_t ids[] = { (uint32_t)pid, (uint32_t)rows[i].ppid, (uint32_t)pid, 1 };

		if (pid > 1)
			ours_set(f->c.strangers, pid, true);
		if (rows[i].type == PERF_RECORD_COMM)
			comm(f, pid, rows[i].misc);
		else if (rows[i].type == PERF_RECORD_MMAP2)
			map(f, pid);
		else if (rows[i].type == PERF_RECORD_LOST)
			lost(f, 3);
		else if (rows[i].type == PERF_RECORD_FORK || rows[i].type == PERF_RECORD_EXIT)
			fake_task(f, rows[i].type, ids, 1);
		else
			bare(f, rows[i].type);
		if (n_passed(f) != rows[i].passed)
			fail_msg("row %zu", i);
		if (pid > 1 && ours_has(f->c.strangers, pid) == rows[i].another_look)
			fail_msg("row %zu: another look", i);
		if (pid > 1)
			assert_false(ours_has(f->c.ours, pid));
	}
	/* Where all records but samples are of targets, each is passed on. */
	f->c.split = true;
	comm(f, 97, 0);
	assert_int_equal(n_passed(f), 1);
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.ours);
}

static uint64_t renamed_at(pid_t pid)
{
	return hash_u64((uint32_t)pid) % READER_RENAMED;
}

/* Of a process that gives its threads new names without end some are passed on, of another all, and
 * that it has become another program always is. */
static void names_without_end(void **state)
{
	enum { MANY = 20000, MOST = 5000 };
	struct fake *f = *state;
	struct reader *r = begin(f);
	size_t passed = 0;
	pid_t other = 51;

	while (renamed_at(other) == renamed_at(50)) /* each run has other places */
		other++;
	r->first_pos = 1;
	for (int i = 0; i < MANY + 10; i++) {
		comm_of_thread(f, i < MANY ? 50 : other, 50 + i,
			       i == MANY / 2 ? PERF_RECORD_MISC_COMM_EXEC : 0);
		reader_drain(r, 0, false);
		f->page[0].data_tail = f->page[0].data_head;
		f->n_side = 0;
		assert_string_equal(fake_next(f), "");
		passed += f->n_side;
		if (i >= MANY || i == MANY / 2)
			assert_int_equal(f->n_side, 1);
	}
	reader_destroy(r);
	assert_in_range(passed, MOST, MOST + 20);
	assert_int_equal(STATS_GET(&f->stats, renamed), MANY + 10 - passed);
}

/* Where the kernel's table tells names, it is asked again for one that was not passed on. */
static void names_that_are_not_passed_on(void **state)
{
	enum { PID = 50, TID = 52 };
	struct fake *f = *state;
	struct reader *r = begin(f);

	f->c.named = ours_create(NULL);
	for (pid_t tid = PID; tid <= TID; tid++)
		ours_set(f->c.named, tid, true);
	comm_of_thread(f, PID, TID, 0);
	reader_drain(r, 0, false);
	assert_true(ours_has(f->c.named, TID));
	memset(r->renamed_ns, 0xff, sizeof(r->renamed_ns)); /* too often */
	comm_of_thread(f, PID, TID, 0);
	reader_drain(r, 0, false);
	assert_false(ours_has(f->c.named, TID));
	assert_true(ours_has(f->c.named, PID));
	assert_int_equal(STATS_GET(&f->stats, renamed), 1);
	ours_destroy(f->c.named);
	f->c.named = NULL;
	reader_destroy(r);
}

/* Whether the control thread is told of the stranger @pid by what its ring holds. */
static bool stranger_is_told(struct fake *f, pid_t pid)
{
	struct ctl_msg m;
	uint32_t type;
	bool is = false;

	assert_int_equal(n_passed(f), 0);
	do {
		m = fake_control(f, &type);
		is = is || (type == CTL_STRANGER && m.pid == pid);
	} while (type);
	return is;
}

/* Where waits are read a stranger that maps an interpreter is looked at before it is sampled. */
static void strangers_that_map_an_interpreter(void **state)
{
	static const char python[] = "/lib/libpython3.11.so.1.0";
	struct fake *f = *state;
	struct queue in[FAKE_CPUS];
	struct wait_post post = { .in = in, .poke = (int[]){ -1, -1 } };

	assert_int_equal(queue_init(&in[0], 1 << 16), 0);
	f->c.ours = ours_create(NULL);
	f->c.strangers = ours_create(NULL);
	map_file(f, 90, 9, python);
	assert_false(stranger_is_told(f, 90));
	f->c.waits = &post;
	map_file(f, 91, 9, "/lib/libc.so.6");
	assert_false(stranger_is_told(f, 91));
	map_file(f, 91, 9, python);
	assert_true(stranger_is_told(f, 91));
	comm(f, 91, PERF_RECORD_MISC_COMM_EXEC); /* at the same time */
	assert_false(stranger_is_told(f, 91));
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.ours);
	queue_deinit(&in[0]);
}

/* Losses from before the reader came are not the recording's. */
static void losses(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin(f);

	lost(f, 3);
	reader_drain(r, 0, false);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->n_side, 0);
	lost(f, 4);
	comm(f, 90, 0);
	reader_drain(r, 0, false);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->n_side, 2);
	assert_int_equal(fake_counted(f, lost), 0); /* who takes the record counts it */
	reader_destroy(r);
}

/* Without room in the queue what was lost is in the books; and the control thread is told
 * what it has to know. */
static void no_room_for_records(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin(f);

	r->first_pos = 1;
	queue_deinit(&f->slots[0].queue);
	assert_int_equal(queue_init(&f->slots[0].queue, 32), 0);
	f->slots[0].queue.hurry = -1;
	lost(f, 3);
	lost(f, 40);
	comm(f, 90, 0);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 90, 1, 90, 1 }, 1);
	bare(f, 77);
	reader_drain(r, 0, false);
	assert_int_equal(fake_counted(f, lost), 43);
	assert_int_equal(fake_counted(f, side_lost), 5);
	fake_expect_control(f, CTL_EXIT, (struct ctl_msg){ .pid = 90 });
	fake_expect_control(f, 0, (struct ctl_msg){ 0 });
	reader_destroy(r);
}

static uint64_t posts(int fd)
{
	uint64_t n = 0;

	eventfd_read(fd, &n);
	return n;
}

/* A number that may be another thread's has no name; the namer is woken once, by births. */
static void names_of_new_threads(void **state)
{
	struct fake *f = *state;
	int kick = eventfd(0, EFD_NONBLOCK);

	f->c.named = ours_create(NULL);
	for (pid_t tid = 93; tid < 97; tid++)
		ours_set(f->c.named, tid, true);
	f->c.namer_kick = kick;
	comm(f, 93, 0);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 90, 90, 94, 90 }, 1);
	n_passed(f);
	assert_true(ours_has(f->c.named, 93));
	assert_false(ours_has(f->c.named, 94));
	assert_int_equal(posts(kick), 0);
	assert_false(f->c.named_due);
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, 90, 95, 90 }, 1);
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, 90, 97, 90 }, 2);
	n_passed(f);
	assert_false(ours_has(f->c.named, 95));
	assert_true(ours_has(f->c.named, 96));
	assert_int_equal(posts(kick), 1);
	assert_true(f->c.named_due);
	assert_int_equal(f->c.n_births, 0); /* nobody asks for them */
	/* Nobody waits. */
	f->c.named_due = false;
	f->c.namer_kick = 0;
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, 90, 98, 90 }, 3);
	n_passed(f);
	assert_false(f->c.named_due);
	ours_destroy(f->c.named);
	close(kick);
}

/* New processes are no new threads of the one that they come from. */
static void threads_are_told(void **state)
{
	struct fake *f = *state;

	f->c.tell_threads = true;
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 91, 90, 91, 90 }, 1);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ 91, 90, 91, 90 }, 2);
	comm(f, 91, 0);
	n_passed(f);
	fake_expect_control(f, CTL_FORK, (struct ctl_msg){ 91, 90, 90, f->t + 1 });
	fake_expect_control(f, CTL_ENDED, (struct ctl_msg){ .pid = 91, .ptid = 91 });
	fake_expect_control(f, CTL_EXIT, (struct ctl_msg){ .pid = 91 });
	fake_expect_control(f, 0, (struct ctl_msg){ 0 });
}

/* --- a drain --- */

/* It says whether there was something, or still is; what nobody waits for leaves the ring. */
static void what_a_drain_leaves(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin(f);
	uint64_t sample_at;

	assert_false(reader_drain(r, 0, false));
	comm(f, 90, 0);
	sample_at = f->page[0].data_head;
	fake_take(f, (struct fake_event){ 0 });
	comm(f, 91, 0);
	assert_true(reader_drain(r, 0, false));
	assert_int_equal(f->page[0].data_tail, sample_at);
	assert_true(reader_drain(r, 0, false)); /* one waits */
	assert_int_equal(flushed, 0);
	assert_false(reader_drain(r, 0, true));
	assert_int_equal(flushed, 1);
	assert_int_equal(f->page[0].data_tail, f->page[0].data_head);
	comm(f, 92, 0);
	assert_true(reader_drain(r, 0, false));
	assert_false(reader_drain(r, 0, false));
	reader_destroy(r);
}

/* While targets are let run their samples are counted, not kept. */
static void a_drain_that_sheds(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .after = US });
	comm(f, 90, 0);
	r = begin(f);
	reader_drain(r, 1, false);
	assert_int_equal(r->n_pend, 0);
	assert_int_equal(fake_counted(f, shed), 2);
	assert_int_equal(f->page[0].data_tail, f->page[0].data_head);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->n_side, 1);
	reader_destroy(r);
}

/* Bytes that are no record are the end of what can be told. */
static void bytes_that_are_no_record(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	fake_take(f, (struct fake_event){ 0 });
	memset(f->map[0] + f->page[0].data_head, 0, 64);
	f->page[0].data_head += 64;
	r = take(f);
	assert_int_equal(r->n_pend, 1);
	assert_int_equal(r->pos, f->page[0].data_head);
	reader_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(waits_are_told),
		FAKE_TEST(waits_of_whom),
		FAKE_TEST(records_of_strangers),
		FAKE_TEST(names_without_end),
		FAKE_TEST(names_that_are_not_passed_on),
		FAKE_TEST(strangers_that_map_an_interpreter),
		FAKE_TEST(losses),
		FAKE_TEST(no_room_for_records),
		FAKE_TEST(names_of_new_threads),
		FAKE_TEST(threads_are_told),
		FAKE_TEST(what_a_drain_leaves),
		FAKE_TEST(a_drain_that_sheds),
		FAKE_TEST(bytes_that_are_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
