/* SPDX-License-Identifier: MIT
 *
 * taping - the tap that writes a tape: what a reader takes and is told, as chunks into its
 * queue, from where the resolver hands them to the sink.
 */
#ifndef TAPING_H
#define TAPING_H

#include "capture/reader.h"
#include "capture/tap.h"

/* Before the readers begin: what holds for all of them. Control thread, whose queue @q is. */
void taping_begin(const struct reader_config *c, struct queue *q);

/* Where a reader keeps what it has written already. NULL: no memory. */
struct taping *taping_create(void);
void taping_destroy(struct taping *t);

extern const struct tap_ops taping_ops;

/* For struct guarded.saw: @arg is the reader. */
void taping_saw(void *arg, raddr at, const void *bytes, size_t n, int ret);

#endif
