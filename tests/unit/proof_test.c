/* SPDX-License-Identifier: MIT
 *
 * proof: rings in memory of our own, with an inaccessible page behind: did a thread
 * come onto a CPU, or can't that be told?
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "unit.h"
#include "watch/proof.h"
#include "base/clock.h"
#include "bpf/run_table.h"
#include "sys/cpus.h"
#include "targets/births.h"
#include "targets/ours.h"
#include "perf_records.h"

enum { RING = 256 << 10, PAGE = 4096, TID = 71, IN = 0, OUT = PERF_RECORD_MISC_SWITCH_OUT };

struct fake {
	struct perf_event_mmap_page page;
	struct cpu_slot slot;
	struct reader_config config;
	unsigned char *map;
};

static int setup(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->map = mmap(NULL, RING + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	assert_ptr_not_equal(f->map, MAP_FAILED);
	assert_int_equal(mprotect(f->map + RING, PAGE, PROT_NONE), 0);
	f->config.last_in = calloc(LAST_IN, sizeof(*f->config.last_in));
	f->slot.ring = (struct perf_ring){
		.fd = -1,
		.page = &f->page,
		.data = f->map,
		.size = RING,
	};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fake *f = *state;

	munmap(f->map, RING + PAGE);
	free(f->config.last_in);
	free(f);
	return 0;
}

/* What the kernel does: over whatever was there, the end included. */
static void ring_write(struct fake *f, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		f->map[(f->page.data_head + i) & (RING - 1)] = ((const unsigned char *)p)[i];
	f->page.data_head += n;
}

static void ring_switch(struct fake *f, uint16_t misc, uint32_t tid, uint64_t time)
{
	struct record r;

	record_switch(&r, misc, tid, time);
	ring_write(f, r.bytes, r.n);
}

/* Everything up to @n bytes ago has been taken out. */
static void ring_at(struct fake *f, uint64_t head, uint64_t tail)
{
	f->page.data_head = head;
	f->page.data_tail = tail;
}

static void switch_records(void **state)
{
	static const struct {
		uint16_t misc;
		bool out, preempt;
	} rows[] = {
		{ 0, false, false },
		{ PERF_RECORD_MISC_SWITCH_OUT, true, false },
		{ PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, true,
		  true },
	};
	struct proof_switch sw;
	struct record r;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		record_switch(&r, rows[i].misc, TID, 500);
		assert_true(
			proof_is_switch(record_header(&r), r.bytes + r.n - PERF_TRAILER, &sw));
		assert_int_equal(sw.tid, TID);
		assert_int_equal(sw.time, 500);
		assert_int_equal(sw.out, rows[i].out);
		assert_int_equal(sw.preempt, rows[i].preempt);
	}
	record_header(&r)->size--;
	assert_false(proof_is_switch(record_header(&r), NULL, &sw));
	/* Of an event on a CPU: with the thread that comes next, or was before. */
	record_begin(&r, PERF_RECORD_SWITCH_CPU_WIDE, PERF_RECORD_MISC_SWITCH_OUT);
	record_u32(&r, TID + 1, TID + 2);
	record_trailer(&r, TID, 600);
	assert_true(proof_is_switch(record_header(&r), r.bytes + r.n - PERF_TRAILER, &sw));
	assert_int_equal(sw.tid, TID);
	assert_int_equal(sw.time, 600);
	assert_true(sw.out && !sw.preempt);
	record_comm(&r, 0, "x", 500);
	assert_false(proof_is_switch(record_header(&r), r.bytes + r.n - PERF_TRAILER, &sw));
}

struct ran_row {
	uint16_t misc;
	uint32_t tid;
	uint64_t time;
	bool ran; /* since 1000, TID? */
};

static const struct ran_row ran_rows[] = {
	{ IN, TID, 1001, true },
	{ IN, TID, 1000, false }, /* that was the one that brought it here */
	{ IN, TID, 999, false },
	{ OUT, TID, 1001, false },
	{ OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, TID, 1001, false },
	{ IN, TID + 1, 1001, false },
};

static void switch_in_another_ring(void **state)
{
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(ran_rows); i++) {
		const struct ran_row *row = &ran_rows[i];
		uint64_t cursor = f->page.data_head;
		struct record r;

		f->page.data_tail = f->page.data_head;
		record_sample(&r, 1100, 3, 0);
		ring_write(f, r.bytes, r.n);
		ring_switch(f, row->misc, row->tid, row->time);
		record_comm(&r, 0, "other", 1200);
		ring_write(f, r.bytes, r.n);
		if (proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000) != row->ran)
			fail_msg("row %zu", i);
		assert_int_equal(cursor, f->page.data_head);
		/* What was looked at is not looked at again. */
		assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	}
}

