/* SPDX-License-Identifier: MIT
 *
 * births - who forked processes, when they became other programs, and when they mapped code,
 * as the rings say.
 *
 * A record lies in the ring of the CPU that its process was on; the process's next sample may
 * lie in another, whose reader comes first. So each reader notes what it takes out of its own
 * ring and what it sees in the others'. Any thread.
 *
 * Processes whose numbers are BIRTHS apart share a place: then one's exec looks like the
 * other's, and the control thread finds out (CTL_LOOK).
 */
#ifndef BIRTHS_H
#define BIRTHS_H

#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "perf_event.h"
#include "python/pyfind.h"
#include "python/pystack.h"

enum { BIRTHS = 1 << 15, BIRTHS_CODES = 15 };

struct births;
struct target;

/* An interpreter that was proven in a process, and what that process was: where its code lies,
 * and how it is read. */
struct births_code {
	struct pyfind_code code;
	struct pystack_target py;
	uint32_t version; /* PY_VERSION_HEX */
	raddr runtime;
	bool inner_tids; /* the process lives in a PID namespace of its own */
	_Atomic bool disputed; /* another process tells something else of the same file */
};

struct births *births_create(void); /* NULL: no memory */
void births_destroy(struct births *b);

/* Control thread: processes that map @code from now on run the interpreter of @target, which
 * is not kept. What is known already is not added again: where @target differs it is disputed.
 * Some are remembered. */
void births_teach(struct births *b, const struct pyfind_code *code,
		  const struct target *target);

/* The interpreters that were taught, from @i = 0 on; NULL: no more. */
const struct births_code *births_known(struct births *b, uint32_t i);

/* The interpreter whose code @pid has mapped since it became another program at @since, and
 * where. NULL: none, or it can't be told. */
const struct births_code *births_interpreter(struct births *b, pid_t pid, uint64_t since,
					     uint64_t *at);

/* Note the record at @pos of @ring, whose first bytes are @h and last ones @trailer, if it
 * tells of an exec, of a process being forked, of a thread's end or of code of a file being
 * mapped. @b may be NULL. */
void births_note(struct births *b, const struct perf_ring *ring, uint64_t pos,
		 const struct perf_event_header *h, const unsigned char *trailer);

/* Which thread of which process forked @pid, and when. */
struct births_fork {
	uint64_t time;
	pid_t ppid, ptid;
};

/* False: that was not noted, or @pid has become another program since. */
bool births_forked(struct births *b, pid_t pid, struct births_fork *ret);

/* The process that forked @pid; 0: not noted, or its number is a later one's by now. */
pid_t births_parent(struct births *b, pid_t pid);

/* Is thread @tid about to end at @time: it works on in the kernel, and runs no instruction of
 * its own any more? Its events end before that (perf_event_exit_task()), a CPU's own do not.
 */
bool births_ending(struct births *b, pid_t tid, uint64_t time);

/* When a thread with the number @tid, or one that shares its place, was forked last; 0: not since
 * the recording began. */
uint64_t births_born(struct births *b, pid_t tid);

/* When @pid last became another program, or last mapped code of a file; 0: not since the
 * recording began. */
uint64_t births_execed(struct births *b, pid_t pid);

/* The same, but 0 also where that may have been a process that shares its place. */
uint64_t births_execed_by(struct births *b, pid_t pid);
uint64_t births_mapped(struct births *b, pid_t pid);

/* The same of files that are named like one that holds an interpreter. */
uint64_t births_python(struct births *b, pid_t pid);

#endif
