/* SPDX-License-Identifier: MIT
 *
 * hottest - the Python functions that a recording met most, for a person who reads on stderr.
 */
#ifndef HOTTEST_H
#define HOTTEST_H

#include "sample/sink.h"

/* A sink like others that writes no file. Its pointers are good while the recorder lives. */
struct sink hottest_sink(const struct session *session);

/* How many there are by now, of all events, kept in text outputs or not; any thread. */
uint64_t hottest_samples(const struct sink *s);

/* A table of the first event's samples, by self: what a function or native code that it called
 * took. Nothing where no sample has a Python function. */
void hottest_print(const struct sink *s, FILE *to);

void hottest_deinit(struct sink *s);

#endif
