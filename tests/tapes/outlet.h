/* SPDX-License-Identifier: MIT
 *
 * outlet - what readers have queued, through the resolver into the folded output.
 */
#ifndef OUTLET_H
#define OUTLET_H

#include "script.h"

/* Of what outputs get: the sum of each field of all samples, which one stack in folded output
 * does not tell, and of each of the other records. */
#define OUTLET_SUMS(X)                                                               \
	X(time) X(period) X(ip) X(addr) X(pid) X(tid) X(cpu) X(event) X(misc) X(gil) \
	X(truncated) X(late_ns)
struct outlet_sums {
#define X(field) uint64_t field;
	OUTLET_SUMS(X)
#undef X
	uint64_t last, disorder;	     /* what came before what is earlier */
	uint64_t n_sides, side_time, side_tid;
};

/* All that is in the queues of @c's slots, and the records that were made by us, into file
 * @out and @sums. Mapped files are those below folder @files, and native frames come only with
 * that; NULL: there are none. 0 or -errno. */
int outlet_write(const struct script *s, struct reader_config *c, const char *files,
		 const char *out, struct outlet_sums *sums);

#endif
