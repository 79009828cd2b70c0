/* SPDX-License-Identifier: MIT
 *
 * wire - what is queued between threads: by readers for the resolver, by readers and the
 * tracer for the control thread.
 */
#ifndef WIRE_H
#define WIRE_H

#include "sample/counts.h"
#include "python/pystack.h"
#include "sample/sample.h"

struct target;

/* What a reader queues for the resolver. */
enum q_type {
	Q_SIDE = 1,   /* a perf record as it came */
	Q_CODE,	      /* uint64_t id, then a struct pycode_copy */
	Q_CODE_KEPT,  /* struct q_code_kept */
	Q_CODES_GONE, /* struct q_codes_gone */
	Q_SAMPLE,     /* struct q_sample */
	Q_WAIT,	      /* struct q_wait */
	Q_TAPE,	      /* uint32_t enum tape_type, uint32_t head bytes, then a tape record */
};

/* @id is one more number of the code @was. */
struct q_code_kept {
	uint64_t id, was;
};

/* No sample after @time has a code with a number from @from on, below @below. */
struct q_codes_gone {
	uint64_t time, from, below;
};

/* What a thread that is off its CPU waits for. */
enum q_wait_state {
	Q_WAIT_NONE,
	Q_WAIT_SLEEP,
	Q_WAIT_DISK,
	Q_WAIT_RUNNABLE,
	Q_WAIT_GIL,
	Q_WAIT_STOPPED, /* by a signal or a tracer */
};

/* The wait of thread @tid that began at @out, and of which a sample was queued, is over and
 * stands for @weight ns. 0: it is none of the recording's. */
struct q_wait {
	uint64_t time, out, weight;
	pid_t tid;
};

struct q_sample {
	struct sample sample;
	uint64_t user_ip; /* 0: not known */
	uint64_t
		stack_at; /* where the stack bytes begin: the red zone, or the stack pointer */
	uint64_t far_at;  /* of bytes elsewhere: of the thread's own stack, while a signal has
			   * another */
	/* @undecided: torn, but "nopython" if the resolver learns that @program, or the
	 * process's if it is NULL, had no interpreter then, or had mapped no file with one. */
	const struct target *program;
	uint32_t n_kernel, n_python, n_anchors, n_reads, n_regs, n_stack, n_far;
	uint32_t undecided;
	uint32_t wait;	 /* Q_WAIT_*: of a thread off its CPU */
	uint32_t unread; /* the wait is over: no struct q_wait follows */
	/* then uint64_t kernel[n_kernel], struct pystack_frame python[n_python], struct
	 * pystack_anchor anchors[n_anchors], struct counts_read reads[n_reads] (0: no
	 * group), uint64_t regs[n_regs] (0: not wanted, or not known), unsigned char
	 * stack[n_stack], at a multiple of 8 unsigned char far[n_far] */
};

/* The pieces behind a queued sample, by its numbers as they are now. */
static inline uint64_t *q_kernel(const struct q_sample *q)
{
	return (uint64_t *)(uintptr_t)(q + 1);
}
static inline struct pystack_frame *q_python(const struct q_sample *q)
{
	return (struct pystack_frame *)(q_kernel(q) + q->n_kernel);
}
static inline struct pystack_anchor *q_anchors(const struct q_sample *q)
{
	return (struct pystack_anchor *)(q_python(q) + q->n_python);
}
static inline struct counts_read *q_reads(const struct q_sample *q)
{
	return (struct counts_read *)(q_anchors(q) + q->n_anchors);
}
static inline unsigned char *q_regs(const struct q_sample *q)
{
	return (unsigned char *)(q_reads(q) + q->n_reads);
}
static inline unsigned char *q_stack(const struct q_sample *q)
{
	return q_regs(q) + 8 * (size_t)q->n_regs;
}
static inline unsigned char *q_far(const struct q_sample *q)
{
	return q_stack(q) + ((q->n_stack + 7u) & ~7u);
}

/* Of it all. */
static inline size_t q_bytes(const struct q_sample *q)
{
	return (size_t)(q_far(q) - (unsigned char *)(uintptr_t)q) + ((q->n_far + 7u) & ~7u);
}

/* Without what takes most of it: its native stack will be cut. */
static inline void q_drop_stack(struct q_sample *q)
{
	q->n_stack = q->n_far = 0;
}

/* What a reader or the tracer tells the control thread; queued, then @kick is written to. */
enum ctl_type {
	CTL_FORK = 1,
	CTL_EXEC,
	CTL_EXIT,
	CTL_UNKNOWN,
	CTL_LOOK, /* what is known of @pid may no longer be true: look again */
	CTL_BEGUN,
	CTL_BIRTHS,   /* threads are born so often that events should count on CPUs */
	CTL_THREAD,   /* with tell_threads: one more in @pid, @ptid */
	CTL_ENDED,    /* with tell_threads: @ptid of @pid is gone */
	CTL_STRANGER, /* of a scope: @pid was sampled and is no target; @ppid not 0: from now
		       * on it is, for it has mapped a known interpreter */
};
struct ctl_msg {
	pid_t pid, ppid, ptid; /* FORK: by which thread of which process */
	uint64_t time;	       /* FORK, EXEC: of the record; LOOK: of the sample; CTL_BEGUN: a
				* program that began by then, unseen */
};

#endif