/* Records at every place over the ring's end. */
static void records_over_the_end(void **state)
{
	struct fake *f = *state;

	for (uint64_t at = RING - 64; at <= RING + 8; at += 8) {
		uint64_t cursor = at;

		ring_at(f, at, at);
		ring_switch(f, OUT, TID, 900);
		ring_switch(f, IN, TID, 2000);
		assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 2000));
		cursor = at;
		assert_true(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	}
}

/* Where switches are hidden: it was on the CPU of the ring, as its leaving tells. */
static void leaving_another_cpu(void **state)
{
	struct fake *f = *state;
	struct cpu_slot own = { .cpu = 3 };
	enum { US = 1000 };
	uint64_t cursor = 0;

	f->slot.cpu = 2;
	ring_switch(f, OUT, TID, 500 * US);
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 400 * US));
	assert_false(
		proof_left_another(&f->config, &own, TID, 400 * US)); /* nothing is hidden */
	f->config.last_out = calloc(LAST_IN, sizeof(*f->config.last_out));
	cursor = 0;
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 400 * US));
	assert_true(proof_left_another(&f->config, &own, TID, 400 * US));
	assert_false(proof_left_another(&f->config, &own, TID, 510 * US));
	assert_false(proof_left_another(&f->config, &own, TID + 1, 400 * US));
	assert_false(proof_left_another(&f->config, &f->slot, TID, 400 * US)); /* its own */
	proof_note_out(&f->config, &own, TID, 600 * US);
	assert_false(proof_left_another(&f->config, &own, TID, 400 * US));
	proof_note_out(&f->config, &f->slot, TID, 590 * US); /* older */
	assert_false(proof_left_another(&f->config, &own, TID, 400 * US));
	free((void *)(uintptr_t)f->config.last_out);
}

static void empty_ring(void **state)
{
	struct fake *f = *state;
	uint64_t cursor = 0;

	ring_at(f, 4800, 4800);
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 0));
	assert_int_equal(cursor, 4800);
}

/* What its reader has taken out is noted elsewhere: the cursor jumps to the tail. */
static void taken_out_is_skipped(void **state)
{
	struct fake *f = *state;
	uint64_t cursor = 0;

	ring_switch(f, IN, TID, 2000);
	f->page.data_tail = f->page.data_head;
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
}

/* A ring with little room may have lost the record we look for. */
/* It is too full with more than @most bytes. */
static void too_full_beyond(struct fake *f, uint64_t most, uint64_t *cursor)
{
	ring_at(f, 0, 0);
	while (f->page.data_head + 40 <= most)
		ring_switch(f, OUT, TID, 900);
	*cursor = 0;
	assert_false(proof_ran_in_ring(&f->config, &f->slot, cursor, TID, 1000));
	ring_switch(f, OUT, TID, 900);
	*cursor = 0;
	assert_true(proof_ran_in_ring(&f->config, &f->slot, cursor, TID, 1000));
}

