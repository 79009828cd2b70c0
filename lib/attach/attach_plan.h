/* SPDX-License-Identifier: MIT
 *
 * attach_plan - events on each thread or on each CPU? From what either needs of what is
 * limited: descriptors and locked memory.
 *
 * attach_plan_make() is pure; the rest asks and prepares this process.
 */
#ifndef ATTACH_PLAN_H
#define ATTACH_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct attach_wants {
	size_t threads, cpus;
	size_t events; /* of a thread on a CPU, the witness included */
	size_t others; /* descriptors besides */
	size_t rate;   /* samples a second on a busy CPU; 0: not known */
	size_t sample; /* bytes of one at most */
	bool prompt;   /* a reader runs as soon as a record wakes it */
	bool may_add;  /* one more event would be good */
	bool joins;    /* processes may be added at any time: on CPUs, if that is allowed */
	bool tied;     /* an event means something on threads alone: never on CPUs */
};

struct attach_limits {
	size_t nofile; /* RLIMIT_NOFILE as far as we may raise it */
	size_t page;
	size_t mlock_kb; /* kernel.perf_event_mlock_kb: a user's, for each CPU */
	size_t memlock;	 /* RLIMIT_MEMLOCK: bytes more */
	bool lock_any;	 /* neither of them applies */
	bool wide;	 /* events on all that a CPU runs may be opened */
};

/* Rings are always one a CPU. */
struct attach_plan {
	bool wide;	    /* events on CPUs, for whatever they run; else on threads */
	bool more;	    /* one event more of each, as @may_add: it changes nothing else */
	size_t descriptors; /* all in all */
	size_t ring_pages;  /* data pages of a ring, a power of two */
	size_t locked;	    /* bytes of all rings */
	char why[256];	    /* why wide; else "" */
};

/* The data pages of a ring, a power of two, if memory is no matter. What it has to hold is
 * what comes while its reader is kept off: 60 ms of samples, for who is more urgent or a
 * hypervisor takes the CPU; and up to 1 MiB 120 ms of them, for a reader that hangs is found
 * within 70 ms and replaced 10 ms later. A ring with less than 64 KiB of room counts as one
 * that dropped records. With 16 KiB of stack a sample, 99 Hz take 195 + 64 KiB: 256 KiB
 * suffice; 250 Hz and 999 Hz get 1 MiB, 1999 Hz 2 MiB. What else comes (two records and a
 * witness a switch: 360 bytes) wakes the reader when the ring is half full, so it waits no
 * longer than samples do. At 99 Hz and 60 ms there is room for 90 KiB of it, 4,000 switches a
 * second, by a reader that does not run at all meanwhile. Who is not @prompt, or whose rate is
 * not known, gets 1 MiB. */
size_t attach_plan_ring(const struct attach_wants *w, size_t page);

/* 0; -EMFILE; -EPERM: not even the smallest rings may be locked. */
int attach_plan_make(const struct attach_wants *w, const struct attach_limits *l,
		     struct attach_plan *ret, struct err *err);

/* The next smaller rings. 0: there are none. */
size_t attach_plan_fewer_pages(size_t pages);

/* This process's; @wide is the caller's to tell, @enough as for attach_raise_nofile(). */
struct attach_limits attach_limits_now(bool wide, size_t enough);

/* Raise RLIMIT_NOFILE to its hard limit, and where that is below @enough descriptors as far as
 * the kernel allows. Returns the limit. */
size_t attach_raise_nofile(size_t enough);

/* Make the table of descriptors big enough for @n at once: where threads share it, each
 * growth waits for a grace period of RCU: 10 ms, which a busy machine may not grant for seconds.
 * @fd is any open one. False: the limit is lower. */
bool attach_reserve(int fd, size_t n);

#endif
