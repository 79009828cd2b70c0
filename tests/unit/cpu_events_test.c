/* SPDX-License-Identifier: MIT
 *
 * cpu_events: events that see all of a CPU: whose samples are taken, what is counted in the
 * books, who came onto a CPU as the kernel's table tells; and programs that are recognised.
 */
#include <errno.h>
#include <stdio.h>

#include "unit.h"

#include <linux/bpf.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "bpf/stranger_filter.h"
#include "fake_drain.h"
#include "sys/cpus.h"

enum { STRANGER = 1, CHILD = 2, TABLE_PLACES = 1 << 16 };

static _Atomic uint64_t words[4 * TABLE_PLACES]; /* of a table of who came when */

static void all_of_a_cpu(struct fake *f)
{
	f->c.ours = ours_create(NULL);
	ours_set(f->c.ours, getpid(), true);
}

/* What strangers ran is in the books of an event that counts it. */
static void only_ours(struct fake *f, uint64_t config, uint64_t n, uint64_t period)
{
	all_of_a_cpu(f);
	f->session.events[0].attr.config = config;
	fake_take(f, (struct fake_event){ .period = 10 });
	fake_take(f, (struct fake_event){ .pid = STRANGER, .tid = STRANGER, .period = 200 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, foreign), 1);
	assert_int_equal(f->slots[0].seen[0].n, n);
	assert_int_equal(f->slots[0].seen[0].period, period);
	ours_destroy(f->c.ours);
}

static void only_ours_of_faults(void **state)
{
	only_ours(*state, PERF_COUNT_SW_PAGE_FAULTS, 2, 210);
}

/* The time that targets ran is known, not what else a CPU's clock counted. */
static void only_ours_of_a_clock(void **state)
{
	only_ours(*state, PERF_COUNT_SW_CPU_CLOCK, 1, 10);
}

/* Until when the samples of @pid are dropped; 0: they are not. */
static uint64_t dropped_until(const struct stranger_filter *filter, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	uint64_t until = 0;
	union bpf_attr a = { .map_fd = (uint32_t)filter->map,
			     .key = (uintptr_t)&key,
			     .value = (uintptr_t)&until };

	syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &a, sizeof(a));
	return until;
}

/* Whoever is a stranger is dropped by the kernel for a while; not our own child, which is one
 * only until its exec. */
static void strangers_are_filtered(void **state)
{
	struct fake *f = *state;
	struct stranger_filter filter;
	uint64_t began = now_ns();
	struct reader *r;

	if (stranger_filter_init(&filter, NULL) < 0)
		skip();
	all_of_a_cpu(f);
	f->c.filter = &filter;
	f->c.child = CHILD;
	fake_take(f, (struct fake_event){ 0 });
	fake_take(f, (struct fake_event){ .pid = STRANGER, .tid = STRANGER });
	fake_take(f, (struct fake_event){ .pid = CHILD, .tid = CHILD });
	fake_leave(f, 10 * US);
	assert_int_equal(dropped_until(&filter, STRANGER), 0);
	stranger_filter_add(&filter, getpid(), 0);
	fake_run(f);
	assert_true(dropped_until(&filter, STRANGER) > began);
	assert_true(dropped_until(&filter, STRANGER) < now_ns() + 10 * 1000000000ull);
	assert_int_equal(dropped_until(&filter, getpid()), 0);
	assert_int_equal(dropped_until(&filter, CHILD), 0);
	assert_int_equal(fake_counted(f, foreign), 2);
	/* Who has become a target meanwhile is one. */
	r = begin(f);
	ours_set(f->c.ours, STRANGER, true);
	cpu_events_drop(r, STRANGER, now_ns());
	assert_int_equal(dropped_until(&filter, STRANGER), 0);
	reader_destroy(r);
	stranger_filter_deinit(&filter);
	ours_destroy(f->c.ours);
}

