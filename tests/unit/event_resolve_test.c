/* SPDX-License-Identifier: MIT
 *
 * event_resolve, pmu, pfm, nearest: names on machines that are made up as trees of sysfs, with a
 * libpfm4 of our own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <linux/perf_event.h>
#include <sys/stat.h>

#include "unit.h"
#include "base/base.h"
#include "events/event_resolve.h"
#include "base/nearest.h"
#include "events/pmu.h"

struct file {
	const char *path, *text;
};

static const struct file plain[] = {
	{ "cpu/type", "4\n" },
	{ "cpu/format/event", "config:0-7\n" },
	{ "cpu/format/umask", "config:8-15\n" },
	{ "cpu/format/edge", "config:18\n" },
	{ "cpu/format/wide", "config:0-7,32-35\n" },
	{ "cpu/format/ldlat", "config1:0-15\n" },
	{ "cpu/format/frontend", "config2:4-11\n" },
	{ "cpu/format/later", "config9:0-7\n" },
	{ "cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n" },
	{ "cpu/events/mem-loads.scale", "1\n" },
	{ "cpu/events/asks", "event=0x12,umask=?\n" },
	{ "ibs_op/type", "11\n" },
	{ "ibs_op/format/cnt_ctl", "config:19\n" },
	{ "arm_cmn/type", "30\n" },
	{ "arm_cmn/cpumask", "0\n" },
	{ "arm_cmn/events/mem-loads", "event=0x1\n" },
	{ "power/type", "20\n" },
	{ "power/cpumask", "0\n" },
	{ "power/format/event", "config:0-7\n" },
	{ "power/events/energy-pkg", "event=0x02\n" },
};

static const struct file hybrid[] = {
	{ "cpu_atom/type", "10\n" },
	{ "cpu_atom/cpus", "2-3\n" },
	{ "cpu_atom/format/event", "config:0-7\n" },
	{ "cpu_core/type", "4\n" },
	{ "cpu_core/cpus", "0-1\n" },
	{ "cpu_core/format/event", "config:0-7\n" },
	{ "cpu_core/events/slots", "event=0x00\n" },
	{ "cpu_core/events/mem-loads", "event=0xcd\n" },
	{ "cpu_atom/events/mem-loads", "event=0xd0\n" },
	{ "software/type", "1\n" },
};

static const struct file arm[] = {
	{ "armv8_pmuv3/type", "8\n" },
	{ "armv8_pmuv3/cpus", "0-3\n" },
	{ "armv8_pmuv3/format/event", "config:0-15\n" },
	{ "armv8_pmuv3/events/cpu_cycles", "event=0x0011\n" },
};

/* --- libpfm4: what the library is asked for --- */

struct pfm_arg { /* pfm_perf_encode_arg_t, as far as it matters */
	struct perf_event_attr *attr;
};

static const struct {
	const char *name;
	uint32_t type;
	uint64_t config;
	bool exclude_kernel;
} of_pfm[] = {
	{ "L1D:READ", PERF_TYPE_HW_CACHE, 0x0 },
	{ "RETIRED:ANY", PERF_TYPE_RAW, 0x1c0 },
	{ "made::RETIRED:ANY", PERF_TYPE_RAW, 0x1c0 },
	{ "made::RETIRED:ANY:u=1", PERF_TYPE_RAW, 0x1c0, true },
	{ "RETIRED", PERF_TYPE_RAW, 0xc0 },
	{ "atom::RETIRED:ANY", 10, 0x2c0 },
	{ "made:a_tracepoint", PERF_TYPE_TRACEPOINT, 77 },
	{ "perf::made:a_tracepoint", PERF_TYPE_TRACEPOINT, 77 },
};

int pfm_initialize(void);
int pfm_get_os_event_encoding(const char *name, int levels, int os, void *arg);

int pfm_initialize(void)
{
	return 0;
}

