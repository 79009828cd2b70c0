/* SPDX-License-Identifier: MIT
 *
 * attach: which threads have inherited their events, as the records of forks say that lie in
 * the rings; who gets events on a CPU that comes later; and CPUs that have none.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"
#include "no_memory.h"
#include "attach/attach.h"
#include "base/clock.h"
#include "base/stats.h"
#include "perf_records.h"
#include "real_syscall.h"
#include "capture/capture.h"
#include "record/cpuwatch.h"

/* FIRST has had events since SINCE, of MADE and those behind it that is not known. */
enum { RINGS = 2, RING = 1 << 16, FIRST = 1000001, MADE, LATER, SINCE = 100 };

enum { EVENT_FD = 100000, ENABLED_FD, COUNTED = 1000 };
enum { SECOND = 1000000000 /* within which all are attached to, or patience ends */ };

/* An event had a counter for half of the time; of another one that goes on. */
ssize_t read(int fd, void *to, size_t n)
{
	ssize_t (*f)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
	static uint64_t enabled = 2000;
	const uint64_t half[] = { COUNTED, enabled += fd == ENABLED_FD, 1000 };

	if (fd != EVENT_FD && fd != ENABLED_FD)
		return f(fd, to, n);
	memcpy(to, half, sizeof(half));
	return sizeof(half);
}

struct fix {
	struct stats stats;
	struct session session;
	struct attach attach;
	struct attached first;
	struct cpu_slot *slots;
	struct perf_event_mmap_page page[RINGS];
	_Alignas(8) unsigned char data[RINGS][RING];
	unsigned opened; /* threads that were to get events */
};

/* It has ended just now, so no event is opened. */
static int count_opened(void *arg, pid_t tid, struct err *err)
{
	struct fix *f = arg;

	f->opened++;
	return -ESRCH;
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->slots = calloc(RINGS, sizeof(*f->slots));
	for (size_t i = 0; i < RINGS; i++)
		f->slots[i].ring = (struct perf_ring){
			.page = &f->page[i], .data = f->data[i], .size = RING
		};
	f->first = (struct attached){ .tid = FIRST, .since = SINCE };
	f->session.stats = &f->stats;
	f->attach = (struct attach){ .session = &f->session,
				     .slots = f->slots,
				     .n_slots = RINGS,
				     .inherit = true,
				     .hooks = { .seize = count_opened, .arg = f },
				     .attached = &f->first,
				     .n_attached = 1 };
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	nudges_deinit(&f->attach.nudges);
	free(f->slots);
	free(f);
	return 0;
}

static void put_fork(struct fix *f, size_t ring, pid_t tid, pid_t ptid, uint64_t time)
{
	uint64_t head = f->page[ring].data_head;
	struct record r;

	record_begin(&r, PERF_RECORD_FORK, 0);
	record_u32(&r, 70, 70);
	record_u32(&r, (uint32_t)tid, (uint32_t)ptid);
	record_u64(&r, time);
	record_trailer(&r, (uint32_t)ptid, time);
	memcpy(f->data[ring] + head, r.bytes, r.n);
	f->page[ring].data_head = head + r.n;
}

/* True: this process's only thread has inherited events. */
static bool has_inherited(struct fix *f)
{
	struct err err;

	f->opened = 0;
	assert_int_equal(attach_process(&f->attach, getpid(), NULL, 0, &err), 0);
	return !f->opened;
}

static void who_was_made_by_one_with_events(void **state)
{
	struct fix *f = *state;

	assert_false(has_inherited(f));
	put_fork(f, 0, MADE, FIRST, SINCE + 1);
	assert_false(has_inherited(f));
	put_fork(f, 1, getpid(), FIRST, SINCE + 1);
	assert_true(has_inherited(f));
	f->first.since = SINCE + 1;
	assert_false(has_inherited(f));
	f->first.since = SINCE;
	f->attach.inherit = false;
	assert_false(has_inherited(f));
}

static void who_was_made_by_one_that_inherited(void **state)
{
	struct fix *f = *state;

	put_fork(f, 0, getpid(), LATER, SINCE + 3);
	put_fork(f, 1, LATER, MADE, SINCE + 2);
	assert_false(has_inherited(f));
	put_fork(f, 0, MADE, FIRST, SINCE + 1);
	assert_true(has_inherited(f));
}

