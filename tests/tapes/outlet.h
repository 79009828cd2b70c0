/* SPDX-License-Identifier: MIT
 *
 * outlet - what readers have queued, through the resolver into the folded output.
 */
#ifndef OUTLET_H
#define OUTLET_H

#include "script.h"

/* All that is in the queues of @c's slots, and the records that were made by us, into file
 * @out. Mapped files are those below folder @files, and native frames come only with that;
 * NULL: there are none. 0 or -errno. */
int outlet_write(const struct script *s, struct reader_config *c, const char *files,
		 const char *out);

#endif
