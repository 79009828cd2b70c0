/* SPDX-License-Identifier: MIT
 *
 * hold: why stacks are late, what a hold costs, which samples --mode gil leaves out, where the
 * reader looks while it holds a thread, and whom it tells.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "fake_drain.h"
#include "noted.h"
#include "watch/proof.h"

/* Looks at our own age, and how many of them were where a thread can be given up. */
static struct asks {
	const struct guard *guard; /* NULL: they do not count */
	int n, n_guarded;
} asks;

/* What the file says in which the kernel numbers thread NUMBERED, and how often it was opened. */
enum { NUMBERED = FAKE_TID + 5 };
static struct {
	const char *text; /* NULL: there is no such thread */
	int n;
} numbers;

static int open_numbers(void)
{
	size_t n = numbers.text ? strlen(numbers.text) : 0;
	int fd = numbers.text ? memfd_create("status", MFD_CLOEXEC) : -1;

	numbers.n++;
	if (fd < 0)
		errno = ENOENT;
	else if (pwrite(fd, numbers.text, n, 0) != (ssize_t)n)
		abort();
	return fd;
}

int open(const char *path, int flags, ...)
{
	char age[64], status[64];

	snprintf(status, sizeof(status), "/proc/%d/task/%d/status", getpid(), NUMBERED);
	if (strcmp(path, status) == 0)
		return open_numbers();

	snprintf(age, sizeof(age), "/proc/%d/task/%d/stat", getpid(), getpid());
	if (asks.guard && strcmp(path, age) == 0) {
		asks.n++;
		asks.n_guarded += guard_look(asks.guard) % 2 != 0;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}

/* What waits is read and judged at once. */
static struct reader *begin_reading(struct fake *f)
{
	struct reader *r = begin(f);

	keeping.read = hold_flush;
	return r;
}

static void end_reading(struct fake *f, struct reader *r)
{
	reader_drain(r, 0, false);
	reader_destroy(r);
	f->page[0].data_tail = f->page[0].data_head;
	f->page[1].data_tail = f->page[1].data_head;
}

static const char *sample_now(struct fake *f)
{
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	end_reading(f, begin_reading(f));
	return fake_next(f);
}

/* --- why stacks are late --- */

static enum judgement judgement;

static enum judgement judge_as_told(const struct hold *h)
{
	return judgement;
}

/* A sample that will be judged as @why. */
static struct reader *begin_judged(struct fake *f, enum judgement why)
{
	struct reader *r;

	fake_take(f, (struct fake_event){ 0 });
	r = begin_reading(f);
	keeping.judge = judge_as_told;
	judgement = why;
	return r;
}

/* Of all counters the one at @counter, if there is one, is 1. */
static void only_counts(const struct fake *f, size_t counter)
{
	for (size_t at = 0; at < sizeof(struct stats); at += 8)
		assert_int_equal(load_u64((const char *)&f->stats + at), at == counter);
}

static void reasons_are_counted(void **state)
{
	static const struct {
		enum judgement why;
		size_t counter;
	} rows[] = {
		{ JUDGE_BACKLOG, offsetof(struct stats, late_backlog) },
		{ JUDGE_GAP, offsetof(struct stats, late_gap) },
		{ JUDGE_VOLUNTARY, offsetof(struct stats, late_voluntary) },
		{ JUDGE_RAN, offsetof(struct stats, late_ran) },
		{ JUDGE_NOSWITCH, offsetof(struct stats, late_noswitch) },
		{ JUDGE_NOSTOP, offsetof(struct stats, late_nostop) },
		{ JUDGE_CAPTURE, offsetof(struct stats, late_capture) },
		{ JUDGE_EXACT, sizeof(struct stats) },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		end_reading(f, begin_judged(f, rows[i].why));
		assert_string_equal(fake_next(f), rows[i].why == JUDGE_EXACT ? "exact a3 b3" :
									       "late a3 b3");
		only_counts(f, rows[i].counter);
	}
}

/* What the read of the stack ends with, whatever stands there. */
static enum pystack_end read_end;

static void release_as_told(struct reader *r, struct walk *w)
{
	fake_release(r, w);
	w->res.end = read_end;
}

static void ends_are_counted(void **state)
{
	static const struct {
		enum pystack_end end;
		size_t counter;
		const char *text;
	} rows[] = {
		{ PYSTACK_OK, sizeof(struct stats), "exact a3 b3" },
		{ PYSTACK_NOPYTHON, sizeof(struct stats), "nopython" },
		{ PYSTACK_FAULT, offsetof(struct stats, torn_fault), "torn" },
		{ PYSTACK_BROKEN, offsetof(struct stats, torn_broken), "torn" },
		{ PYSTACK_BADCODE, offsetof(struct stats, torn_badcode), "torn" },
		{ PYSTACK_ELSEWHERE, offsetof(struct stats, torn_elsewhere), "torn" },
		{ PYSTACK_END_N, sizeof(struct stats), "torn" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct reader *r = begin_judged(f, JUDGE_EXACT);

		keeping.release = release_as_told;
		read_end = rows[i].end;
		end_reading(f, r);
		assert_string_equal(fake_next(f), rows[i].text);
		only_counts(f, rows[i].counter);
	}
}

static bool lacks_code, lacks_frames;

static void release_as_lacking(struct reader *r, struct walk *w)
{
	fake_release(r, w);
	w->res.code_lost = lacks_code;
	w->res.n = lacks_frames ? 0 : w->res.n;
}

/* Its frames would have no names: the sample counts as lost. */
static void without_its_code(void **state)
{
	struct fake *f = *state;

	for (int i = 0; i < 4; i++) {
		struct reader *r = begin_judged(f, JUDGE_EXACT);

		keeping.release = release_as_lacking;
		lacks_code = i & 1, lacks_frames = i & 2;
		end_reading(f, r);
		assert_string_equal(fake_next(f), i == 0 ? "exact a3 b3" : i == 1 ? "" : "exact");
		assert_int_equal(i == 1, STATS_GET(&f->stats, lost));
	}
}

/* A sample whose own way to the hold was proven is exact only if the thread's last one is. */
static enum judgement judge_the_last_late(const struct hold *h)
{
	return h->backlog ? JUDGE_BACKLOG : JUDGE_EXACT;
}

static void the_last_sample_decides(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .after = 5 });
	fake_take(f, (struct fake_event){ .after = 6 });
	r = begin(f);
	reader_drain(r, 0, false);
	keeping.judge = judge_the_last_late;
	r->pend[1].hold.backlog = true;
	hold_flush(r);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_string_equal(fake_next(f), "exact a3 b3");
	fake_take(f, (struct fake_event){ .after = 7 });
	fake_take(f, (struct fake_event){ .after = 8 });
	reader_drain(r, 0, false);
	r->pend[1].hold.backlog = true;
	hold_flush(r);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_string_equal(fake_next(f), "");
	reader_destroy(r);
}

