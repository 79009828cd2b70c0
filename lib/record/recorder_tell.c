/* SPDX-License-Identifier: MIT
 *
 * recorder_tell - what ran out, and which files could not be read: told while a recording runs.
 */
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "record/recorder_int.h"
#include "sample/sink.h"

enum { MAX_GIVEN_UP = 5 /* files that a person is told of */ };

/* What is told once, when the counter is not zero any more. */
static const struct {
	size_t counter; /* in struct stats */
	const char *text;
} limits[] = {
	{ offsetof(struct stats, unnamed),
	  "names and stacks have used up their part of --memory: new ones are [unnamed] from "
	  "here on (raise --memory)" },
	{ offsetof(struct stats, nameless),
	  "native names have used up their part of --memory: new ones are [unknown] or [anon] "
	  "from here on (raise --memory)" },
	{ offsetof(struct stats, mangled),
	  "long native names can't be demangled in a second: those, and some that come next, stay "
	  "as compilers write them (mangled= with -v)" },
	{ offsetof(struct stats, unplaced),
	  "source lines of native frames have used up their part of --memory, or are of more than "
	  "128 files: further ones have names only (raise --memory)" },
	{ offsetof(struct stats, unmapped),
	  "processes have more maps than their part of --memory has room for: code in further "
	  "ones has no native names (raise --memory)" },
	{ offsetof(struct stats, remapped),
	  "a process that has many maps changes them all the time: code in some of them has no "
	  "native names" },
	{ offsetof(struct stats, unlisted),
	  "a process has too many maps (64 MB of /proc/PID/maps): code that it had mapped before "
	  "has no native names (unlisted= with -v)" },
	{ offsetof(struct stats, renamed),
	  "a process gives its threads new names all the time: some bear an earlier one" },
	{ offsetof(struct stats, halted),
	  "a SIGSTOP stopped a process that --capture stop traces: a parent that waits to trace "
	  "it can't, and waits for ever; --capture preempt or async let it" },
	{ offsetof(struct stats, code_hangs),
	  "a process has code in no file that hangs who reads it: native stacks are cut there "
	  "until it does not (code_hangs= with -v)" },
	{ offsetof(struct stats, unlined),
	  "Python functions say that they have more lines than perf.data has room for: some "
	  "have no lines from here on" },
	{ offsetof(struct stats, undecided),
	  "so much happened while events were opened that the kernel had no room to tell who made "
	  "which thread: threads that were born meanwhile may be missing (undecided= with -v)" },
	{ offsetof(struct stats, side_lost),
	  "records of functions, files or processes were lost: some stacks lack names "
	  "(side_lost= with -v)" },
	{ offsetof(struct stats, unread),
	  "memory, descriptors, threads, places for files that take too long or the size of files "
	  "(ulimit -f) ran out: some stacks lack names (unread= with -v)" },
};

/* A file ended whoever read it. Not each is told where there are many. */
static void tell_given_up(struct recorder *r)
{
	char path[PATH_MAX];

	if (!STATS_GET(r->session->stats, bad_file) ||
	    !file_helper_given_up(r->session->file_helper, path))
		return;
	if (r->n_given_up++ < MAX_GIVEN_UP)
		note_say(&r->o.note,
			 "whoever reads %s ends: code in it has no names (bad_file= with -v)",
			 path);
}

/* A file has not answered in time. Who has nobody tell it leaves that to its caller. */
static void tell_slow(struct recorder *r)
{
	char path[PATH_MAX];

	if (r->o.note.take && r->session->file_helper && r->n_slow < MAX_GIVEN_UP &&
	    file_helper_was_slow(r->session->file_helper, path)) {
		r->n_slow++;
		note_say(&r->o.note, "'%s' does not answer: code in it has no names until it does",
			 path);
	}
}

/* Outputs that can't be written any more, while others can; their end tells it, too. */
static void tell_failed(struct recorder *r)
{
	const struct sink *s;

	while (r->resolver && !resolver_failed(r->resolver) &&
	       (s = resolver_next_failed(r->resolver)))
		if (s->path)
			note_say(&r->o.note, "%s ends here (%s); the other outputs go on",
				 strcmp(s->path, "-") ? s->path : "standard output",
				 s->deserted ? "nobody reads it" : strerror(-s->failed));
}

/* With a tracer new threads get their events from it. */
static void tell_refused(struct recorder *r)
{
	if (r->warned_new || !atomic_load_explicit(&r->refused.there, memory_order_acquire))
		return;
	r->warned_new = true;
	note_say(&r->o.note, "some new threads or processes are not sampled: %s",
		 r->refused.err.text);
}

/* A table that targets feed is full, or names could not be had: a person is told once. */
void recorder_tell_limits(struct recorder *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const char *counter = (const char *)r->session->stats + limits[i].counter;

		if (r->told_limits >> i & 1 ||
		    !atomic_load((const _Atomic uint64_t *)(const void *)counter))
			continue;
		r->told_limits |= 1u << i;
		note_say(&r->o.note, "%s", limits[i].text);
	}
	tell_refused(r);
	tell_given_up(r);
	tell_slow(r);
	tell_failed(r);
}
