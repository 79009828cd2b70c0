/* SPDX-License-Identifier: MIT
 *
 * file_kind - what a file is that is no recording.
 */
#ifndef FILE_KIND_H
#define FILE_KIND_H

#include "base/base.h"

enum { FILE_KIND_HEAD = 1024 }; /* bytes that are enough to tell */

/* What begins with @head, as "a pprof profile (.pb.gz)"; NULL: maybe text. */
const char *file_kind(struct bytes head);

#endif