/* Nor, in a recording of a scope, who was forked just now, unless a table tells of its exec. */
static void newborns_are_not_filtered(void **state)
{
	static struct run_table table = { .at = words };
	struct fake *f = *state;
	struct stranger_filter filter;
	uint32_t me = (uint32_t)getpid();
	struct ours *strangers;
	struct reader *r;

	if (stranger_filter_init(&filter, NULL) < 0)
		skip();
	all_of_a_cpu(f);
	f->c.strangers = ours_create(NULL);
	f->c.filter = &filter;
	f->c.split = true;
	f->t = now_ns();
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, me + 1, 90, me + 1 }, 0);
	fake_take(f, (struct fake_event){ .pid = STRANGER, .tid = STRANGER });
	fake_take(f, (struct fake_event){ .pid = 90, .tid = 90 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_int_equal(fake_counted(f, foreign), 2);
	assert_true(dropped_until(&filter, STRANGER) > 0);
	assert_int_equal(dropped_until(&filter, 90), 0);
	r = begin(f);
	cpu_events_drop(r, 90, now_ns());
	assert_int_equal(dropped_until(&filter, 90), 0);
	f->c.table = &table;
	cpu_events_drop(r, 90, now_ns());
	assert_true(dropped_until(&filter, 90) > 0);
	f->c.table = NULL;
	stranger_filter_add(&filter, 90, 0);
	strangers = f->c.strangers;
	f->c.strangers = NULL;
	cpu_events_drop(r, 90, now_ns());
	assert_true(dropped_until(&filter, 90) > 0);
	reader_destroy(r);
	stranger_filter_deinit(&filter);
	ours_destroy(strangers);
	ours_destroy(f->c.ours);
}

/* Only the targets' threads leave other records: what strangers do is not in the books. */
static void only_samples_are_of_all(void **state)
{
	struct fake *f = *state;

	all_of_a_cpu(f);
	f->c.split = true;
	fake_take(f, (struct fake_event){ .period = 10 });
	fake_take(f, (struct fake_event){ .pid = STRANGER, .tid = STRANGER, .period = 200 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_string_equal(fake_next(f), "");
	assert_int_equal(f->slots[0].seen[0].n, 1);
	assert_int_equal(f->slots[0].seen[0].period, 10);
	ours_destroy(f->c.ours);
}

static void only_some_threads(void **state)
{
	static const pid_t tids[] = { FAKE_TID + 5, FAKE_TID };
	struct fake *f = *state;

	all_of_a_cpu(f);
	f->c.tids = tids;
	f->c.n_tids = 1;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "");
	f->c.n_tids = 2;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	ours_destroy(f->c.ours);
}

/* A target's child is one if children are followed, a stranger's is none; also where the
 * child's number was a target's before. */
static void children(void **state)
{
	struct fake *f = *state;
	uint32_t me = (uint32_t)getpid();

	all_of_a_cpu(f);
	f->c.follow = true;
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, me, 90, me }, 1);
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 91, STRANGER, 91, STRANGER }, 1);
	fake_run(f);
	assert_true(ours_has(f->c.ours, 90));
	assert_false(ours_has(f->c.ours, 91));
	fake_next(f);
	assert_int_equal(f->n_side, 1); /* the stranger's is nobody's business */
	fake_expect_control(f, CTL_FORK, (struct ctl_msg){ 90, getpid(), getpid(), f->t + 1 });
	fake_expect_control(f, 0, (struct ctl_msg){ 0 });
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 90, STRANGER, 90, STRANGER }, 2);
	fake_run(f);
	assert_false(ours_has(f->c.ours, 90));
	f->c.follow = false;
	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ 92, me, 92, me }, 3);
	fake_run(f);
	assert_false(ours_has(f->c.ours, 92));
	ours_destroy(f->c.ours);
}

/* The fork lies in the ring of another CPU, whose reader has not come to it yet. */
static void fork_elsewhere(struct fake *f, bool split)
{
	uint32_t me = (uint32_t)getpid(), parent = 90;
	struct record r;

	f->c.ours = ours_create(NULL);
	ours_set(f->c.ours, (pid_t)parent, true);
	f->c.follow = true;
	f->c.split = split;
	record_begin(&r, PERF_RECORD_FORK, 0);
	record_u32(&r, me, parent);
	record_u32(&r, me, parent);
	record_u64(&r, f->t - 1);
	record_trailer(&r, parent, f->t - 1);
	fake_write(f, 1, &r);
	f->target->begun_ns = f->t - 1;
}

static void born_elsewhere(struct fake *f, bool split)
{
	fork_elsewhere(f, split);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	ours_destroy(f->c.ours);
}

static void born_on_another_cpu(void **state)
{
	born_elsewhere(*state, true);
}

static void born_on_another_cpu_of_all(void **state)
{
	born_elsewhere(*state, false);
}

static int heard_look, heard_looked;

static void hear_look(struct reader *r, enum tap_look what, pid_t tid)
{
	heard_look += what == TAP_BIRTHS && !tid && !births_parent(r->c->births, getpid());
}

static void hear_looked(struct reader *r, enum tap_look what, pid_t tid, uint64_t own)
{
	heard_looked += what == TAP_BIRTHS && !tid && !own &&
			births_parent(r->c->births, getpid());
}

