/* SPDX-License-Identifier: MIT */
#include "events/event_resolve.h"

#include <errno.h>
#include <linux/perf_event.h>

#include "base/base.h"
#include "base/nearest.h"
#include "events/pfm.h"
#include "events/pmu.h"
#include "events/tracefs.h"
#include "events/uprobe.h"

struct work {
	const char *devices;
	struct pmu_core core[PMU_MAX_CORES];
	size_t n_cores; /* 0: not hybrid; see kinds_of_core() */
	bool counted;
	const struct event_help *help;
	struct perf_spec *out;
	size_t n, cap;
};

/* --- one name --- */

static void offer_pmu(void *near, const char *name)
{
	char word[NEAREST_NAME];
	const char *event = strchr(name, '/') + 1;

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(event, "/"), event);
	nearest_offer(near, word);
}

/* The name without the modifiers, which libpfm4 has other words for. */
static const char *base_of(const struct perf_spec *s, char ret[256])
{
	snprintf(ret, 256, "%.*s", (int)s->n_base, s->name);
	return ret;
}

/* Looked for when an event may depend on it: that takes a system call for each PMU. */
static size_t kinds_of_core(struct work *w)
{
	if (!w->counted)
		w->n_cores = pmu_cores(w->devices, w->core);
	w->counted = true;
	return w->n_cores;
}

/* The PMU of one kind of core counts on that one; others have its code for another event. */
static int resolve_pfm(struct work *w, const char *name, struct perf_spec *s)
{
	int r = pfm_resolve(name, s);

	for (size_t c = 0; r == 0 && c < kinds_of_core(w); c++)
		if (s->type == w->core[c].type) {
			s->some_cpus = true;
			s->cpus = w->core[c].cpus;
		}
	return r;
}

static int resolve_word(struct work *w, struct perf_spec *s, struct err *err)
{
	char word[256], text[500];
	struct nearest near = { .want = base_of(s, word) };
	const char *name;
	uint32_t type;
	uint64_t config;
	int r = pmu_resolve_word(w->devices, s, err);

	if (r != -ENOENT)
		return r;
	r = resolve_pfm(w, word, s);
	if (r == 0)
		return 0;
	for (size_t i = 0; (name = perf_names_at(i, &type, &config)); i++)
		nearest_offer(&near, name);
	pmu_each(w->devices, offer_pmu, &near);
	return err_set(err, -ENOENT,
		       "there is no event '%s'%s; 'pysampled events' lists what there is",
		       s->name, nearest_text(&near, text, sizeof(text)));
}

/* PMU/TERM,.../, which perf takes for generic events, too. */
static int resolve_terms(const struct work *w, struct perf_spec *s, struct err *err)
{
	int n = (int)strcspn(s->name, "/");

	if (!perf_names_find(s->name, (size_t)n, &(struct perf_spec){ 0 }))
		return pmu_resolve(w->devices, s, err);
	return err_set(err, -EINVAL,
		       "event '%s': '%.*s' takes no terms: a period is -c N, a frequency -F HZ, "
		       "and modifiers stand behind ':', as in %.*s:u",
		       s->name, n, s->name, n, s->name);
}

static int usdt_in_group(const struct perf_spec *s, struct err *err)
{
	return err_set(err, -EINVAL, "event '%s': a USDT probe can't be in a group", s->name);
}

static int resolve_one(struct work *w, struct perf_spec *s, struct err *err)
{
	const char *events;
	char base[256];
	size_t one;

	switch (s->kind) {
	case PERF_KIND_WORD:
		return resolve_word(w, s, err);
	case PERF_KIND_PMU:
		return resolve_terms(w, s, err);
	case PERF_KIND_TRACEPOINT:
		if (resolve_pfm(w, base_of(s, base), s) == 0) /* EVENT:UNIT */
			return 0;
		events = tracefs_events(err);
		return events ? tracefs_resolve(events, s, err) : err->code;
	case PERF_KIND_UPROBE:
	case PERF_KIND_URETPROBE:
		return uprobe_resolve(w->devices, w->help, s, s, 1, &one, err);
	case PERF_KIND_USDT: /* see add_usdt() */
		return s->leader ? usdt_in_group(s, err) : 0;
	default:
		return 0;
	}
}

static int check_mode(const struct perf_spec *s, struct err *err)
{
	if (s->user && !s->kernel && perf_names_in_kernel(s))
		return err_set(err, -EINVAL,
			       "event '%s' lies in the kernel, with :u none is ever counted",
			       s->name);
	return 0;
}

/* --- several events of one name --- */

static int add(struct work *w, const struct perf_spec *s, struct err *err)
{
	if (w->n == w->cap)
		return err_set(err, -EINVAL, "at most %zu events at once", w->cap);
	w->out[w->n++] = *s;
	return 0;
}

/* True: each kind of core counts it by itself. */
static bool is_cores(const struct perf_spec *s)
{
	return !s->some_cpus && (s->type == PERF_TYPE_HARDWARE ||
				 s->type == PERF_TYPE_HW_CACHE || s->type == PERF_TYPE_RAW);
}

/* PERF_PMU_TYPE_SHIFT of linux/perf_event.h (5.13) for generic events, the PMU's own number for
 * raw ones. */
