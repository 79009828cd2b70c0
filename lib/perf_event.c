/* SPDX-License-Identifier: MIT */
#include "perf_event.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/work.h"
#include "sys/proc.h"
#include "sys/rights.h"

enum { PATIENCE_NS = 200000000 }; /* to open an event of who is in an execve() */

void perf_event_add_read(struct perf_event_attr *attr)
{
	attr->sample_type |= PERF_SAMPLE_READ;
	attr->read_format |= PERF_FORMAT_GROUP | PERF_FORMAT_ID |
			     PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
}

struct perf_event_attr perf_event_attr_of(const struct perf_spec *spec,
					  const struct perf_options *o)
{
	bool ring0 =
		(o->kernel || perf_names_in_kernel(spec)) && (spec->kernel || !spec->user);
	bool each = spec->each && !o->said;
	struct perf_event_attr a = {
		.size = sizeof(a),
		.type = spec->type,
		.config = spec->config,
		.bp_type = spec->bp_type,
		.config1 = *spec->file ? (uintptr_t)spec->file : spec->config1,
		.config2 = spec->config2,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU |
			       PERF_SAMPLE_REGS_USER,
		.sample_regs_user = arch_host->perf_regs,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.exclude_user = spec->kernel && !spec->user,
		.exclude_kernel = !ring0,
		.exclude_hv = !spec->hv,
		.exclude_callchain_user = 1,
		.precise_ip = spec->precise & 3u,
		.freq = o->freq && !each && !spec->led,
		.wakeup_events = 1,
		.inherit = o->inherit,
		.inherit_thread = o->inherit && o->threads_only,
		.disabled = o->disabled || o->on_exec,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.enable_on_exec = o->on_exec,
	};

	/* A union: sample_freq is the same word. */
	a.sample_period = spec->led ? 0 : each ? 1 : o->value;
	/* With a fixed period it would make each software event a sample (perf_swevent_event).
	 */
	if (o->freq || o->some_freq)
		a.sample_type |= PERF_SAMPLE_PERIOD;
	if (o->read)
		perf_event_add_read(&a);
	if (o->kernel)
		a.sample_type |= PERF_SAMPLE_CALLCHAIN;
	if (o->stack)
		a.sample_type |= PERF_SAMPLE_STACK_USER;
	a.sample_stack_user = o->stack;
	return a;
}

struct perf_event_attr perf_event_final(const struct perf_event_attr *chosen,
					const struct perf_use *use)
{
	struct perf_event_attr a = *chosen;

	if (use->counts) {
		a.freq = 0;
		a.sample_period = 0;
		a.sample_type &= ~(uint64_t)PERF_SAMPLE_PERIOD;
		a.precise_ip = 0; /* of samples alone: x86 refuses it else */
	}
	if (use->cpu || !use->inherit)
		a.inherit = a.inherit_thread = 0;
	/* Other events do not happen on an idle CPU, and some PMUs refuse it. */
	a.exclude_idle = use->cpu && perf_event_is_clock(&a);
	if (use->cpu || use->begins)
		a.disabled = a.enable_on_exec = 0;
	if (use->later)
		a.disabled = 1, a.enable_on_exec = 0;
	a.mmap = a.mmap2 = a.comm = a.comm_exec = a.task = use->side;
	a.context_switch = use->side && use->switches;
	return a;
}

struct perf_event_attr perf_event_witness(const struct perf_event_attr *like, bool read)
{
	struct perf_event_attr a = {
		.size = sizeof(a),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CONTEXT_SWITCHES,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_REGS_USER,
		.sample_regs_user = like->sample_regs_user,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.exclude_hv = 1,
		.inherit = like->inherit,
		.inherit_thread = like->inherit_thread,
		/* It wakes nobody: the sample that it speaks about has. */
		.watermark = 1,
		.wakeup_watermark = INT32_MAX,
	};

	if (read)
		perf_event_add_read(&a);
	return a;
}

struct perf_event_attr perf_event_instructions(const struct perf_event_attr *like)
{
	return (struct perf_event_attr){
		.size = sizeof(struct perf_event_attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.use_clockid = 1, /* all of a group have one clock */
		.clockid = CLOCK_MONOTONIC,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.inherit = like->inherit,
		.inherit_thread = like->inherit_thread,
	};
}

/* It counts nothing; what a ring holds besides samples has these fields. */
static const struct perf_event_attr DUMMY = {
	.size = sizeof(DUMMY),
	.type = PERF_TYPE_SOFTWARE,
	.config = PERF_COUNT_SW_DUMMY,
	.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
		       PERF_SAMPLE_CPU,
	.sample_id_all = 1,
	.use_clockid = 1,
	.clockid = CLOCK_MONOTONIC,
	.exclude_kernel = 1,
	.exclude_hv = 1,
};

struct perf_event_attr perf_event_side(const struct perf_event_attr *like)
{
	struct perf_event_attr a = DUMMY;

