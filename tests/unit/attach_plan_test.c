/* SPDX-License-Identifier: MIT
 *
 * attach_plan: machines and targets of all sizes, simulated: what is planned fits, and
 * what is refused could not have fitted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "unit.h"
#include "attach/attach_plan.h"
#include "base/base.h"
#include "record/recorder_int.h"

enum { PAGE = 4096, KIB = 1024, MIB = 1 << 20 };

static const size_t threads[] = { 1, 2, 8, 50, 200, 1000 };
static const size_t cpus[] = { 1, 2, 4, 8, 16, 32, 64, 256 };
static const size_t nofiles[] = { 1024, 4096, 20000, 1 << 20 };
/* perf_event_mlock_kb and RLIMIT_MEMLOCK: the kernel's own, older systems', none at all. */
static const struct {
	size_t mlock_kb, memlock;
} locks[] = { { 516, 8 * MIB }, { 516, 64 * KIB }, { 516, SIZE_MAX }, { 132, 0 }, { 0, 0 } };

/* What perf_mmap() in kernel/events/core.c would say to all rings. */
static bool kernel_locks(const struct attach_wants *w, const struct attach_limits *l,
			 size_t pages)
{
	size_t user = w->cpus * (l->mlock_kb * KIB / PAGE), want = w->cpus * (pages + 1);

	return l->lock_any || want <= user || want - user <= l->memlock / PAGE;
}

static void check_rings(const struct attach_wants *w, const struct attach_limits *l,
			const struct attach_plan *p)
{
	assert_true(p->ring_pages >= 32 && p->ring_pages <= 2048);
	assert_int_equal(p->ring_pages & (p->ring_pages - 1), 0);
	assert_int_equal(p->locked, w->cpus * (p->ring_pages + 1) * PAGE);
	assert_true(kernel_locks(w, l, p->ring_pages));
}

/* One event more fits, and changes nothing else. */
static void check_more(const struct attach_wants *w, const struct attach_limits *l,
		       const struct attach_plan *p)
{
	struct attach_wants also = *w, one_more = *w;
	struct attach_plan more, really;
	struct err err;

	also.may_add = true;
	one_more.events++;
	assert_false(p->more);
	assert_int_equal(attach_plan_make(&also, l, &more, &err), 0);
	assert_int_equal(more.wide, p->wide);
	if (!more.more) {
		assert_int_equal(more.descriptors, p->descriptors);
		return;
	}
	assert_int_equal(attach_plan_make(&one_more, l, &really, &err), 0);
	assert_int_equal(really.wide, p->wide);
	assert_int_equal(really.descriptors, more.descriptors);
}

static void check_plan(const struct attach_wants *w, const struct attach_limits *l)
{
	size_t narrow = w->threads * w->cpus * w->events, wide = w->cpus * w->events;
	struct attach_plan p;
	struct err err;
	int r = attach_plan_make(w, l, &p, &err);

	if (r == -EPERM) {
		assert_false(kernel_locks(w, l, 32 + 2)); /* and forkwatch's two pages */
		assert_non_null(strstr(err.text, "ulimit -l"));
		return;
	}
	if (r == -EMFILE) {
		assert_true(narrow + 64 + 2 * w->cpus > l->nofile);
		assert_true(!l->wide || wide + 64 + 2 * w->cpus > l->nofile);
		assert_non_null(strstr(err.text, "ulimit -n"));
		return;
	}
	assert_int_equal(r, 0);
	check_rings(w, l, &p);
	assert_true(p.descriptors <= l->nofile);
	assert_true(p.descriptors >= (p.wide ? wide : narrow) + 64 + 2 * w->cpus);
	assert_true(l->wide || !p.wide);
	assert_int_equal(p.wide, p.why[0] != '\0');
	check_more(w, l, &p);
}

static void sizes(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(threads); t++)
		for (size_t c = 0; c < ARRAY_SIZE(cpus); c++)
			for (size_t e = 1; e <= 8 * 2; e++)
				for (size_t n = 0; n < ARRAY_SIZE(nofiles); n++)
					for (size_t k = 0; k < ARRAY_SIZE(locks); k++)
						for (int rights = 0; rights < 4; rights++) {
							struct attach_wants w = { threads[t],
										  cpus[c], e };
							struct attach_limits l = {
								.nofile = nofiles[n],
								.page = PAGE,
								.mlock_kb = locks[k].mlock_kb,
								.memlock = locks[k].memlock,
								.lock_any = rights & 1,
								.wide = rights & 2,
							};

							check_plan(&w, &l);
						}
}

