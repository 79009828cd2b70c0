/* SPDX-License-Identifier: MIT
 *
 * harden - what each of our threads may still ask of the kernel: seccomp filters that are
 * lists of what is allowed (harden_rows.inc.h).
 *
 * None of them leaves a way to write into another process. A process begins with the list of
 * all that its threads will need; each thread then keeps what its own part needs. Filters add
 * up and are inherited, so a thread never gets back what it or its creator gave up.
 *
 * What a filter can't see is who a descriptor or a number belongs to: docs/SECURITY.md names
 * what is left.
 */
#ifndef HARDEN_H
#define HARDEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Whose list. A set of them allows what one of them does. */
enum harden_role {
	HARDEN_RECORD = 1 << 0,	 /* a process that records, until it does: opens outputs */
	HARDEN_LOOK = 1 << 1,	 /* a process that only shows: dump, doctor, events */
	HARDEN_CONTROL = 1 << 2, /* the control thread of a recording that runs */
	HARDEN_READER = 1 << 3,
	HARDEN_RESOLVER = 1 << 4, /* and those that read files for it */
	HARDEN_INBOX = 1 << 5,
	HARDEN_PROBE = 1 << 6,	/* looks at one process */
	HARDEN_TRACER = 1 << 7, /* the only one with ptrace */
	HARDEN_LINES = 1 << 8,	/* the process that reads DWARF */
	HARDEN_FETCH = 1 << 9,	/* the process that asks debuginfod servers */
	HARDEN_SERVE = 1 << 10, /* the process that starts those that read files */
	HARDEN_FILE = 1 << 11,	/* a process that reads files which it is given */
	HARDEN_REPORT =
		1 << 12, /* a process that tells what a recording holds: report, diff */
	HARDEN_CONVERT = 1 << 13, /* that opens an output, too: convert, unpack */
	HARDEN_OPEN = 1 << 14,	  /* a process that opens files and hands them on */
};

/* For all threads of this process and those to come: what @roles may, a set of enum
 * harden_role. @child: the one process that may be signalled, our own; 0: none. Children
 * inherit it: start commands before. 0 or -errno with a sentence. */
int harden_process(unsigned roles, pid_t child, struct err *err);

/* For the calling thread, and those that it creates, of a process that is hardened already:
 * then this can only fail for lack of memory, and the process's own filter still stands. */
int harden_thread(enum harden_role role, pid_t child);

#endif
