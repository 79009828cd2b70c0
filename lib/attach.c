/* SPDX-License-Identifier: MIT */
#include "attach.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "clock.h"
#include "forkwatch.h"
#include "perf_decode.h"
#include "proc.h"

enum {
	FORK_TRIES = 20,
	PATIENCE_NS = 100000000, /* to see one thread outside fork() */
	ALL_PATIENCE_NS = 1000000000,
};

size_t attach_raise_nofile(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return 1024;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	getrlimit(RLIMIT_NOFILE, &l);
	return l.rlim_cur;
}

/* --- choosing --- */

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

int attach_choose(struct session *session, const struct perf_spec *specs, size_t n,
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

bool attach_can_witness(const struct session *session, pid_t tid)
{
	struct perf_event_attr a = perf_event_witness(&session->events[0].attr);
	int fd = perf_event_open_fd(&a, tid, -1);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* --- opening --- */

/* Events on each thread and CPU. */
static size_t per_thread(const struct attach *a)
{
	return a->session->n_events + a->witness;
}

static int keep_fd(struct attach *a, int fd)
{
	if (a->n_fds == a->cap_fds) {
		size_t cap = a->cap_fds ? a->cap_fds * 2 : 64;
		int *fds = realloc(a->fds, cap * sizeof(*fds));
		uint64_t *ids;

		if (!fds)
			return -ENOMEM;
		a->fds = fds;
		ids = realloc(a->ids, cap * sizeof(*ids));
		if (!ids)
			return -ENOMEM;
		a->ids = ids;
		a->cap_fds = cap;
	}
	a->ids[a->n_fds] = 0;
	if (per_thread(a) > 1)
		ioctl(fd, PERF_EVENT_IOC_ID, &a->ids[a->n_fds]);
	a->fds[a->n_fds++] = fd;
	return 0;
}

void attach_close_from(struct attach *a, size_t first)
{
	while (a->n_fds > first)
		close(a->fds[--a->n_fds]);
}

static int open_one(struct attach *a, pid_t tid, const struct cpu_slot *slot,
		    struct perf_event_attr attr, const char *name, struct err *err)
{
	int fd, r;

	if (a->later) {
		attr.disabled = 1;
		attr.enable_on_exec = 0;
	}
	fd = perf_event_open_fd(&attr, tid, slot->cpu);
	if (fd < 0)
		return perf_event_explain(fd, name, &attr, err);
	r = perf_ring_attach(&slot->ring, fd);
	if (r == 0)
		r = keep_fd(a, fd);
	if (r < 0) {
		close(fd);
		err_set(err, r, "redirecting event '%s': %s", name, strerror(-r));
	}
	return r;
}

/* All events of a (thread, CPU) or none: fds[i] is of event i % per_thread(). */
static int open_on(struct attach *a, pid_t tid, const struct cpu_slot *slot, struct err *err)
{
	const struct session *s = a->session;
	size_t first = a->n_fds;
	int r = 0;

	for (size_t e = 0; r == 0 && e < s->n_events; e++)
		r = open_one(a, tid, slot, s->events[e].attr, s->events[e].name, err);
	if (r == 0 && a->witness) {
		struct perf_event_attr w = perf_event_witness(&s->events[0].attr);

		r = open_one(a, tid, slot, w, "context-switches", err);
	}
	if (r < 0)
		attach_close_from(a, first);
	return r;
}

/* Where @tid is among the attached, or would be. */
static size_t place_of(const struct attach *a, pid_t tid)
{
	size_t lo = 0, hi = a->n_attached;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (a->attached[mid].tid < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static const struct attached *find_attached(const struct attach *a, pid_t tid)
{
	size_t at = place_of(a, tid);

	return at < a->n_attached && a->attached[at].tid == tid ? &a->attached[at] : NULL;
}

static int add_attached(struct attach *a, pid_t tid, uint64_t since)
{
	size_t at = place_of(a, tid);
	struct attached *t = realloc(a->attached, (a->n_attached + 1) * sizeof(*t));

	if (!t)
		return -ENOMEM;
	a->attached = t;
	memmove(&t[at + 1], &t[at], (a->n_attached++ - at) * sizeof(*t));
	t[at] = (struct attached){ .tid = tid, .since = since };
	return 0;
}

/* On every CPU, in one piece: while it forks we try again, for a child would have got
 * some of its events. Closing them takes them from the child too. */
static int attach_thread(struct attach *a, pid_t tid, struct err *err)
{
	size_t first = a->n_fds;
	bool forked = true;
	uint64_t since = 0;
	int r = 0;

	for (int i = 0; r == 0 && forked && i < FORK_TRIES; i++) {
		struct forkwatch w;
		bool watched = a->inherit && forkwatch_open(&w, tid) == 0;

		attach_close_from(a, first);
		for (size_t s = 0; r == 0 && s < a->n_slots; s++)
			r = open_on(a, tid, &a->slots[s], err);
		since = now_ns();
		forked = watched && forkwatch_forked(&w, tid, since,
						     MIN(since + PATIENCE_NS, a->until_ns));
		if (watched)
			forkwatch_close(&w);
	}
	if (r < 0)
		attach_close_from(a, first);
	return r == 0 ? add_attached(a, tid, since) : r;
}

/* The FORK record of @tid in a ring that nobody reads yet. */
static bool find_record(const struct perf_ring *ring, pid_t tid, struct side *ret)
{
	static unsigned char bounce[PERF_RECORD_BYTES];
	uint64_t pos = perf_ring_tail(ring), head = perf_ring_head(ring);

	while (pos < head) {
		const struct perf_event_header *h = perf_ring_at(ring, pos, bounce);

		if (!h)
			break;
		if (h->type == PERF_RECORD_FORK && perf_decode_side(h, ret) == 0 &&
		    ret->tid == tid)
			return true;
		pos += h->size;
	}
	return false;
}

/* Did a thread that has our events make @tid? Then it has them too. */
static bool inherited(const struct attach *a, pid_t tid)
{
	bool found = false;
	struct side fork;

	for (size_t i = 0; a->inherit && !found && i < a->n_slots; i++)
		found = find_record(&a->slots[i].ring, tid, &fork);
	if (found) {
		const struct attached *parent = find_attached(a, fork.u.fork.ptid);

		return parent ? fork.time > parent->since : inherited(a, fork.u.fork.ptid);
	}
	return false;
}

static int check_nofile(const struct attach *a, size_t threads, struct err *err)
{
	size_t need = a->n_fds + threads * a->n_slots * per_thread(a) + 64;
	size_t limit = attach_raise_nofile();

	if (need <= limit)
		return 0;
	return err_set(err, -EMFILE,
		       "%zu threads x %zu CPUs x %zu events need %zu descriptors and "
		       "'ulimit -n' allows %zu; raise it (hard limit) or name fewer events",
		       threads, a->n_slots, per_thread(a), need, limit);
}

static bool wanted(pid_t tid, const pid_t *only, size_t n_only)
{
	for (size_t i = 0; i < n_only; i++)
		if (only[i] == tid)
			return true;
	return n_only == 0;
}

/* One pass over the threads; *@opened is how many were new. */
static int attach_pass(struct attach *a, pid_t pid, const pid_t *only, size_t n_only,
		       size_t *opened, struct err *err)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;
	int r = proc_tasks(pid, &tids, &n);

	*opened = 0;
	if (r < 0)
		return err_set(err, -ESRCH, "process %d is gone", pid);
	r = check_nofile(a, n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!wanted(tids[i], only, n_only) || find_attached(a, tids[i]) ||
		    inherited(a, tids[i]))
			continue;
		r = attach_thread(a, tids[i], err);
		if (r == -ESRCH)
			r = 0; /* it ended in between */
		(*opened)++;
	}
	return r;
}

int attach_process(struct attach *a, pid_t pid, const pid_t *only, size_t n_only,
		   struct err *err)
{
	size_t opened = 1;
	int r = 0;

	if (!a->until_ns)
		a->until_ns = now_ns() + ALL_PATIENCE_NS;
	for (int pass = 0; r == 0 && opened && pass < 10; pass++)
		r = attach_pass(a, pid, only, n_only, &opened, err);
	return r;
}

int attach_cpu(struct attach *a, const struct cpu_slot *slot, const pid_t *tids, size_t n,
	       struct err *err)
{
	int r = a->n_fds + n * per_thread(a) + 64 > attach_raise_nofile() ? -EMFILE : 0;

	if (r < 0)
		return perf_event_explain(r, "", NULL, err);
	a->later = true;
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = open_on(a, tids[i], slot, err);
		if (r == -ESRCH)
			r = 0; /* it ended in between */
	}
	return r;
}

void attach_enable_from(struct attach *a, size_t first)
{
	for (size_t i = first; i < a->n_fds; i++)
		ioctl(a->fds[i], PERF_EVENT_IOC_ENABLE, 0);
}

int attach_ids(const struct attach *a, struct reader_config *c)
{
	struct id_table *t;
	size_t n = 16;

	while (n < a->n_fds * 2)
		n *= 2;
	t = calloc(1, sizeof(*t) + n * sizeof(t->row[0]));
	if (!t)
		return -ENOMEM;
	t->older = c->ids;
	t->mask = (uint32_t)n - 1;
	for (size_t i = 0; i < a->n_fds; i++) {
		uint32_t at = (uint32_t)a->ids[i] & t->mask;

		if (!a->ids[i])
			continue;
		while (t->row[at].id)
			at = (at + 1) & t->mask;
		t->row[at].id = a->ids[i];
		t->row[at].event = (uint32_t)(i % per_thread(a));
	}
	c->ids = t;
	return 0;
}

void attach_disable(struct attach *a)
{
	for (size_t i = 0; i < a->n_fds; i++)
		ioctl(a->fds[i], PERF_EVENT_IOC_DISABLE, 0);
}

void attach_deinit(struct attach *a)
{
	for (size_t i = 0; i < a->n_fds; i++)
		close(a->fds[i]);
	free(a->fds);
	free(a->ids);
	free(a->attached);
	a->fds = NULL;
	a->n_fds = 0;
}
