/* SPDX-License-Identifier: MIT */
#include "events/perf_names.h"

#include <ctype.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

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

bool perf_names_find(const char *s, size_t n, struct perf_spec *ret)
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

/* Where @s (to @end) goes on if it starts with one of @names and then ends or goes on with '-'.
 * NULL: it does not. */
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
		else if (s[i] == 'P' && !ret->precise)
			ret->precise = 3; /* as much as there is */
		else
			return -EINVAL;
	}
	return n ? 0 : -EINVAL;
}

/* ADDR[/LEN][:rwx] after "mem:"; the defaults are perf's. Where it ends, NULL: malformed. */
static const char *parse_mem(const char *s, struct perf_spec *ret)
{
	char *end;
	size_t access;

	if (!isdigit((unsigned char)*s))
		return NULL;
	ret->config1 = strtoull(s, &end, 0);
	if (*end == '/' && (end[1] < '1' || end[1] > '8' || isdigit((unsigned char)end[2])))
		return NULL;
	if (*end == '/')
		ret->config2 = strtoull(end + 1, &end, 10);
	access = *end == ':' ? strspn(end + 1, "rwx") : 0;
	for (size_t i = 1; i <= access; i++)
		ret->bp_type |= end[i] == 'r' ? HW_BREAKPOINT_R :
				end[i] == 'w' ? HW_BREAKPOINT_W :
						HW_BREAKPOINT_X;
	if (!ret->bp_type)
		ret->bp_type = HW_BREAKPOINT_RW;
	if (!ret->config2)
		ret->config2 = ret->bp_type == HW_BREAKPOINT_X ? sizeof(long) : 4;
	ret->type = PERF_TYPE_BREAKPOINT;
	ret->each = true;
	return access ? end + 1 + access : end;
}

/* After the base name: nothing, or a colon and modifiers; behind a slash the colon may be
 * left out. */
static int parse_rest(const char *s, struct perf_spec *ret, struct err *err)
{
	const char *mods = *s == ':' ? s + 1 : s;

	ret->n_base = (size_t)(s - ret->name);
	if (!*s)
		return 0;
	if ((mods == s && s[-1] != '/') || parse_modifiers(mods, strlen(mods), ret) < 0)
		return err_set(err, -EINVAL,
			       "event '%s': modifiers are u, k, h, P and up to three p",
			       ret->name);
	return 0;
}

static int malformed(const struct perf_spec *s, const char *form, struct err *err)
{
	return err_set(err, -EINVAL, "event '%s' is not of the form %s", s->name, form);
}

/* FILE:SYMBOL[+OFFSET] and [FILE:]PROVIDER:NAME; files may contain colons. */
static int parse_probe(struct perf_spec *ret, const char *form, struct err *err)
{
	const char *at = strchr(ret->name, ':') + 1, *last = strrchr(at, ':');

	ret->each = true;
	ret->n_base = strlen(ret->name);
	if (!last || last == at || !last[1])
		return malformed(ret, form, err);
	return 0;
}

static const struct {
	const char *begins;
	enum perf_kind kind;
	const char *form;
} probes[] = {
	{ "uprobe:", PERF_KIND_UPROBE, "uprobe:FILE:SYMBOL[+OFFSET]" },
	{ "uretprobe:", PERF_KIND_URETPROBE, "uretprobe:FILE:SYMBOL" },
	{ "usdt:", PERF_KIND_USDT, "usdt:[FILE:]PROVIDER:NAME" },
};

static bool are_modifiers(const char *s)
{
	return s[strspn(s, "ukhpP")] == '\0';
}

/* libpfm4's PMU::EVENT[:UNIT...], the first colon at @colon. */
static int parse_of_pfm(const char *colon, struct perf_spec *ret, struct err *err)
{
	const char *last = strrchr(colon + 2, ':');

	ret->kind = PERF_KIND_WORD;
	return parse_rest(last && are_modifiers(last + 1) ? last : strchr(colon, '\0'), ret, err);
}

/* PMU/TERMS/ or, with what looks like modifiers behind the colon, a word; else
 * SYSTEM:NAME. */
static int parse_unresolved(struct perf_spec *ret, struct err *err)
{
	const char *slash = strchr(ret->name, '/'), *colon = strchr(ret->name, ':');
	size_t n = strlen(ret->name);

	if (slash) {
		slash = strchr(slash + 1, '/');
		if (!slash || *ret->name == '/')
			return malformed(ret, "PMU/TERM,.../", err);
		ret->kind = PERF_KIND_PMU;
		return parse_rest(slash + 1, ret, err);
	}
	if (colon && colon[1] == ':')
		return parse_of_pfm(colon, ret, err);
	if (!colon || are_modifiers(colon + 1)) {
		ret->kind = PERF_KIND_WORD;
		return parse_rest(colon ? colon : ret->name + n, ret, err);
	}
	colon = strchr(colon + 1, ':');
	ret->kind = PERF_KIND_TRACEPOINT;
	ret->each = true;
	return parse_rest(colon ? colon : ret->name + n, ret, err);
}

