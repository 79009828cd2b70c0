/* SPDX-License-Identifier: MIT */
#include "perf_names.h"

#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

#define HW(n, c)                                         \
	{                                                \
		n, PERF_TYPE_HARDWARE, PERF_COUNT_HW_##c \
	}
#define SW(n, c)                                         \
	{                                                \
		n, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##c \
	}

static const struct {
	const char *name;
	uint32_t type;
	uint64_t config;
} generic[] = {
	HW("cycles", CPU_CYCLES),
	HW("cpu-cycles", CPU_CYCLES),
	HW("instructions", INSTRUCTIONS),
	HW("cache-references", CACHE_REFERENCES),
	HW("cache-misses", CACHE_MISSES),
	HW("branches", BRANCH_INSTRUCTIONS),
	HW("branch-instructions", BRANCH_INSTRUCTIONS),
	HW("branch-misses", BRANCH_MISSES),
	HW("bus-cycles", BUS_CYCLES),
	HW("stalled-cycles-frontend", STALLED_CYCLES_FRONTEND),
	HW("idle-cycles-frontend", STALLED_CYCLES_FRONTEND),
	HW("stalled-cycles-backend", STALLED_CYCLES_BACKEND),
	HW("idle-cycles-backend", STALLED_CYCLES_BACKEND),
	HW("ref-cycles", REF_CPU_CYCLES),
	SW("cpu-clock", CPU_CLOCK),
	SW("task-clock", TASK_CLOCK),
	SW("page-faults", PAGE_FAULTS),
	SW("faults", PAGE_FAULTS),
	SW("minor-faults", PAGE_FAULTS_MIN),
	SW("major-faults", PAGE_FAULTS_MAJ),
	SW("context-switches", CONTEXT_SWITCHES),
	SW("cs", CONTEXT_SWITCHES),
	SW("cpu-migrations", CPU_MIGRATIONS),
	SW("migrations", CPU_MIGRATIONS),
	SW("alignment-faults", ALIGNMENT_FAULTS),
	SW("emulation-faults", EMULATION_FAULTS),
};

const char *perf_names_at(size_t i, uint32_t *type, uint64_t *config)
{
	if (i >= ARRAY_SIZE(generic))
		return NULL;
	*type = generic[i].type;
	*config = generic[i].config;
	return generic[i].name;
}

static bool find_generic(const char *s, size_t n, struct perf_spec *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(generic); i++) {
		if (strlen(generic[i].name) != n || strncasecmp(generic[i].name, s, n))
			continue;
		ret->type = generic[i].type;
		ret->config = generic[i].config;
		return true;
	}
	return false;
}

/* perf_event_open(2): cache id | op << 8 | result << 16. */
static const char *const cache_ids[][4] = {
	{ "L1-dcache", "L1-d", "l1d" },
	{ "L1-icache", "L1-i", "l1i" },
	{ "LLC", "L2" },
	{ "dTLB", "d-tlb", "Data-TLB" },
	{ "iTLB", "i-tlb" },
	{ "branch", "bpu", "bpc" },
	{ "node" },
};
static const char *const cache_ops[][3] = {
	{ "load", "loads", "read" },
	{ "store", "stores", "write" },
	{ "prefetch", "prefetches" },
};

/* Does @s (to @end) start with one of @names and then end or go on with '-'? */
static const char *skip_one(const char *s, const char *end, const char *const *names,
			    size_t n_names)
{
	for (size_t i = 0; i < n_names && names[i]; i++) {
		size_t n = strlen(names[i]);

		if ((size_t)(end - s) >= n && !strncasecmp(s, names[i], n) &&
		    (s + n == end || s[n] == '-'))
			return s + n;
	}
	return NULL;
}

