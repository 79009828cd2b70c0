/* SPDX-License-Identifier: MIT
 *
 * perf_event - open events and read their rings. The only file that knows
 * perf_event_open(2) and the ring's memory ordering; perf_decode, which records
 * are handed to, is pure.
 */
#ifndef PERF_EVENT_H
#define PERF_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "events/perf_names.h"

struct perf_options {
	bool freq;	/* value is Hz, else a period */
	bool some_freq; /* some event of the recording has a frequency */
	bool said;	/* by the user; else of triggers each one is a sample */
	uint64_t value;
	bool kernel;	   /* count in the kernel too, with its call chain */
	bool inherit;	   /* follow new threads and children */
	bool threads_only; /* inherit to threads but not to children (5.13+) */
	bool disabled;	   /* does not start yet */
	bool on_exec;	   /* starts at the next exec */
	bool read;	   /* samples hold the counts of their group (PERF_SAMPLE_READ) */
	uint32_t stack;	   /* bytes of the user stack with each sample; a multiple of 8 */
};

/* The attr for @spec. All events of a recording share one sample_type
 * (PERF_SAMPLE_*): IDENTIFIER IP TID TIME ADDR CPU REGS_USER, PERIOD when @o->freq or
 * some_freq, READ when
 * @o->read, CALLCHAIN when @o->kernel and STACK_USER when @o->stack; perf_decode.h relies on
 * it. It borrows @spec->file. */
struct perf_event_attr perf_event_attr_of(const struct perf_spec *spec,
					  const struct perf_options *o);

/* What one opening of an event is for. */
struct perf_use {
	bool counts;   /* it takes no samples */
	bool cpu;      /* of all that a CPU runs, else of one thread */
	bool inherit;  /* new threads and children get it, if it was chosen so */
	bool begins;   /* at once, whatever was chosen; of a CPU it always does */
	bool later;    /* not before it is told to */
	bool side;     /* it carries MMAP2, COMM and FORK records */
	bool switches; /* it carries SWITCH records */
};

/* The attr that is passed to perf_event_open(2): nothing changes it any more. @chosen: of a
 * session's event, the witness, the instructions or a side event. */
struct perf_event_attr perf_event_final(const struct perf_event_attr *chosen,
					const struct perf_use *use);

/* Have its samples hold the counts of its group: READ. */
void perf_event_add_read(struct perf_event_attr *attr);

/* The attr of the witness: a record with the user registers each time a thread leaves
 * a CPU: IDENTIFIER TID TIME REGS_USER, the same registers as @like, and READ if @read. Needs
 * the right to count in the kernel. */
struct perf_event_attr perf_event_witness(const struct perf_event_attr *like, bool read);

/* The attr of what counts the user instructions of the threads of @like. */
struct perf_event_attr perf_event_instructions(const struct perf_event_attr *like);

/* The attr of what counts nothing and carries records besides samples, if it is chosen to, from
 * when on those of @like begin. */
struct perf_event_attr perf_event_side(const struct perf_event_attr *like);

/* Is it the scheduler's own event: does it happen as a thread leaves a CPU or comes onto one?
 */
bool perf_event_is_switch(const struct perf_event_attr *attr);

/* True: it is a clock, a timer of the kernel's whose periods are nanoseconds. */
bool perf_event_is_clock(const struct perf_event_attr *attr);

/* The period that was asked for, in what the event counts (ns of a clock at a rate); 0: the
 * kernel adapts it to a rate. */
uint64_t perf_event_period(const struct perf_event_attr *attr);

/* Of who opens events of processes, as often: the kernel waits for the end of an execve(), and
 * with a nudge now and then the open ends with -EINTR after a while. */
enum { PERF_EVENT_NUDGE_MS = 100 };

/* perf_event_open(2), close-on-exec. A descriptor or -errno. */
int perf_event_open_fd(const struct perf_event_attr *attr, pid_t tid, int cpu);

/* The same in the group of @leader, which is open for the same thread and CPU; -1: none. */
int perf_event_open_in(const struct perf_event_attr *attr, pid_t tid, int cpu, int leader);

