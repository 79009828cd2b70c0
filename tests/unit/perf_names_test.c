/* SPDX-License-Identifier: MIT
 *
 * perf_names: every kind of name, its modifiers, lists, and what is refused how.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "unit.h"
#include "base/base.h"
#include "events/perf_names.h"

enum {
	HW = PERF_TYPE_HARDWARE,
	SW = PERF_TYPE_SOFTWARE,
	CACHE = PERF_TYPE_HW_CACHE,
	RAW = PERF_TYPE_RAW
};

static int parse(const char *list, struct perf_spec *spec, size_t cap, size_t *n,
		 struct err *err)
{
	*n = 0;
	err->text[0] = '\0';
	return perf_names_parse(list, spec, cap, n, err);
}

struct good_row {
	const char *name;
	uint32_t type;
	uint64_t config;
	const char *modifiers; /* as they are understood */
};

static const struct good_row good_rows[] = {
	{ "cycles", HW, PERF_COUNT_HW_CPU_CYCLES, "" },
	{ "CYCLES", HW, PERF_COUNT_HW_CPU_CYCLES, "" },
	{ "cpu-cycles", HW, PERF_COUNT_HW_CPU_CYCLES, "" },
	{ "branches", HW, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "" },
	{ "branch-misses", HW, PERF_COUNT_HW_BRANCH_MISSES, "" },
	{ "cycles:u", HW, PERF_COUNT_HW_CPU_CYCLES, "u" },
	{ "cycles:k", HW, PERF_COUNT_HW_CPU_CYCLES, "k" },
	{ "cycles:kuh", HW, PERF_COUNT_HW_CPU_CYCLES, "ukh" },
	{ "cycles:upp", HW, PERF_COUNT_HW_CPU_CYCLES, "u2" },
	{ "cycles:uP", HW, PERF_COUNT_HW_CPU_CYCLES, "u3" },
	{ "instructions:ppp", HW, PERF_COUNT_HW_INSTRUCTIONS, "3" },
	{ "cpu-clock", SW, PERF_COUNT_SW_CPU_CLOCK, "" },
	{ "faults", SW, PERF_COUNT_SW_PAGE_FAULTS, "" },
	{ "major-faults:u", SW, PERF_COUNT_SW_PAGE_FAULTS_MAJ, "u" },
	{ "cs", SW, PERF_COUNT_SW_CONTEXT_SWITCHES, "" },
	{ "L1-dcache-loads", CACHE, 0x00000, "" },
	{ "L1-dcache-load-misses", CACHE, 0x10000, "" },
	{ "l1d-read", CACHE, 0x00000, "" },
	{ "L1-icache-prefetches", CACHE, 0x00201, "" },
	{ "LLC-store-misses:u", CACHE, 0x10102, "u" },
	{ "dTLB-loads", CACHE, 0x00003, "" },
	{ "iTLB-load-misses", CACHE, 0x10004, "" },
	{ "branch-loads", CACHE, 0x00005, "" },
	{ "node-store", CACHE, 0x00106, "" },
	{ "r1", RAW, 1, "" },
	{ "r01c4:p", RAW, 0x1c4, "1" },
	{ "rffffffffffffffff", RAW, UINT64_MAX, "" },
};

static void modifiers_of(const struct perf_spec *s, char ret[8])
{
	if (s->user)
		*ret++ = 'u';
	if (s->kernel)
		*ret++ = 'k';
	if (s->hv)
		*ret++ = 'h';
	if (s->precise)
		*ret++ = (char)('0' + s->precise);
	*ret = '\0';
}

static void good_names(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(good_rows); i++) {
		const struct good_row *row = &good_rows[i];
		struct perf_spec s;
		struct err err;
		char m[8];
		size_t n;

		if (parse(row->name, &s, 1, &n, &err) < 0)
			fail_msg("%s: %s", row->name, err.text);
		modifiers_of(&s, m);
		assert_int_equal(n, 1);
		assert_string_equal(s.name, row->name);
		if (s.type != row->type || s.config != row->config ||
		    strcmp(m, row->modifiers))
			fail_msg("%s is %u 0x%llx %s", row->name, s.type,
				 (unsigned long long)s.config, m);
	}
}