/* --- the samples that wait --- */

static void what_a_hold_costs(void **state)
{
	static const struct {
		uint64_t ns;
		uint32_t frames, joined;
		uint64_t charged;
		uint64_t reads, ranges;
	} rows[] = {
		{ 0, 0, 0, 0, 0, 0 },
		{ 5000, 0, 0, 5000, 20, 60 },
		{ 200000, 0, 0, 200000, 20, 60 },
		{ 200001, 0, 0, 200000, 20, 60 },
		{ 200001, 1, 0, 200001, 20, 60 },
		{ UINT64_MAX, 50, 0, 250000, 20, 60 }, /* asleep in a page fault */
		{ UINT64_MAX, 50, 2048, 2298000, 20, 60 },
		{ UINT64_MAX, 50, 0, 7955280, 4096, 4096 }, /* states that were searched */
		{ UINT64_MAX, 50, 0, 5887720, 257, 16384 + 60 }, /* pages of stack */
		{ 3000000, 50, 0, 3000000, 4096, 4096 },
	};
	struct fake *f = *state;
	struct reader *r = begin(f);
	uint64_t before = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct walk w = { .res.n = rows[i].frames,
					.res.n_joined = rows[i].joined,
					.reads_ns = before };

		r->slot->work.n[WORK_reads] += rows[i].reads;
		r->slot->work.n[WORK_ranges] += rows[i].ranges;
		before += 1600 * rows[i].reads + 330 * rows[i].ranges;
		r->held_ns = 7;
		hold_charge(r, rows[i].ns, &w);
		assert_int_equal(r->held_ns, 7 + rows[i].charged);
	}
	reader_destroy(r);
}

