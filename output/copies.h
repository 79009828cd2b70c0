/* SPDX-License-Identifier: MIT
 *
 * copies - keeps files of formats that are written whole readable: while a recording goes on,
 * a whole copy takes the file's place every few seconds.
 *
 * A copy is written beside the file, as ".NAME.PID.N", and renamed. It costs a fiftieth of the
 * time. Only a regular file of ours is replaced, and nothing that took its name.
 */
#ifndef OUTPUT_COPIES_H
#define OUTPUT_COPIES_H

#include "sink.h"

enum { COPIES_MS = 5000 };

/* For sink_ops.round of formats with a copy(): write one if it is time. Without room it is
 * tried again later: 0, or why copy() itself failed. */
int copies_round(struct sink *s);

/* The last one, with all. Where there is no room for it beside the one before, it is written
 * in its place if it fits there; else that one stays, which *@err says. 0 or -errno. */
int copies_last(struct sink *s, struct err *err);

#endif