/* Where there was no room to tell it is told at the next one. */
static void births_without_room(void **state)
{
	struct fake *f = *state;
	struct reader *r = begin(f);
	uint32_t type;

	f->c.early = true;
	f->c.start_ns = now_ns() - 1000000000;
	f->c.n_births = 100;
	while (queue_reserve(&f->slots[0].ctl, CTL_STRANGER, sizeof(struct ctl_msg)))
		queue_commit(&f->slots[0].ctl);
	cpu_events_birth(r);
	while (fake_control(f, &type), type)
		assert_int_equal(type, CTL_STRANGER);
	cpu_events_birth(r);
	fake_control(f, &type);
	assert_int_equal(type, CTL_BIRTHS);
	cpu_events_birth(r);
	fake_control(f, &type);
	assert_int_equal(type, 0);
	reader_destroy(r);
}

/* Who writes a tape is told when a look for a fork begins and when it is over. */
static void looks_for_births_are_heard(void **state)
{
	static const struct tap_ops listener = { .look = hear_look, .looked = hear_looked };
	struct fake *f = *state;
	struct reader *r = begin(f);

	fork_elsewhere(f, true);
	r->tap = &listener;
	assert_true(cpu_events_want(r, getpid(), getpid(), f->t));
	assert_int_equal(heard_look, 1);
	assert_int_equal(heard_looked, 1);
	reader_destroy(r);
	ours_destroy(f->c.ours);
}

/* While threads' events give way to CPUs' each moment is sampled by one of them. */
static void one_of_two(void **state)
{
	struct fake *f = *state;

	f->c.early = true;
	f->c.over_ns = f->t + 10;
	f->c.witness = true;
	f->session.how[0].on_cpus = true;
	event_ids_add(f->ids, 888, (uint8_t)session_early_number(&f->session, 0));
	fake_take(f, (struct fake_event){ .id = 888, .after = 9 });
	fake_take(f, (struct fake_event){ .id = FAKE_ID, .after = 9 });
	fake_take(f, (struct fake_event){ .id = 888, .after = 10 });
	fake_take(f, (struct fake_event){ .id = FAKE_ID, .after = 11 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.time, f->t + 9);
	assert_int_equal(fake_sample(f)->sample.event, 0);
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_sample(f)->sample.time, f->t + 11);
	assert_string_equal(fake_next(f), "");
	assert_int_equal(fake_counted(f, outside), 2);
}

/* --- periods --- */

enum { SAMPLER = 12345 };

static uint64_t period_set; /* 0: none was */
static int samplers_periods;

/* Instead of the C library's: no other descriptor is controlled here. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	if (fd == SAMPLER && request == PERF_EVENT_IOC_PERIOD) {
		period_set = *va_arg(ap, uint64_t *);
		samplers_periods++;
	}
	va_end(ap);
	return 0;
}

/* What the reader of the CPU where it runs sets after a sample; then its period is drawn from
 * half to one and a half of what was asked for. Of a clock's a part is gone already. */
static void next_periods(void **state)
{
	static const struct {
		struct perf_event_attr attr;
		uint64_t least, most;
	} rows[] = {
		{ { .type = PERF_TYPE_SOFTWARE,
		    .config = PERF_COUNT_SW_CPU_CLOCK,
		    .sample_period = 1000000 },
		  500000 - 10 * US,
		  1500000 - 10 * US },
		/* What it has taken since, but a quarter at most. */
		{ { .type = PERF_TYPE_SOFTWARE,
		    .config = PERF_COUNT_SW_CPU_CLOCK,
		    .sample_period = 8000 },
		  2000,
		  10000 },
		/* One that adapts would be a timer's no more. */
		{ { .type = PERF_TYPE_SOFTWARE,
		    .config = PERF_COUNT_SW_CPU_CLOCK,
		    .freq = 1,
		    .sample_freq = 1000 },
		  500000 - 10 * US,
		  1500000 - 10 * US },
		{ { .type = PERF_TYPE_HARDWARE, .sample_period = 1000 }, 500, 1500 },
		{ { .type = PERF_TYPE_HARDWARE, .freq = 1, .sample_freq = 99 }, 99, 99 },
		/* The very next fault would be a sample. */
		{ { .type = PERF_TYPE_SOFTWARE,
		    .config = PERF_COUNT_SW_PAGE_FAULTS,
		    .sample_period = 1000 },
		  0,
		  0 },
	};
	struct fake *f = *state;

	cpus_pin_thread(0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		f->session.events[0].attr = rows[i].attr;
		f->slots[0].sampler[0] = SAMPLER;
		period_set = 0;
		fake_take(f, (struct fake_event){ 0 });
		fake_leave(f, 10 * US);
		fake_run(f);
		while (*fake_next(f))
			;
		assert_in_range(period_set, rows[i].least, rows[i].most);
	}
	assert_int_equal(samplers_periods, 5);
}

