/* SPDX-License-Identifier: MIT
 *
 * srcline_int - what srcline_ask() and the process it starts tell each other.
 */
#ifndef SRCLINE_INT_H
#define SRCLINE_INT_H

#include <limits.h>
#include <sys/types.h>

#include "lines/srcline.h"

/* Descriptors of the process that answers; SRCLINE_ROOT and SRCLINE_DEBUG are open if the
 * question says so. */
enum {
	SRCLINE_QUESTION,
	SRCLINE_ANSWER,
	SRCLINE_FILE = 3,
	SRCLINE_ROOT,
	SRCLINE_DEBUG, /* its debug file, from a server */
	SRCLINE_END
};

enum { SRCLINE_MAX_TEXT = 4096, SRCLINE_MAX_ID = 64 }; /* bytes of a name, of a build-id */

/* What it exits with, besides 0. */
enum {
	SRCLINE_FAILED = 1,
	SRCLINE_NO_DEBUG,
	SRCLINE_WANTED, /* no debug information here, but a server may have it */
	SRCLINE_HANGS	/* it did not exit: its file does not answer */
};

/* A look is whether who answers used the CPU since the last one. */
enum { SRCLINE_LOOK_MS = 20 };

/* @n addresses (uint64_t) follow. */
struct srcline_question {
	uint64_t n;
	uint32_t ms;
	uint32_t looks; /* so many that find that it waits, one after the other: it hangs */
	bool has_root, has_debug, debuginfod;
	char path[PATH_MAX];
	/* Its answer to the process that serves, with SRCLINE_WANTED: what a server knows it
	 * by; and of who asked the server: the file it got. */
	uint32_t n_id;
	unsigned char id[SRCLINE_MAX_ID];
	char debug[PATH_MAX];
};

/* How question @number, which is the message that it comes with, ended: as waitpid() says. */
struct srcline_end {
	uint32_t number;
	int status;
};

/* The texts follow, without a NUL. */
struct srcline_record {
	uint32_t i, line;
	uint16_t n_function, n_file;
};

/* Give @answer what is whole in the @n bytes at @p, which the process wrote. How many bytes
 * that were; -EIO: that is no answer. Pure. */
ssize_t srcline_take(const char *p, size_t n, srcline_answer *answer, void *arg);

/* The main() of the process that srcline_start() starts: for each question a process that runs
 * @answer and exits with what it returns; and, if that is SRCLINE_WANTED, one that runs @fetch
 * and then another that runs @answer. All of them have no rights. @debuginfod: there may be
 * questions to a server. */
int srcline_serve(bool debuginfod, int (*answer)(void), int (*fetch)(void));

#endif