	a.inherit = like->inherit;
	a.inherit_thread = like->inherit_thread;
	a.disabled = like->disabled;
	a.enable_on_exec = like->enable_on_exec;
	return a;
}

bool perf_event_is_switch(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE &&
	       (attr->config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
		attr->config == PERF_COUNT_SW_CPU_MIGRATIONS ||
		attr->config == PERF_COUNT_SW_CGROUP_SWITCHES);
}

bool perf_event_is_clock(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && (attr->config == PERF_COUNT_SW_CPU_CLOCK ||
						    attr->config == PERF_COUNT_SW_TASK_CLOCK);
}

uint64_t perf_event_period(const struct perf_event_attr *attr)
{
	if (!attr->freq)
		return attr->sample_period;
	return perf_event_is_clock(attr) && attr->sample_freq ? 1000000000 / attr->sample_freq : 0;
}

/* One nudge may be meant for an earlier call. */
static int open_event(const struct perf_event_attr *attr, pid_t task, int cpu, int other,
		      unsigned long flags)
{
	uint64_t began = 0;
	long fd;

	work_add(WORK_opens, 1);
	for (;;) {
		fd = syscall(SYS_perf_event_open, attr, task, cpu, other,
			     PERF_FLAG_FD_CLOEXEC | flags);
		if (fd >= 0)
			return (int)fd;
		if (errno != EINTR || (began && now_ns() - began > PATIENCE_NS))
			return -errno;
		began = began ? began : now_ns();
	}
}

int perf_event_open_in(const struct perf_event_attr *attr, pid_t tid, int cpu, int leader)
{
	return open_event(attr, tid, cpu, leader, 0);
}

int perf_event_open_cgroup(const struct perf_event_attr *attr, int cgroup, int cpu)
{
	return open_event(attr, cgroup, cpu, -1, PERF_FLAG_PID_CGROUP);
}

/* perf_event_open(2) calls the flag broken since 2.6.35. It is for events of no CPU: the
 * kernel compares their contexts, and the new event has none yet (perf_event_set_output()). */
int perf_ring_open_into(const struct perf_ring *r, const struct perf_event_attr *attr,
			pid_t tid)
{
	return open_event(attr, tid, r->cpu, r->fd,
			  PERF_FLAG_FD_OUTPUT | PERF_FLAG_FD_NO_GROUP);
}

int perf_event_open_fd(const struct perf_event_attr *attr, pid_t tid, int cpu)
{
	return perf_event_open_in(attr, tid, cpu, -1);
}

int perf_event_try(const struct perf_event_attr *attr, pid_t tid, int cpu)
{
	struct perf_event_attr a = *attr;
	_cleanup_close_ int fd = -1;

	a.disabled = 1, a.enable_on_exec = 0;
	fd = perf_event_open_fd(&a, tid, cpu);
	return MIN(fd, 0);
}

/* On ourselves. */
static bool can_open(const struct perf_event_attr *attr)
{
	return perf_event_try(attr, 0, -1) == 0;
}

static void *prepare_main(void *arg)
{
	can_open(&DUMMY);
	return arg;
}

void perf_event_prepare(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, prepare_main, NULL) == 0)
		pthread_detach(thread);
}

bool perf_event_have_pmu(void)
{
	struct perf_spec cycles = { .type = PERF_TYPE_HARDWARE,
				    .config = PERF_COUNT_HW_CPU_CYCLES };
	struct perf_options o = { .value = 1000000000 };
	struct perf_event_attr a = perf_event_attr_of(&cycles, &o);

	return can_open(&a);
}

int perf_event_sysctl(const char *name, int missing)
{
	_cleanup_free_ char *text = NULL;
	char path[128], *end;
	long value;

	snprintf(path, sizeof(path), "/proc/sys/kernel/%s", name);
	if (proc_read_piece(path, &text) < 0)
		return missing;
	value = strtol(text, &end, 10);
	return end == text ? missing : (int)value;
}

size_t perf_record_longest(size_t stack, bool chains)
{
	/* The path of a mapped file (PATH_MAX); or all of a sample but its stack and the kernel's
	 * chain; and what the kernel puts before a record where it has dropped some. */
	enum { REST = 8192 };
	size_t chain = 0;

	if (chains)
		chain = (size_t)perf_event_sysctl("perf_event_max_stack", PERF_RECORD_BYTES) +
			(size_t)perf_event_sysctl("perf_event_max_contexts_per_stack",
						  PERF_RECORD_BYTES);
	return MIN(REST + stack + 8 * chain, (size_t)PERF_RECORD_BYTES);
}