static bool goes_away(const struct reader *r)
{
	return true;
}

/* The reader that came to another CPU has held nobody. */
static void who_was_not_held_keeps_its_period(void **state)
{
	struct fake *f = *state;
	struct capture_ops away = fake_capture;

	cpus_pin_thread(0);
	away.moved_away = goes_away;
	f->c.capture = &away;
	f->slots[0].sampler[0] = SAMPLER;
	samplers_periods = 0;
	fake_start(f);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_stop(f);
	assert_string_not_equal(fake_next(f), "");
	assert_int_equal(samplers_periods, 0);
}

/* Nor has an event of which nothing was sampled. */
static void who_was_not_sampled_keeps_its_period(void **state)
{
	struct fake *f = *state;

	cpus_pin_thread(0);
	f->slots[0].sampler[0] = SAMPLER;
	samplers_periods = 0;
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_int_equal(samplers_periods, 0);
}

/* A target's samples by an event that is paced are counted, and its pace is its periods'. */
static void paced_periods(void **state)
{
	struct fake *f = *state;

	cpus_pin_thread(0);
	f->session.events[0].attr =
		(struct perf_event_attr){ .type = PERF_TYPE_HARDWARE, .sample_period = 1000 };
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t period = i == 2 ? 100000 : 1000; /* none is known yet in the second */

		f->c.paced = i > 0;
		f->target->pace = i == 1 ? 0 : 100 * PACE_ONE;
		f->slots[0].sampler[0] = SAMPLER;
		fake_take(f, (struct fake_event){ 0 });
		fake_take(f, (struct fake_event){ .after = 1 });
		fake_leave(f, 10 * US);
		fake_run(f);
		while (*fake_next(f))
			;
		assert_int_equal(f->target->taken, 2 * i);
		assert_in_range(period_set, period / 2, period + period / 2);
	}
}

/* Few births: threads' events may stay where they are. */
static void few_births(void **state)
{
	struct fake *f = *state;
	uint32_t me = (uint32_t)getpid(), type;

	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ me, me, FAKE_TID + 1, me }, 1);
	f->c.early = true;
	f->c.start_ns = now_ns() + 1000000000; /* not begun yet */
	fake_run(f);
	assert_int_equal(f->c.n_births, 1);
	do {
		fake_control(f, &type);
		assert_int_not_equal(type, CTL_BIRTHS);
	} while (type);
}

/* How often it is told that threads' events cost too much, of @n threads that begin within a
 * second that has @samples. */
static size_t births_told(struct fake *f, int n, uint64_t samples)
{
	uint32_t me = (uint32_t)getpid(), type;
	size_t told = 0;

	for (uint32_t i = 1; i <= (uint32_t)n; i++)
		fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ me, me, FAKE_TID + i, me },
			  i);
	f->c.early = true;
	f->c.n_births = 0;
	f->c.births_told = false;
	f->c.start_ns = now_ns() - 1000000000;
	f->slots[0].seen[0].n = samples / 2;
	f->slots[1].seen[0].n = samples / 2;
	fake_run(f);
	assert_int_equal(f->c.n_births, n);
	do {
		fake_control(f, &type);
		told += type == CTL_BIRTHS;
	} while (type);
	return told;
}

static void many_births_are_told_of_once(void **state)
{
	struct fake *f = *state;

	assert_int_equal(births_told(f, 3, 0), 0);
	assert_int_equal(births_told(f, 20, 0), 1);
	assert_int_equal(births_told(f, 20, 998), 1);
	/* One in 50 samples or fewer. */
	assert_int_equal(births_told(f, 20, 1000), 0);
	/* CPUs' events, too, would make more samples than they may. */
	assert_int_equal(births_told(f, 100, 4000), 0);
}

/* The thread that takes a CPU's events away when it goes offline came onto it. */
static void hotplug_comes(void **state)
{
	struct fake *f = *state;

	f->slots[0].hotplug = FAKE_TID + 9;
	fake_switch(f, 0, IN, FAKE_TID + 9, 5 * US);
	fake_run(f);
	assert_int_equal(f->slots[0].gone_ns, f->t + 5 * US);
}

/* --- the table of who came when --- */

