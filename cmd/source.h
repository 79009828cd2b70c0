/* SPDX-License-Identifier: MIT
 *
 * source - the source of Python functions, each line with its shares.
 */
#ifndef SOURCE_H
#define SOURCE_H

#include "tally.h"

/* Print each Python function of @t (by line) that is called @name, or ends in ".@name". An
 * exit code, not EXIT_DONE after a sentence. */
int source_print(const struct tally *t, const char *name);

#endif
