/* SPDX-License-Identifier: MIT
 *
 * note - what a person should know as it happens: sentences on their way up to cmd/.
 */
#ifndef NOTE_H
#define NOTE_H

#include <stdbool.h>

struct note {
	void (*take)(void *arg, const char *text); /* one sentence, no newline; may be NULL */
	void *arg;
	bool details; /* who takes it wants to hear all that was found, too */
};

/* What went differently from what was asked for. */
void note_say(const struct note *n, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

/* What was found: for who wants details. */
#define note_detail(n, ...) ((n)->details ? note_say(n, __VA_ARGS__) : (void)0)

#endif