/* The same for the tasks of a cgroup on @cpu: @cgroup is its folder, open, of the perf_event
 * hierarchy or of cgroup v2. */
int perf_event_open_cgroup(const struct perf_event_attr *attr, int cgroup, int cpu);

/* Could it be opened? It is opened asleep, and closed: one that runs may keep its CPU in
 * interrupts (a timer of 10 us, in a virtual machine), so that it is never closed. 0 or
 * -errno. */
int perf_event_try(const struct perf_event_attr *attr, pid_t tid, int cpu);

/* Why opening @name failed with @code, and what to do: a sentence into @err.
 * Returns -ENOENT for an event that can't be had here (exit 5), -EACCES where a
 * right is missing (exit 4), -EMFILE, -EINVAL ... */
int perf_event_explain(int code, const char *name, const struct perf_event_attr *attr,
		       struct err *err);

/* Where nobody has an event of a task, the first one waits for a grace period of RCU, 10 ms and
 * more (kernel: account_event()). A thread of its own begins with that: whoever opens events within
 * the next second waits for what is left of it. */
void perf_event_prepare(void);

/* Is there a hardware PMU that samples here? (Tries to open cycles on ourselves.) */
bool perf_event_have_pmu(void);

/* kernel.perf_event_paranoid and the like; @missing where the file is not there. */
int perf_event_sysctl(const char *name, int missing);

/* The highest frequency that the kernel takes, in Hz; it lowers it by itself, too. */
int perf_event_max_rate(void);

struct perf_ring {
	int fd, cpu;
	struct perf_event_mmap_page *page;
	unsigned char *data;
	uint64_t size; /* of data; power of two */
};

/* One CPU's ring. It belongs to a dummy event on the calling thread, so that it outlives
 * every target thread; target events are redirected into it. @pages: data pages, a power
 * of two. 0 or -errno with a sentence. */
int perf_ring_open(struct perf_ring *r, int cpu, size_t pages, struct err *err);
void perf_ring_close(struct perf_ring *r);

/* An event of its own, @attr on @tid and @cpu (-1: any), with its ring. 0 or -errno. */
int perf_ring_map(struct perf_ring *r, const struct perf_event_attr *attr, pid_t tid, int cpu,
		  size_t pages);

/* Begin a new period of event @fd, of @value from now on: a frequency for events whose
 * frequency the kernel adapts, else a period. Fast on the CPU that the event counts on. */
void perf_event_restart(int fd, uint64_t value);

/* As perf_event_open_fd(), on the CPU of @r, and its records go into @r. */
int perf_ring_open_into(const struct perf_ring *r, const struct perf_event_attr *attr,
			pid_t tid);

/* The same for event @fd that is open already: one of a group, or of a cgroup. 0 or -errno. */
int perf_ring_attach(const struct perf_ring *r, int fd);

uint64_t perf_ring_head(const struct perf_ring *r);	  /* acquire */
uint64_t perf_ring_tail(const struct perf_ring *r);	  /* acquire: another reader's */
void perf_ring_consume(struct perf_ring *r, uint64_t to); /* release */

/* The record at @pos, which the caller knows to lie before the head. One that
 * wraps, or begins at no multiple of 8, is copied to @bounce (PERF_RECORD_BYTES bytes, aligned
 * to 8). NULL: not a record, for a record's size holds its header. */
enum { PERF_RECORD_BYTES = 1 << 16 };
/* Of ours, @stack bytes of it a sample's stack; samples have the kernel's @chains, or none. */
size_t perf_record_longest(size_t stack, bool chains);
const struct perf_event_header *perf_ring_at(const struct perf_ring *r, uint64_t pos,
					     unsigned char *bounce);

/* @n bytes of the ring from @pos on, to @to. */
void perf_ring_copy(const struct perf_ring *r, uint64_t pos, void *to, size_t n);

/* The record's type, misc and size alone, and its last @n bytes into @end. */
struct perf_event_header perf_ring_peek(const struct perf_ring *r, uint64_t pos, void *end,
					size_t n);

#endif