struct bad_row {
	const char *list;
	int ret;
	const char *says;
	size_t good; /* items before it */
};

#define LONG_NAME                                                            \
	"cyclescyclescyclescyclescyclescyclescyclescyclescyclescyclescycles" \
	"cyclescyclescyclescyclescyclescyclescyclescyclescyclescyclescycles"

static const struct bad_row bad_rows[] = {
	{ "", -EINVAL, "empty", 0 },
	{ "cycles,", -EINVAL, "empty", 1 },
	{ ",cycles", -EINVAL, "empty", 0 },
	{ LONG_NAME LONG_NAME, -EINVAL, "too long", 0 },
	{ "cycles:", -EINVAL, "modifiers", 0 },
	{ "cycles:x", -EINVAL, "modifiers", 0 },
	{ "cycles:pppp", -EINVAL, "modifiers", 0 },
	{ "cycles:u:k", -EINVAL, "modifiers", 0 },
	{ "cycles:S", -EINVAL, "modifiers", 0 },
	{ "faults,cs:x,cs", -EINVAL, "'cs:x'", 1 },
	{ "cpu/event=1", -EINVAL, "PMU/TERM", 0 },
	{ "/event=1/", -EINVAL, "PMU/TERM", 0 },
	{ "cpu/event=1/x", -EINVAL, "modifiers", 0 },
	{ "sched:sched_switch:x", -EINVAL, "modifiers", 0 },
	{ "skl::INST_RETIRED:", -EINVAL, "modifiers", 0 },
	{ "skl::INST_RETIRED:uPp", -EINVAL, "modifiers", 0 },
	{ "mem:", -EINVAL, "mem:ADDR", 0 },
	{ "mem:main", -EINVAL, "mem:ADDR", 0 },
	{ "mem:0x10:q", -EINVAL, "modifiers", 0 },
	{ "mem:0x10/16", -EINVAL, "mem:ADDR", 0 },
	{ "mem:0x10/0", -EINVAL, "mem:ADDR", 0 },
	{ "mem:0x10/x", -EINVAL, "mem:ADDR", 0 },
	{ "cycles:pP", -EINVAL, "modifiers", 0 },
	{ "uprobe:/bin/x", -EINVAL, "uprobe:FILE:SYMBOL", 0 },
	{ "uprobe:/bin/x:", -EINVAL, "uprobe:FILE:SYMBOL", 0 },
	{ "uprobe::f", -EINVAL, "uprobe:FILE:SYMBOL", 0 },
	{ "usdt:python", -EINVAL, "usdt:[FILE:]PROVIDER:NAME", 0 },
	{ "{", -EINVAL, "{A,B,...}", 0 },
	{ "{cs", -EINVAL, "{A,B,...}", 0 },
	{ "{}", -EINVAL, "empty", 0 },
	{ "{cs}S", -EINVAL, "{A,B,...}", 0 },
	{ "{cs,{cs}}", -EINVAL, "{A,B,...}", 0 },
	{ "{cs,faults}:Sx", -EINVAL, "modifiers", 2 },
	{ "faults,{cs,cs,cs,cs}", -EINVAL, "4 events", 4 },
	{ "cs,faults,cs:u,cs:k,r1", -EINVAL, "4 events", 4 },
};

static void bad_names(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_rows); i++) {
		const struct bad_row *row = &bad_rows[i];
		struct perf_spec s[4];
		struct err err;
		size_t n;
		int r = parse(row->list, s, ARRAY_SIZE(s), &n, &err);

		if (r != row->ret || n != row->good || !strstr(err.text, row->says))
			fail_msg("\"%s\": %d, %zu good, \"%s\"", row->list, r, n, err.text);
		assert_int_equal(err.code, r);
	}
}

