/* SPDX-License-Identifier: MIT
 *
 * folded_read - folded stacks, ours or another tool's, back into samples for a sink.
 */
#ifndef OUTPUT_FOLDED_READ_H
#define OUTPUT_FOLDED_READ_H

#include <stdio.h>

#include "sink.h"

/* Feed @s each line of @in as one sample whose period is the line's count: the session has
 * SESSION_PERIOD. Memory grows with distinct names. 0, -ENOMEM, the sink's error, or -EBADMSG
 * with the number of a line that is no stack in *@line. */
int folded_read(FILE *in, struct sink *s, size_t *line);

#endif
