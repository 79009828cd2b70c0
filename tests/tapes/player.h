/* SPDX-License-Identifier: MIT
 *
 * player - plays a tape through the readers, the queues, the resolver and a sink, as they are.
 */
#ifndef PLAYER_H
#define PLAYER_H

#include <stdio.h>

#include "base/work.h"
#include "outlet.h"

/* What came out, besides the stacks. */
struct played {
	uint64_t judged, differ, missing; /* samples: in all; judged otherwise; not at all */
	uint64_t others, misses;	  /* struct world */
	uint64_t calls, pieces;		  /* struct world */
	uint64_t work[WORK_N];		  /* of the readers, by enum work_name */
	uint64_t control[16]; /* messages to the control thread, by enum ctl_type */
	struct outlet_sums sums;
};

/* Play @s into @out, folded, with the mapped files below folder @files (outlet.h). With @tell
 * (may be NULL) what differs from the tape is said there. 0, or -EBADMSG: there is nothing in
 * it to play. */
int play_script(struct script *s, const char *files, const char *out, FILE *tell,
		struct played *ret);

#endif
