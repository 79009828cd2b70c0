/* SPDX-License-Identifier: MIT
 *
 * note - what a person should know as it happens: sentences on their way up to cmd/.
 */
#ifndef NOTE_H
#define NOTE_H

struct note {
	void (*take)(void *arg, const char *text); /* one sentence, no newline; may be NULL */
	void *arg;
};

void note_say(const struct note *n, const char *fmt, ...)
	__attribute__((__format__(__printf__, 2, 3)));

#endif
