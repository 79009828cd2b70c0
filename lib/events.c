/* SPDX-License-Identifier: MIT */
#include "events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base.h"

/* Open once and close: what does the kernel say? Without the right to count in
 * the kernel, user mode alone may do. */
static int try_open(struct perf_event_attr *attr, const struct perf_spec *spec,
		    struct perf_options *o, pid_t tid)
{
	int fd;

	*attr = perf_event_attr_of(spec, o);
	fd = perf_event_open_fd(attr, tid, -1);
	if (fd == -EACCES && o->kernel && !(spec->kernel && !spec->user)) {
		o->kernel = false;
		return try_open(attr, spec, o, tid);
	}
	if (fd == -EINVAL && attr->inherit) {
		/* inherit with cpu -1 is legal, but inherit_thread is younger (5.13). */
		attr->inherit_thread = 0;
		fd = perf_event_open_fd(attr, tid, -1);
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static bool is_cycles(const struct perf_spec *s)
{
	return s->type == PERF_TYPE_HARDWARE && s->config == PERF_COUNT_HW_CPU_CYCLES;
}

/* "cycles:u" becomes "cpu-clock:u". */
static struct perf_spec clock_for(const struct perf_spec *cycles)
{
	struct perf_spec s = *cycles;
	const char *mods = strchr(cycles->name, ':');

	s.type = PERF_TYPE_SOFTWARE;
	s.config = PERF_COUNT_SW_CPU_CLOCK;
	s.precise = 0;
	snprintf(s.name, sizeof(s.name), "cpu-clock%s", mods ? mods : "");
	return s;
}

static int choose_one(struct event_info *ret, const struct perf_spec *spec,
		      struct perf_options *o, pid_t tid, char fallback[256], struct err *err)
{
	struct perf_spec use = *spec;
	int r = try_open(&ret->attr, &use, o, tid);

	if (r < 0 && is_cycles(spec) && (r == -ENOENT || r == -EOPNOTSUPP || r == -ENODEV)) {
		use = clock_for(spec);
		if (!o->freq)
			o->value = 1000000; /* a period in cycles means nothing in ns: 1 ms */
		r = try_open(&ret->attr, &use, o, tid);
		snprintf(fallback, 256,
			 "no hardware PMU here (a virtual machine?): sampling %.60s instead "
			 "of %.60s%s",
			 use.name, spec->name, o->freq ? "" : ", every millisecond");
	}
	if (r < 0)
		return perf_event_explain(r, use.name, &ret->attr, err);
	snprintf(ret->name, sizeof(ret->name), "%s", use.name);
	return 0;
}

int events_choose(struct session *session, const struct perf_spec *specs, size_t n,
		  struct perf_options *o, pid_t tid, char fallback[256], struct err *err)
{
	fallback[0] = '\0';
	session->n_events = n;
	for (size_t again = 0; again < 2; again++) {
		/* Once the kernel is refused for one event, all do without it: they
		 * share one sample_type. */
		bool kernel = o->kernel;

		for (size_t i = 0; i < n; i++) {
			struct perf_options one = *o;
			int r;

			one.side = i == 0;
			r = choose_one(&session->events[i], &specs[i], &one, tid, fallback,
				       err);
			if (r < 0)
				return r;
			o->kernel = one.kernel;
		}
		if (kernel == o->kernel)
			break;
	}
	return 0;
}

static bool can_open(const struct perf_event_attr *attr, pid_t tid, int cpu)
{
	int fd = perf_event_open_fd(attr, tid, cpu);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

bool events_can_witness(const struct session *session, pid_t tid)
{
	struct perf_event_attr a = perf_event_witness(&session->events[0].attr);

	return can_open(&a, tid, -1);
}

bool events_can_wide(const struct session *session, int cpu)
{
	struct perf_event_attr a = session->events[0].attr;

	a.inherit = a.inherit_thread = 0;
	return can_open(&a, -1, cpu);
}