int perf_event_max_rate(void)
{
	return perf_event_sysctl("perf_event_max_sample_rate", 100000);
}

static bool can_count(struct perf_event_attr attr)
{
	attr.freq = 0;
	attr.sample_period = attr.sample_type = 0;
	attr.inherit = attr.inherit_thread = 0;
	return can_open(&attr);
}

static bool can_without_group(struct perf_event_attr attr)
{
	attr.sample_type &= ~(uint64_t)PERF_SAMPLE_READ;
	return can_open(&attr);
}

static int explain_breakpoint(int code, const char *name, struct err *err)
{
	if (code == -EINVAL)
		return err_set(err, -ENOENT,
			       "event '%s': a breakpoint is 1, 2, 4 or 8 bytes long and lies "
			       "at a multiple of that; many processors can't watch reads "
			       "alone (use rw), and :x is %zu long",
			       name, sizeof(long));
	if (code == -ENOSPC)
		return err_set(
			err, -ENOENT,
			"event '%s': the processor's debug registers are all in use (x86 "
			"has 4)",
			name);
	return err_set(err, -ENOENT,
		       "event '%s': this machine gives no hardware breakpoints (%s)", name,
		       strerror(-code));
}

static bool is_probe(const char *name)
{
	return !strncmp(name, "uprobe:", 7) || !strncmp(name, "uretprobe:", 10) ||
	       !strncmp(name, "usdt:", 5);
}

/* Those in the kernel, and those that change code, are not for everybody. */
static int explain_right(const char *name, const struct perf_event_attr *attr, struct err *err)
{
	int paranoid = perf_event_sysctl("perf_event_paranoid", -1);
	char wanted[200];

	rights_wanted(wanted, sizeof(wanted), "CAP_PERFMON");
	if (!attr->exclude_kernel)
		return err_set(
			err, -EACCES,
			"not permitted to open event '%s', which lies in the kernel; %s, "
			"or set kernel.perf_event_paranoid (%d) to 1",
			name, wanted, paranoid);
	if (is_probe(name))
		return err_set(err, -EACCES,
			       "not permitted to open event '%s', which changes code; %s",
			       name, wanted);
	rights_wanted(wanted, sizeof(wanted), "CAP_PERFMON and CAP_SYS_PTRACE");
	return err_set(
		err, -EACCES,
		"not permitted to open event '%s' on this process "
		"(kernel.perf_event_paranoid is %d); %s, or sample a process of your own",
		name, paranoid, wanted);
}

static int explain_einval(const char *name, const struct perf_event_attr *attr,
			  struct err *err)
{
	int max = perf_event_max_rate();

	if (attr->freq && attr->sample_freq > (uint64_t)max)
		return err_set(err, -EINVAL,
			       "-F %llu is above this kernel's limit of %d Hz "
			       "(kernel.perf_event_max_sample_rate)",
			       (unsigned long long)attr->sample_freq, max);
	if (attr->type == PERF_TYPE_BREAKPOINT)
		return explain_breakpoint(-EINVAL, name, err);
	if (attr->sample_type & PERF_SAMPLE_READ && attr->inherit && can_without_group(*attr))
		return err_set(
			err, -ENOENT,
			"event '%s': this kernel can't sample groups (:S) where new "
			"threads are followed (Linux 6.12); name threads (-t), or leave "
			":S out",
			name);
	if (attr->type >= PERF_TYPE_MAX && can_count(*attr))
		return err_set(err, -ENOENT,
			       "event '%s' can be counted but not sampled: it has no "
			       "interrupt; read it with another, {cpu-clock,%s}:S",
			       name, name);
	return err_set(err, -ENOENT, "this kernel refuses event '%s' with these settings",
		       name);
}

static int explain_missing(const char *name, const struct perf_event_attr *attr,
			   struct err *err)
{
	if (attr->type == PERF_TYPE_BREAKPOINT)
		return explain_breakpoint(-ENOENT, name, err);
	if (attr->type == PERF_TYPE_SOFTWARE)
		return err_set(
			err, -ENOENT,
			"this kernel has no event '%s'%s; 'pysampled events' lists what "
			"it has",
			name,
			attr->config == PERF_COUNT_SW_CGROUP_SWITCHES ? " (Linux 5.13)" : "");
	if (!perf_event_have_pmu())
		return err_set(err, -ENOENT,
			       "event '%s' needs a hardware PMU and this machine shows none "
			       "(a virtual machine?); nearest here: cpu-clock, page-faults",
			       name);
	return err_set(err, -ENOENT,
		       "this machine's PMU has no event '%s'; 'pysampled events' lists what "
		       "it has, cycles is the nearest",
		       name);
}