/* Of one thread, not done, and read as early as @w. */
static void the_newest_that_waits(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin(f);
	struct walk w = { .tid = 2 };

	for (pid_t i = 0; i < 6; i++)
		r->pend[i].s.tid = i < 5 ? 2 : 3;
	r->pend[4].done = true;
	r->pend[3].early = true;
	r->n_pend = 6;
	assert_ptr_equal(hold_last_of(r, &w), &r->pend[2]);
	w.early = true;
	assert_ptr_equal(hold_last_of(r, &w), &r->pend[3]);
	w.tid = 4;
	assert_null(hold_last_of(r, &w));
	w = (struct walk){ .tid = 2 };
	r->n_pend = 1;
	assert_ptr_equal(hold_last_of(r, &w), &r->pend[0]);
	r->n_pend = 6;
	r->pend[5].hold.t0 = 55;
	r->pend[0].done = true;
	hold_forget_processed(r);
	assert_int_equal(r->n_pend, 4);
	assert_true(r->pend[2].early);
	assert_int_equal(r->pend[3].hold.t0, 55);
	r->n_pend = 0;
	reader_destroy(r);
}

/* Equal registers, but for what a system call returns while the thread is in it. */
static void what_a_witness_sees(void **state)
{
	uint64_t a[ARCH_MAX_REGS] = { 0 }, b[ARCH_MAX_REGS];
	const unsigned returned = (unsigned)__builtin_ctzll(arch_host->syscall_regs);
	struct pending p = { .s.regs = (const unsigned char *)a };

	memcpy(b, a, sizeof(b));
	assert_int_equal(hold_witness(&p, b), WITNESS_SAME);
	b[returned] = 1;
	assert_int_equal(hold_witness(&p, b), WITNESS_MOVED);
	p.hold.in_kernel = true;
	assert_int_equal(hold_witness(&p, b), WITNESS_SAME);
	b[arch_host->sp] = 1;
	assert_int_equal(hold_witness(&p, b), WITNESS_MOVED);
	/* At a probe it may have executed the probed instruction, and none before it. */
	memcpy(b, a, sizeof(b));
	p.probe = true;
	a[arch_host->ip] = 0x1000, b[arch_host->ip] = 0x1004;
	assert_int_equal(hold_witness(&p, b), WITNESS_SAME);
	b[arch_host->ip] = 0x0ffc;
	assert_int_equal(hold_witness(&p, b), WITNESS_MOVED);
}

/* What a thread had executed is told by the last event of its group, however many there are. */
static void what_a_group_counts(void **state)
{
	uint64_t before[2 * 4 + 2] = { 0 }, after[2 * 4 + 2] = { 0 };
	struct stats stats = { 0 };

	for (uint32_t n = 0; n <= 4; n++)
		for (uint64_t ran = 0; ran < 20; ran++) {
			struct perf_sample left = { .n_reads = n,
						    .reads = (const void *)(after + 2) };
			struct pending p = { .s.n_reads = n,
					     .s.reads = (const void *)(before + 2),
					     .hold.witness = WITNESS_SAME };

			for (size_t i = 0; i < ARRAY_SIZE(after); i++)
				after[i] = 1000 * (i + 1); /* of others */
			if (n)
				after[2 * n] = before[2 * n] + ran;
			hold_counted(&stats, &p, &left);
			assert_true(p.hold.counted);
			assert_int_equal(p.hold.witness,
					 n && ran > 8 ? WITNESS_MOVED : WITNESS_SAME);
		}
	assert_int_equal(STATS_GET(&stats, late_loop), 4 * 11);
}

/* --- where the reader looks --- */

enum { END = 1000000000, LOOK_NS = 10000000 };

static void release_at_end(struct reader *r, struct walk *w)
{
	w->ran = false;
	w->t_end = END;
}

/* One sample read; how many wake-ups of the control thread did that cost? */
static uint64_t kicks_of_a_hold(struct fake *f, struct reader *r)
{
	uint64_t n = 0;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	reader_drain(r, 0, false);
	eventfd_read(f->c.kick, &n);
	return n;
}

/* Another reader that is inside the same read for two looks is told of; each has its turn, at
 * intervals. */