/* Each thread's task is one that came at @time; or the table knows none. */
static void came(struct fake *f, struct run_table *t, bool known, uint64_t time)
{
	for (size_t i = 0; i < TABLE_PLACES; i++) {
		words[i] = time;
		words[TABLE_PLACES + i] = known ? (uint64_t)FAKE_TID << 32 : 0;
	}
	*t = (struct run_table){ .n_cpus = FAKE_CPUS, .at = words };
	f->c.table = t;
}

static const char *sample_with(struct fake *f)
{
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_switch(f, 1, IN, FAKE_TID, 20 * US);
	fake_run(f);
	f->page[1].data_tail = f->page[1].data_head;
	return fake_next(f);
}

/* It is asked after the read; then other rings tell nothing of it. */
static void as_the_table_tells(void **state)
{
	struct fake *f = *state;
	struct run_table t;

	came(f, &t, true, f->t);
	assert_string_equal(sample_with(f), "exact a3 b3");
	came(f, &t, true, f->t + 1);
	assert_string_equal(sample_with(f), "late a3 b3");
	assert_int_equal(fake_counted(f, late_ran), 1);
	came(f, &t, false, 0); /* then nobody knows */
	assert_string_equal(sample_with(f), "late a3 b3");
}

/* How many records of other kinds than samples were queued. */
static size_t sides_of_sample(struct fake *f, pid_t tid)
{
	f->n_side = 0;
	fake_take(f, (struct fake_event){ .tid = tid });
	fake_run(f);
	assert_string_not_equal(fake_next(f), "");
	return f->n_side;
}

/* What a thread is called is told before its first sample; and when its number may have become
 * another thread's. */
static void as_the_table_names(void **state)
{
	enum { NAMES = 3 * TABLE_PLACES, ROW = 4, TID = 4242 };
	struct fake *f = *state;
	uint32_t me = (uint32_t)getpid();
	struct run_table t;

	came(f, &t, true, f->t);
	for (size_t i = NAMES; i < ARRAY_SIZE(words); i += ROW) {
		words[i] = TID;
		words[i + 1] = 0x72656b726f77; /* "worker" */
	}
	assert_int_equal(sides_of_sample(f, TID), 0); /* others tell */
	f->c.named = ours_create(NULL);
	assert_int_equal(sides_of_sample(f, TID + 1), 0); /* nobody knows */
	assert_int_equal(sides_of_sample(f, TID), 1);
	assert_int_equal(f->side.type, PERF_RECORD_COMM);
	assert_int_equal(load_u32(f->side_body), me);
	assert_int_equal(load_u32(f->side_body + 4), TID);
	assert_string_equal((const char *)f->side_body + 8, "worker");
	assert_int_equal(sides_of_sample(f, TID), 0);
	fake_task(f, PERF_RECORD_EXIT, (const uint32_t[]){ me, me, TID, me }, 0);
	assert_int_equal(sides_of_sample(f, TID), 2);
	assert_int_equal(f->side.type, PERF_RECORD_COMM);
	ours_destroy(f->c.named);
}

static void note_exec_of(struct fake *f, uint32_t pid, uint64_t after)
{
	struct record r;

	record_exec(&r, pid, pid, f->t + after, 0, 1);
	fake_write(f, 0, &r);
}

/* @pid is forked, and becomes another program where it @execs; only then its forker is a
 * target. Is @pid one at its sample? */
static bool is_descendant(struct fake *f, uint32_t pid, bool execs)
{
	const uint32_t parent = pid + 1;

	fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ pid, parent, pid, parent }, 1);
	if (execs)
		note_exec_of(f, pid, 2);
	fake_run(f);
	assert_false(ours_has(f->c.ours, (pid_t)pid));
	ours_set(f->c.ours, (pid_t)parent, true);
	fake_take(f, (struct fake_event){ .pid = (pid_t)pid, .tid = (pid_t)pid });
	fake_run(f);
	while (*fake_next(f))
		;
	return ours_has(f->c.ours, (pid_t)pid);
}

/* What a descendant of a target becomes is a target; in a scope only where whatever targets
 * start is one. */
static void as_descent_tells(void **state)
{
	struct fake *f = *state;
	struct run_table t;

	came(f, &t, true, f->t);
	f->c.ours = ours_create(NULL);
	ours_set(f->c.ours, 1, true); /* who forked nobody that is known */
	f->c.follow = true;
	assert_true(is_descendant(f, 90, false));
	assert_true(is_descendant(f, 190, true));
	f->c.strangers = ours_create(NULL);
	assert_true(is_descendant(f, 290, false));
	assert_false(is_descendant(f, 390, true));
	f->c.descends = true;
	assert_true(is_descendant(f, 490, true));
	f->c.follow = false; /* nor are their children targets then */
	assert_false(is_descendant(f, 590, false));
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.ours);
}

