/* SPDX-License-Identifier: MIT */
#include "attach/events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

/* PMUs that count in every mode alike (AMD's IBS, msr) take no event that excludes one. And
 * inherit with cpu -1 is legal, but inherit_thread is younger (5.13). What is excluded most is
 * tried first; after a failure *@attr is what asks for least. */
static int try_plainer(struct perf_event_attr *attr, pid_t tid)
{
	enum { WITH_HV = 1, WITH_CHILDREN = 2 };
	const struct perf_event_attr was = *attr;
	bool every_mode = was.exclude_hv && !was.exclude_kernel && !was.exclude_user;
	int r = -EINVAL;

	for (int give = 1; r == -EINVAL && give <= (WITH_HV | WITH_CHILDREN); give++) {
		if ((give & WITH_HV && !every_mode) || (give & WITH_CHILDREN && !was.inherit))
			continue;
		*attr = was;
		attr->exclude_hv &= !(give & WITH_HV);
		attr->inherit_thread &= !(give & WITH_CHILDREN);
		r = perf_event_try(attr, tid, -1);
	}
	return r;
}

/* What does the kernel say? Without the right to count in the kernel, user mode alone may do.
 */
static int try_open(struct perf_event_attr *attr, const struct perf_spec *spec,
		    struct perf_options *o, pid_t tid)
{
	int r;

	*attr = perf_event_attr_of(spec, o);
	r = perf_event_try(attr, tid, -1);
	if (r == -EACCES && o->kernel && !(spec->kernel && !spec->user)) {
		o->kernel = false;
		return try_open(attr, spec, o, tid);
	}
	return r == -EINVAL ? try_plainer(attr, tid) : r;
}

static bool is_cycles(const struct perf_spec *s)
{
	return s->type == PERF_TYPE_HARDWARE && s->config == PERF_COUNT_HW_CPU_CYCLES;
}

/* @base and the modifiers of @like, with so many p's as it has now. */
static void rename_as(struct perf_spec *s, const char *base, const struct perf_spec *like)
{
	char name[sizeof(s->name)];
	const char *mods = like->name + like->n_base;
	size_t n = (size_t)snprintf(name, sizeof(name) - 8, "%.240s", base);
	size_t start = n;

	for (; *mods; mods++)
		if (*mods != 'p' && *mods != 'P' && n < sizeof(name) - 4)
			name[n++] = *mods;
	if (n == start && s->precise)
		name[n++] = ':';
	for (unsigned i = 0; i < s->precise; i++)
		name[n++] = 'p';
	if (n == start + 1 && name[start] == ':')
		n--;
	name[n] = '\0';
	memcpy(s->name, name, n + 1);
}

/* "cycles:u" becomes "cpu-clock:u". */
static struct perf_spec clock_for(const struct perf_spec *cycles)
{
	struct perf_spec s = *cycles;

	s.type = PERF_TYPE_SOFTWARE;
	s.config = PERF_COUNT_SW_CPU_CLOCK;
	s.precise = 0;
	rename_as(&s, "cpu-clock", cycles);
	return s;
}

/* Sentences one after the other. */
static void add_fallback(char fallback[256], const char *fmt, const char *is, const char *was,
			 const char *more)
{
	size_t n = strlen(fallback);

	if (n)
		n += (size_t)snprintf(fallback + n, 256 - n, "; ");
	if (n < 256)
		snprintf(fallback + n, 256 - n, fmt, is, was, more);
}

static bool is_missing(int code)
{
	return code == -ENOENT || code == -EOPNOTSUPP || code == -ENODEV;
}

/* Without precise addresses, if there are none. */
static int try_less_precise(struct perf_event_attr *attr, struct perf_spec *s,
			    struct perf_options *o, pid_t tid, char fallback[256])
{
	struct perf_spec was = *s;
	int first = try_open(attr, s, o, tid), r = first;
	char base[sizeof(s->name)];

	while ((is_missing(r) || r == -EINVAL) && s->precise) {
		s->precise--;
		r = try_open(attr, s, o, tid);
	}
	if (r < 0) {
		*s = was;
		return first;
	}
	if (s->precise == was.precise)
		return 0;
	snprintf(base, sizeof(base), "%.*s", (int)s->n_base, s->name);
	rename_as(s, base, &was);
	add_fallback(fallback,
		     "this machine is not that precise: sampling %.60s instead of "
		     "%.60s%s",
		     s->name, was.name, "");
	return 0;
}

static void tell_how(struct event_how *how, const struct perf_spec *s)
{
	*how = (struct event_how){
		.leader = s->leader,
		.led = s->led,
		.read = s->read,
		.probe = *s->file,
		.jumps = s->jumps,
		.some_cpus = s->some_cpus,
		.cpus = s->cpus,
	};
}

static int explain(int code, const struct perf_spec *s, const struct perf_event_attr *attr,
		   struct err *err)
{
	enum { KERNEL_ENOTSUPP = 524 }; /* include/linux/errno.h: not meant for us */

