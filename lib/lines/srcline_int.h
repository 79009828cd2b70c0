/* SPDX-License-Identifier: MIT
 *
 * srcline_int - what srcline_ask() and the process it starts tell each other.
 */
#ifndef SRCLINE_INT_H
#define SRCLINE_INT_H

#include <limits.h>

#include "lines/srcline.h"

/* Descriptors of the process; SRCLINE_ROOT is open if the question says so. */
enum { SRCLINE_QUESTION, SRCLINE_ANSWER, SRCLINE_FILE = 3, SRCLINE_ROOT, SRCLINE_END };

enum { SRCLINE_MAX_TEXT = 4096 }; /* bytes of a name */

/* What it exits with, besides 0. */
enum { SRCLINE_FAILED = 1, SRCLINE_NO_DEBUG };

/* @n addresses (uint64_t) follow. */
struct srcline_question {
	uint64_t n;
	bool has_root, debuginfod;
	char path[PATH_MAX];
};

/* The texts follow, without a NUL. */
struct srcline_record {
	uint32_t i, line;
	uint16_t n_function, n_file;
};

#endif
