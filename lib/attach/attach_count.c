/* SPDX-License-Identifier: MIT
 *
 * attach_count - what the events of the attached threads and CPUs counted.
 */
#include "attach/attach_int.h"

#include <sys/ioctl.h>
#include <unistd.h>

/* What read() of an event gives; of one in a group the number of its events comes first, and their
 * values follow. */
struct reading {
	uint64_t value, enabled, running;
	struct {
		uint64_t value, id;
	} of[SESSION_MAX_EVENTS + 1];
};

/* Of the group that @ret is of, the value of event @fd itself. False: it is not in there. */
static bool pick_own(int fd, struct reading *ret)
{
	uint64_t id, n = MIN(ret->value, (uint64_t)ARRAY_SIZE(ret->of));

	if (ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0)
		return false;
	for (uint64_t i = 0; i < n; i++)
		if (ret->of[i].id == id) {
			ret->value = ret->of[i].value;
			return true;
		}
	return false;
}

/* False: there is none. */
static bool read_event(int fd, uint64_t read_format, struct reading *ret)
{
	if (fd < 0 || read(fd, ret, sizeof(*ret)) < 3 * 8)
		return false;
	return !(read_format & PERF_FORMAT_GROUP) || pick_own(fd, ret);
}

/* True: the time that @fd has been enabled for goes on. */
static bool is_enabled(int fd)
{
	struct reading first, second;

	return read_event(fd, 0, &first) && read_event(fd, 0, &second) &&
	       second.enabled > first.enabled;
}

bool attach_sees_cpu(const struct attach *a, size_t slot)
{
	size_t n = attach_per_cpu(a);
	bool sees = false;

	for (size_t t = 0; t < a->n_attached; t++)
		for (size_t i = slot * n; !sees && i < (slot + 1) * n; i++)
			sees = a->attached[t].tid == ATTACH_ALL &&
			       is_enabled(a->attached[t].fds[i]);
	return sees;
}

/* True if samples of event @e come from the events of @t, a thread or (ALL) a CPU. */
static bool samples(const struct attach *a, const struct attached *t, size_t e)
{
	return !a->split || a->session->how[e].on_cpus == (t->tid == ATTACH_ALL);
}

/* True if the events of @t count for the books: threads' do, and CPUs' if there are no others.
 */
static bool counts(const struct attach *a, const struct attached *t, size_t e)
{
	(void)e;
	return !a->split || t->tid != ATTACH_ALL;
}

/* How often event @e occurred in @t, and what it made, by those of its events that are number
 * @from and the @n - 1 after it. */
static uint64_t count_of(const struct attach *a, const struct attached *t, size_t e,
			 size_t from, size_t n)
{
	uint64_t count = 0;
	struct reading now;

	for (size_t i = from; t->fds && counts(a, t, e) && i < from + n; i++)
		if (i % attach_per_cpu(a) == e &&
		    read_event(t->fds[i], a->session->events[e].attr.read_format, &now))
			count += now.value;
	return count;
}

void attach_keep_counts(struct attach *a, const struct attached *t, size_t from, size_t n)
{
	for (size_t e = 0; e < a->session->n_events; e++)
		a->ended_count[e] += count_of(a, t, e, from, n);
}

/* The part of the time in which the events @e of those whom @which chooses had a counter. */
static double share_of(const struct attach *a, size_t e,
		       bool (*which)(const struct attach *a, const struct attached *t,
				     size_t e))
{
	uint64_t enabled = 0, running = 0;
	struct reading now;

	for (size_t t = 0; t < a->n_attached; t++) {
		const struct attached *at = &a->attached[t];
		/* That of a thread and a CPU is enabled on whichever CPU the thread is. */
		uint64_t part = at->tid == ATTACH_ALL ? 1 : a->n_slots;

		for (size_t i = e; which(a, at, e) && i < attach_per_thread(a);
		     i += attach_per_cpu(a))
			if (read_event(at->fds[i], 0, &now)) {
				enabled += now.enabled / part;
				running += now.running;
			}
	}
	return enabled ? (double)running / (double)enabled : 1;
}

double attach_share(const struct attach *a, size_t e)
{
	return share_of(a, e, samples);
}

bool attach_takes_turns(const struct attach *a, size_t e)
{
	const struct event_how *how = &a->session->how[e];

	return (!how->some_cpus || (a->on_cpus && !a->split)) &&
	       (a->session->events[e].attr.type != PERF_TYPE_SOFTWARE || a->counter ||
		how->leader);
}

uint64_t attach_count(const struct attach *a, size_t e)
{
	double share = attach_takes_turns(a, e) ? share_of(a, e, counts) : 1;
	uint64_t count = a->ended_count[e];

	for (size_t t = 0; t < a->n_attached; t++)
		count += count_of(a, &a->attached[t], e, 0, attach_per_thread(a));
	return share > 0 && share < 1 ? (uint64_t)((double)count / share) : count;
}