struct kind_row {
	const char *name;
	enum perf_kind kind;
	size_t n_base;
	const char *modifiers;
	bool each;
};

static const struct kind_row kind_rows[] = {
	{ "cycle", PERF_KIND_WORD, 5, "", false },
	{ "cycle:up", PERF_KIND_WORD, 5, "u1", false },
	{ "LLC", PERF_KIND_WORD, 3, "", false },
	{ "LLC-loads-missesx", PERF_KIND_WORD, 17, "", false },
	{ "r12g", PERF_KIND_WORD, 4, "", false },
	{ "r11112222333344445", PERF_KIND_WORD, 18, "", false },
	{ "skl::INST_RETIRED:ANY", PERF_KIND_WORD, 21, "", false },
	{ "skl::INST_RETIRED:ANY:upp", PERF_KIND_WORD, 21, "u2", false },
	{ "skl::INST_RETIRED:k", PERF_KIND_WORD, 17, "k", false },
	{ "skl::INST_RETIRED:ANY:c=1", PERF_KIND_WORD, 25, "", false },
	{ "skl::u", PERF_KIND_WORD, 6, "", false },
	{ "cpu/event=0x3c,umask=1/", PERF_KIND_PMU, 23, "", false },
	{ "cpu/cycles/ukpp", PERF_KIND_PMU, 11, "uk2", false },
	{ "cpu/cycles/:u", PERF_KIND_PMU, 11, "u", false },
	{ "sched:sched_switch", PERF_KIND_TRACEPOINT, 18, "", true },
	{ "sched:sched_switch:k", PERF_KIND_TRACEPOINT, 18, "k", true },
	{ "uprobe:/bin/x:f+0x10", PERF_KIND_UPROBE, 20, "", true },
	{ "uretprobe:/a:b/x:f", PERF_KIND_URETPROBE, 18, "", true },
	{ "usdt:python:gc__start", PERF_KIND_USDT, 21, "", true },
	{ "usdt:/bin/x:python:line", PERF_KIND_USDT, 23, "", true },
};

/* What is found out later is told apart. */
static void kinds(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kind_rows); i++) {
		const struct kind_row *row = &kind_rows[i];
		struct perf_spec s;
		struct err err;
		char m[8];
		size_t n;

		if (parse(row->name, &s, 1, &n, &err) < 0)
			fail_msg("%s: %s", row->name, err.text);
		modifiers_of(&s, m);
		if (s.kind != row->kind || s.n_base != row->n_base || s.each != row->each ||
		    strcmp(m, row->modifiers))
			fail_msg("%s: kind %d, base %zu, %s", row->name, s.kind, s.n_base, m);
	}
}

struct mem_row {
	const char *name;
	uint64_t addr, len;
	uint32_t access;
	const char *modifiers;
};

static const struct mem_row mem_rows[] = {
	{ "mem:0x1000", 0x1000, 4, HW_BREAKPOINT_RW, "" },
	{ "mem:4096/1:w", 4096, 1, HW_BREAKPOINT_W, "" },
	{ "mem:0x7fffffff0000/8:rw:u", 0x7fffffff0000, 8, HW_BREAKPOINT_RW, "u" },
	{ "mem:0x1000:x", 0x1000, sizeof(long), HW_BREAKPOINT_X, "" },
	{ "mem:0x1000:k", 0x1000, 4, HW_BREAKPOINT_RW, "k" },
};

static void breakpoints(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(mem_rows); i++) {
		const struct mem_row *row = &mem_rows[i];
		struct perf_spec s;
		struct err err;
		char m[8];
		size_t n;

		if (parse(row->name, &s, 1, &n, &err) < 0)
			fail_msg("%s: %s", row->name, err.text);
		modifiers_of(&s, m);
		assert_int_equal(s.kind, PERF_KIND_READY);
		assert_int_equal(s.type, PERF_TYPE_BREAKPOINT);
		if (s.config1 != row->addr || s.config2 != row->len ||
		    s.bp_type != row->access || strcmp(m, row->modifiers) || !s.each)
			fail_msg("%s: 0x%llx %llu %u %s", row->name,
				 (unsigned long long)s.config1, (unsigned long long)s.config2,
				 s.bp_type, m);
	}
}