	if (*s->file && (code == -KERNEL_ENOTSUPP ||
			 (code == -EINVAL && !attr->freq && !s->led && !s->read)))
		return err_set(
			err, -ENOENT,
			"event '%s': the kernel can't put a breakpoint on the instruction "
			"there; name another, FUNCTION+OFFSET",
			s->name);
	return perf_event_explain(code, s->name, attr, err);
}

/* A timer that comes more often may leave its CPU no time for anything else, in a virtual
 * machine above all, and none of the kernel's limits keeps it from that. */
static void slow_down(struct perf_options *o, const struct perf_spec *s, char fallback[256])
{
	enum { LEAST_NS = 20000, MOST_HZ = 1000000000 / LEAST_NS };

	if (s->type != PERF_TYPE_SOFTWARE || s->led ||
	    (s->config != PERF_COUNT_SW_CPU_CLOCK && s->config != PERF_COUNT_SW_TASK_CLOCK) ||
	    (o->freq ? o->value <= MOST_HZ || o->value > (uint64_t)perf_event_max_rate() :
		       o->value >= LEAST_NS))
		return;
	o->value = o->freq ? MOST_HZ : LEAST_NS;
	add_fallback(fallback,
		     "sampling %.60s every 20 us: a timer that comes more often could stop "
		     "its CPU%s%s",
		     s->name, "", "");
}

static int choose_one(struct event_info *ret, const struct perf_spec *spec,
		      struct perf_options *o, pid_t tid, char fallback[256], struct err *err)
{
	struct perf_spec use = *spec;
	int r = try_less_precise(&ret->attr, &use, o, tid, fallback);

	if (is_cycles(spec) && is_missing(r)) {
		use = clock_for(spec);
		if (!o->freq)
			o->value = 1000000; /* a period in cycles means nothing in ns: 1 ms */
		add_fallback(fallback,
			     "no hardware PMU here (a virtual machine?): sampling %.60s "
			     "instead of %.60s%s",
			     use.name, spec->name,
			     o->freq ? "" : ", every millisecond (-c is a number of cycles)");
		slow_down(o, &use, fallback);
		r = try_open(&ret->attr, &use, o, tid);
	}
	if (r < 0)
		return explain(r, &use, &ret->attr, err);
	ret->attr.config1 = *spec->file ? (uintptr_t)spec->file : ret->attr.config1;
	snprintf(ret->name, sizeof(ret->name), "%s", *use.label ? use.label : use.name);
	return 0;
}

/* 0 if the events of the group whose leader is @first fit into the PMU together. */
static int try_group(const struct session *session, size_t first, pid_t tid, struct err *err)
{
	int fd[SESSION_MAX_EVENTS], n = 0, r = 0;
	struct perf_event_attr a;

	for (size_t i = first; i < session->n_events && r == 0; i++) {
		if (session->how[i].leader != first + 1)
			break;
		a = session->events[i].attr;
		a.disabled |= !n; /* asleep, as in perf_event_try(), but counted together */
		r = perf_event_open_in(&a, tid, -1, n ? fd[0] : -1);
		if (r >= 0) {
			fd[n++] = r;
			r = 0;
		}
	}
	while (n)
		close(fd[--n]);
	if (r == -EINVAL)
		return err_set(err, -ENOENT,
			       "the group of '%s' can't be counted together: too many events, "
			       "or of several PMUs; name fewer, or without {}",
			       session->events[first].name);
	return r < 0 ? perf_event_explain(r, session->events[first].name,
					  &session->events[first].attr, err) :
		       0;
}

static int try_groups(const struct session *session, pid_t tid, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < session->n_events; i++)
		if (session->how[i].leader == i + 1)
			r = try_group(session, i, tid, err);
	return r;
}

/* What the event itself says of its rate. */
static int take_rate(struct perf_options *o, const struct perf_spec *s, struct err *err)
{
	if (s->freq && (s->period || !o->freq))
		return err_set(err, -EINVAL,
			       "event '%s': freq= and a period contradict each other",
			       s->name);
	o->some_freq = o->freq;
	o->said |= s->freq || s->period;
	o->freq &= !s->period;
	o->value = s->period ? s->period : s->freq ? s->freq : o->value;
	return 0;
}

/* One of the first @n is event number @i, too: by name, attr, and in no group. */
static bool is_double(const struct session *s, size_t n, size_t i)
{
	const struct event_info *e = s->events;
	bool is = false;

	for (size_t k = 0; !is && k < n && !s->how[i].leader; k++)
		is = !s->how[k].leader && !strcmp(e[k].name, e[i].name) &&
		     !memcmp(&e[k].attr, &e[i].attr, sizeof(e[i].attr));
	return is;
}