static void near_full_ring(void **state)
{
	struct fake *f = *state;
	uint64_t cursor;

	too_full_beyond(f, RING - PERF_RECORD_BYTES, &cursor);
	/* Also where everything was looked at before. */
	assert_true(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
}

/* Records are not longer than they can be: a small ring of which half is unread, as when the kernel
 * wakes its reader, has lost none. */
static void near_full_small_ring(void **state)
{
	enum { SMALL = RING / 2, LONGEST = 24 << 10 };
	struct fake *f = *state;
	uint64_t before = now_ns(), cursor;

	f->slot.ring.size = SMALL;
	f->config.record_bytes = LONGEST;
	too_full_beyond(f, SMALL - LONGEST, &cursor);
	ring_at(f, SMALL - LONGEST, 0);
	proof_consume(&f->config, &f->slot, SMALL - LONGEST);
	assert_false(proof_ran_noted(&f->config, TID, before));
	ring_at(f, SMALL - LONGEST + 8, 0);
	proof_consume(&f->config, &f->slot, SMALL - LONGEST + 8);
	assert_true(proof_ran_noted(&f->config, TID, before));
}

/* Overwritten while we looked: no header there makes sense, or all of them do. */
static void overwritten_ring(void **state)
{
	struct fake *f = *state;
	uint64_t cursor = 0;

	ring_at(f, 4096, 0);
	memset(f->map, 0, 4096);
	assert_true(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	ring_at(f, RING + 4096, RING + 4000);
	cursor = 0;
	memset(f->map, 0, 4096);
	assert_true(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	/* The ring went round since the cursor: its tail says where to go on. */
	ring_at(f, 10 * RING, 10 * RING);
	ring_switch(f, OUT, TID, 900);
	cursor = 40;
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	assert_int_equal(cursor, f->page.data_head);
}

/* Overwritten by whatever the kernel put there: no record has such a size. Neither its
 * end nor what follows it is looked for behind the ring's last byte. */
static void odd_sizes_at_the_end(void **state)
{
	struct fake *f = *state;

	for (uint16_t size = 9; size < 80; size++) {
		struct perf_event_header h = { .type = PERF_RECORD_SWITCH, .size = size };

		for (uint64_t at = RING - 80; size % 8 && at < RING; at += 8) {
			uint64_t cursor = at;

			ring_at(f, at, at);
			ring_write(f, &h, sizeof(h));
			ring_at(f, at + 4000, at);
			assert_true(
				proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
		}
	}
}

/* A look for one thread moves the cursor past what concerns another. */
static void a_look_for_one_thread_notes_all(void **state)
{
	struct fake *f = *state;
	uint64_t cursor = 0;

	ring_at(f, 0, 0);
	ring_switch(f, IN, TID, 1500);
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID + 1, 1000));
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	assert_true(proof_ran_noted(&f->config, TID, 1000));
	assert_false(proof_ran_noted(&f->config, TID, 1500));
}

/* Threads have numbers one behind the other: as many as a large process has do not share a place,
 * where each would look as if it ran whenever another does. */
static void neighbours_have_places_of_their_own(void **state)
{
	enum { THREADS = LAST_IN / 3 };
	struct reader_config c = { .last_in = calloc(LAST_IN, sizeof(*c.last_in)) };
	struct cpu_slot slot = { 0 };

	for (pid_t tid = TID; tid < TID + THREADS; tid++) {
		assert_false(proof_ran_noted(&c, tid, 0));
		proof_note_in(&c, &slot, tid, 1000);
	}
	free(c.last_in);
}

static void noted(void **state)
{
	struct reader_config c = { .last_in = calloc(LAST_IN, sizeof(*c.last_in)) };
	struct cpu_slot slot = { 0 };
	uint64_t begin;

	assert_false(proof_ran_noted(&c, TID, 0));
	proof_note_in(&c, &slot, TID, 1000);
	assert_true(proof_ran_noted(&c, TID, 999));
	assert_false(proof_ran_noted(&c, TID, 1000));
	assert_false(proof_ran_noted(&c, TID + 1, 0));
	proof_note_in(&c, &slot, TID, 500); /* from another ring, older: changes nothing */
	assert_true(proof_ran_noted(&c, TID, 999));
	proof_note_in(&c, &slot, TID, 2000);
	assert_true(proof_ran_noted(&c, TID, 1999));
	/* Any number of threads has its place; sharing one errs towards "ran". */
	for (pid_t tid = 1; tid < 4 * LAST_IN; tid += 3) {
		proof_note_in(&c, &slot, tid, 3000 + (uint64_t)tid);
		assert_true(proof_ran_noted(&c, tid, 2999 + (uint64_t)tid));
	}
	proof_note_in(&c, &slot, INT32_MAX, 1);
	/* While its events are being opened, and for what came before they were. */
	proof_opening(&c, TID + 1);
	assert_true(proof_ran_noted(&c, TID + 1, UINT64_MAX - 1));
	assert_false(proof_ran_noted(&c, TID + 2, UINT64_MAX - 1));
	begin = now_ns();
	proof_opened(&c, TID + 1);
	assert_true(proof_ran_noted(&c, TID + 1, begin - 1));
	assert_false(proof_ran_noted(&c, TID + 1, now_ns()));
	free(c.last_in);
}

enum { NOTES = 50000000 };

struct noter {
	struct reader_config c;
	struct cpu_slot slot;
	_Atomic uint64_t clock;
	_Atomic bool forgotten;
};

static void *note_many(void *arg)
{
	struct noter *n = arg;
	uint64_t time;

	while ((time = ++n->clock) < NOTES && !n->forgotten) {
		proof_note_in(&n->c, &n->slot, TID, time);
		if (!proof_ran_noted(&n->c, TID, time - 1))
			n->forgotten = true;
	}
	return NULL;
}

/* Two readers note at once: what was noted is never replaced by something older. */
static void noted_by_two(void **state)
{
	struct noter n = { .c.last_in = calloc(LAST_IN, sizeof(*n.c.last_in)) };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, note_many, &n), 0);
	note_many(&n);
	pthread_join(thread, NULL);
	assert_false(n.forgotten);
	free(n.c.last_in);
}

/* When the reader has emptied a ring that was full, nothing there tells any more that
 * records were dropped. */