/* Each made the next one. */
static void a_long_chain(void **state)
{
	enum { LONG = 500 };
	struct fix *f = *state;

	put_fork(f, 0, MADE, FIRST, SINCE + 1);
	for (int i = 1; i < LONG; i++)
		put_fork(f, 0, MADE + i, MADE + i - 1, SINCE + 1 + (uint64_t)i);
	put_fork(f, 1, getpid(), MADE + LONG, SINCE + LONG + 2);
	assert_false(has_inherited(f));
	put_fork(f, 0, MADE + LONG, MADE + LONG - 1, SINCE + LONG + 1);
	assert_true(has_inherited(f));
}

/* The maker has ended, and a thread that this one made has its number. */
static void a_circle_of_numbers(void **state)
{
	struct fix *f = *state;

	put_fork(f, 0, MADE, getpid(), SINCE + 3);
	put_fork(f, 1, getpid(), MADE, SINCE + 2);
	assert_false(has_inherited(f));
	put_fork(f, 1, MADE, FIRST, SINCE + 1);
	assert_true(has_inherited(f));
}

/* Where a ring has no room for the record of a fork, who was born since the first event was opened
 * may have inherited some: no second ones are opened then, which would count everything twice. */
static void who_was_born_while_a_ring_was_full(void **state)
{
	enum { A_LONG_AGO = 1, ROOM = 512 };
	struct fix *f = *state;

	f->page[1].data_head = RING - 8;
	f->attach.until_ns = SECOND + A_LONG_AGO;
	assert_true(has_inherited(f));
	assert_int_equal(f->stats.undecided, 1);
	f->attach.until_ns = now_ns() + SECOND; /* it was there before */
	assert_false(has_inherited(f));
	f->attach.until_ns = SECOND + A_LONG_AGO;
	f->page[1].data_head = RING - ROOM;
	assert_false(has_inherited(f));
	f->page[1].data_head = RING - 8;
	put_fork(f, 0, getpid(), FIRST, SINCE); /* the other ring tells */
	assert_false(has_inherited(f));
	f->attach.inherit = false;
	assert_false(has_inherited(f));
	assert_int_equal(f->stats.undecided, 1);
}

/* What a software event counted is scaled where hardware events can keep it from counting. One of
 * some CPUs was without a counter while its thread ran on others, where there was nothing to count.
 */
static void events_that_take_turns(void **state)
{
	static const struct {
		uint32_t type;
		bool counter;
		uint8_t leader;
		bool some_cpus, on_cpus;
		uint64_t count;
	} rows[] = {
		{ PERF_TYPE_SOFTWARE, false, 0, false, false, COUNTED },
		{ PERF_TYPE_SOFTWARE, true, 0, false, false, 2 * COUNTED },
		{ PERF_TYPE_SOFTWARE, false, 1, false, false, 2 * COUNTED },
		{ PERF_TYPE_SOFTWARE, false, 1, true, false, COUNTED },
		{ PERF_TYPE_HARDWARE, false, 0, false, false, 2 * COUNTED },
		{ PERF_TYPE_HARDWARE, false, 0, true, false, COUNTED },
		{ PERF_TYPE_HARDWARE, false, 0, true, true, 2 * COUNTED },
	};
	int fds[] = { EVENT_FD, -1, -1 };
	struct fix *f = *state;

	f->first.fds = fds;
	f->attach.n_slots = 1;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct session session = { .n_events = 1 };

		session.how[0].leader = rows[i].leader;
		session.how[0].some_cpus = rows[i].some_cpus;
		f->attach.on_cpus = rows[i].on_cpus;
		session.events[0].attr.type = rows[i].type;
		f->attach.session = &session;
		f->attach.witness = f->attach.counter = rows[i].counter;
		assert_int_equal(attach_count(&f->attach, 0), rows[i].count);
		assert_int_equal(attach_takes_turns(&f->attach, 0), rows[i].count != COUNTED);
	}
}

struct place {
	pid_t tid;
	int cpu;
};

static struct place opened[RINGS * 2 + 1];
static size_t n_opened;
static unsigned carriers; /* bit C: one on CPU C carries what is no sample; and how many do */
static size_t n_carriers;
static int refuses = -1; /* the CPU that has no event of all that it runs */

