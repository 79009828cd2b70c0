/* SPDX-License-Identifier: MIT
 *
 * run_table - a table, kept by BPF programs in the kernel and mapped into our memory, of when
 * each thread last came onto a CPU, when each process became another program, and what sampled
 * threads are called.
 *
 * So whether a thread ran again is a question to one word, however many CPUs there are: a
 * thread that was sampled was running, and if it left its CPU and came onto none since, it
 * stands still. Who comes is noted at each context switch of the machine, before the thread
 * executes an instruction, by a raw tracepoint (trace_sched_switch(), kernel/sched/core.c).
 * Unlike a program on a perf event that is never skipped (bpf_prog_active). It knows threads
 * by the address of their task; the program on a CPU's context-switches event, which gives the
 * record of a sampled thread's leaving, notes which that is.
 *
 * Tasks share a place by a hash of their address: one then looks as if it had run when another
 * did. Times are CLOCK_MONOTONIC, in ns. The programs look at no memory but the table.
 */
#ifndef RUN_TABLE_H
#define RUN_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/bpf_code.h"

enum { RUN_TABLE_EVENTS = 16, RUN_TABLE_NAME = 16 };

struct run_table {
	int map;	 /* -1: there is no table */
	int leaves;	 /* the program of a CPU's context-switches event */
	int link[3];	 /* raw tracepoints, each with its program */
	uint32_t n_cpus; /* numbers below */
	_Atomic uint64_t *at;
	bool barrier; /* the kernel has BPF_XCHG */
	bool notes_left;
};

/* Make it for CPUs with numbers below @n_cpus, and load the programs; with @notes_left also
 * for run_table_left_another(). 0; -EPERM: CAP_BPF and CAP_PERFMON are needed; -ENOTSUP: this
 * kernel's tracepoint is unknown; or another -errno (Linux 5.5 is needed). After a failure
 * there is none. */
int run_table_init(struct run_table *t, uint32_t n_cpus, bool notes_left);
void run_table_deinit(struct run_table *t);

/* A CPU's context-switches event @fd gives a record of a thread's first leaving after
 * run_table_arm(), and none else. 0 or -errno. */
int run_table_watch(const struct run_table *t, int fd);

/* Append to a program that ends with a sample: the current thread, whose number is in the
 * lower half of R7, is sampled on this CPU now, and has its name. Uses all but R7 and R9. */
void run_table_arm(const struct run_table *t, struct bpf_code *c);

/* The name that @tid had at its latest sample that passed on any CPU. False: not known, its
 * place has another thread's. */
bool run_table_name(const struct run_table *t, pid_t tid, char ret[RUN_TABLE_NAME]);

/* Append: R1 becomes when the process in the upper half of R7 last became another program, as
 * run_table_execed() sees it. Uses R1 and R2. */
void run_table_put_execed(const struct run_table *t, struct bpf_code *c);

/* Append to one that drops a sample of event @e: it is counted. Uses R0 to R5. */
void run_table_drop(const struct run_table *t, struct bpf_code *c, uint32_t e);

/* How many samples of event @e were dropped on all CPUs. */
uint64_t run_table_dropped(const struct run_table *t, uint32_t e);

/* When @tid, which has given a record of its leaving, last came onto a CPU; UINT64_MAX where
 * that can't be told. Any thread, as all below. */
uint64_t run_table_came(const struct run_table *t, pid_t tid);

/* Has @tid, which has given a record of its leaving, left another CPU than @cpu since then?
 * Its last leaving counts. */
bool run_table_left_another(const struct run_table *t, pid_t tid, int cpu, uint64_t since);

/* True: @pid may have become another program after @since. */
bool run_table_execed(const struct run_table *t, pid_t pid, uint64_t since);

/* When @cpu last began a step of going offline; the events that were opened on it before are gone
 * then. */
uint64_t run_table_hotplug(const struct run_table *t, int cpu);

#endif
