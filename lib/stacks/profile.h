/* SPDX-License-Identifier: MIT
 *
 * profile - Python functions and lines, interned: from code copies to frames.
 *
 * One user thread (the resolver). Copies of the same code from several readers, or
 * of code that was freed and made again, share one entry.
 */
#ifndef PROFILE_H
#define PROFILE_H

#include "python/pycode.h"
#include "sample/sample.h"

struct profile;
struct stats;

struct profile *profile_create(void);
void profile_destroy(struct profile *p);

/* From now on functions take so many bytes here and in the outputs, roughly, and the code that
 * numbers stand for as many again. New ones beyond, and those that there is no memory for, are all
 * called "[unnamed]", and their code is counted in @stats (unnamed), which is borrowed. */
void profile_limit(struct profile *p, size_t bytes, struct stats *stats);

/* Take note that @id (unique over all readers) stands for the code in @c, which is
 * copied. 0, -ENOMEM, or -EBADMSG for a block that is not whole. Without room for the code
 * alone it is the function "[unnamed]" that @id stands for. */
int profile_code(struct profile *p, uint64_t id, const struct pycode_copy *c, size_t n);

/* @id stands for what @was stands for. 0, -ENOMEM, or -ENOENT: that was never noted. */
int profile_same(struct profile *p, uint64_t id, uint64_t was);

/* The numbers from @from on, below @below, stand for nothing any more. Code that no number
 * stands for is freed; its function stays, for sinks know it. */
void profile_forget(struct profile *p, uint64_t from, uint64_t below);

/* How many codes of different content are kept. */
size_t profile_codes(const struct profile *p);

/* The function that @id stands for and the line of @lasti (0: none); NULL for an id
 * that was never noted. */
const struct pyfunc *profile_lookup(struct profile *p, uint64_t id, uint32_t lasti, int *line);

#endif