static void others_that_hang(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	close(f->c.kick);
	f->c.kick = eventfd(0, EFD_NONBLOCK);
	r = begin_reading(f);
	keeping.release = release_at_end;
	assert_int_equal(r->look_at, 0);
	f->slots[1].guard.turn = 5;
	r->looked_ns = END - LOOK_NS;
	assert_int_equal(kicks_of_a_hold(f, r), 0);
	assert_int_equal(r->look_at, 1);
	assert_int_equal(r->looked_ns, END);
	r->looked_ns = END - LOOK_NS + 1; /* not yet */
	assert_int_equal(kicks_of_a_hold(f, r), 0);
	assert_int_equal(r->look_at, 1);
	r->looked_ns = 0;
	assert_int_equal(kicks_of_a_hold(f, r), 1);
	assert_int_equal(r->look_at, 0);
	/* It went on, and is inside another; or inside none. */
	r->looked_ns = 0;
	assert_int_equal(kicks_of_a_hold(f, r), 0);
	f->slots[1].guard.turn = 7;
	r->looked_ns = 0;
	assert_int_equal(kicks_of_a_hold(f, r), 0);
	f->slots[1].guard.turn = 8;
	for (int i = 0; i < 4; i++) {
		r->looked_ns = 0;
		assert_int_equal(kicks_of_a_hold(f, r), 0);
	}
	reader_destroy(r);
}

static struct fake *in;
static uint32_t comes_on;

/* While it was read it came onto a CPU. */
static void release_as_it_comes(struct reader *r, struct walk *w)
{
	fake_switch(in, comes_on, IN, FAKE_TID, 20 * US);
	fake_release(r, w);
}

/* The reader's own ring tells of it as others' do. */
static void comes_while_it_is_read(void **state)
{
	struct fake *f = in = *state;

	for (comes_on = 0; comes_on < FAKE_CPUS; comes_on++) {
		struct reader *r;

		f->t += 1000000;
		fake_take(f, (struct fake_event){ 0 });
		fake_leave(f, 10 * US);
		r = begin_reading(f);
		keeping.release = release_as_it_comes;
		reader_drain(r, 0, false);
		assert_string_equal(fake_next(f), "late a3 b3");
		assert_int_equal(fake_counted(f, late_ran), 1);
		assert_int_equal(fake_counted(f, late_unwatched), 0);
		end_reading(f, r);
		while (*fake_next(f))
			;
	}
}

static void exec_of(struct fake *f, uint32_t cpu, uint32_t pid)
{
	struct record r;

	record_exec(&r, pid, pid, f->t, cpu, 99);
	fake_write(f, cpu, &r);
}

/* All that any ring says of programs is noted, and nobody's samples are taken by that. */
static void all_rings(void **state)
{
	struct fake *f = *state;

	for (f->own = 0; f->own < FAKE_CPUS; f->own++) {
		struct reader *r = begin(f);

		reader_destroy(r);
		r = reader_create(&f->c, &f->slots[f->own]);
		exec_of(f, 0, 90 + 2 * f->own);
		exec_of(f, 1, 91 + 2 * f->own);
		hold_see_all_rings(r);
		assert_true(births_execed(f->c.births, (pid_t)(90 + 2 * f->own)) > 0);
		assert_true(births_execed(f->c.births, (pid_t)(91 + 2 * f->own)) > 0);
		assert_int_equal(r->cursor[f->own], 0);
		assert_int_equal(r->cursor[!f->own], f->page[!f->own].data_head);
		assert_true(r->saw_all_ns >= f->t);
		assert_int_equal(r->pos, f->page[f->own].data_tail);
		reader_destroy(r);
		f->page[0].data_tail = f->page[0].data_head;
		f->page[1].data_tail = f->page[1].data_head;
	}
	f->own = 0;
}

/* The process becomes another program: in the kernel's table, and in the ring of another CPU. */
static _Atomic uint64_t words[4 << 16];

static void exec_on_another_cpu(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = UINT64_MAX;
	in->t += 5 * US;
	exec_of(in, 1, (uint32_t)getpid());
}

static void release_as_it_execs(struct reader *r, struct walk *w)
{
	fake_release(r, w);
	exec_on_another_cpu();
}

/* With the kernel's table the other rings are looked into only where it notes an exec: before
 * the stack is read, and again behind that. */
static void other_rings_with_the_table(void **state)
{
	static struct run_table table = { .at = words };
	struct fake *f = in = *state;

	f->c.table = &table;
	for (int i = 0; i < 3; i++) {
		struct reader *r;
		uint64_t saw;

		memset((void *)words, 0, sizeof(words));
		f->t = now_ns();
		fake_take(f, (struct fake_event){ 0 });
		fake_leave(f, 10 * US);
		r = begin_reading(f);
		saw = r->saw_all_ns;
		if (i == 1)
			exec_on_another_cpu();
		if (i == 2)
			keeping.release = release_as_it_execs;
		reader_drain(r, 0, false);
		assert_int_equal(r->saw_all_ns > saw, i > 0);
		assert_string_equal(fake_next(f), i ? "torn" : "late a3 b3");
		assert_int_equal(fake_counted(f, torn_exec), i > 0);
		end_reading(f, r);
		births_destroy(f->c.births);
		f->c.births = births_create();
	}
}