/* The youngest of a chain of forks, of which no one was known to be a target before the first
 * was. */
static void a_long_chain_of_forks(void **state)
{
	enum { YOUNGEST = 1000, GENERATIONS = 200 };
	struct fake *f = *state;
	struct run_table t;

	came(f, &t, true, f->t);
	f->c.ours = ours_create(NULL);
	f->c.follow = true;
	for (uint32_t pid = YOUNGEST; pid < YOUNGEST + GENERATIONS; pid++)
		fake_task(f, PERF_RECORD_FORK, (const uint32_t[]){ pid, pid + 1, pid, pid + 1 }, 1);
	fake_run(f);
	assert_false(ours_has(f->c.ours, YOUNGEST));
	ours_set(f->c.ours, YOUNGEST + GENERATIONS, true);
	fake_take(f, (struct fake_event){ .pid = YOUNGEST, .tid = YOUNGEST });
	fake_run(f);
	assert_true(ours_has(f->c.ours, YOUNGEST));
	while (*fake_next(f))
		;
	ours_destroy(f->c.ours);
}

/* What the control thread is told of a stranger that is sampled twice, @after its exec. */
static size_t told_of(struct fake *f, uint32_t pid, uint64_t after)
{
	struct record r;
	uint32_t type;
	size_t n = 0;

	record_exec(&r, pid, pid, f->t, 0, 1);
	fake_write(f, 0, &r);
	for (int i = 0; i < 2; i++)
		fake_take(f, (struct fake_event){
				     .pid = (pid_t)pid, .tid = (pid_t)pid, .after = after });
	fake_leave(f, after + 10 * US);
	fake_run(f);
	for (struct ctl_msg m = fake_control(f, &type); m.pid; m = fake_control(f, &type))
		n += type == CTL_STRANGER && m.pid == (pid_t)pid;
	return n;
}

/* Once; but the next sample of one that is its program since a moment may be of a Python. */
static void the_young_are_told_of_again(void **state)
{
	struct fake *f = *state;
	struct stranger_filter filter = { .map = -1 };
	struct run_table t;

	came(f, &t, true, f->t);
	all_of_a_cpu(f);
	f->c.strangers = ours_create(NULL);
	assert_int_equal(told_of(f, 90, 1000), 1);
	f->c.filter = &filter;
	assert_int_equal(told_of(f, 91, 1000), 2);
	assert_int_equal(told_of(f, 92, STRANGER_NS), 1);
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.ours);
}

/* What the control thread could not be told for want of room it is told by the next sample. */
static void no_room_to_tell(void **state)
{
	struct fake *f = *state;
	struct queue *q = &f->slots[0].ctl;

	all_of_a_cpu(f);
	f->c.strangers = ours_create(NULL);
	while (queue_reserve(q, CTL_EXIT, sizeof(struct ctl_msg)))
		queue_commit(q);
	assert_int_equal(told_of(f, 90, 1000), 0);
	while (queue_peek(q))
		queue_pop(q);
	fake_take(f, (struct fake_event){ .pid = 90, .tid = 90, .after = 2000 });
	fake_run(f);
	fake_expect_control(f, CTL_STRANGER, (struct ctl_msg){ .pid = 90 });
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.ours);
}

/* The record of a fork may be read after who was forked has joined by itself, for it lies in another
 * CPU's ring; a later one is of another process with its number. */
static void who_joined_before_its_fork_is_read_stays(void **state)
{
	struct fake *f = *state;
	const uint32_t me = (uint32_t)getpid(), fork[] = { me, STRANGER, me, STRANGER };

	all_of_a_cpu(f);
	f->c.strangers = ours_create(NULL);
	f->target->since_ns = f->t + 2000;
	fake_task(f, PERF_RECORD_FORK, fork, 1000);
	fake_run(f);
	assert_true(ours_has(f->c.ours, getpid()));
	assert_string_equal(fake_next(f), ""); /* nor is it one's parent that is no target */
	fake_task(f, PERF_RECORD_FORK, fork, 3000);
	fake_run(f);
	assert_false(ours_has(f->c.ours, getpid()));
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.ours);
}

/* Without the table nothing tells when it became its program. */
static void without_a_table_all_are_told_of_once(void **state)
{
	struct fake *f = *state;
	struct stranger_filter filter = { .map = -1 };

	all_of_a_cpu(f);
	f->c.strangers = ours_create(NULL);
	f->c.filter = &filter;
	assert_int_equal(told_of(f, 90, 1000), 1);
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.ours);
}