static long fake_syscall(long nr, const long a[SYSCALL_ARGS])
{
	const struct perf_event_attr *attr = (const void *)a[0];

	if (nr != SYS_perf_event_open)
		return real_syscall(nr, a);
	if ((pid_t)a[1] == ATTACH_ALL && (int)a[2] == refuses) {
		errno = ENODEV;
		return -1;
	}
	assert_true(n_opened < ARRAY_SIZE(opened));
	opened[n_opened++] = (struct place){ (pid_t)a[1], (int)a[2] };
	if (attr->task) {
		assert_true(attr->mmap2 && attr->comm_exec && attr->context_switch);
		carriers |= 1u << a[2];
		n_carriers++;
	}
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* A thread that is born while CPU 1 comes, and told of behind that, has events on each CPU or
 * inherited them. */
static void a_thread_that_is_born_as_a_cpu_comes(void **state)
{
	const pid_t self = getpid(), there[] = { FIRST, self };
	const struct {
		bool inherit;
		size_t n;
		struct place opened[3];
	} rows[] = {
		{ false, 3, { { FIRST, 1 }, { self, 0 }, { self, 1 } } },
		{ true, 2, { { FIRST, 1 }, { self, 1 } } },
	};
	struct fix *f = *state;
	struct err err;

	f->session.n_events = 1;
	f->slots[1].ring.cpu = 1;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct attach a = { .session = &f->session,
				    .slots = f->slots,
				    .n_slots = 1,
				    .cap_slots = RINGS,
				    .inherit = rows[i].inherit,
				    .attached = malloc(sizeof(*a.attached)),
				    .n_attached = 1 };

		*a.attached = f->first;
		a.attached->fds = memset(malloc(RINGS * sizeof(int)), 0xff, RINGS * sizeof(int));
		n_opened = 0;
		assert_int_equal(attach_cpu(&a, 1, there, ARRAY_SIZE(there), &err), 0);
		assert_int_equal(attach_process(&a, self, NULL, 0, &err), 0);
		assert_int_equal(n_opened, rows[i].n);
		assert_memory_equal(opened, rows[i].opened, rows[i].n * sizeof(*opened));
		attach_deinit(&a);
	}
}

/* CPUs get events of all that they run while one of them is offline: it has lost its own, and that
 * is no reason for the others to have none. A CPU that was never watched, or is online, has to have
 * them. */
static void a_cpu_that_is_offline_has_no_events(void **state)
{
	enum { OFFLINE = CPUS_MAX - 1, WATCHED = 5 };
	static const struct {
		int refuses;
		uint64_t watched_ns;
		bool opens;
	} rows[] = {
		{ OFFLINE, WATCHED, true },
		{ OFFLINE, 0, false },
		{ 0, WATCHED, false },
	};
	struct fix *f = *state;
	struct err err;

	f->session.n_events = 1;
	f->session.events[0].attr.type = PERF_TYPE_SOFTWARE;
	f->session.how[0].on_cpus = true;
	f->slots[1].cpu = f->slots[1].ring.cpu = OFFLINE;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct attach a = { .session = &f->session,
				    .slots = f->slots,
				    .n_slots = RINGS,
				    .cap_slots = RINGS,
				    .split = true,
				    .cgroup = -1 };

		f->slots[0].watched_ns = WATCHED;
		f->slots[1].watched_ns = rows[i].watched_ns;
		f->slots[1].gone_ns = 0;
		refuses = rows[i].refuses;
		n_opened = 0;
		assert_int_equal(attach_cpus(&a, &err) == 0, rows[i].opens);
		assert_int_equal(a.on_cpus, rows[i].opens);
		assert_int_equal(attach_has(&a, ATTACH_ALL), rows[i].opens);
		assert_int_equal(n_opened, rows[i].refuses == OFFLINE);
		assert_int_equal(slot_watched(&f->slots[1]),
				 rows[i].opens ? 0 : rows[i].watched_ns);
		attach_deinit(&a);
	}
	refuses = -1;
}

static void count_note(void *arg, const char *text)
{
	*(unsigned *)arg += text != NULL;
}

/* A CPU's hotplug thread came at GONE. Its events are there still where one of them is enabled
 * after that has left; else they are to be opened anew, which this capture does not do. */