int pfm_get_os_event_encoding(const char *name, int levels, int os, void *arg)
{
	struct perf_event_attr *attr = ((struct pfm_arg *)arg)->attr;

	assert_int_equal(levels, 1 | 8); /* PFM_PLM0 | PFM_PLM3 */
	assert_int_equal(os, 1);	 /* PFM_OS_PERF_EVENT */
	for (size_t i = 0; i < ARRAY_SIZE(of_pfm); i++)
		if (!strcmp(name, of_pfm[i].name)) {
			attr->type = of_pfm[i].type;
			attr->config = of_pfm[i].config;
			attr->exclude_kernel = of_pfm[i].exclude_kernel;
			return 0;
		}
	return -4; /* PFM_ERR_NOTFOUND */
}

/* The library is this program, which exports the two. */
void *dlopen(const char *name, int flags)
{
	void *(*real)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");

	return real(name && !strcmp(name, "libpfm.so.4") ? NULL : name, flags);
}

/* --- trees of sysfs --- */

static char root[64];

static void make(const char *path)
{
	char dir[256];

	snprintf(dir, sizeof(dir), "%s/%s", root, path);
	for (char *p = dir + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		mkdir(dir, 0777);
	}
}

static void begin(const struct file *files, size_t n)
{
	strcpy(root, "/tmp/pmu-test-XXXXXX");
	assert_non_null(mkdtemp(root));
	for (size_t i = 0; i < n; i++) {
		char path[256];
		FILE *f;

		make(files[i].path);
		snprintf(path, sizeof(path), "%s/%s", root, files[i].path);
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(files[i].text, f);
		fclose(f);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static void end(void)
{
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int resolve(const char *list, struct perf_spec *s, size_t cap, size_t *n,
		   struct err *err)
{
	const struct event_help help = { 0 };

	*n = 0;
	*err = (struct err){ 0 };
	assert_int_equal(perf_names_parse(list, s, cap, n, err), 0);
	return event_resolve_in(root, s, n, cap, &help, err);
}

struct good {
	const char *name;
	uint32_t type;
	uint64_t config, config1, config2;
};

static void good_names(const struct file *tree, size_t n_tree, const struct good *rows,
		       size_t n)
{
	begin(tree, n_tree);
	for (size_t i = 0; i < n; i++) {
		struct perf_spec s[2];
		struct err err;
		size_t got;

		if (resolve(rows[i].name, s, 2, &got, &err) < 0)
			fail_msg("%s: %s", rows[i].name, err.text);
		assert_int_equal(got, 1);
		assert_string_equal(s[0].name, rows[i].name);
		if (s[0].type != rows[i].type || s[0].config != rows[i].config ||
		    s[0].config1 != rows[i].config1 || s[0].config2 != rows[i].config2)
			fail_msg("%s: %u 0x%llx 0x%llx 0x%llx", rows[i].name, s[0].type,
				 (unsigned long long)s[0].config,
				 (unsigned long long)s[0].config1,
				 (unsigned long long)s[0].config2);
	}
	end();
}

static void terms(void **state)
{
	static const struct good rows[] = {
		{ "cpu/event=0x3c,umask=1/", 4, 0x13c, 0, 0 },
		{ "cpu/event=60,edge/", 4, 0x4003c, 0, 0 },
		{ "cpu/wide=0xabc/", 4, 0xa000000bc, 0, 0 },
		{ "cpu/config=0x1ff,config1=2,config2=3/", 4, 0x1ff, 2, 3 },
		{ "cpu/ldlat=30,event=0xcd/", 4, 0xcd, 30, 0 },
		{ "cpu/frontend=0xff/", 4, 0, 0, 0xff0 },
		{ "cpu/mem-loads/", 4, 0x1cd, 3, 0 },
		{ "cpu/mem-loads,ldlat=9/ppu", 4, 0x1cd, 9, 0 },
		{ "cpu/asks,umask=7/", 4, 0x712, 0, 0 },
		{ "mem-loads", 4, 0x1cd, 3, 0 },
		{ "mem-loads:p", 4, 0x1cd, 3, 0 },
		{ "ibs_op//", 11, 0, 0, 0 },
		{ "ibs_op/cnt_ctl/", 11, 1 << 19, 0, 0 },
		{ "cycles", PERF_TYPE_HARDWARE, 0, 0, 0 },
	};
	static const struct good of_arm[] = {
		{ "armv8_pmuv3/cpu_cycles/", 8, 0x11, 0, 0 },
		{ "armv8_pmuv3/event=0x1b/", 8, 0x1b, 0, 0 },
		{ "cycles", PERF_TYPE_HARDWARE, 0, 0, 0 },
	};

	good_names(plain, ARRAY_SIZE(plain), rows, ARRAY_SIZE(rows));
	good_names(arm, ARRAY_SIZE(arm), of_arm, ARRAY_SIZE(of_arm));
}

/* Terms of perf's own, which say nothing of what is counted. */
static void own_terms(void **state)
{
	struct perf_spec s[2];
	struct err err;
	size_t n;

	begin(plain, ARRAY_SIZE(plain));
	assert_int_equal(
		resolve("cpu/event=0x3c,name=mine,period=5000/u,cpu/mem-loads,freq=9/", s, 2,
			&n, &err),
		0);
	assert_string_equal(s[0].label, "mine");
	assert_true(s[0].config == 0x3c && s[0].period == 5000 && !s[0].freq && s[0].user);
	assert_true(s[1].config == 0x1cd && !*s[1].label && !s[1].period && s[1].freq == 9);
	end();
}

static void refusals(void **state)
{
	static const struct {
		const char *name;
		int ret;
		const char *says;
	} rows[] = {
		{ "gpu/event=1/", -ENOENT, "there are: arm_cmn, cpu, ibs_op, power" },
		{ "cycles/period=1000/", -EINVAL, "a period is -c N, a frequency -F HZ" },
		{ "cpu/evnt=1/", -ENOENT, "terms: edge, event" },
		{ "cpu/mem-load/", -ENOENT, "events: asks, mem-loads" },
		{ "cpu/event=x/", -EINVAL, "'x' is no number" },
		{ "cpu/event=1x/", -EINVAL, "is no number" },
		{ "cpu/event=0x100/", -EINVAL, "too large for 'event'" },
		{ "cpu/edge=2/", -EINVAL, "too large for 'edge'" },
		{ "cpu/later=1/", -ENOENT, "not known to this version" },
		{ "cpu/name=/", -EINVAL, "'' is no name" },
		{ "cpu/name=a b/", -EINVAL, "'a b' is no name" },
		{ "cpu/period=fast/", -EINVAL, "is no number" },
		{ "cpu/..=1/", -ENOENT, "no term or event" },
		{ "power/energy-pkg/", -ENOENT, "not for threads" },
		{ "mem-load", -ENOENT, "nearest: mem-loads" },
		{ "cycels", -ENOENT, "nearest: cycles" },
		{ "{usdt:a:b}", -EINVAL, "usdt:a:b': a USDT probe can't be in a group" },
		{ "{cs,usdt:a:b}", -EINVAL, "usdt:a:b': a USDT probe can't be in a group" },
		{ "qqqqqqqq", -ENOENT, "no event 'qqqqqqqq'; 'pysampled events'" },
	};

	begin(plain, ARRAY_SIZE(plain));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct perf_spec s[2];
		struct err err;
		size_t n;
		int r = resolve(rows[i].name, s, 2, &n, &err);

		if (r != rows[i].ret || !strstr(err.text, rows[i].says))
			fail_msg("%s: %d, \"%s\"", rows[i].name, r, err.text);
	}
	end();
}

/* Each kind of core has its own event, on its own CPUs; what is no core's is there once. */
static void hybrid_events(void **state)
{
	struct perf_spec s[8];
	struct err err;
	size_t n;

	begin(hybrid, ARRAY_SIZE(hybrid));
	assert_int_equal(resolve("cycles:u,faults,r1c4,cpu_core/slots/", s, 8, &n, &err), 0);
	assert_int_equal(n, 6);
	assert_string_equal(s[0].name, "cpu_atom/cycles/u");
	assert_true(s[0].config == 10ull << 32 && s[0].type == PERF_TYPE_HARDWARE &&
		    s[0].user);
	assert_true(s[0].some_cpus && cpus_has(&s[0].cpus, 3) && !cpus_has(&s[0].cpus, 1));
	assert_string_equal(s[1].name, "cpu_core/cycles/u");
	assert_true(s[1].config == 4ull << 32 && cpus_has(&s[1].cpus, 1));
	assert_true(s[2].type == PERF_TYPE_SOFTWARE && !s[2].some_cpus);
	assert_true(s[3].type == 10 && s[3].config == 0x1c4);
	assert_string_equal(s[3].name, "cpu_atom/r1c4/");
	assert_true(s[4].type == 4 && s[4].config == 0x1c4);
	assert_string_equal(s[5].name, "cpu_core/slots/");
	assert_true(s[5].some_cpus && cpus_has(&s[5].cpus, 0) && !cpus_has(&s[5].cpus, 2));
	/* sysfs's own words: on each kind of core that has them. */
	assert_int_equal(resolve("slots,mem-loads:u", s, 8, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_string_equal(s[0].name, "cpu_core/slots/");
	assert_true(s[0].some_cpus && cpus_has(&s[0].cpus, 0) && !cpus_has(&s[0].cpus, 2));
	assert_string_equal(s[1].name, "cpu_atom/mem-loads/u");
	assert_true(s[1].type == 10 && s[1].config == 0xd0 && s[1].user);
	assert_true(cpus_has(&s[1].cpus, 2) && !cpus_has(&s[1].cpus, 0));
	assert_string_equal(s[2].name, "cpu_core/mem-loads/u");
	assert_true(s[2].type == 4 && s[2].config == 0xcd);
	assert_int_equal(resolve("cycles,cycles:u,cycles:k,branches,instructions", s, 8, &n, &err),
			 -EINVAL);
	end();
}

/* A group is one on each kind of core, with all its members there. */
static void hybrid_groups(void **state)
{
	struct perf_spec s[8];
	struct err err;
	size_t n;

	begin(hybrid, ARRAY_SIZE(hybrid));
	assert_int_equal(resolve("cs,{cycles,faults}:S", s, 8, &n, &err), 0);
	assert_int_equal(n, 5);
	assert_true(!s[0].leader && !s[0].some_cpus);
	for (size_t i = 1; i < 5; i += 2) {
		assert_int_equal(s[i].leader, i + 1);
		assert_int_equal(s[i + 1].leader, i + 1);
		assert_true(s[i].read && s[i + 1].led);
		assert_true(s[i + 1].some_cpus);
		assert_memory_equal(&s[i].cpus, &s[i + 1].cpus, sizeof(s[i].cpus));
	}
	assert_string_equal(s[1].name, "cpu_atom/cycles/");
	assert_string_equal(s[2].name, "faults");
	assert_string_equal(s[3].name, "cpu_core/cycles/");
	end();
}

/* On CPUs of this kind of core, in the group whose leader is number @leader. */
static void on_kind(const struct perf_spec *s, uint32_t type, const char *name, size_t leader)
{
	assert_string_equal(s->name, name);
	assert_int_equal(s->kind, PERF_KIND_READY);
	assert_int_equal(s->type, type);
	assert_int_equal(s->leader, leader + 1);
	assert_true(s->some_cpus);
	assert_int_equal(cpus_has(&s->cpus, 0), type == 4);
	assert_int_equal(cpus_has(&s->cpus, 2), type == 10);
}

/* So are groups of sysfs's words, on those kinds that have all of a group. */
static void hybrid_groups_of_words(void **state)
{
	struct perf_spec s[8];
	struct err err;
	size_t n;

	begin(hybrid, ARRAY_SIZE(hybrid));
	assert_int_equal(resolve("{mem-loads,mem-loads:u}:S", s, 8, &n, &err), 0);
	assert_int_equal(n, 4);
	on_kind(&s[0], 10, "cpu_atom/mem-loads/", 0);
	on_kind(&s[1], 10, "cpu_atom/mem-loads/u", 0);
	on_kind(&s[2], 4, "cpu_core/mem-loads/", 2);
	on_kind(&s[3], 4, "cpu_core/mem-loads/u", 2);
	assert_true(s[0].config == 0xd0 && s[2].config == 0xcd);
	assert_true(s[2].read && s[3].led && s[3].user);
	/* A group of one, behind what becomes several. */
	assert_int_equal(resolve("branches,{mem-loads}", s, 8, &n, &err), 0);
	assert_int_equal(n, 4);
	on_kind(&s[2], 10, "cpu_atom/mem-loads/", 2);
	on_kind(&s[3], 4, "cpu_core/mem-loads/", 3);
	/* With generic events, which are then of raw type; atoms have no slots. */
	assert_int_equal(resolve("{mem-loads,r1c4},{slots,mem-loads,r1}", s, 8, &n, &err), 0);
	assert_int_equal(n, 7);
	on_kind(&s[1], 10, "cpu_atom/r1c4/", 0);
	on_kind(&s[3], 4, "cpu_core/r1c4/", 2);
	on_kind(&s[4], 4, "cpu_core/slots/", 4);
	on_kind(&s[5], 4, "cpu_core/mem-loads/", 4);
	on_kind(&s[6], 4, "cpu_core/r1/", 4);
	end();
}

/* One member that names its PMU says where all of them are. */
static void hybrid_groups_of_a_pmu(void **state)
{
	struct perf_spec s[8];
	struct err err;
	size_t n;

	begin(hybrid, ARRAY_SIZE(hybrid));
	assert_int_equal(resolve("{cpu_core/slots/,r1c4,mem-loads},{r1,cpu_atom/event=1/}", s, 8,
				 &n, &err),
			 0);
	assert_int_equal(n, 5);
	on_kind(&s[0], 4, "cpu_core/slots/", 0);
	on_kind(&s[1], 4, "cpu_core/r1c4/", 0);
	on_kind(&s[2], 4, "cpu_core/mem-loads/", 0);
	on_kind(&s[3], 10, "cpu_atom/r1/", 3);
	on_kind(&s[4], 10, "cpu_atom/event=1/", 3);
	assert_int_equal(resolve("{cpu_core/slots/,faults}", s, 8, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_true(s[1].some_cpus && s[1].type == PERF_TYPE_SOFTWARE);
	assert_memory_equal(&s[0].cpus, &s[1].cpus, sizeof(s[0].cpus));
	assert_int_equal(resolve("{cpu_atom/event=1/,slots}", s, 8, &n, &err), -ENOENT);
	assert_non_null(strstr(err.text, "no kind of core has all"));
	end();
}

/* libpfm4's names: a PMU's event has the default rate, however many colons its name has; of a
 * tracepoint each one is a sample. */
static void names_of_pfm(void **state)
{
	struct perf_spec s[8];
	struct err err;
	size_t n;

	begin(plain, ARRAY_SIZE(plain));
	assert_int_equal(resolve("L1D:READ,RETIRED:ANY,made::RETIRED:ANY,made::RETIRED:ANY:u=1,"
				 "RETIRED,atom::RETIRED:ANY,made:a_tracepoint,"
				 "perf::made:a_tracepoint",
				 s, 8, &n, &err),
			 0);
	assert_int_equal(n, ARRAY_SIZE(of_pfm));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(s[i].kind, PERF_KIND_READY);
		assert_int_equal(s[i].type, of_pfm[i].type);
		assert_int_equal(s[i].config, of_pfm[i].config);
		assert_string_equal(s[i].name, of_pfm[i].name);
		assert_int_equal(s[i].each, s[i].type == PERF_TYPE_TRACEPOINT);
		assert_true(s[i].user == of_pfm[i].exclude_kernel && !s[i].kernel);
	}
	end();
}

/* On a hybrid machine the type says of which kind of core they are: there alone they count. */
static void names_of_pfm_hybrid(void **state)
{
	struct perf_spec s[8];
	struct err err;
	size_t n;

	begin(hybrid, ARRAY_SIZE(hybrid));
	assert_int_equal(resolve("made::RETIRED:ANY,RETIRED,atom::RETIRED:ANY,L1D:READ", s, 8, &n,
				 &err),
			 0);
	assert_int_equal(n, 5);
	on_kind(&s[0], 4, "made::RETIRED:ANY", (size_t)-1);
	on_kind(&s[1], 4, "RETIRED", (size_t)-1);
	on_kind(&s[2], 10, "atom::RETIRED:ANY", (size_t)-1);
	assert_true(s[0].config == 0x1c0 && s[2].config == 0x2c0);
	/* Generic events are had by each. */
	assert_true(s[3].type == PERF_TYPE_HW_CACHE && s[3].config == 10ull << 32);
	assert_true(s[4].type == PERF_TYPE_HW_CACHE && s[4].config == 4ull << 32);
	end();
}

/* Modifiers behind them, and those of a group, hold. */
static void modifiers_of_pfm(void **state)
{
	static const struct {
		const char *name;
		bool user, kernel;
		uint8_t precise;
	} rows[] = {
		{ "RETIRED:u", true, false, 0 },
		{ "RETIRED:k", false, true, 0 },
		{ "RETIRED:pp", false, false, 2 },
		{ "RETIRED:ANY:u", true, false, 0 },
		{ "RETIRED:ANY:kppp", false, true, 3 },
		{ "made::RETIRED:ANY:upp", true, false, 2 },
		{ "{made::RETIRED:ANY}:k", false, true, 0 },
		{ "{made::RETIRED:ANY:u=1}:k", true, true, 0 },
	};

	begin(plain, ARRAY_SIZE(plain));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct perf_spec s[1];
		struct err err;
		size_t n;

		if (resolve(rows[i].name, s, 1, &n, &err) < 0)
			fail_msg("%s: %s", rows[i].name, err.text);
		if (s->type != PERF_TYPE_RAW || s->user != rows[i].user ||
		    s->kernel != rows[i].kernel || s->precise != rows[i].precise)
			fail_msg("%s: type %u, %d %d %d", rows[i].name, s->type, s->user, s->kernel,
				 s->precise);
	}
	end();
}

static void nearest_names(void **state)
{
	static const char *const names[] = { "sched_wakeup", "sched_switch", "sched_stat_wait",
					     "sched_waking", "sched_switch", "page_fault" };
	struct nearest n = { .want = "sched_swich" };
	char text[200];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		nearest_offer(&n, names[i]);
	assert_string_equal(nearest_text(&n, text, sizeof(text)),
			    "; nearest: sched_switch, sched_waking");
	assert_int_equal(strlen(nearest_text(&n, text, 20)), 19);
	n = (struct nearest){ .want = "x" };
	nearest_offer(&n, "sched_switch");
	assert_string_equal(nearest_text(&n, text, sizeof(text)), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(terms),	 cmocka_unit_test(refusals),
		cmocka_unit_test(hybrid_events), cmocka_unit_test(hybrid_groups),
		cmocka_unit_test(nearest_names), cmocka_unit_test(own_terms),
		cmocka_unit_test(hybrid_groups_of_words),
		cmocka_unit_test(hybrid_groups_of_a_pmu),
		cmocka_unit_test(names_of_pfm),
		cmocka_unit_test(names_of_pfm_hybrid),
		cmocka_unit_test(modifiers_of_pfm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