/* What cpu_events says of a sample of our own child, which has @execed, where strangers are told
 * of: true, it is a target. */
static bool child_is_wanted(struct fake *f, pid_t child, bool execed)
{
	bool wanted = true;
	struct ctl_msg m;
	uint32_t type;

	f->c.child = child;
	ours_set(f->c.ours, child, true);
	if (execed)
		note_exec_of(f, (uint32_t)child, 1);
	fake_take(f, (struct fake_event){ .pid = child, .tid = child, .after = 2 });
	fake_run(f);
	do {
		m = fake_control(f, &type);
		wanted = wanted && !(type == CTL_STRANGER && m.pid == child);
	} while (type);
	return wanted;
}

/* Before that it is what we are. */
static void our_child_is_a_target_from_its_exec_on(void **state)
{
	struct fake *f = *state;
	struct run_table t;

	all_of_a_cpu(f);
	f->c.strangers = ours_create(NULL);
	assert_true(child_is_wanted(f, 90, false)); /* its events begin with its exec */
	f->c.split = true;
	assert_false(child_is_wanted(f, 91, false));
	assert_true(child_is_wanted(f, 92, true));
	f->c.split = false;
	came(f, &t, true, f->t);
	assert_false(child_is_wanted(f, 93, false));
	assert_true(child_is_wanted(f, 94, true));
	ours_destroy(f->c.strangers);
	ours_destroy(f->c.ours);
}

static void map_code(struct fake *f, uint32_t pid, uint64_t ino, uint64_t after)
{
	struct record r;

	record_map(&r, 0, pid, pid, 0x7f0000000000, ino, "/lib/x");
	record_u32(&r, pid, pid);
	record_u64(&r, f->t + after);
	record_u32(&r, 0, 0);
	record_u64(&r, 1);
	fake_write(f, 0, &r);
}

/* Where any Python fits who maps the code of an interpreter that is known, as another program than
 * its parent, is a target from the next sample on. */
static void who_maps_a_known_interpreter_is_adopted(void **state)
{
	enum { KNOWN = 9, FIRST = 90, AFTER = 30 };
	static const struct pyfind_code code = {
		.maj = 8, .min = 1, .ino = KNOWN, .pgoff = 0x3000, .at = 0x5000, .build_id_n = 20
	};
	static const struct {
		bool adopts, execs, is;
		uint64_t ino;
	} rows[] = {
		{ true, true, true, KNOWN },
		{ true, true, false, KNOWN + 1 },
		{ true, false, false, KNOWN },
		{ false, true, false, KNOWN },
	};
	struct fake *f = *state;

	all_of_a_cpu(f);
	births_teach(f->c.births, &code, f->target);
	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const pid_t pid = FIRST + (pid_t)i;
		struct ctl_msg m;
		bool told = false;
		uint32_t type;

		f->c.adopts = rows[i].adopts;
		if (rows[i].execs)
			note_exec_of(f, (uint32_t)pid, 10);
		map_code(f, (uint32_t)pid, rows[i].ino, 20);
		fake_take(f, (struct fake_event){ .pid = pid, .tid = pid, .after = AFTER });
		fake_run(f);
		for (m = fake_control(f, &type); type; m = fake_control(f, &type))
			told = told || (type == CTL_STRANGER && m.pid == pid && m.ppid == 1 &&
					m.time == f->t + AFTER);
		assert_int_equal(told, rows[i].is);
		assert_int_equal(ours_has(f->c.ours, pid), rows[i].is);
		assert_int_equal(*fake_next(f) != 0, rows[i].is);
		while (*fake_next(f))
			;
	}
	ours_destroy(f->c.ours);
}

/* No record tells that it came back: a second sample does. */
static void sampled_again(void **state)
{
	struct fake *f = *state;
	struct run_table t;

	came(f, &t, true, f->t);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_take(f, (struct fake_event){ .after = 20 * US });
	fake_leave(f, 30 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "late a3 b3");
	assert_string_equal(fake_next(f), "exact a3 b3");
	assert_int_equal(fake_counted(f, late_backlog), 1);
}

/* --- programs that are recognised --- */

enum { MOVED = 0x10000 };

/* Another process runs the interpreter, MOVED lower, from a file that is known. */
static struct target *known_program(struct fake *f, struct pyfind_code *code)
{
	struct target *other = target_create(4711);
	raddr id = world_take(f->w, 32);