static void a_full_ring_is_remembered(void **state)
{
	struct fake *f = *state;
	uint64_t before = now_ns();

	ring_at(f, RING / 2, 0);
	proof_consume(&f->config, &f->slot, RING / 2);
	assert_int_equal(f->page.data_tail, RING / 2);
	assert_false(proof_ran_noted(&f->config, TID, before));
	ring_at(f, 2 * RING - 100, RING);
	proof_consume(&f->config, &f->slot, 2 * RING - 100);
	assert_int_equal(f->page.data_tail, 2 * RING - 100);
	assert_true(proof_ran_noted(&f->config, TID, before));
	assert_false(proof_ran_noted(&f->config, TID, now_ns()));
}

/* While room is made the kernel may drop a record: whoever looks meanwhile can't tell. */
static void dropped_meanwhile(void **state)
{
	struct fake *f = *state;
	uint64_t cursor = 0;

	ring_at(f, 0, 0);
	f->slot.dropping = true;
	assert_true(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	f->slot.dropping = false;
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
}

static struct perf_event_mmap_page *watched_page;
static struct cpu_slot *watched_slot;
static volatile bool was_dropping;

/* The tail is about to be written. */
static void on_write(int sig)
{
	was_dropping = watched_slot->dropping;
	mprotect(watched_page, PAGE, PROT_READ | PROT_WRITE);
}

/* That is said before there is room, and no more when all is known. */
static void says_that_it_drops(void **state)
{
	struct fake *f = *state;
	struct sigaction act = { .sa_handler = on_write }, old;

	watched_slot = &f->slot;
	watched_page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	f->slot.ring.page = watched_page;
	sigaction(SIGSEGV, &act, &old);
	proof_consume(&f->config, &f->slot, 8);
	sigaction(SIGSEGV, &old, NULL);
	assert_int_equal(watched_page->data_tail, 8);
	assert_true(was_dropping);
	assert_false(f->slot.dropping);
	munmap(watched_page, PAGE);
}

static void ran_unwatched(void **state)
{
	struct fake *f = *state;
	struct reader_config *c = &f->config;
	struct cpus may;

	assert_int_equal(cpus_of_thread(&may, 0), 0);
	c->slots = calloc(CPUS_MAX, sizeof(*c->slots));
	c->cap_slots = (uint32_t)cpus_count(&may) + 1;
	/* Before the recording it may have been anywhere, and does not wander for that. */
	c->start_ns = 1001;
	assert_true(proof_ran_unwatched(c, 0, 1000));
	assert_false(c->wanders);
	c->start_ns = 1000;
	for (int cpu = cpus_next(&may, 0); cpu >= 0; cpu = cpus_next(&may, cpu + 1)) {
		assert_true(proof_ran_unwatched(c, 0, 1000));
		assert_true(c->wanders);
		c->slots[c->n_slots].cpu = cpu;
		c->slots[c->n_slots++].watched_ns = 900;
	}
	/* Who may use one for a moment may have come from there. */
	assert_true(proof_ran_unwatched(c, 0, 1000));
	c->wanders = false;
	assert_false(proof_ran_unwatched(c, 0, 1000));
	assert_true(proof_ran_unwatched(c, INT32_MAX, 1000)); /* it has ended: it ran */
	/* Watched since it left its CPU, and a moment later. */
	c->slots[0].watched_ns = 1000;
	assert_false(proof_ran_unwatched(c, 0, 1000));
	c->slots[0].watched_ns = 1001;
	assert_true(proof_ran_unwatched(c, 0, 1000));
	c->slots[0].watched_ns = 0;
	assert_true(proof_ran_unwatched(c, 0, 1000));
	c->wanders = false;
	/* Every CPU there can be: nobody asks where the thread may run. */
	c->slots[0].watched_ns = 900;
	c->cap_slots--;
	assert_false(proof_ran_unwatched(c, INT32_MAX, 1000));
	free(c->slots);
}

/* A kernel that shows what process 1 waits for hides no switches. */
static void hidden_where_others_are(void **state)
{
	int fd = open("/proc/1/syscall", O_RDONLY | O_CLOEXEC);
	char c;

	assert_int_equal(proof_switches_hidden(), fd < 0 || read(fd, &c, 1) < 0);
	if (fd >= 0)
		close(fd);
}

static void moved(void **state)
{
	struct proof_stat_files files = { 0 };
	struct cpus all;
	int cpu;

	(void)state;
	assert_int_equal(cpus_of_thread(&all, 0), 0);
	cpu = cpus_next(&all, 0);
	assert_int_equal(cpus_pin_thread(cpu), 0);
	assert_false(proof_moved(&files, getpid(), gettid(), cpu));
	assert_true(proof_moved(&files, getpid(), gettid(), cpu + 1));
	assert_true(proof_moved(&files, getpid(), INT32_MAX, cpu)); /* it has ended */
	proof_stat_files_close(&files);
}

struct short_thread {
	int ends[2]; /* of a pipe */
	pthread_barrier_t barrier;
};

/* Tells its number, and waits to end. */
static void *say_tid(void *arg)
{
	struct short_thread *t = arg;
	pid_t tid = gettid();

	assert_int_equal(write(t->ends[1], &tid, sizeof(tid)), sizeof(tid));
	pthread_barrier_wait(&t->barrier);
	return NULL;
}

/* A file that is kept open is that of a thread, not of a number. */
static void moved_by_a_kept_file(void **state)
{
	struct short_thread shared;
	struct proof_stat_files files = { 0 };
	int cpu, mine = gettid() % PROOF_STAT_FILES, fd;
	pthread_t thread;
	struct cpus all;
	pid_t tid;

	(void)state;
	assert_int_equal(cpus_of_thread(&all, 0), 0);
	cpu = cpus_next(&all, 0);
	assert_int_equal(cpus_pin_thread(cpu), 0);
	assert_int_equal(pipe(shared.ends), 0);
	pthread_barrier_init(&shared.barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, say_tid, &shared), 0);
	assert_int_equal(read(shared.ends[0], &tid, sizeof(tid)), sizeof(tid));
	assert_false(proof_moved(&files, getpid(), tid, cpu));
	fd = files.of[tid % PROOF_STAT_FILES].fd;
	assert_int_equal(files.of[tid % PROOF_STAT_FILES].tid, tid);
	/* Again, by the same file. */
	assert_false(proof_moved(&files, getpid(), tid, cpu));
	assert_int_equal(files.of[tid % PROOF_STAT_FILES].fd, fd);
	fd = dup(fd);
	pthread_barrier_wait(&shared.barrier);
	pthread_join(thread, NULL);
	assert_true(proof_moved(&files, getpid(), tid, cpu));
	assert_int_equal(files.of[tid % PROOF_STAT_FILES].tid, 0);
	/* Were its number ours, we are not taken for ended. */
	files.of[mine].tid = gettid(), files.of[mine].fd = fd;
	assert_false(proof_moved(&files, getpid(), gettid(), cpu));
	/* Two that share a place. */
	assert_true(proof_moved(&files, getpid(), gettid() + PROOF_STAT_FILES * 1000000, cpu));
	assert_false(proof_moved(&files, getpid(), gettid(), cpu));
	proof_stat_files_close(&files);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	close(shared.ends[0]), close(shared.ends[1]);
}

