/* SPDX-License-Identifier: MIT
 *
 * recording - a file that holds samples, whatever its format: perf.data, tape or
 * folded stacks.
 */
#ifndef RECORDING_H
#define RECORDING_H

#include <stdbool.h>
#include <stdio.h>

#include "base/stats.h"
#include "sample/sink.h"

struct perf_reader;
struct tape_reader;

struct recording {
	const char *path; /* borrowed */
	FILE *in;
	/* Both NULL: folded stacks, of this session. */
	struct perf_reader *perf;
	struct tape_reader *tape;
	struct session session;
	struct stats stats;
};

/* Before anything is opened: who made a file that we read is not trusted, so we keep only the
 * rights and system calls that reading takes, and where @writes, until recording_begins(),
 * that opening an output takes. An exit code, not EXIT_DONE after a sentence. */
int recording_guard(bool writes);

/* What is read from @path must not be what is written into @out, by whatever path: an exit code,
 * not EXIT_DONE after a sentence. */
int recording_apart(const char *path, const char *out);

/* Whether @fd, of @path, is no folder, which can be opened, too. An exit code, not EXIT_DONE after
 * a sentence. */
int recording_no_folder(int fd, const char *path);

/* All outputs are open: from here on only new files are. */
void recording_begins(void);

/* An exit code, not EXIT_DONE after a sentence. To be closed in any case. */
int recording_open(struct recording *r, const char *path);
void recording_close(struct recording *r);

/* True: they are stacks that somebody added up, which know no more than they say. */
bool recording_is_folded(const struct recording *r);

/* True: Python files have short names, of which nobody can make whole paths. */
bool recording_is_short(struct recording *r);

/* What outputs must know; lives as long as @r. */
struct session *recording_session(struct recording *r);

/* The number of the event called @name, NULL: of the first; -1: there is none. */
int recording_event(struct recording *r, const char *name);

/* Feed @s all samples, once. An exit code, not EXIT_DONE after a sentence; a sentence also for
 * what has no names, and for samples that were lost. */
int recording_feed(struct recording *r, struct sink *s);

#endif