/* Without a PMU cycles are the clock, which may have been named beside them. */
static void drop_doubles(struct session *s)
{
	size_t n = 0, place[SESSION_MAX_EVENTS];

	for (size_t i = 0; i < s->n_events; i++) {
		if (is_double(s, n, i))
			continue;
		place[i] = n;
		s->events[n] = s->events[i];
		s->how[n] = s->how[i];
		if (s->how[i].leader)
			s->how[n].leader = (uint8_t)(place[s->how[i].leader - 1] + 1);
		n++;
	}
	s->n_events = n;
}

int events_choose(struct session *session, const struct perf_spec *specs, size_t n,
		  struct perf_options *o, pid_t tid, char fallback[256], struct err *err)
{
	session->n_events = n;
	for (size_t i = 0; i < n; i++)
		o->read |= specs[i].read;
	for (size_t again = 0; again < 2; again++) {
		/* Once the kernel is refused for one event, all do without it: they
		 * share one sample_type. */
		bool kernel = o->kernel;

		fallback[0] = '\0';
		for (size_t i = 0; i < n; i++) {
			struct perf_options one = *o;
			int r = take_rate(&one, &specs[i], err);

			if (r < 0)
				return r;
			slow_down(&one, &specs[i], fallback);
			r = choose_one(&session->events[i], &specs[i], &one, tid, fallback,
				       err);
			if (r < 0)
				return r;
			tell_how(&session->how[i], &specs[i]);
			o->kernel = one.kernel;
		}
		if (kernel == o->kernel)
			break;
	}
	drop_doubles(session);
	return try_groups(session, tid, err);
}

bool events_can_witness(const struct session *session, pid_t tid)
{
	struct perf_event_attr a = perf_event_witness(&session->events[0].attr, false);

	return perf_event_try(&a, tid, -1) == 0;
}

bool events_leave_out(const struct session *session, const struct cpus *cpus)
{
	struct cpus rest = *cpus;

	for (size_t i = 0; i < session->n_events; i++) {
		if (!session->how[i].some_cpus)
			return false;
		cpus_drop(&rest, &session->how[i].cpus);
	}
	return cpus_next(&rest, 0) >= 0;
}

/* The last event of a group of three by now. False: a PMU whose counters others have taken
 * opens a group and never runs it. */
static bool read_third(int fd, uint64_t *ret)
{
	struct {
		uint64_t n, enabled, running, value[3][2];
	} now;

	if (read(fd, &now, sizeof(now)) != sizeof(now) || now.n != 3 || !now.running)
		return false;
	*ret = now.value[2][0];
	return true;
}

/* Of user mode only? One read is some tens of instructions behind the other, and many hundreds
 * in the kernel, which QEMU's riscv64 counts too. */
static bool counts_user(int fd)
{
	enum { FEW = 400 };
	uint64_t first, second;

	return read_third(fd, &first) && read_third(fd, &second) && second > first &&
	       second - first < FEW;
}

/* On the caller, at once. */
static int open_running(struct perf_event_attr attr)
{
	attr.disabled = attr.enable_on_exec = 0;
	return perf_event_open_fd(&attr, 0, -1);
}

bool events_can_count(struct session *session)
{
	struct perf_event_attr a = session->events[0].attr;
	struct perf_event_attr witness = perf_event_witness(&a, true);
	struct perf_event_attr counter = perf_event_instructions(&a);
	_cleanup_close_ int lead = -1, second = -1, third = -1;

	if (session->n_events > 1 || session->how[0].probe || session->how[0].some_cpus ||
	    perf_event_is_switch(&a))
		return false;
	perf_event_add_read(&a);
	a.freq = 0, a.sample_period = 1000000000; /* one that runs is not to interrupt us */
	lead = open_running(a);
	second = lead < 0 ? -1 : perf_event_open_in(&witness, 0, -1, lead);
	third = second < 0 ? -1 : perf_event_open_in(&counter, 0, -1, lead);
	if (third < 0 || !counts_user(lead))
		return false;
	perf_event_add_read(&session->events[0].attr);
	return true;
}

bool events_count_beside(const struct session *session, size_t e)
{
	struct perf_event_attr a = perf_event_final(&session->events[e].attr,
						    &(struct perf_use){ .counts = true });

	return perf_event_try(&a, 0, -1) != -EINVAL;
}

/* The first of @cpus that has the event, or -1. */
static int first_cpu(const struct event_how *how, const struct cpus *cpus)
{
	struct cpus both = *cpus;

	if (how->some_cpus)
		cpus_keep(&both, &how->cpus);
	return cpus_next(&both, 0);
}

bool events_can_wide(const struct session *session, const struct cpus *cpus)
{
	struct perf_event_attr chosen = perf_event_witness(&session->events[0].attr, false), a;
	int cpu = -1;

	for (size_t i = 0; cpu < 0 && i < session->n_events; i++) {
		cpu = first_cpu(&session->how[i], cpus);
		if (cpu >= 0)
			chosen = session->events[i].attr;
	}
	a = perf_event_final(&chosen, &(struct perf_use){ .cpu = true });
	return perf_event_try(&a, -1, cpu < 0 ? cpus_next(cpus, 0) : cpu) == 0;
}