/* --- whose sample --- */

/* Strangers are dropped, unless they may turn out to be targets. */
static void samples_of_strangers(void **state)
{
	struct fake *f = *state;

	for (int adopts = 0; adopts < 2; adopts++) {
		f->c.adopts = adopts;
		fake_take(f, (struct fake_event){ .pid = 1, .tid = 1 });
		fake_take(f, (struct fake_event){ .pid = 1, .tid = 1 });
		fake_take(f, (struct fake_event){ 0 });
		end_reading(f, begin_reading(f));
		for (int i = 0; i < 2 * adopts; i++) {
			assert_string_equal(fake_next(f), "torn");
			assert_int_equal(fake_sample(f)->sample.pid, 1);
		}
		assert_string_equal(fake_next(f), "late a3 b3");
		assert_string_equal(fake_next(f), "");
		assert_int_equal(fake_counted(f, foreign), adopts ? 0 : 2);
	}
}

/* That a thread of a target was met is noted for it. */
static void threads_that_were_met(void **state)
{
	uint64_t ran[TARGET_RAN_WORDS];
	struct fake *f = *state;

	sample_now(f);
	assert_true(target_take_ran(f->target, ran));
	assert_true(target_ran(ran, FAKE_TID));
	assert_false(target_ran(ran, FAKE_TID + 1));
}

/* The thread has a state without a frame, and runs one that another thread has made: a register
 * of the sample names it. */
static void state_that_a_register_names(void **state)
{
	struct fake *f = *state;

	fake_python(f, "");
	f->ts = world_thread(f->w, f->interp, FAKE_TID + 1, true);
	fake_python(f, "ab");
	assert_string_equal(sample_now(f), "nopython");
	fake_take(f, (struct fake_event){ .reg = f->ts });
	fake_leave(f, 10 * US);
	end_reading(f, begin_reading(f));
	assert_string_equal(fake_next(f), "exact a3 b3");
}

static const char *sample_of(struct fake *f, struct reader *r, pid_t tid)
{
	f->t += 100 * US;
	fake_take(f, (struct fake_event){ .tid = tid });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
		    tid, 10 * US);
	reader_drain(r, 0, false);
	return fake_next(f);
}

/* In a PID namespace of its own a thread's state bears the number that it has there, which is asked
 * for once, and nobody else is told. */
static void numbers_in_a_namespace(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_reading(f);
	char text[64];

	numbers.n = 0;
	f->target->inner_tids = true;
	assert_string_equal(sample_of(f, r, NUMBERED), "torn");
	assert_int_equal(fake_counted(f, torn_notready), 1);
	snprintf(text, sizeof(text), "NSpid:\t%d\t%d\n", NUMBERED, FAKE_TID);
	numbers.text = text;
	for (int i = 0; i < 3; i++)
		assert_string_equal(sample_of(f, r, NUMBERED), "exact a3 b3");
	assert_int_equal(numbers.n, 2);
	assert_int_equal(fake_counted(f, torn_notready), 1);
	fake_expect_control(f, 0, (struct ctl_msg){ 0 });
	end_reading(f, r);
	numbers.text = NULL;
}

/* The first thread's is known with its process. */
static void number_of_the_first_thread(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_reading(f);

	f->target->inner_tids = true;
	f->target->inner = FAKE_TID;
	assert_string_equal(sample_of(f, r, getpid()), "exact a3 b3");
	end_reading(f, r);
}

/* Another thread gets it, or may have got it, or it is of another program. */
static void numbers_of_other_threads(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin_reading(f);
	char text[64];

	snprintf(text, sizeof(text), "NSpid:\t%d\t%d\n", NUMBERED, FAKE_TID);
	numbers.text = text;
	numbers.n = 0;
	f->target->inner_tids = true;
	for (int asked = 1; asked < 4; asked++) {
		for (int i = 0; i < 2; i++)
			assert_string_equal(sample_of(f, r, NUMBERED), "exact a3 b3");
		assert_int_equal(numbers.n, asked);
		if (asked == 1)
			note_fork(f->c.births, NUMBERED, getpid(), now_ns());
		else if (asked == 2)
			f->target->py.program += PYSTACK_SEVERAL;
	}
	f->c.blind_ns = now_ns();
	for (int i = 0; i < 2; i++)
		sample_of(f, r, NUMBERED);
	assert_int_equal(numbers.n, 4);
	end_reading(f, r);
	numbers.text = NULL;
}