struct row {
	struct attach_wants w;
	size_t nofile;
	bool wide;
	int code;
	bool planned_wide;
	size_t descriptors;
};

static const struct row rows[] = {
	{ { 1, 2, 2 }, 1024, false, 0, false, 4 + 68 },
	{ { 1000, 2, 2 }, 20000, false, 0, false, 4000 + 68 },
	{ { 1000, 2, 2 }, 4000, false, -EMFILE, false, 0 },
	/* Exactly enough, and one too few. */
	{ { 1000, 2, 2 }, 4068, false, 0, false, 4068 },
	{ { 1000, 2, 2 }, 4067, false, -EMFILE, false, 0 },
	{ { 1000, 2, 2 }, 4067, true, 0, true, 4 + 68 },
	{ { 1000, 2, 2, .others = 10 }, 4077, false, -EMFILE, false, 0 },
	{ { 1000, 2, 2, .others = 10 }, 4078, false, 0, false, 4078 },
	{ { 1000, 2, 2, .others = 10 }, 4077, true, 0, true, 4 + 78 },
	/* It would fit, but take seconds. */
	{ { 1000, 64, 2 }, 1 << 20, true, 0, true, 128 + 192 },
	{ { 1000, 64, 2 }, 1 << 20, false, 0, false, 128000 + 192 },
	{ { 200, 64, 2 }, 1 << 20, true, 0, false, 25600 + 192 },
	/* Some event's counts are of threads. */
	{ { 1000, 2, 2, .tied = true }, 4067, true, -EMFILE, false, 0 },
	{ { 1000, 64, 2, .tied = true }, 1 << 20, true, 0, false, 128000 + 192 },
	{ { 1, 2, 2, .joins = true }, 1024, true, 0, true, 4 + 68 },
	{ { 1, 2, 2, .joins = true, .tied = true }, 1024, true, 0, false, 4 + 68 },
	/* Not even a descriptor for each CPU. */
	{ { 1, 256, 9 }, 1024, true, -EMFILE, false, 0 },
};

static void thresholds(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct attach_limits l = { .nofile = rows[i].nofile,
					   .page = PAGE,
					   .lock_any = true,
					   .wide = rows[i].wide };
		struct attach_plan p;
		struct err err;
		int r = attach_plan_make(&rows[i].w, &l, &p, &err);

		if (r != rows[i].code)
			fail_msg("row %zu: %d", i, r);
		if (r == 0 &&
		    (p.wide != rows[i].planned_wide || p.descriptors != rows[i].descriptors))
			fail_msg("row %zu: wide %d, %zu", i, p.wide, p.descriptors);
	}
}

/* An ordinary user's rings on a distribution's defaults, the more CPUs the smaller. */
static void rings_shrink_with_cpus(void **state)
{
	static const size_t want[] = { 256, 256, 256, 256, 128, 128, 128, 128 };
	struct attach_limits l = {
		.nofile = 1 << 20, .page = PAGE, .mlock_kb = 516, .memlock = 8 * MIB
	};
	struct attach_plan p;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(cpus); i++) {
		struct attach_wants w = { 1, cpus[i], 2 };

		assert_int_equal(attach_plan_make(&w, &l, &p, &err), 0);
		assert_int_equal(p.ring_pages, want[i]);
	}
}

/* Fast samples with much stack fill a ring while its reader waits for a moment. */
static void rings_grow_with_the_rate(void **state)
{
	struct attach_limits user = { .nofile = 1 << 20, .page = PAGE, .memlock = 3 * MIB };
	struct attach_plan p;
	struct err err;

	for (size_t rate = 0; rate < 64 * KIB; rate = 2 * rate + 1) {
		struct attach_wants w = { .threads = 1, .cpus = 2, .events = 2, .rate = rate };
		size_t want, ring;

		w.sample = 16 * KIB;
		want = rate * w.sample * 60 / 1000;
		ring = attach_plan_ring(&w, PAGE) * PAGE;
		assert_in_range(ring, MAX(MIN(want, 8 * MIB), MIB), MAX(2 * want, MIB));
		w.prompt = true;
		ring = attach_plan_ring(&w, PAGE) * PAGE;
		assert_true(ring >= MIN(2 * want + 64 * KIB, MIB) &&
			    ring >= MIN(want, 8 * MIB));
		assert_true(ring <= MAX(4 * want + 128 * KIB, rate ? 256 * KIB : MIB));
		assert_int_equal(attach_plan_make(&w, &user, &p, &err), 0);
		assert_true(p.locked <= user.memlock);
	}
}