	other->state = TARGET_PYTHON;
	other->py = f->target->py;
	other->runtime = f->w->runtime - MOVED;
	memcpy(world_mem(f->w, id), "0123456789abcdefghij", 20);
	*code = (struct pyfind_code){ .maj = 8,
				      .min = 1,
				      .ino = 555,
				      .pgoff = 0x3000,
				      .at = 0x400000,
				      .build_id_at = id - MOVED,
				      .build_id_n = 20 };
	memcpy(code->build_id, "0123456789abcdefghij", 20);
	births_teach(f->c.births, code, other);
	return other;
}

static void note_exec_and_map(struct fake *f, uint64_t at, uint64_t ino)
{
	struct record r;

	record_exec(&r, (uint32_t)getpid(), FAKE_TID, f->t - 10, 0, 1);
	fake_write(f, 0, &r);
	record_map(&r, 0, (uint32_t)getpid(), FAKE_TID, at, ino, "/lib/x");
	record_u32(&r, (uint32_t)getpid(), FAKE_TID);
	record_u64(&r, f->t - 5);
	record_u32(&r, 0, 0);
	record_u64(&r, 1);
	fake_write(f, 0, &r);
}

static const char *sample_of_newborn(struct fake *f, uint64_t at, uint64_t ino)
{
	note_exec_and_map(f, at, ino);
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	f->t += 1000;
	return fake_next(f);
}

/* A new program that maps it is read at once, and the control thread looks as well. */
static void newborn(void **state)
{
	struct fake *f = *state;
	struct pyfind_code code;
	struct target *other = known_program(f, &code);
	raddr root = f->w->runtime;

	f->target->state = TARGET_PENDING;
	memset(&f->target->py, 0, sizeof(f->target->py));
	assert_string_equal(sample_of_newborn(f, code.at + MOVED, 555), "exact a3 b3");
	fake_expect_control(f, CTL_EXEC,
			    (struct ctl_msg){ .pid = getpid(), .time = f->t - 1000 - 10 });
	fake_expect_control(f, CTL_LOOK,
			    (struct ctl_msg){ .pid = getpid(), .time = f->t - 1000 });
	assert_string_equal(sample_of_newborn(f, code.at + MOVED, 556), "torn");
	assert_true(fake_sample(f)->undecided);
	/* Elsewhere no build-id lies behind it. */
	assert_string_equal(sample_of_newborn(f, code.at + MOVED + 0x1000, 555), "torn");
	assert_int_equal(root, f->w->runtime);
	free(other);
}

/* One that began long ago, as the scout saw it: where, and what. */
static void sleeper(void **state)
{
	struct fake *f = *state;
	struct pyfind_code code;
	struct target *other = known_program(f, &code);

	f->target->state = TARGET_PENDING;
	memset(&f->target->py, 0, sizeof(f->target->py));
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "torn");
	f->target->plain = true;
	f->target->code_at = code.at + MOVED;
	f->target->code_number = 1;
	fake_take(f, (struct fake_event){ 0 });
	fake_leave(f, 10 * US);
	fake_run(f);
	assert_string_equal(fake_next(f), "exact a3 b3");
	free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE_TEST(only_ours_of_faults),
		FAKE_TEST(only_ours_of_a_clock),
		FAKE_TEST(strangers_are_filtered),
		FAKE_TEST(newborns_are_not_filtered),
		FAKE_TEST(only_samples_are_of_all),
		FAKE_TEST(only_some_threads),
		FAKE_TEST(children),
		FAKE_TEST(born_on_another_cpu),
		FAKE_TEST(born_on_another_cpu_of_all),
		FAKE_TEST(looks_for_births_are_heard),
		FAKE_TEST(one_of_two),
		FAKE_TEST(next_periods),
		FAKE_TEST(who_was_not_held_keeps_its_period),
		FAKE_TEST(who_was_not_sampled_keeps_its_period),
		FAKE_TEST(paced_periods),
		FAKE_TEST(few_births),
		FAKE_TEST(many_births_are_told_of_once),
		FAKE_TEST(births_without_room),
		FAKE_TEST(hotplug_comes),
		FAKE_TEST(as_the_table_tells),
		FAKE_TEST(as_the_table_names),
		FAKE_TEST(as_descent_tells),
		FAKE_TEST(a_long_chain_of_forks),
		FAKE_TEST(the_young_are_told_of_again),
		FAKE_TEST(who_joined_before_its_fork_is_read_stays),
		FAKE_TEST(no_room_to_tell),
		FAKE_TEST(without_a_table_all_are_told_of_once),
		FAKE_TEST(our_child_is_a_target_from_its_exec_on),
		FAKE_TEST(who_maps_a_known_interpreter_is_adopted),
		FAKE_TEST(sampled_again),
		FAKE_TEST(newborn),
		FAKE_TEST(sleeper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