/* The first thread of a child has its parent's thread's state, which nobody can find until it
 * is known who forked it: that it has none is not believed. */
static void first_thread_of_a_child(void **state)
{
	static const struct {
		bool unborn, first;
		pid_t forker;
		const char *text;
	} rows[] = {
		{ true, true, 0, "torn" },
		{ false, true, 0, "nopython" },
		{ true, false, 0, "nopython" },
		{ true, true, 77, "nopython" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_t tid = rows[i].first ? getpid() : FAKE_TID + 1;

		f->target->unborn = rows[i].unborn;
		f->target->forker = rows[i].forker;
		fake_take(f, (struct fake_event){ .tid = tid, .no_regs = true });
		fake_switch(f, 0,
			    PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
			    tid, 10 * US);
		end_reading(f, begin_reading(f));
		assert_string_equal(fake_next(f), rows[i].text);
		assert_int_equal(fake_counted(f, torn_notready), !strcmp(rows[i].text, "torn"));
	}
}

/* --- --mode gil --- */

static void set_gil(struct fake *f, raddr gil, uint32_t locked, bool active)
{
	const uint64_t bit = 1u << f->w->l.active_bit;

	world_put(f->w, f->interp, f->w->l.interp.gil, gil, 8);
	world_put(f->w, gil, f->w->l.gil.locked, locked, 4);
	world_put(f->w, gil, f->w->l.gil.holder, f->ts, 8);
	world_put(f->w, f->ts, f->w->l.tstate.status, active ? bit : 0, 4);
}

static void expect_gil(struct fake *f, const char *text, uint64_t none, uint64_t unknown)
{
	assert_string_equal(fake_next(f), text);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, gil_none), none);
	assert_int_equal(fake_counted(f, gil_unknown), unknown);
}

static void samples_without_the_gil(void **state)
{
	struct fake *f = *state;
	raddr gil = world_take(f->w, f->w->l.gil.size);

	f->c.only_gil = true;
	for (int active = 0; active < 2; active++)
		for (uint32_t locked = 0; locked < 2; locked++) {
			set_gil(f, gil, locked, active);
			fake_take(f, (struct fake_event){ 0 });
			fake_leave(f, 10 * US);
			end_reading(f, begin_reading(f));
			expect_gil(f, locked && active ? "exact a3 b3" : "", !locked,
				   locked && !active);
		}
	/* A thread of no interpreter; and one that can't be read. */
	set_gil(f, gil, 1, true);
	fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1, .no_regs = true });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
		    FAKE_TID + 1, 10 * US);
	end_reading(f, begin_reading(f));
	expect_gil(f, "", 1, 0);
	world_put(f->w, world_get(f->w, f->ts, f->w->l.tstate.cframe),
		  f->w->l.cframe.current_frame, WORLD_NOWHERE, 8);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	end_reading(f, begin_reading(f));
	expect_gil(f, "", 0, 1);
	/* Who did not ask for that gets it all. */
	f->c.only_gil = false;
	fake_python(f, "ab");
	set_gil(f, gil, 0, false);
	assert_string_equal(sample_now(f), "exact a3 b3");
}

/* --- who listens --- */

static struct {
	int looks, looked, judged;
	enum tap_answer changed; /* whose answer the listener changes ... */
	uint64_t key, to;	 /* ... when asked of whom, and to what */
	pid_t pid;
	const struct target *target;
	uint64_t own;
	enum provenance prov;
} heard;

static void hear_drain(struct reader *r, uint64_t head, uint64_t left, bool last)
{
}

static void hear_look(struct reader *r, enum tap_look what, pid_t tid)
{
	if (what != TAP_RAN)
		return;
	assert_int_equal(tid, FAKE_TID);
	heard.looks++;
}

static void hear_looked(struct reader *r, enum tap_look what, pid_t tid, uint64_t own)
{
	if (what != TAP_RAN)
		return;
	assert_int_equal(tid, FAKE_TID);
	heard.own = own;
	heard.looked++;
}

