/* SPDX-License-Identifier: MIT
 *
 * folded_read - folded stacks, ours or another tool's, back into samples for a sink.
 */
#ifndef OUTPUT_FOLDED_READ_H
#define OUTPUT_FOLDED_READ_H

#include <stdio.h>

#include "sink.h"

/* False: the first line of @in that is not empty is no stack. @in is read past it. */
bool folded_begins(FILE *in);

/* True: there are Python files, all by short names. @in is read. */
bool folded_is_short(FILE *in);

/* What our own folded stacks are of: where each line of @in has an event, their names become
 * those of @session. Where each begins with a process @session gets SESSION_PROCESSES, and where
 * one tells a thread SESSION_THREADS: a name and a number, which other tools' first frames may be,
 * too ("worker-3"), are a process where one line has a thread, an event or a Python function, or a
 * number that only processes have. @in is read. 0 or -ENOMEM. */
int folded_look(FILE *in, struct session *session);

/* Feed @s each line of @in as one sample whose period is the line's count: the session's
 * events are summed. Memory grows with distinct names. 0, -ENOMEM, the sink's error, or with the
 * number of a line in *@line -EBADMSG: it is no stack, -EOVERFLOW: with its count all together
 * are more than INT64_MAX. A stack of more than 65,536 frames is cut: "[truncated]" stands for
 * what is between its first one and those. @session: what folded_look() found. */
int folded_read(FILE *in, const struct session *session, struct sink *s, size_t *line);

#endif
