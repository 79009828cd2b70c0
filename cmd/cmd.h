/* SPDX-License-Identifier: MIT
 *
 * cmd - the commands. Only files in this folder print, and only they exit.
 */
#ifndef CMD_H
#define CMD_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/* Exit codes, contract of the command line (pysampled(1), EXIT STATUS). */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_PROCESS = 3, /* or not a Python process */
	EXIT_PERMISSION = 4,
	EXIT_EVENT = 5,
	EXIT_OWN_FAILURE = 125, /* with -- CMD */
	EXIT_CANT_RUN = 126,
	EXIT_NOT_FOUND = 127,
};

/* Each gets its own name in argv[0] and returns an exit code. */
int cmd_record(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_unpack(int argc, char **argv);

/* One line on @to. Names that came from targets may be in it: see base/printable.h. All that
 * commands print but their own constant texts goes through these. */
void cmd_line(FILE *to, const char *fmt, ...) __attribute__((__format__(__printf__, 2, 3)));

/* @name for a row of a table: of a long one the begin and the end, in @room. */
enum { CMD_SHORT = 200 };
const char *cmd_short(const char *name, char room[CMD_SHORT]);

/* @path as one word of a shell's command, allocated; NULL: no memory. */
char *cmd_quoted(const char *path);

/* For qsort() and bsearch(): pointers to texts, by these. */
int cmd_by_text(const void *a, const void *b);

/* "pysampled: " and the sentence on stderr. */
void cmd_say(const char *fmt, ...) __attribute__((__format__(__printf__, 1, 2)));

/* @text on a line of the terminal that the next one, or the next sentence, replaces; NULL:
 * none any more. Standard error is a terminal. */
void cmd_live(const char *text);

/* Write out what standard output holds, right behind the write of a part of it: why that failed
 * is kept for cmd_flush(). */
void cmd_flush_part(void);

/* Write out what standard output still holds. @code, or EXIT_FAILED after a sentence if any
 * write of it ever failed. */
int cmd_flush(int code);

/* cmd_say(). Returns @code. */
int cmd_fail(int code, const char *fmt, ...) __attribute__((__format__(__printf__, 2, 3)));

/* The exit code for a library's -errno (err.code). */
int cmd_exit_code(int code);

/* A positive decimal number of at most @max; -1 if @s is anything else. */
long cmd_number(const char *s, long max);

/* A positive number of bytes, with K, M or G as its last letter or not; -1 if @s is anything
 * else. */
long cmd_size(const char *s);

/* What -n says: a number of rows, 0: all. EXIT_DONE, or EXIT_USAGE after a sentence. */
int cmd_rows(const char *s, size_t *rows);

/* What -z says, NULL: no level. EXIT_DONE and a level of zstd, or EXIT_USAGE after a sentence. */
int cmd_level(const char *s, int *level);

/* Which of the @n @words @word is; -1 after a sentence: none. @option is for that. */
int cmd_word(const char *option, const char *word, const char *const *words, size_t n);

/* Words of perf, py-spy or austin, and what does here what they do there; {0} ends them. */
struct cmd_elsewhere {
	const char *there, *here;
};

/* True: @word, a @what ("command"), is one of @known, and that was said. */
bool cmd_elsewhere(const char *what, const char *word, const struct cmd_elsewhere *known);

struct option;

/* What getopt_long() found wrong, with the nearest of @options, as a sentence; returns
 * EXIT_USAGE. */
int cmd_bad_option(int argc, char **argv, const struct option *options, int result);

/* -V: the version and what is built in. EXIT_DONE. */
int cmd_version(void);

enum { CMD_GO_ON = -1 }; /* no exit code */

/* What a command takes besides -h and -V, which stand in @letters and @options too. */
struct cmd_syntax {
	const char *letters, *help; /* of getopt_long(); what -h prints */
	const struct option *options;
	/* Take option @opt, and optarg, up in @into: EXIT_DONE, or an exit code after a
	 * sentence. May be NULL where there is none. */
	int (*take)(void *into, int opt);
};

/* Take all options up, until optind. CMD_GO_ON, or an exit code: the command is done. */
int cmd_parse(int argc, char **argv, const struct cmd_syntax *s, void *into);

#endif