static void hear_target(struct reader *r, pid_t pid, const struct target *t)
{
	heard.pid = pid;
	heard.target = t;
}

static void hear_answer(struct reader *r, enum tap_answer what, uint64_t key, uint64_t *value)
{
	if (what == heard.changed) {
		heard.key = key;
		*value = heard.to;
	}
}

static void hear_judged(struct reader *r, const struct pending *p)
{
	heard.judged++;
	heard.prov = p->prov;
	assert_true(p->done);
}

static const struct tap_ops listener = { hear_drain, hear_look,	  hear_looked,
					 hear_target, hear_answer, hear_judged };

/* What is asked of the system goes through the listener, who may have another answer. */
static void what_is_heard(void **state)
{
	static const struct {
		enum tap_answer changed;
		uint64_t to;
		pid_t key;
		const char *text;
	} rows[] = {
		{ 0, 0, -1, "exact a3 b3" },
		{ TAP_UNWATCHED, 1, FAKE_TID, "late a3 b3" },
		{ TAP_CAME, UINT64_MAX, FAKE_TID, "late a3 b3" },
	};
	struct fake *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct reader *r;

		memset(&heard, 0, sizeof(heard));
		heard.changed = rows[i].changed;
		heard.to = rows[i].to;
		fake_take(f, (struct fake_event){ 0 });
		fake_leave(f, 10 * US);
		r = begin_reading(f);
		r->tap = &listener;
		end_reading(f, r);
		assert_string_equal(fake_next(f), rows[i].text);
		assert_int_equal(heard.looks, 1);
		assert_int_equal(heard.looked, 1);
		assert_int_equal(heard.own, f->page[0].data_head);
		assert_int_equal(heard.judged, 1);
		assert_int_equal(heard.prov, i ? PROV_LATE : PROV_EXACT);
		assert_int_equal(heard.pid, getpid());
		assert_ptr_equal(heard.target, f->target);
		if (i)
			assert_int_equal(heard.key, rows[i].key);
	}
}

/* So is whether the table notes an exec of the process. */
static void execs_are_heard(void **state)
{
	static struct run_table table = { .at = words };
	struct fake *f = *state;

	f->c.table = &table;
	for (uint64_t execed = 0; execed < 2; execed++) {
		struct reader *r;

		memset((void *)words, 0, sizeof(words));
		memset(&heard, 0, sizeof(heard));
		heard.changed = TAP_EXECED;
		heard.to = execed;
		fake_take(f, (struct fake_event){ 0 });
		fake_leave(f, 10 * US);
		r = begin_reading(f);
		r->tap = &listener;
		reader_drain(r, 0, false);
		assert_int_equal(heard.key, getpid());
		assert_int_equal(r->saw_all_ns > 0, execed);
		end_reading(f, r);
	}
}

static uint64_t held_at;

static enum judgement judge_when_it_ended(const struct hold *h)
{
	assert_in_range(h->t_end, held_at, now_ns());
	return JUDGE_EXACT;
}

/* It is judged by when its read ended. */
static void reads_end_now(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	r = begin_reading(f);
	keeping.judge = judge_when_it_ended;
	held_at = now_ns();
	end_reading(f, r);
	assert_string_equal(fake_next(f), "exact a3 b3");
}

/* With the kernel's table nobody asks what readers noted, nor which CPUs are watched. */
static void the_table_alone_tells(void **state)
{
	static struct run_table table = { .at = words };
	struct fake *f = *state;

	memset((void *)words, 0, sizeof(words));
	for (int with = 0; with < 2; with++) {
		struct reader *r;

		f->c.table = with ? &table : NULL;
		memset(&heard, 0, sizeof(heard));
		heard.changed = TAP_CAME;
		fake_take(f, (struct fake_event){ 0 });
		fake_leave(f, 10 * US);
		proof_note_in(&f->c, &f->slots[1], FAKE_TID, f->t + 20 * US);
		r = begin_reading(f);
		r->tap = &listener;
		end_reading(f, r);
		assert_string_equal(fake_next(f), with ? "exact a3 b3" : "late a3 b3");
	}
}

