/* SPDX-License-Identifier: MIT */
#include "attach.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "clock.h"
#include "perf_decode.h"
#include "proc.h"

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

/* "0-3,8,10-11" */
static int parse_cpus(const char *s, int **ret, size_t *n)
{
	while (*s) {
		char *end;
		long lo = strtol(s, &end, 10), hi = lo;
		int *list;

		if (end == s)
			break;
		if (*end == '-')
			hi = strtol(end + 1, &end, 10);
		if (lo < 0 || hi < lo || hi > 65535)
			return -EINVAL;
		list = realloc(*ret, (*n + (size_t)(hi - lo) + 1) * sizeof(*list));
		if (!list)
			return -ENOMEM;
		*ret = list;
		while (lo <= hi)
			list[(*n)++] = (int)lo++;
		s = *end == ',' ? end + 1 : end;
	}
	return *n ? 0 : -EINVAL;
}

int attach_online_cpus(int **ret, size_t *n)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r = proc_read_file("/sys/devices/system/cpu/online", &text, &len);

	*ret = NULL;
	*n = 0;
	if (r == 0)
		r = parse_cpus(text, ret, n);
	if (r < 0) {
		free(*ret);
		*ret = NULL;
	}
	return r;
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
	if (fd == -EINVAL && attr->inherit && fd < 0) {
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
		      struct perf_options *o, pid_t tid, char fallback[256],
		      struct err *err)
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
			r = choose_one(&session->events[i], &specs[i], &one, tid, fallback, err);
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

/* Either all events of a (thread, CPU) are there or none: fds[i] is of event
 * i % per_thread(). */
static int undo_partial(struct attach *a, int r)
{
	while (a->n_fds % per_thread(a))
		close(a->fds[--a->n_fds]);
	return r;
}

static int open_one(struct attach *a, pid_t tid, const struct cpu_slot *slot,
		    const struct perf_event_attr *attr, const char *name, struct err *err)
{
	int fd = perf_event_open_fd(attr, tid, slot->cpu), r;

	if (fd < 0)
		return perf_event_explain(fd, name, attr, err);
	r = perf_ring_attach(&slot->ring, fd);
	if (r == 0)
		r = keep_fd(a, fd);
	if (r < 0) {
		close(fd);
		err_set(err, r, "redirecting event '%s': %s", name, strerror(-r));
	}
	return r;
}

static int open_on(struct attach *a, pid_t tid, const struct cpu_slot *slot, struct err *err)
{
	const struct session *s = a->session;
	int r = 0;

	for (size_t e = 0; r == 0 && e < s->n_events; e++)
		r = open_one(a, tid, slot, &s->events[e].attr, s->events[e].name, err);
	if (r == 0 && a->witness) {
		struct perf_event_attr w = perf_event_witness(&s->events[0].attr);

		r = open_one(a, tid, slot, &w, "context-switches", err);
	}
	return r < 0 ? undo_partial(a, r) : 0;
}

static int add_tid(struct attach *a, pid_t tid)
{
	pid_t *tids = realloc(a->tids, (a->n_tids + 1) * sizeof(*tids));
	size_t i;

	if (!tids)
		return -ENOMEM;
	a->tids = tids;
	for (i = a->n_tids; i > 0 && tids[i - 1] > tid; i--)
		tids[i] = tids[i - 1];
	tids[i] = tid;
	a->n_tids++;
	return 0;
}