static void groups(void **state)
{
	struct perf_spec s[6];
	struct err err;
	size_t n;

	assert_int_equal(parse("cs,{cycles,cpu/a=1,b=2/,faults:u}:Sk,{r1,r2}", s, 6, &n, &err),
			 0);
	assert_int_equal(n, 6);
	assert_false(s[0].leader || s[0].read || s[0].led);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(s[i].leader, 2);
		assert_int_equal(s[i].read, i == 1);
		assert_int_equal(s[i].led, i > 1);
		assert_true(s[i].kernel);
	}
	assert_true(s[3].user && !s[2].user);
	assert_string_equal(s[2].name, "cpu/a=1,b=2/");
	assert_true(s[4].leader == 5 && s[5].leader == 5 && !s[4].read && !s[5].led);
	assert_int_equal(parse("{r1,r2}:uS,{r3}:S", s, 6, &n, &err), 0);
	assert_true(n == 3 && s[0].user && s[0].read && s[1].user && s[1].led && s[2].read);
	/* Slashes of a file or a length don't keep a list together. */
	assert_int_equal(parse("uprobe:/x:f,mem:0x10/8:w,cs", s, 6, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_string_equal(s[2].name, "cs");
	/* Nor do an odd number of them in a group. */
	assert_int_equal(parse("{uprobe:/a/b/c:f,cs},faults", s, 6, &n, &err), 0);
	assert_true(n == 3 && s[1].leader == 1 && !s[2].leader);
	assert_string_equal(s[0].name, "uprobe:/a/b/c:f");
	assert_string_equal(s[2].name, "faults");
	assert_int_equal(parse("{mem:0x1000/4:w,cs}:S,cpu/a=1,b=2/,faults", s, 6, &n, &err), 0);
	assert_true(n == 4 && s[1].led && !s[2].leader);
	assert_string_equal(s[2].name, "cpu/a=1,b=2/");
}

/* Several -e add up; a list is as long as it may be. */
static void lists(void **state)
{
	struct perf_spec s[4];
	struct err err;
	size_t n = 0;

	assert_int_equal(perf_names_parse("cs,r1,LLC-loads:u", s, 4, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_string_equal(s[2].name, "LLC-loads:u");
	assert_int_equal(perf_names_parse("faults", s, 4, &n, &err), 0);
	assert_int_equal(n, 4);
	assert_string_equal(s[0].name, "cs");
	assert_string_equal(s[3].name, "faults");
	assert_int_equal(perf_names_parse("faults", s, 4, &n, &err), -EINVAL);
	assert_int_equal(n, 4);
	/* Named again outside of groups it is one. */
	n = 0;
	assert_int_equal(perf_names_parse("cs,faults,cs,cs:u", s, 4, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_string_equal(s[2].name, "cs:u");
	n = 0;
	assert_int_equal(perf_names_parse("cs,{cs,faults}", s, 4, &n, &err), 0);
	assert_int_equal(n, 3);
}

/* What "pysampled events" lists can be asked for. */
static void listed_names_parse(void **state)
{
	uint32_t type;
	uint64_t config;
	const char *name;
	size_t i;

	for (i = 0; (name = perf_names_at(i, &type, &config)); i++) {
		struct perf_spec s;
		struct err err;
		size_t n;

		assert_int_equal(parse(name, &s, 1, &n, &err), 0);
		assert_int_equal(s.type, type);
		assert_int_equal(s.config, config);
	}
	assert_true(i >= 20);
	assert_null(perf_names_at(SIZE_MAX, &type, &config));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_names),
		cmocka_unit_test(bad_names),
		cmocka_unit_test(kinds),
		cmocka_unit_test(breakpoints),
		cmocka_unit_test(groups),
		cmocka_unit_test(lists),
		cmocka_unit_test(listed_names_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