static int preads_left = INT32_MAX; /* later ones fail, as those of a thread that has ended */
static const char *stat_text;	     /* what a stat says instead; NULL: what it does */

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	if (stat_text) {
		n = MIN(n, strlen(stat_text));
		memcpy(buf, stat_text, n);
		return (ssize_t)n;
	}
	if (preads_left-- > 0)
		return syscall(SYS_pread64, fd, buf, n, at);
	errno = ESRCH;
	return -1;
}

/* The 39th field tells, whatever the name is. */
static void moved_by_its_field(void **state)
{
	struct proof_stat_files files = { 0 };
	char text[1024];

	for (int fields = 38; fields <= 45; fields++) {
		int n = sprintf(text, "1 (a b) 5 (c) S");

		for (int i = 4; i <= fields; i++)
			n += sprintf(text + n, " %d", i);
		stat_text = text;
		for (int cpu = 36; cpu <= 42; cpu++)
			assert_int_equal(proof_moved(&files, getpid(), gettid(), cpu),
					 fields < 39 || cpu != 39);
	}
	stat_text = NULL;
	proof_stat_files_close(&files);
}

/* A thread that ends once its file was opened, or once that was read. */
static void moved_and_ended(void **state)
{
	struct proof_stat_files files = { 0 };
	struct cpus all;
	int cpu;

	assert_int_equal(cpus_of_thread(&all, 0), 0);
	cpu = cpus_next(&all, 0);
	assert_int_equal(cpus_pin_thread(cpu), 0);
	preads_left = 0;
	assert_true(proof_moved(&files, getpid(), gettid(), cpu));
	proof_stat_files_close(&files);
	preads_left = 1;
	assert_false(proof_moved(&files, getpid(), gettid(), cpu));
	assert_int_equal(preads_left, 0);
	preads_left = INT32_MAX;
	proof_stat_files_close(&files);
	(void)state;
}

/* Its hotplug thread ran: events that see all of a CPU are gone, until they are opened anew.
 */
