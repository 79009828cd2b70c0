/* SPDX-License-Identifier: MIT
 *
 * err - an error with a sentence, on the caller's stack.
 *
 * Functions return 0 or -errno. Those whose failure a person will read also
 * take a struct err, last, and fill it only when they fail. Nothing below cmd/
 * prints: it returns.
 */
#ifndef ERR_H
#define ERR_H

struct err {
	int code;	/* -errno */
	char text[512]; /* one sentence, no newline */
};

/* Fill @e (may be NULL) and return @code: "return err_set(e, -EPERM, ...)". */
int err_set(struct err *e, int code, const char *fmt, ...)
	__attribute__((__format__(__printf__, 3, 4)));

#endif