static bool find_cache(const char *s, size_t n, struct perf_spec *ret)
{
	const char *end = s + n, *p = NULL, *q;
	uint64_t id, op, result = PERF_COUNT_HW_CACHE_RESULT_ACCESS;

	for (id = 0; id < ARRAY_SIZE(cache_ids) && !p; id++)
		p = skip_one(s, end, cache_ids[id], 4);
	if (!p || p == end)
		return false;
	for (op = 0, q = NULL; op < ARRAY_SIZE(cache_ops) && !q; op++)
		q = skip_one(p + 1, end, cache_ops[op], 3);
	if (!q)
		return false;
	if (q != end) {
		if (end - q != 7 || strncmp(q, "-misses", 7))
			return false;
		result = PERF_COUNT_HW_CACHE_RESULT_MISS;
	}
	ret->type = PERF_TYPE_HW_CACHE;
	ret->config = (id - 1) | (op - 1) << 8 | result << 16;
	return true;
}

/* rNNNN: a raw event in hexadecimal. */
static bool find_raw(const char *s, size_t n, struct perf_spec *ret)
{
	char *end;

	if (n < 2 || n > 17 || s[0] != 'r' || !isxdigit((unsigned char)s[1]))
		return false;
	ret->type = PERF_TYPE_RAW;
	ret->config = strtoull(s + 1, &end, 16);
	return end == s + n;
}

static int parse_modifiers(const char *s, size_t n, struct perf_spec *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] == 'u')
			ret->user = true;
		else if (s[i] == 'k')
			ret->kernel = true;
		else if (s[i] == 'h')
			ret->hv = true;
		else if (s[i] == 'p' && ret->precise < 3)
			ret->precise++;
		else
			return -EINVAL;
	}
	return n ? 0 : -EINVAL;
}

/* Kinds that have their place but are not built. */
static const char *unbuilt(const char *s, size_t n)
{
	if (s[0] == '{')
		return "event groups are";
	if (!strncmp(s, "uprobe:", 7) || !strncmp(s, "uretprobe:", 10))
		return "uprobes are";
	if (!strncmp(s, "mem:", 4))
		return "breakpoint events are";
	if (memchr(s, '/', n))
		return "PMU-qualified events are";
	if (memchr(s, ':', n))
		return "tracepoints are";
	return NULL;
}

static int parse_one(const char *s, size_t n, struct perf_spec *ret, struct err *err)
{
	const char *colon = memchr(s, ':', n);
	size_t base = colon ? (size_t)(colon - s) : n;
	const char *kind;

	*ret = (struct perf_spec){ 0 };
	if (n == 0 || n >= sizeof(ret->name))
		return err_set(err, -EINVAL, "an event name is empty or too long");
	memcpy(ret->name, s, n);
	if (find_generic(s, base, ret) || find_cache(s, base, ret) || find_raw(s, base, ret)) {
		if (colon && parse_modifiers(colon + 1, n - base - 1, ret) < 0)
			return err_set(err, -EINVAL,
				       "event '%s': modifiers are u, k, h and up to three p",
				       ret->name);
		return 0;
	}
	kind = unbuilt(s, n);
	if (kind)
		return err_set(err, -ENOTSUP, "event '%s': %s not built into this version",
			       ret->name, kind);
	return err_set(err, -ENOENT,
		       "there is no event '%s'; 'pysampled events' lists what there is",
		       ret->name);
}

/* Length of the item at @s: to the next comma outside braces and slashes. */
static size_t item_length(const char *s)
{
	bool slash = false;
	int depth = 0;
	size_t i;

	for (i = 0; s[i]; i++) {
		if (s[i] == '/')
			slash = !slash;
		else if (s[i] == '{')
			depth++;
		else if (s[i] == '}')
			depth--;
		else if (s[i] == ',' && !slash && depth <= 0)
			break;
	}
	return i;
}

int perf_names_parse(const char *list, struct perf_spec *ret, size_t cap, size_t *n,
		     struct err *err)
{
	for (;;) {
		size_t len = item_length(list);
		int r;

		if (*n == cap)
			return err_set(err, -EINVAL, "at most %zu events at once", cap);
		r = parse_one(list, len, &ret[*n], err);
		if (r < 0)
			return r;
		(*n)++;
		if (!list[len])
			return 0;
		list += len + 1;
	}
}