static void a_cpu_goes(void **state)
{
	struct fake *f = *state;
	uint64_t cursor = 0;

	f->slot.watched_ns = 900;
	f->slot.hotplug = 20;
	ring_at(f, 0, 0);
	ring_switch(f, OUT, 20, 1500);
	ring_switch(f, IN, TID, 1600);
	proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000);
	assert_int_equal(slot_watched(&f->slot), 900);
	ring_switch(f, IN, 20, 2000);
	assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1600));
	assert_int_equal(slot_watched(&f->slot), 0);
	assert_int_equal(f->slot.left_ns, 1500);
	ring_switch(f, OUT, 20, 2050);
	proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1600);
	assert_int_equal(f->slot.left_ns, 2050);
	assert_int_equal(slot_watched(&f->slot), 0);
	f->slot.kept_ns = 2000;
	assert_int_equal(slot_watched(&f->slot), 900);
	f->slot.kept_ns = 1999;
	assert_int_equal(slot_watched(&f->slot), 0);
	f->slot.watched_ns = 2100;
	assert_int_equal(slot_watched(&f->slot), 2100);
	proof_note_out(&f->config, &f->slot, 21, 2300);
	assert_int_equal(f->slot.left_ns, 2050);
	/* What is not known is not the idle task. */
	f->slot.hotplug = 0;
	proof_note_in(&f->config, &f->slot, 0, 2200);
	assert_int_equal(slot_watched(&f->slot), 2100);
}

/* --- births --- */

enum { PARENT = 80, CHILD = 81, STRANGER = 82 };

static void ring_task(struct fake *f, uint32_t type, pid_t pid, pid_t ppid, uint64_t time)
{
	struct record r;

	record_begin(&r, type, 0);
	record_u32(&r, (uint32_t)pid, (uint32_t)ppid);
	record_u32(&r, (uint32_t)pid, (uint32_t)ppid);
	record_u64(&r, time);
	record_trailer(&r, (uint32_t)ppid, time);
	ring_write(f, r.bytes, r.n);
}

struct birth_row {
	bool split, table, follow;
	uint32_t type;
	pid_t pid, ppid;
	bool was, is; /* is @pid a target? */
};

/* A target's child is one if children are followed, whatever its number was before; a
 * stranger's is left as it is, for it may be known better elsewhere. */
static const struct birth_row birth_rows[] = {
	{ false, true, true, PERF_RECORD_FORK, CHILD, PARENT, false, true },
	{ true, false, true, PERF_RECORD_FORK, CHILD, PARENT, false, true },
	{ false, true, false, PERF_RECORD_FORK, CHILD, PARENT, true, false },
	{ true, false, false, PERF_RECORD_FORK, CHILD, PARENT, true, false },
	{ false, true, true, PERF_RECORD_FORK, CHILD, STRANGER, false, false },
	{ false, true, true, PERF_RECORD_FORK, CHILD, STRANGER, true, true },
	/* There all records are of targets. */
	{ true, false, true, PERF_RECORD_FORK, CHILD, STRANGER, false, true },
	/* Nobody asks. */
	{ false, false, true, PERF_RECORD_FORK, CHILD, PARENT, false, false },
	/* A thread, or an end. */
	{ false, true, false, PERF_RECORD_FORK, PARENT, PARENT, true, true },
	{ false, true, true, PERF_RECORD_EXIT, CHILD, PARENT, false, false },
};

static void births_in_another_ring(void **state)
{
	static const struct run_table table;
	struct fake *f = *state;

	f->config.births = births_create();
	for (size_t i = 0; i < ARRAY_SIZE(birth_rows); i++) {
		const struct birth_row *row = &birth_rows[i];
		uint64_t cursor = f->page.data_head;

		f->page.data_tail = f->page.data_head;
		f->config.ours = ours_create(NULL);
		ours_set(f->config.ours, PARENT, true);
		ours_set(f->config.ours, row->pid, row->was);
		f->config.split = row->split;
		f->config.table = row->table ? &table : NULL;
		f->config.follow = row->follow;
		ring_task(f, row->type, row->pid, row->ppid, 1500);
		assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
		if (ours_has(f->config.ours, row->pid) != row->is)
			fail_msg("row %zu", i);
		ours_destroy(f->config.ours);
	}
	births_destroy(f->config.births);
}

/* A record that its reader has taken meanwhile may have been written over; nor is one of
 * another size what it seems. */
