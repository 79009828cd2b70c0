/* SPDX-License-Identifier: MIT
 *
 * tape_stream - a tape of any length, chunk by chunk from its file: for those who want what
 * outputs got and pass over the rest.
 *
 * The file may be anybody's. Memory is bounded, whatever it says.
 */
#ifndef TAPE_STREAM_H
#define TAPE_STREAM_H

#include "sample/tape.h"

enum { TAPE_STREAM_MAX = 1 << 20 }; /* bytes of a chunk that is wanted */

struct tape_stream;

/* @in: borrowed, at its beginning. 0; -EBADMSG: no tape; -ENOMEM. */
int tape_stream_create(struct tape_stream **ret, FILE *in);
void tape_stream_destroy(struct tape_stream *s);

/* The next chunk that is TAPE_EVENT, or TAPE_TEXT or a later one that enum tape_type has;
 * valid until the next call. 1; 0: there is none; -EBADMSG: the file is damaged there; -EIO.
 */
int tape_stream_next(struct tape_stream *s, uint32_t *type, struct bytes *chunk);

/* At the end: it lies in the middle of the stream. */
bool tape_stream_is_cut(const struct tape_stream *s);

#endif