int perf_event_explain(int code, const char *name, const struct perf_event_attr *attr,
		       struct err *err)
{
	switch (-code) {
	case EACCES:
	case EPERM:
		return explain_right(name, attr, err);
	case ESRCH:
		return err_set(err, -ESRCH, "the process is gone");
	case EMFILE:
	case ENFILE:
		return err_set(err, -EMFILE,
			       "too many event descriptors (threads x CPUs x events); raise "
			       "'ulimit -n' or name fewer events");
	case EINVAL:
		return explain_einval(name, attr, err);
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
	case ENXIO:
		return explain_missing(name, attr, err);
	case ENOSPC:
		return explain_breakpoint(code, name, err);
	case EINTR:
		return err_set(err, -EAGAIN,
			       "it starts another program, and that does not come to an end");
	case ENOSYS:
		return err_set(err, -ENOENT, "this kernel has no perf events");
	default:
		return err_set(err, code, "opening event '%s': %s", name, strerror(-code));
	}
}

int perf_ring_map(struct perf_ring *r, const struct perf_event_attr *attr, pid_t tid, int cpu,
		  size_t pages)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *m;

	*r = (struct perf_ring){ .cpu = cpu, .size = pages * page };
	r->fd = perf_event_open_fd(attr, tid, cpu);
	if (r->fd < 0)
		return r->fd;
	/* No page fault while a thread is held: resident.h. */
	m = mmap(NULL, r->size + page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		 r->fd, 0);
	if (m == MAP_FAILED) {
		int code = -errno;

		perf_ring_close(r);
		return code;
	}
	r->page = m;
	r->data = (unsigned char *)m + page;
	return 0;
}

int perf_ring_open(struct perf_ring *r, int cpu, size_t pages, struct err *err)
{
	int code = perf_ring_map(r, &DUMMY, 0, cpu, pages);

	if (code < 0)
		return err_set(err, code,
			       "can't map a ring of %zu pages for CPU %d: %s "
			       "(kernel.perf_event_mlock_kb is %d)",
			       pages, cpu, strerror(-code),
			       perf_event_sysctl("perf_event_mlock_kb", -1));
	return 0;
}

void perf_ring_close(struct perf_ring *r)
{
	if (r->page)
		munmap(r->page, r->size + (size_t)sysconf(_SC_PAGESIZE));
	if (r->fd >= 0)
		close(r->fd);
	r->page = NULL;
	r->fd = -1;
}

void perf_event_restart(int fd, uint64_t value)
{
	ioctl(fd, PERF_EVENT_IOC_PERIOD, &value);
}

int perf_ring_attach(const struct perf_ring *r, int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->fd) < 0 ? -errno : 0;
}

uint64_t perf_ring_head(const struct perf_ring *r)
{
	return __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
}

uint64_t perf_ring_tail(const struct perf_ring *r)
{
	return __atomic_load_n(&r->page->data_tail, __ATOMIC_ACQUIRE);
}

void perf_ring_consume(struct perf_ring *r, uint64_t to)
{
	__atomic_store_n(&r->page->data_tail, to, __ATOMIC_RELEASE);
}

void perf_ring_copy(const struct perf_ring *r, uint64_t pos, void *to, size_t n)
{
	uint64_t off = pos & (r->size - 1);
	size_t first = MIN(n, (size_t)(r->size - off));

	memcpy(to, r->data + off, first);
	memcpy((char *)to + first, r->data, n - first);
}

/* Records start at multiples of 8, but behind one of a thread whose stack pointer is less than
 * a copy of its stack below the end of memory, and no multiple of 8: the kernel copies as much as
 * there is. So a header may wrap. */
static struct perf_event_header header_at(const struct perf_ring *r, uint64_t pos)
{
	struct perf_event_header h;

	perf_ring_copy(r, pos, &h, sizeof(h));
	return h;
}

const struct perf_event_header *perf_ring_at(const struct perf_ring *r, uint64_t pos,
					     unsigned char *bounce)
{
	uint64_t off = pos & (r->size - 1);
	struct perf_event_header h = header_at(r, pos);

	if (h.size < sizeof(h))
		return NULL;
	if (h.size <= r->size - off && pos % 8 == 0)
		return (const void *)(r->data + off);
	perf_ring_copy(r, pos, bounce, h.size);
	return (const void *)bounce;
}

struct perf_event_header perf_ring_peek(const struct perf_ring *r, uint64_t pos, void *end,
					size_t n)
{
	struct perf_event_header h = header_at(r, pos);

	if (h.size >= n)
		perf_ring_copy(r, pos + h.size - n, end, n);
	return h;
}