static void births_that_are_no_longer_there(void **state)
{
	struct fake *f = *state;
	struct perf_event_header h = { .type = PERF_RECORD_FORK };

	h.size = sizeof(h) + 24 + PERF_TRAILER;
	f->config.ours = ours_create(NULL);
	f->config.split = f->config.follow = true;
	ring_task(f, PERF_RECORD_FORK, CHILD, PARENT, 1500);
	ring_at(f, h.size, 1);
	proof_note_birth(&f->config, &f->slot, 0, &h);
	assert_false(ours_has(f->config.ours, CHILD));
	ring_at(f, h.size, 0);
	h.size += 8;
	proof_note_birth(&f->config, &f->slot, 0, &h);
	assert_false(ours_has(f->config.ours, CHILD));
	h.size -= 8;
	proof_note_birth(&f->config, &f->slot, 0, &h);
	assert_true(ours_has(f->config.ours, CHILD));
	ours_destroy(f->config.ours);
}

static struct fake *overwriting;
static uint64_t overwriting_to; /* 0: all */

/* The page is read for the first time: just before, its reader has taken what is there, and the kernel
 * has written over it. */
static void overwrite(int sig)
{
	(void)sig;
	mprotect(overwriting->map + PAGE, PAGE, PROT_READ | PROT_WRITE);
	memset(overwriting->map + PAGE, 0xff, PAGE);
	overwriting->page.data_tail = overwriting_to ?: overwriting->page.data_head;
}

/* Nothing of a record is noted that was overwritten while it was copied: neither that any thread
 * came onto a CPU at the end of all time, nor that any process became another program then. What it
 * told has its reader noted, so that it does not make anybody look like having run. */
static void records_that_are_overwritten(void **state)
{
	struct fake *f = overwriting = *state;
	struct sigaction act = { .sa_handler = overwrite }, was;
	struct record r[2];

	assert_int_equal(sigaction(SIGSEGV, &act, &was), 0);
	f->config.births = births_create();
	record_switch(&r[0], IN, TID, 500);
	record_exec(&r[1], TID, TID, 500, 3, 99);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		uint64_t at = PAGE + PERF_TRAILER - r[i].n, cursor = 0;

		ring_at(f, at, at);
		ring_write(f, r[i].bytes, r[i].n);
		assert_int_equal(mprotect(f->map + PAGE, PAGE, PROT_NONE), 0);
		assert_false(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
		assert_int_equal(f->page.data_tail, f->page.data_head);
	}
	for (size_t i = 0; i < LAST_IN; i++)
		assert_int_equal(f->config.last_in[i], 0);
	assert_int_equal(births_execed(f->config.births, -1), 0);
	births_destroy(f->config.births);
	sigaction(SIGSEGV, &was, NULL);
}