static int parse_name(struct perf_spec *ret, struct err *err)
{
	size_t base = strcspn(ret->name, ":");
	const char *end = ret->name + base;

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strncmp(ret->name, probes[i].begins, strlen(probes[i].begins))) {
			ret->kind = probes[i].kind;
			return parse_probe(ret, probes[i].form, err);
		}
	if (!strncmp(ret->name, "mem:", 4))
		end = parse_mem(ret->name + 4, ret);
	else if (!perf_names_find(ret->name, base, ret) && !find_cache(ret->name, base, ret) &&
		 !find_raw(ret->name, base, ret))
		return parse_unresolved(ret, err);
	return end ? parse_rest(end, ret, err) : malformed(ret, "mem:ADDR[/LEN][:rwx]", err);
}

static int parse_one(const char *s, size_t n, struct perf_spec *ret, struct err *err)
{
	*ret = (struct perf_spec){ 0 };
	if (n == 0 || n >= sizeof(ret->name))
		return err_set(err, -EINVAL, "an event name is empty or too long");
	memcpy(ret->name, s, n);
	return parse_name(ret, err);
}

bool perf_names_in_kernel(const struct perf_spec *s)
{
	return s->type == PERF_TYPE_TRACEPOINT ||
	       (s->type == PERF_TYPE_SOFTWARE &&
		(s->config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
		 s->config == PERF_COUNT_SW_CPU_MIGRATIONS ||
		 s->config == PERF_COUNT_SW_CGROUP_SWITCHES));
}

/* True: the slashes in it are those of a file, or before a length. */
static bool has_own_slashes(const char *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strncmp(s, probes[i].begins, strlen(probes[i].begins)))
			return true;
	return !strncmp(s, "mem:", 4);
}

/* Length of the item at @s: to the next comma outside braces and slashes. Slashes within braces
 * do not count, for some are those of files. */
static size_t item_length(const char *s, const char *end)
{
	bool slash = false, plain = has_own_slashes(s);
	int depth = 0;
	size_t i;

	for (i = 0; s + i < end; i++) {
		if (s[i] == '/' && !plain && depth <= 0)
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

static int parse_list(const char *s, const char *end, struct perf_spec *ret, size_t cap,
		      size_t *n, struct err *err);

/* {A,B,...}[:MODIFIERS], which are each member's; S among them: sampled by the leader. */
static int parse_group(const char *s, size_t len, struct perf_spec *ret, size_t cap, size_t *n,
		       struct err *err)
{
	const char *close = memrchr(s, '}', len), *mods = close + 1, *end = s + len;
	size_t first = *n;
	bool read = false;
	int r;

	if (!close || memchr(s + 1, '{', len - 1) || (mods < end && *mods++ != ':'))
		return err_set(err, -EINVAL,
			       "event group '%.*s' is not of the form {A,B,...}[:S]", (int)len,
			       s);
	r = parse_list(s + 1, close, ret, cap, n, err);
	if (mods < end && (*mods == 'S' || end[-1] == 'S')) {
		read = true;
		if (*mods == 'S')
			mods++;
		else
			end--;
	}
	for (size_t i = first; r == 0 && i < *n; i++) {
		ret[i].leader = (uint8_t)(first + 1);
		ret[i].led = read && i > first;
		ret[i].read = read && i == first;
		if (mods < end && parse_modifiers(mods, (size_t)(end - mods), &ret[i]) < 0)
			r = err_set(err, -EINVAL,
				    "event group '%.*s': modifiers are S, u, k, h and up to "
				    "three p",
				    (int)len, s);
	}
	return r;
}

/* True: @ret[@n] names an event that stands before it, outside of groups. */
static bool is_repeated(const struct perf_spec *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!ret[i].leader && !strcmp(ret[i].name, ret[n].name))
			return true;
	return false;
}

static int parse_list(const char *s, const char *end, struct perf_spec *ret, size_t cap,
		      size_t *n, struct err *err)
{
	bool in_group = *end == '}';

	for (;;) {
		size_t len = item_length(s, end);
		int r;

		if (*n == cap)
			return err_set(err, -EINVAL, "at most %zu events at once", cap);
		if (*s == '{' && len)
			r = parse_group(s, len, ret, cap, n, err);
		else
			r = parse_one(s, len, &ret[*n], err);
		if (r < 0)
			return r;
		*n += *s != '{' && (in_group || !is_repeated(ret, *n));
		if (s + len == end)
			return 0;
		s += len + 1;
	}
}

int perf_names_parse(const char *list, struct perf_spec *ret, size_t cap, size_t *n,
		     struct err *err)
{
	return parse_list(list, list + strlen(list), ret, cap, n, err);
}