static bool have_tid(const struct attach *a, pid_t tid)
{
	size_t lo = 0, hi = a->n_tids;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (a->tids[mid] == tid)
			return true;
		if (a->tids[mid] < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

static uint64_t *new_row(struct attach *a, pid_t tid)
{
	pid_t *order = realloc(a->order, (a->n_order + 1) * sizeof(*order));
	uint64_t *rows;

	if (!order)
		return NULL;
	a->order = order;
	rows = realloc(a->open_ns, (a->n_order + 1) * a->n_slots * sizeof(*rows));
	if (!rows)
		return NULL;
	a->open_ns = rows;
	order[a->n_order] = tid;
	return memset(&rows[a->n_order++ * a->n_slots], 0, a->n_slots * sizeof(*rows));
}

/* How a thread came to be, where a thread that has events made it. */
struct fork {
	pid_t parent;
	uint64_t time;
	const uint64_t *open_ns; /* the parent's; NULL: it inherited its events */
};

static bool inherited(const struct fork *f, size_t slot)
{
	return !f->open_ns || (f->open_ns[slot] && f->open_ns[slot] < f->time);
}

/* On every CPU, but where it inherited what its parent had open there already. */
static int attach_thread(struct attach *a, pid_t tid, const struct fork *f, struct err *err)
{
	int r = add_tid(a, tid);
	size_t parent_row = f->open_ns ? (size_t)(f->open_ns - a->open_ns) : 0;
	struct fork now = *f;
	uint64_t *row = r == 0 ? new_row(a, tid) : NULL;

	if (!row)
		return -ENOMEM;
	if (f->open_ns)
		now.open_ns = a->open_ns + parent_row; /* the rows may have moved */
	for (size_t i = 0; r == 0 && i < a->n_slots; i++) {
		if (now.parent && inherited(&now, i))
			continue;
		r = open_on(a, tid, &a->slots[i], err);
		row[i] = now_ns();
	}
	return r;
}

/* The FORK record of @tid in a ring that nobody reads yet. */
static bool find_record(const struct perf_ring *ring, pid_t tid, struct fork *ret)
{
	static unsigned char bounce[PERF_RECORD_BYTES];
	uint64_t pos = perf_ring_tail(ring), head = perf_ring_head(ring);

	while (pos < head) {
		const struct perf_event_header *h = perf_ring_at(ring, pos, bounce);
		struct side s;

		if (!h)
			break;
		if (h->type == PERF_RECORD_FORK && perf_decode_side(h, &s) == 0 && s.tid == tid) {
			*ret = (struct fork){ .parent = s.u.fork.ptid, .time = s.time };
			return true;
		}
		pos += h->size;
	}
	return false;
}

/* Did a thread that has our events make @tid? Then it inherited them: all, or what was
 * open by then. parent 0: no. */
static struct fork find_fork(const struct attach *a, pid_t tid)
{
	struct fork f = { 0 };

	for (size_t i = 0; a->inherit && i < a->n_slots; i++)
		if (find_record(&a->slots[i].ring, tid, &f))
			break;
	for (size_t i = 0; f.parent && i < a->n_order; i++)
		if (a->order[i] == f.parent)
			f.open_ns = &a->open_ns[i * a->n_slots];
	return f;
}

static bool inherited_all(const struct attach *a, const struct fork *f)
{
	for (size_t i = 0; i < a->n_slots; i++)
		if (!f->parent || !inherited(f, i))
			return false;
	return true;
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
		struct fork f;

		if (!wanted(tids[i], only, n_only) || have_tid(a, tids[i]))
			continue;
		f = find_fork(a, tids[i]);
		if (inherited_all(a, &f))
			continue;
		r = attach_thread(a, tids[i], &f, err);
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

	for (int pass = 0; r == 0 && opened && pass < 10; pass++)
		r = attach_pass(a, pid, only, n_only, &opened, err);
	return r;
}

int attach_ids(const struct attach *a, struct reader_config *c)
{
	size_t n = 16;
	uint64_t *ids;
	uint8_t *event;

	while (n < a->n_fds * 2)
		n *= 2;
	ids = calloc(n, sizeof(*ids));
	event = calloc(n, sizeof(*event));
	if (!ids || !event) {
		free(ids);
		free(event);
		return -ENOMEM;
	}
	c->ids = ids;
	c->id_event = event;
	c->id_mask = (uint32_t)n - 1;
	for (size_t i = 0; i < a->n_fds; i++) {
		uint32_t at = (uint32_t)a->ids[i] & c->id_mask;

		if (!a->ids[i])
			continue;
		while (ids[at])
			at = (at + 1) & c->id_mask;
		ids[at] = a->ids[i];
		event[at] = (uint8_t)(i % per_thread(a));
	}
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
	free(a->tids);
	free(a->order);
	free(a->open_ns);
	a->fds = NULL;
	a->n_fds = 0;
}