/* What its reader has not taken yet is looked at. */
static void records_behind_those_that_are_overwritten(void **state)
{
	struct fake *f = overwriting = *state;
	struct sigaction act = { .sa_handler = overwrite }, was;
	uint64_t cursor = 0;

	assert_int_equal(sigaction(SIGSEGV, &act, &was), 0);
	ring_at(f, PAGE, PAGE);
	ring_switch(f, OUT, TID, 900);
	ring_at(f, 2 * PAGE, PAGE);
	ring_switch(f, IN, TID, 2000);
	assert_int_equal(mprotect(f->map + PAGE, PAGE, PROT_NONE), 0);
	overwriting_to = 2 * PAGE;
	assert_true(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	overwriting_to = 0;
	assert_int_equal(cursor, f->page.data_head);
	assert_true(proof_ran_noted(&f->config, TID, 1999));
	sigaction(SIGSEGV, &was, NULL);
}

/* The page is read for the first time: just before, the kernel has filled the ring. */
static void fill(int sig)
{
	(void)sig;
	mprotect(overwriting->map + PAGE, PAGE, PROT_READ | PROT_WRITE);
	overwriting->page.data_head = overwriting->page.data_tail + RING;
}

/* A ring that fills while it is looked at may have dropped a record. What came meanwhile is looked
 * at the next time. */
static void a_ring_that_fills_meanwhile(void **state)
{
	struct fake *f = overwriting = *state;
	struct sigaction act = { .sa_handler = fill }, was;
	uint64_t at, cursor = 0;
	struct record r;

	assert_int_equal(sigaction(SIGSEGV, &act, &was), 0);
	record_switch(&r, OUT, TID, 500);
	at = PAGE + PERF_TRAILER - r.n;
	ring_at(f, at, at);
	ring_write(f, r.bytes, r.n);
	assert_int_equal(mprotect(f->map + PAGE, PAGE, PROT_NONE), 0);
	assert_true(proof_ran_in_ring(&f->config, &f->slot, &cursor, TID, 1000));
	assert_int_equal(f->page.data_head, at + RING);
	assert_int_equal(cursor, at + r.n);
	sigaction(SIGSEGV, &was, NULL);
}

static void births_note_exec(struct fake *f, pid_t pid, uint64_t time)
{
	struct record r;

	record_exec(&r, (uint32_t)pid, (uint32_t)pid, time, 3, 99);
	births_note(f->config.births, &f->slot.ring, 0, record_header(&r),
		    r.bytes + r.n - PERF_TRAILER);
}

/* Of a scope a child that became another program since has to fit by itself; unless all that
 * targets start are targets. */
static void who_inherits(void **state)
{
	struct fake *f = *state;
	struct reader_config *c = &f->config;

	c->births = births_create();
	c->ours = ours_create(NULL);
	ours_set(c->ours, PARENT, true);
	assert_false(proof_inherits(c, CHILD, PARENT, 1000));
	c->follow = true;
	assert_true(proof_inherits(c, CHILD, PARENT, 1000));
	assert_false(proof_inherits(c, CHILD, STRANGER, 1000));
	c->split = true;
	assert_true(proof_inherits(c, CHILD, STRANGER, 1000));
	c->split = false;
	births_note_exec(f, CHILD, 2000);
	assert_true(proof_inherits(c, CHILD, PARENT, 1000));
	c->strangers = c->ours;
	assert_false(proof_inherits(c, CHILD, PARENT, 1000));
	assert_true(proof_inherits(c, CHILD, PARENT, 2000)); /* forked after that */
	assert_true(proof_inherits(c, CHILD + 1, PARENT, 1000));
	c->descends = true;
	assert_true(proof_inherits(c, CHILD, PARENT, 1000));
	ours_destroy(c->ours);
	births_destroy(c->births);
}

/* All rings but one's own are looked through, from where each was left. */
static void births_in_all_other_rings(void **state)
{
	struct fake *f = *state;
	struct cpu_slot slots[3];
	uint64_t cursors[3] = { 0 };

	for (int i = 0; i < 3; i++)
		slots[i] = f->slot;
	f->config.slots = slots;
	f->config.n_slots = 3;
	f->config.births = births_create();
	ring_task(f, PERF_RECORD_FORK, CHILD, PARENT, 1500);
	proof_look_for_births(&f->config, &slots[1], cursors);
	assert_int_equal(cursors[0], f->page.data_head);
	assert_int_equal(cursors[1], 0);
	assert_int_equal(cursors[2], f->page.data_head);
	assert_int_equal(births_parent(f->config.births, CHILD), PARENT);
	births_destroy(f->config.births);
}

/* Where nothing is known nothing is clear, nor when a thread came. */
static void without_tables(void **state)
{
	struct reader_config c = { 0 };
	struct sight_seen seen = { 0 };

	(void)state;
	assert_false(proof_clear(&c, &seen, 0));
	assert_int_equal(proof_came(&c, TID), 0);
}

/* That nobody came unseen is so only if the kernel's word says it. */
static void clear_as_the_kernel_says(void **state)
{
	_Atomic uint64_t word[2] = { 1 << 16 };
	const struct sight sight = { .n_online = 1, .at = word };
	const struct reader_config c = { .sight = &sight };
	struct sight_seen seen = { 0 };
	uint64_t since;

	(void)state;
	proof_clear(&c, &seen, 0); /* nothing is known of what was before */
	since = now_ns();
	assert_false(proof_clear(&c, &seen, since));
	word[0] |= 1; /* the CPU is with one in sight */
	assert_true(proof_clear(&c, &seen, since));
	assert_false(proof_clear(&c, &seen, 1));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(switch_records),
		TEST(switch_in_another_ring),
		TEST(records_over_the_end),
		TEST(leaving_another_cpu),
		TEST(empty_ring),
		TEST(taken_out_is_skipped),
		TEST(near_full_ring),
		TEST(near_full_small_ring),
		TEST(overwritten_ring),
		TEST(odd_sizes_at_the_end),
		TEST(a_look_for_one_thread_notes_all),
		cmocka_unit_test(neighbours_have_places_of_their_own),
		cmocka_unit_test(noted),
		cmocka_unit_test(noted_by_two),
		TEST(a_full_ring_is_remembered),
		TEST(dropped_meanwhile),
		TEST(says_that_it_drops),
		TEST(ran_unwatched),
		cmocka_unit_test(hidden_where_others_are),
		cmocka_unit_test(moved),
		cmocka_unit_test(moved_by_a_kept_file),
		cmocka_unit_test(moved_by_its_field),
		cmocka_unit_test(moved_and_ended),
		TEST(a_cpu_goes),
		TEST(births_in_another_ring),
		TEST(births_that_are_no_longer_there),
		TEST(records_that_are_overwritten),
		TEST(records_behind_those_that_are_overwritten),
		TEST(a_ring_that_fills_meanwhile),
		TEST(who_inherits),
		TEST(births_in_all_other_rings),
		cmocka_unit_test(without_tables),
		cmocka_unit_test(clear_as_the_kernel_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