static void count_on_core(struct perf_spec *s, const struct pmu_core *c)
{
	char name[sizeof(s->name)];
	int n = (int)s->n_base;

	if (s->type == PERF_TYPE_RAW)
		s->type = c->type;
	else
		s->config |= (uint64_t)c->type << 32;
	snprintf(name, sizeof(name), "%s/%.*s/%s", c->name, n, s->name,
		 s->name + n + (s->name[n] == ':'));
	memcpy(s->name, name, sizeof(name));
}

/* One of sysfs's words. False: the core has no such one. */
static bool find_on_core(const struct work *w, struct perf_spec *s, const struct pmu_core *c)
{
	const char *behind = s->name + s->n_base + (s->name[s->n_base] == ':');
	struct perf_spec one = *s;
	struct err missing;
	size_t n;

	snprintf(one.name, sizeof(one.name), "%s/%.*s/", c->name, (int)s->n_base, s->name);
	n = one.n_base = strlen(one.name);
	if (pmu_resolve(w->devices, &one, &missing) < 0)
		return false;
	snprintf(one.name + n, sizeof(one.name) - n, "%s", behind);
	*s = one;
	return true;
}

/* On one kind of core, whatever it is. False: it is an event of others. */
static bool put_on_core(const struct work *w, struct perf_spec *s, const struct pmu_core *c)
{
	if (s->kind == PERF_KIND_WORD)
		return find_on_core(w, s, c);
	if (s->some_cpus)
		return s->type == c->type;
	if (is_cores(s))
		count_on_core(s, c);
	s->some_cpus = true;
	s->cpus = c->cpus;
	return true;
}

/* Some kind of core has this word. */
static bool is_core_word(struct work *w, const struct perf_spec *s)
{
	for (size_t c = 0; s->kind == PERF_KIND_WORD && c < kinds_of_core(w); c++) {
		struct perf_spec one = *s;

		if (find_on_core(w, &one, &w->core[c]))
			return true;
	}
	return false;
}

/* @m events, which are one group if they are several. */
static int add_run(struct work *w, const struct perf_spec *s, size_t m, struct err *err)
{
	size_t first = w->n;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m; i++) {
		r = add(w, &s[i], err);
		if (r == 0)
			w->out[first + i].leader = s[i].leader ? (uint8_t)(first + 1) : 0;
	}
	return r;
}

/* Those events as this kind of core has them, if it has all. */
static int add_on_core(struct work *w, const struct perf_spec *s, size_t m,
		       const struct pmu_core *core, struct err *err)
{
	_cleanup_free_ struct perf_spec *there = calloc(m, sizeof(*there));

	if (!there)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(there, s, m * sizeof(*there));
	for (size_t i = 0; i < m; i++)
		if (!put_on_core(w, &there[i], core))
			return 0;
	return add_run(w, there, m, err);
}

/* Once, or on each kind of core. */
static int add_resolved(struct work *w, const struct perf_spec *s, size_t m, struct err *err)
{
	size_t first = w->n;
	bool cores = false;
	int r = 0;

	for (size_t i = 0; i < m; i++)
		cores |= s[i].kind == PERF_KIND_WORD || is_cores(&s[i]) ||
			 (s[i].some_cpus && m > 1);
	if (!cores || !kinds_of_core(w))
		return add_run(w, s, m, err);
	for (size_t c = 0; r == 0 && c < w->n_cores; c++)
		r = add_on_core(w, s, m, &w->core[c], err);
	if (r == 0 && w->n == first)
		return err_set(err, -ENOENT,
			       "the group of '%s' can't be counted together: no kind of core "
			       "has all of its events; name fewer, or without {}",
			       s->name);
	return r;
}

static int add_usdt(struct work *w, const struct perf_spec *s, struct err *err)
{
	size_t n = 0;
	int r = uprobe_resolve(w->devices, w->help, s, w->out + w->n, w->cap - w->n, &n, err);

	w->n += n;
	return r;
}

/* How many from @s on belong together. */
static size_t run_length(const struct perf_spec *s, size_t left)
{
	size_t m = 1;

	while (s->leader && m < left && s[m].leader == s->leader)
		m++;
	return m;
}

int event_resolve_in(const char *devices, struct perf_spec *specs, size_t *n, size_t cap,
		     const struct event_help *help, struct err *err)
{
	_cleanup_free_ struct perf_spec *out = calloc(cap, sizeof(*out));
	struct work w = { .devices = devices, .help = help, .out = out, .cap = cap };
	int r = out ? 0 : err_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0, m; r == 0 && i < *n; i += m) {
		m = run_length(&specs[i], *n - i);
		for (size_t k = i; r == 0 && k < i + m; k++) {
			if (is_core_word(&w, &specs[k]))
				continue; /* as each kind of core has it */
			r = resolve_one(&w, &specs[k], err);
			if (r == 0)
				r = check_mode(&specs[k], err);
		}
		if (r == 0)
			r = specs[i].kind == PERF_KIND_USDT ?
				    add_usdt(&w, &specs[i], err) :
				    add_resolved(&w, &specs[i], m, err);
	}
	if (r < 0)
		return r;
	memcpy(specs, out, w.n * sizeof(*out));
	*n = w.n;
	return 0;
}

int event_resolve(struct perf_spec *specs, size_t *n, size_t cap,
		  const struct event_help *help, struct err *err)
{
	return event_resolve_in(PMU_DEVICES, specs, n, cap, help, err);
}