static void a_hotplug_thread_may_take_nothing(void **state)
{
	enum { WATCHED = 5, GONE = 7 };
	static const struct {
		int tid, fd;
		uint64_t left_ns;
		bool kept;
	} rows[] = {
		{ -1, ENABLED_FD, GONE + 1, true }, { -1, ENABLED_FD, GONE, false },
		{ -1, ENABLED_FD, GONE - 1, false }, { -1, EVENT_FD, GONE + 1, false },
		{ -1, -1, GONE + 1, false },	    { FIRST, ENABLED_FD, GONE + 1, false },
	};
	static const struct capture_ops fixed = { .name = "fake", .fixed_cpus = true };
	const pid_t us = gettid();
	struct fix *f = *state;
	struct cpus may;

	assert_int_equal(cpus_of_thread(&may, us), 0);
	assert_int_equal(cpus_pin_thread(cpus_next(&may, 0)), 0);
	f->session.n_events = 1;
	f->slots[0].cpu = cpus_next(&may, 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int fds[] = { rows[i].fd, ENABLED_FD };
		struct attached all = { .tid = rows[i].tid, .fds = fds };
		struct attach a = { .session = &f->session, .n_slots = 2, .attached = &all,
				    .n_attached = 1, .on_cpus = true };
		struct reader_config c = { .slots = f->slots, .n_slots = 1, .capture = &fixed };
		unsigned told = 0;
		struct cpuwatch w = { .config = &c, .attach = &a, .tids = &us, .n_tids = 1,
				      .note = { count_note, &told } };

		f->slots[0].watched_ns = WATCHED;
		f->slots[0].gone_ns = GONE;
		f->slots[0].kept_ns = 0;
		f->slots[0].left_ns = rows[i].left_ns;
		cpuwatch_look(&w);
		if (slot_watched(&f->slots[0]) != (rows[i].kept ? WATCHED : 0) ||
		    told == rows[i].kept)
			fail_msg("row %zu: told %u", i, told);
		f->slots[0].gone_ns = GONE + 1; /* it comes again */
		assert_int_equal(slot_watched(&f->slots[0]), 0);
	}
	cpus_keep_thread(&may);
}

/* What a thread does on a CPU where its only event is not opened is told all the same. */
static void a_cpu_without_an_event_tells_what_happens(void **state)
{
	static const unsigned wants[] = { 1, 3 };
	const pid_t self = getpid();
	struct fix *f = *state;
	struct err err;

	f->session.n_events = 1;
	f->session.events[0].attr.type = PERF_TYPE_SOFTWARE;
	f->session.how[0].some_cpus = true;
	cpus_add(&f->session.how[0].cpus, 0);
	f->slots[1].cpu = f->slots[1].ring.cpu = 1;
	for (size_t i = 0; i < ARRAY_SIZE(wants); i++) {
		struct attach a = { .session = &f->session,
				    .slots = f->slots,
				    .n_slots = RINGS,
				    .cap_slots = RINGS,
				    .side = i };

		n_opened = n_carriers = carriers = 0;
		assert_int_equal(attach_thread(&a, self, &err), 0);
		assert_int_equal(carriers, wants[i]);
		assert_int_equal(n_carriers, 1 + i);
		assert_int_equal(n_opened, 1 + 2 * i);
		assert_int_equal(attach_per_cpu(&a), 1 + i);
		attach_deinit(&a);
	}
}

/* Whichever allocation fails, a person is told what lacks. */
static void a_thread_for_which_memory_lacks(void **state)
{
	struct fix *f = *state;
	bool did = NO_MEMORY_FAILS;

	f->session.n_events = 2;
	for (size_t i = 0; i < f->session.n_events; i++)
		f->session.events[i].attr.type = PERF_TYPE_SOFTWARE;
	for (long n = 1; did; n++) {
		struct attach a = { .session = &f->session,
				    .slots = f->slots,
				    .n_slots = RINGS,
				    .cap_slots = RINGS };
		struct err err = { 0 };
		int r;

		n_opened = 0;
		no_memory_from(n, true);
		r = attach_thread(&a, getpid(), &err);
		did = no_memory_end();
		assert_int_equal(r, did ? -ENOMEM : 0);
		assert_int_equal(strlen(err.text) > 0, did);
		assert_in_range(n, did ? 1 : 4, 10); /* descriptors, the table of ids, the list */
		attach_deinit(&a);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_was_made_by_one_with_events),
		TEST(who_was_made_by_one_that_inherited),
		TEST(a_long_chain),
		TEST(a_circle_of_numbers),
		TEST(who_was_born_while_a_ring_was_full),
		TEST(events_that_take_turns),
		TEST(a_thread_that_is_born_as_a_cpu_comes),
		TEST(a_cpu_that_is_offline_has_no_events),
		TEST(a_hotplug_thread_may_take_nothing),
		TEST(a_cpu_without_an_event_tells_what_happens),
		TEST(a_thread_for_which_memory_lacks),
	};

	alarm(60); /* what goes round for ever fails */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