/* One that no interpreter has may be in another, which can't be read: it is nowhere for sure. */
static void in_an_interpreter_that_is_refused(void **state)
{
	static struct pystack_others others = { .refused = true };
	struct fake *f = *state;

	atomic_store(&f->target->others, &others);
	f->target->py.program = PYSTACK_SEVERAL;
	fake_take(f, (struct fake_event){ .tid = FAKE_TID + 1, .no_regs = true });
	fake_switch(f, 0, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
		    FAKE_TID + 1, 10 * US);
	end_reading(f, begin_reading(f));
	assert_string_equal(fake_next(f), "torn");
	assert_int_equal(fake_counted(f, torn_elsewhere), 1);
	atomic_store(&f->target->others, NULL);
}

/* Of a process whose memory is gone the first thread has ended, and runs no Python any more.
 * Others may live on, and could not be read. */
static void memory_that_is_gone(void **state)
{
	struct fake *f = *state;
	pid_t gone = fork();
	struct target *t;

	if (gone == 0)
		_exit(0);
	waitpid(gone, NULL, 0);
	t = target_create(gone);
	t->state = TARGET_PYTHON;
	t->py = f->target->py;
	t->py.pid = gone;
	t->py.program = 2;
	assert_int_equal(targets_publish(&f->targets, &t, 1), 0);
	for (int other = 0; other < 2; other++) {
		pid_t tid = other ? FAKE_TID : gone;

		fake_take(f, (struct fake_event){ .pid = gone, .tid = tid });
		fake_switch(f, 0,
			    PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
			    tid, 10 * US);
		end_reading(f, begin_reading(f));
		assert_string_equal(fake_next(f), other ? "torn" : "nopython");
		assert_int_equal(fake_counted(f, torn_fault), other);
	}
}

/* What was read later counts for nothing once the process may be another. */
static void it_is_heard_that_a_process_left(void **state)
{
	struct fake *f = *state;
	struct reader *r;

	memset(&heard, 0, sizeof(heard));
	heard.changed = TAP_LEFT;
	heard.to = 1;
	fake_take(f, (struct fake_event){ 0 });
	r = begin_reading(f);
	r->tap = &listener;
	end_reading(f, r);
	assert_string_equal(fake_next(f), "torn");
	assert_int_equal(heard.key, getpid());
}

/* Whether its number is another process's by now may hang to ask, as reads of its memory may. */
static void who_left_is_asked_in_the_guard(void **state)
{
	struct fake *f = *state;
	int held = f->target->pidfd;

	f->target->pidfd = -EBADF;
	f->t = now_ns();
	asks = (struct asks){ .guard = &f->slots[0].guard };
	end_reading(f, begin_judged(f, JUDGE_GAP));
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_int_equal(asks.n, 1);
	assert_int_equal(asks.n_guarded, 1);
	/* Where they do it is not asked. */
	f->target->nopython = true;
	f->target->none_ns = UINT64_MAX;
	f->target->state = TARGET_QUARANTINED;
	end_reading(f, begin_judged(f, JUDGE_GAP));
	assert_string_equal(fake_next(f), "nopython");
	assert_int_equal(asks.n, 1);
	asks.guard = NULL;
	f->target->pidfd = held;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(reasons_are_counted),
		FAKE_TEST(ends_are_counted),
		FAKE_TEST(without_its_code),
		FAKE_TEST(the_last_sample_decides),
		FAKE_TEST(what_a_hold_costs),
		FAKE_TEST(the_newest_that_waits),
		cmocka_unit_test(what_a_witness_sees),
		cmocka_unit_test(what_a_group_counts),
		FAKE_TEST(others_that_hang),
		FAKE_TEST(comes_while_it_is_read),
		FAKE_TEST(all_rings),
		FAKE_TEST(other_rings_with_the_table),
		FAKE_TEST(samples_of_strangers),
		FAKE_TEST(threads_that_were_met),
		FAKE_TEST(state_that_a_register_names),
		FAKE_TEST(numbers_in_a_namespace),
		FAKE_TEST(number_of_the_first_thread),
		FAKE_TEST(numbers_of_other_threads),
		FAKE_TEST(first_thread_of_a_child),
		FAKE_TEST(samples_without_the_gil),
		FAKE_TEST(what_is_heard),
		FAKE_TEST(execs_are_heard),
		FAKE_TEST(memory_that_is_gone),
		FAKE_TEST(reads_end_now),
		FAKE_TEST(the_table_alone_tells),
		FAKE_TEST(in_an_interpreter_that_is_refused),
		FAKE_TEST(it_is_heard_that_a_process_left),
		FAKE_TEST(who_left_is_asked_in_the_guard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