static size_t ring_kib(size_t rate, size_t sample)
{
	struct attach_wants w = { .rate = rate, .sample = sample, .prompt = true };

	return attach_plan_ring(&w, PAGE) * PAGE / KIB;
}

/* The numbers of attach_plan.h. */
static void rings_of_usual_rates(void **state)
{
	assert_int_equal(ring_kib(99, 16384), 256);
	assert_int_equal(ring_kib(99, KIB), 256);
	assert_int_equal(ring_kib(250, 16384), 1024);
	assert_int_equal(ring_kib(999, 16384), 1024);
	assert_int_equal(ring_kib(1999, 16384), 2048);
	assert_int_equal(ring_kib(999, KIB), 256);
	assert_int_equal(ring_kib(0, 16384), 1024);
	assert_int_equal(ring_kib(99, 65528), 1024);
}

/* What is counted at another event's samples takes none: of {cycles,X}:S cycles says how large
 * rings are, whatever X is. */
static void rings_of_groups(void **state)
{
	static const struct perf_event_attr members[] = {
		{ .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK },
		{ .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS },
		{ .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const struct session s = {
			.n_events = 2,
			.events = { { .attr = { .freq = 1, .sample_freq = 99 } },
				    { .attr = members[i] } },
			.how = { { .leader = 1, .read = true }, { .leader = 1, .led = true } },
		};
		size_t rate = recorder_sample_rate(&s, false);

		assert_int_equal(rate, 99);
		assert_int_equal(ring_kib(rate, 16 * KIB), 256);
	}
}

static void sentences(void **state)
{
	struct attach_wants w = { 1000, 64, 2 };
	struct attach_limits l = { .nofile = 20000, .page = PAGE, .mlock_kb = 4 };
	struct attach_plan p;
	struct err err;

	assert_int_equal(attach_plan_make(&w, &l, &p, &err), -EMFILE);
	assert_string_equal(err.text,
			    "1000 threads x 64 CPUs x 2 events need 128192 descriptors and "
			    "'ulimit -n' allows 20000; raise it (hard limit), name fewer "
			    "events, or threads (-t), or give CAP_PERFMON (not with "
			    "--capture stop)");
	l.wide = true;
	assert_int_equal(attach_plan_make(&w, &l, &p, &err), -EPERM);
	assert_string_equal(err.text,
			    "rings for 64 CPUs need 8456 KiB of locked memory, 256 are "
			    "allowed; raise kernel.perf_event_mlock_kb or 'ulimit -l'");
	assert_non_null(strstr(p.why, "128000 descriptors"));
}

static void all_page_counts(void **state)
{
	assert_int_equal(attach_plan_fewer_pages(256), 128);
	assert_int_equal(attach_plan_fewer_pages(64), 32);
	assert_int_equal(attach_plan_fewer_pages(32), 0);
}

/* Of ourselves: the table of descriptors grows, and none stays open. */
static void reserve(void **state)
{
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC), after;
	struct attach_limits l = attach_limits_now(false, SIZE_MAX);
	char line[64] = "";
	size_t size = 0;
	FILE *f;

	assert_true(l.nofile >= 512 && l.page >= 4096);
	attach_reserve(before, 512);
	f = fopen("/proc/self/status", "re");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "FDSize: %zu", &size) == 1)
			break;
	fclose(f);
	assert_true(size >= 512);
	after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(after, before + 1);
	attach_reserve(before, l.nofile + 1); /* beyond the limit: nothing happens */
	close(before);
	close(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(thresholds),
		cmocka_unit_test(rings_shrink_with_cpus),
		cmocka_unit_test(rings_grow_with_the_rate),
		cmocka_unit_test(rings_of_usual_rates),
		cmocka_unit_test(rings_of_groups),
		cmocka_unit_test(sentences),
		cmocka_unit_test(all_page_counts),
		cmocka_unit_test(reserve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
